//! What a follower asks for and is told, as frozen classes: requests, limits, starts, offsets,
//! columns.

use std::collections::BTreeMap;

use deltaplane_boundary::boundary;
use deltaplane_log as core;
use deltaplane_protocol::actions::{Metadata, Protocol};
use deltaplane_protocol::tail::TailRules;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::errors::to_python;
use crate::records::record;

record! {
    /// The columns that a follower keeps to: those of a version, whose number is the last that is
    /// known to have them.
    TrackedColumns {
        version: u64,
        id: String,
        /// Text of the version's `schemaString`, which a schema log keeps as it is.
        schema_string: String,
        partition_columns: Vec<String>,
        configuration: BTreeMap<String, String>,
        min_reader_version: i32,
        min_writer_version: i32,
        reader_features: Option<Vec<String>>,
        writer_features: Option<Vec<String>>,
    }
}

impl TrackedColumns {
    /// The columns that a version has.
    pub(crate) fn of(version: u64, metadata: &Metadata, protocol: &Protocol) -> Self {
        TrackedColumns {
            version,
            id: metadata.id.clone(),
            schema_string: metadata.schema_string.clone().unwrap_or_default(),
            partition_columns: metadata.partition_columns.clone(),
            configuration: metadata.configuration.clone(),
            min_reader_version: protocol.min_reader_version,
            min_writer_version: protocol.min_writer_version,
            reader_features: protocol.reader_features.clone(),
            writer_features: protocol.writer_features.clone(),
        }
    }
}

impl From<core::TrackedColumns> for TrackedColumns {
    fn from(c: core::TrackedColumns) -> Self {
        TrackedColumns::of(c.version, &c.metadata, &c.protocol)
    }
}

impl From<TrackedColumns> for core::TrackedColumns {
    fn from(c: TrackedColumns) -> Self {
        core::TrackedColumns {
            version: c.version,
            metadata: Metadata {
                id: c.id,
                schema_string: Some(c.schema_string),
                partition_columns: c.partition_columns,
                configuration: c.configuration,
                ..Metadata::default()
            },
            protocol: Protocol {
                min_reader_version: c.min_reader_version,
                min_writer_version: c.min_writer_version,
                reader_features: c.reader_features,
                writer_features: c.writer_features,
            },
        }
    }
}

record! {
    /// How columns differ from older ones: paths of those renamed, dropped and of a wider type, and
    /// why rows can't go on.
    ColumnSteps {
        renamed: Vec<String>,
        dropped: Vec<String>,
        widened: Vec<String>,
        incompatible: Option<String>,
    }
}

impl From<core::ColumnSteps> for ColumnSteps {
    fn from(s: core::ColumnSteps) -> Self {
        ColumnSteps {
            renamed: s.renamed,
            dropped: s.dropped,
            widened: s.widened,
            incompatible: s.incompatible,
        }
    }
}

record! {
    /// How a table is followed: what is done with commits that are no appends, which files are left
    /// out.
    TailRequest {
        ignore_deletes: bool = false,
        ignore_changes: bool = false,
        skip_change_commits: bool = false,
        exclude: Option<String> = None,
        allow_data_loss: bool = false,
        changes: bool = false,
        waits_for_start: bool = false,
        columns: Option<TrackedColumns> = None,
    }
}

impl From<TailRequest> for core::TailRequest {
    fn from(r: TailRequest) -> Self {
        core::TailRequest {
            rules: TailRules {
                ignore_deletes: r.ignore_deletes,
                ignore_changes: r.ignore_changes,
                skip_change_commits: r.skip_change_commits,
            },
            exclude: r.exclude,
            allow_data_loss: r.allow_data_loss,
            waits_for_start: r.waits_for_start,
            changes: r.changes,
            columns: r.columns.map(Into::into),
        }
    }
}

record! {
    /// Where a follower begins: a version, the first version from a time on, behind the newest one,
    /// or with all its rows.
    TailStart {
        version: Option<u64> = None,
        timestamp_ms: Option<i64> = None,
        latest: bool = false,
    }
}

impl From<&TailStart> for core::TailStart {
    fn from(s: &TailStart) -> Self {
        match (s.version, s.timestamp_ms) {
            (Some(version), _) => core::TailStart::Version(version),
            (None, Some(ms)) => core::TailStart::Timestamp(ms),
            (None, None) if s.latest => core::TailStart::Latest,
            (None, None) => core::TailStart::Snapshot,
        }
    }
}

/// An offset of a follower, read from the text that its user keeps.
#[pyclass(frozen, eq, module = "deltaplane._native")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TailOffset(core::TailOffset);

#[boundary]
#[pymethods]
impl TailOffset {
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        core::TailOffset::parse(text).map(TailOffset).map_err(|e| to_python(&e))
    }

    #[getter]
    fn table_id(&self) -> String {
        self.0.table_id.clone()
    }

    /// The version that is read next.
    #[getter]
    fn version(&self) -> u64 {
        self.0.version
    }

    /// How many of its files have been read.
    #[getter]
    fn index(&self) -> u64 {
        self.0.index
    }

    /// Whether all rows of the version are read rather than those that it added.
    #[getter]
    fn is_starting_version(&self) -> bool {
        self.0.is_starting_version
    }

    /// Whether nothing of the version has been read.
    #[getter]
    fn is_between_versions(&self) -> bool {
        !self.0.is_starting_version && self.0.index == 0
    }

    /// The text of an offset in the last version of which rows were read.
    fn last_read(&self) -> String {
        let mut offset = self.0.clone();
        if !offset.is_starting_version && offset.index == 0 {
            offset.version = offset.version.saturating_sub(1);
        }
        offset.to_text()
    }

    fn __str__(&self) -> String {
        self.0.to_text()
    }

    fn __repr__(&self) -> String {
        format!("TailOffset({:?})", self.0.to_text())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (String,)) {
        (slf.get_type(), (slf.get().0.to_text(),))
    }
}
