//! A table's clustering columns (P152), kept valid when columns or statistics change.

use deltaplane_error::Result;
use deltaplane_protocol::actions::{DomainMetadata, Metadata};
use deltaplane_protocol::features::clustering;
use deltaplane_protocol::schema::StructType;

/// Refuses a change that would remove a clustering column or its statistics.
pub(super) fn check_kept(domains: &[DomainMetadata], metadata: &Metadata, schema: &StructType) -> Result<()> {
    match names(domains, metadata, schema)? {
        Some(columns) if !columns.is_empty() => clustering::domain_for(metadata, schema, &columns).map(|_| ()),
        _ => Ok(()),
    }
}

/// The domain of the clustering columns.
pub(super) fn domain_of(domains: &[DomainMetadata]) -> Option<&DomainMetadata> {
    domains.iter().find(|d| d.domain == clustering::DOMAIN)
}

/// The columns under their logical names; `None` for a table that was never clustered.
pub(super) fn names(
    domains: &[DomainMetadata],
    metadata: &Metadata,
    schema: &StructType,
) -> Result<Option<Vec<String>>> {
    let Some(domain) = domain_of(domains) else {
        return Ok(None);
    };
    let paths = clustering::columns(domain)?;
    let names = paths.iter().map(|p| clustering::logical_name(metadata, schema, p));
    names.collect::<Result<Vec<_>>>().map(Some)
}
