//! Rows that a transaction read as a set.

use std::collections::HashSet;
use std::sync::Arc;

use deltaplane_error::Result;
use deltaplane_protocol::conflict::{ReadSet, Selection};
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_protocol::prune::Pruner;
use futures::TryStreamExt;

use crate::{PlanColumns, Snapshot};

/// Rows of a version as a set: those that the pruner keeps.
pub(crate) async fn selection(snapshot: &Snapshot, pruner: Option<Arc<Pruner>>) -> Result<ReadSet> {
    let Some(pruner) = pruner else {
        return Ok(ReadSet::Set(None));
    };
    let mut plan = snapshot.plan(Some(pruner.clone()), PlanColumns::Logged);
    let mut files = HashSet::new();
    while let Some(batch) = plan.try_next().await? {
        let rows = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            files.insert(paths::decode(rows.path(row)?)?);
        }
    }
    let files = Arc::new(files);
    Ok(ReadSet::Set(Some(Selection { files, pruner })))
}
