//! What follows a commit: checksum, checkpoint, clean-up. The commit is durable before; whatever fails here is logged,
//! and the next commit goes on without it.

use bytes::Bytes;
use deltaplane_error::Result;
use deltaplane_protocol::actions::{Action, Add};
use deltaplane_protocol::checksum::VersionChecksum;
use deltaplane_protocol::files::FileRows;
use deltaplane_protocol::paths;
use futures::TryStreamExt;
use tracing::warn;

use crate::{PlanColumns, Snapshot, checkpoint_writer};

/// What may follow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hooks {
    /// A checkpoint that is due.
    pub checkpoint: bool,
    /// Clean-up after it: always, never, or as the table's properties say.
    pub cleanup: Option<bool>,
    /// Whether many others are committing in these moments.
    pub among_many: bool,
}

/// Does what follows a commit of these actions; tells whether a checkpoint was written.
pub(crate) async fn run(base: Option<&Snapshot>, new: &Snapshot, actions: &[Action], hooks: Hooks) -> bool {
    let due = checkpoint_writer::is_due(new, hooks.among_many).await;
    // Among many writers the next version has come before anybody could use the checksum of this one.
    if (due || !hooks.among_many)
        && let Err(e) = write_checksum(base, new, actions, due).await
    {
        warn!(version = new.version(), error = %e, "the commit is safe, but its checksum couldn't be written");
    }
    let written = hooks.checkpoint && due && checkpoint_writer::after_commit(new).await;
    let wanted = hooks
        .cleanup
        .unwrap_or(written && new.state().properties().cleanup_enabled);
    if wanted && let Err(e) = new.cleanup_metadata().await {
        warn!(version = new.version(), error = %e, "the commit is safe, but old log files couldn't be cleaned up");
    }
    written
}

/// From the checksum before where there is one. Otherwise summed up anew where no checkpoint has to be read for it, or
/// where one is due anyway: between checkpoints a table may be without.
async fn write_checksum(base: Option<&Snapshot>, new: &Snapshot, actions: &[Action], due: bool) -> Result<()> {
    let state = new.state();
    let before = match base {
        None => Some(VersionChecksum::empty(
            state.protocol().clone(),
            state.metadata().clone(),
        )),
        Some(b) => b.version_checksum().await?,
    };
    let mut sum = match before.and_then(|b| b.after(actions)) {
        Some(sum) => sum,
        None if due || new.checkpoint_reader().is_none() => match sum_up(new, actions).await? {
            Some(sum) => sum,
            None => return Ok(()),
        },
        None => return Ok(()),
    };
    if state.properties().transaction_retention_ms.is_some() {
        // Which applications count depends on the reader's clock.
        sum.set_transactions = None;
    }
    let text = Bytes::from(sum.to_json()?);
    new.keep_checksum(sum);
    new.store().put_expendable(&paths::checksum(new.version()), text).await
}

/// `None` where the files claim sizes that no number holds together.
async fn sum_up(new: &Snapshot, actions: &[Action]) -> Result<Option<VersionChecksum>> {
    let state = new.state();
    let mut sum = VersionChecksum::empty(state.protocol().clone(), state.metadata().clone());
    let mut batches = new.plan(None, PlanColumns::Files);
    while let Some(batch) = batches.try_next().await? {
        let rows = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            let counted = sum.count_in(&Add {
                size: rows.size(row),
                deletion_vector: rows.deletion_vector(row),
                ..Add::default()
            });
            if counted.is_none() {
                return Ok(None);
            }
        }
    }
    sum.set_transactions = Some(new.transactions(0).await?);
    sum.domain_metadata = Some(new.domains().await?);
    Ok(Some(sum.told_by(actions)))
}
