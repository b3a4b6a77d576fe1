//! Removal of column mapping from a table (P114): its metadata and clustering after it, and the
//! form of its new files. `rewrite` rewrites the files under the columns' own names.

use std::sync::Arc;

use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{DomainMetadata, Metadata};
use deltaplane_protocol::features::{self, View, clustering, column_mapping};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::StructType;

use crate::Snapshot;
use crate::write::schema_checks::check_field_names;

/// The table without column mapping.
pub(crate) struct WithoutColumnMapping {
    /// Its metadata.
    pub metadata: Metadata,
    /// Its schema.
    pub schema: Arc<StructType>,
    /// Domains with the column names of files.
    pub domains: Vec<DomainMetadata>,
    /// Whether files can stay: they use the table's column names, and have no other columns.
    pub files_fit: bool,
}

impl WithoutColumnMapping {
    /// Plans the removal on this version.
    ///
    /// # Errors
    /// `InvalidArgument` for a table without column mapping, and for names that need it (P116);
    /// `UnsupportedFeature` if another feature needs it.
    pub(crate) async fn of(base: &Snapshot) -> Result<Self> {
        let state = base.state();
        if state.mapping() == Mapping::None {
            return Err(Error::invalid_argument(
                "the table has no column mapping: there is nothing to take away",
            ));
        }
        check_field_names(state.schema(), Mapping::None)?;
        let metadata = column_mapping::without_column_mapping(state.view());
        let schema = StructType::from_json(metadata.schema_string.as_deref().unwrap_or_default())?;
        let after = View {
            metadata: &metadata,
            schema: &schema,
        };
        features::check_write(state.protocol(), after)?;
        let mut domains = Vec::new();
        if features::needs_domains(state.protocol()) {
            let all_domains = base.domains().await?;
            if let Some(domain) = all_domains.iter().find(|d| d.domain == clustering::DOMAIN) {
                let paths = clustering::columns(domain)?;
                let name = |path: &Vec<String>| clustering::logical_name(state.metadata(), state.schema(), path);
                let columns = paths.iter().map(name).collect::<Result<Vec<_>>>()?;
                let renamed = clustering::domain_for(&metadata, &schema, &columns)?;
                domains.extend((renamed.configuration != domain.configuration).then_some(renamed));
            }
        }
        Ok(WithoutColumnMapping {
            files_fit: column_mapping::needed(state.view()).is_none(),
            schema: Arc::new(schema),
            metadata,
            domains,
        })
    }
}
