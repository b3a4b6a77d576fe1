//! Additional columns of a writer's files: row ids that rewritten rows keep (P142), or change types
//! (P130). Such columns have no statistics.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field as ArrowField, Schema};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{Add, AddCdcFile};
use deltaplane_protocol::changes::CHANGE_TYPE;
use deltaplane_protocol::features::StoredIds;
use deltaplane_protocol::features::row_tracking::ICEBERG_IDS;
use deltaplane_protocol::mapping;
use deltaplane_protocol::paths::CHANGE_DIR;
use deltaplane_protocol::schema::{Field, Primitive, StructType};
use deltaplane_protocol::stats_columns::StatsColumns;

use super::WriteSpec;
use crate::read::{ROW_COMMIT_VERSION, ROW_ID};
use crate::stats::StatsConfig;

/// The purpose of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileKind {
    /// Rows of the table.
    #[default]
    Data,
    /// Changed rows, which aren't part of the table.
    Changes,
}

impl FileKind {
    /// The directory of the files, below the table's root.
    pub(super) fn dir(self) -> &'static str {
        match self {
            FileKind::Data => "",
            FileKind::Changes => CHANGE_DIR,
        }
    }

    /// The beginning of the files' names.
    pub(super) fn name(self) -> &'static str {
        match self {
            FileKind::Data => "part",
            FileKind::Changes => "cdc",
        }
    }
}

impl WriteSpec {
    /// The same with two more columns in each file: the rows' ids and the versions that last wrote
    /// them.
    pub fn keeping_ids(self, ids: &StoredIds) -> Self {
        let mut columns = [&ids.id, &ids.version].map(|name| Field::new(name.as_str(), Primitive::Long, true));
        if ids.for_iceberg {
            for (column, id) in columns.iter_mut().zip(ICEBERG_IDS) {
                column.metadata.insert(mapping::ID.to_owned(), id.into());
            }
        }
        self.beside(columns)
    }

    /// The same for files of changed rows, with the column of change types.
    pub fn of_changes(self) -> Self {
        WriteSpec {
            kind: FileKind::Changes,
            // Change files are read completely.
            bloom_filters: Vec::new(),
            stats: StatsConfig {
                columns: StatsColumns::Columns(Vec::new()),
                ..self.stats.clone()
            },
            ..self.beside([Field::new(CHANGE_TYPE, Primitive::String, true)])
        }
    }

    fn beside<const N: usize>(mut self, columns: [Field; N]) -> Self {
        self.unmeasured.extend(columns.iter().map(|f| f.name.clone()));
        self.schema = Arc::new(StructType::new(
            self.schema.fields().iter().cloned().chain(columns).collect(),
        ));
        self
    }
}

/// A scan's rows with their ids under the column names of files.
pub(super) fn name_ids(batch: &RecordBatch, ids: &StoredIds) -> Result<RecordBatch> {
    let schema = batch.schema();
    let fields = schema.fields().iter().map(|f| match f.name().as_str() {
        ROW_ID => Arc::new(f.as_ref().clone().with_name(&ids.id)),
        ROW_COMMIT_VERSION => Arc::new(f.as_ref().clone().with_name(&ids.version)),
        _ => f.clone(),
    });
    let schema = Schema::new(fields.collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), batch.columns().to_vec()).map_err(layout)
}

/// Rows with this change type; without ids, since change files have none (P143).
pub(super) fn as_change(batch: &RecordBatch, change: &str) -> Result<RecordBatch> {
    let schema = batch.schema();
    let columns_left = schema.fields().iter().zip(batch.columns());
    let columns_left = columns_left.filter(|(f, _)| ![ROW_ID, ROW_COMMIT_VERSION].contains(&f.name().as_str()));
    let (mut fields, mut columns): (Vec<_>, Vec<ArrayRef>) = columns_left.map(|(f, c)| (f.clone(), c.clone())).unzip();
    fields.push(Arc::new(ArrowField::new(CHANGE_TYPE, DataType::Utf8, true)));
    columns.push(Arc::new(StringArray::from_iter_values(std::iter::repeat_n(
        change,
        batch.num_rows(),
    ))));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(layout)
}

fn layout(e: arrow::error::ArrowError) -> Error {
    Error::internal(format!("can't lay out rewritten rows: {e}"))
}

/// The action for a written file of changed rows.
pub(super) fn change_file(add: Add) -> AddCdcFile {
    AddCdcFile {
        path: add.path,
        partition_values: add.partition_values,
        size: add.size,
        data_change: false,
        tags: None,
    }
}
