//! What a version says of its table: metadata, protocol and what opening it read of the log.

use std::collections::BTreeMap;

use deltaplane_protocol::actions::{Metadata, Protocol as CoreProtocol};
use deltaplane_protocol::features::supported;

use pyo3::prelude::*;

use crate::records::record;

record! {
    /// The table's metadata without its columns.
    TableInfo {
        id: String,
        name: Option<String>,
        description: Option<String>,
        partition_columns: Vec<String>,
        /// Milliseconds since the epoch.
        created_time: Option<i64>,
        configuration: BTreeMap<String, String>,
    }
}

impl From<&Metadata> for TableInfo {
    fn from(m: &Metadata) -> Self {
        TableInfo {
            id: m.id.clone(),
            name: m.name.clone(),
            description: m.description.clone(),
            partition_columns: m.partition_columns.clone(),
            created_time: m.created_time,
            configuration: m.configuration.clone(),
        }
    }
}

record! {
    /// A table's protocol; `features` are those that it lists or that its versions imply.
    Protocol {
        min_reader_version: i32,
        min_writer_version: i32,
        reader_features: Option<Vec<String>>,
        writer_features: Option<Vec<String>>,
        features: Vec<String>,
    }
}

impl From<&CoreProtocol> for Protocol {
    fn from(p: &CoreProtocol) -> Self {
        Protocol {
            min_reader_version: p.min_reader_version,
            min_writer_version: p.min_writer_version,
            reader_features: p.reader_features.clone(),
            writer_features: p.writer_features.clone(),
            features: supported(p).into_iter().map(|f| f.to_string()).collect(),
        }
    }
}
