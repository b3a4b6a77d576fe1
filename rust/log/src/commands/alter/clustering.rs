//! Sets, changes and removes clustering columns (P152).

use deltaplane_error::Result;
use deltaplane_protocol::features::clustering;
use serde_json::json;

use super::clustered::{domain_of, names};
use super::draft::Draft;

/// Clusters the table by these columns from now on; an empty list ends clustering, and leaves a
/// table that was never clustered as it is. Files stay as they are.
pub(super) fn set(draft: &mut Draft<'_>, columns: &[String]) -> Result<()> {
    let old = names(&draft.domains_before, &draft.metadata, &draft.schema)?.unwrap_or_default();
    let before = domain_of(&draft.domains_before);
    if before.is_some() || !columns.is_empty() {
        let domain = clustering::domain_for(&draft.metadata, &draft.schema, columns)?;
        clustering::ask(&mut draft.asked);
        if before.is_none_or(|d| d.configuration != domain.configuration) {
            draft.domains.push(domain);
        }
    }
    let parameters = [
        ("oldClusteringColumns", json!(old.join(","))),
        ("newClusteringColumns", json!(columns.join(","))),
    ];
    draft.says("CLUSTER BY", parameters);
    Ok(())
}
