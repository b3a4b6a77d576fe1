//! The state of a table at one version without its files: protocol, metadata, schema, properties.

use std::sync::Arc;

use crate::actions::{Metadata, Protocol};
use crate::features::catalog_managed::Authority;
use crate::features::{self, View, column_mapping};
use crate::mapping::Mapping;
use crate::properties::Properties;
use crate::schema::StructType;
use crate::{Error, Result};

/// Protocol, metadata and derived state.
#[derive(Debug, Clone)]
pub struct TableState {
    protocol: Protocol,
    metadata: Metadata,
    schema: Arc<StructType>,
    mapping: Mapping,
    properties: Properties,
}

impl TableState {
    /// Whether new checkpoints are V2: a property without its feature is inert (P058, P093).
    pub fn writes_v2_checkpoints(&self) -> bool {
        self.properties().v2_checkpoints && features::allows_v2_checkpoints(self.protocol())
    }

    /// Checks the protocol first (P048), then what decides the table's commits (P158), then the
    /// metadata (P032, P180), then whether this build can read the table.
    pub fn new(protocol: Protocol, metadata: Metadata, authority: Authority) -> Result<Self> {
        features::check_readable_protocol(&protocol)?;
        authority.check_read(&protocol)?;
        if metadata.format.provider != "parquet" {
            return Err(Error::unsupported_feature(format!(
                "the table's data files are `{}`, Delta tables are `parquet` (P032)",
                metadata.format.provider
            )));
        }
        let schema = match &metadata.schema_string {
            Some(text) => Arc::new(StructType::from_json(text)?),
            None => {
                return Err(Error::corrupt_log(
                    "the table has no schema yet: its metaData action has no schemaString",
                ));
            }
        };
        schema.check_names().map_err(|e| {
            Error::corrupt_log(format!(
                "the table's schema isn't valid: {}; a faulty program wrote it",
                e.message()
            ))
        })?;
        for (i, c) in metadata.partition_columns.iter().enumerate() {
            let before = metadata.partition_columns.iter().take(i);
            if before.into_iter().any(|other| other.eq_ignore_ascii_case(c)) {
                return Err(Error::corrupt_log(format!(
                    "the table lists the partition column `{c}` twice: a faulty program wrote it"
                )));
            }
            if schema.field_ignore_case(c).is_none() {
                return Err(Error::corrupt_log(format!(
                    "the partition column `{c}` isn't a column of the table"
                )));
            }
        }
        let state = TableState {
            properties: Properties::new(&metadata.configuration),
            mapping: column_mapping::mapping(&protocol, &metadata)?,
            protocol,
            metadata,
            schema,
        };
        features::check_read(&state.protocol, state.view())?;
        state.mapping.check(&state.schema)?;
        Ok(state)
    }

    /// The view of the table for feature rules.
    pub fn view(&self) -> View<'_> {
        View {
            metadata: &self.metadata,
            schema: &self.schema,
        }
    }

    /// The protocol.
    pub fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    /// The metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The logical schema.
    pub fn schema(&self) -> &Arc<StructType> {
        &self.schema
    }

    /// The column mapping in files and log.
    pub fn mapping(&self) -> Mapping {
        self.mapping
    }

    /// Logical names of the partition columns.
    pub fn partition_columns(&self) -> &[String] {
        &self.metadata.partition_columns
    }

    /// The typed properties.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Refuses to write a table whose features this build doesn't support.
    pub fn check_write(&self) -> Result<()> {
        features::check_write(&self.protocol, self.view())
    }

    /// Refuses properties that can't be read, for callers that act on them: a default in their
    /// place could be the opposite of what was meant. ALTER skips this check, so that it can
    /// correct them.
    pub fn check_properties(&self) -> Result<()> {
        Properties::check_readable(&self.metadata.configuration)
    }
}
