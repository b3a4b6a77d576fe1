//! Clustering columns set, changed and taken away (P152), and kept legal when columns or statistics change.

use deltaplane_error::Result;
use deltaplane_protocol::actions::{DomainMetadata, Metadata};
use deltaplane_protocol::features::clustering;
use deltaplane_protocol::schema::StructType;
use serde_json::json;

use super::draft::Draft;

/// Clusters the table by these columns from now on; by none when the list is empty. Files stay as they are.
pub(super) fn set(draft: &mut Draft<'_>, columns: &[String]) -> Result<()> {
    let old = names(&draft.domains_before, &draft.metadata, &draft.schema)?.unwrap_or_default();
    let domain = clustering::domain_for(&draft.metadata, &draft.schema, columns)?;
    clustering::ask(&mut draft.asked);
    if of(&draft.domains_before).is_none_or(|d| d.configuration != domain.configuration) {
        draft.domains.push(domain);
    }
    let parameters = [
        ("oldClusteringColumns", json!(old.join(","))),
        ("newClusteringColumns", json!(columns.join(","))),
    ];
    draft.says("CLUSTER BY", parameters);
    Ok(())
}

/// Refuses a change after which the clustering columns would be gone or have no statistics.
pub(super) fn check_kept(domains: &[DomainMetadata], metadata: &Metadata, schema: &StructType) -> Result<()> {
    match names(domains, metadata, schema)? {
        Some(columns) if !columns.is_empty() => clustering::domain_for(metadata, schema, &columns).map(|_| ()),
        _ => Ok(()),
    }
}

fn of(domains: &[DomainMetadata]) -> Option<&DomainMetadata> {
    domains.iter().find(|d| d.domain == clustering::DOMAIN)
}

/// The columns under their logical names; `None` for a table that was never clustered.
fn names(domains: &[DomainMetadata], metadata: &Metadata, schema: &StructType) -> Result<Option<Vec<String>>> {
    let Some(domain) = of(domains) else { return Ok(None) };
    let paths = clustering::columns(domain)?;
    let names = paths.iter().map(|p| clustering::logical_name(metadata, schema, p));
    names.collect::<Result<Vec<_>>>().map(Some)
}
