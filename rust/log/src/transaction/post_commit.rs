//! Work after a commit: checksum, checkpoint, clean-up. The commit is already durable; a failure
//! here is logged, and the next commit continues without it.

use bytes::Bytes;
use deltaplane_error::Result;
use deltaplane_protocol::actions::{Action, Add};
use deltaplane_protocol::checksum::VersionChecksum;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_protocol::properties::Properties;
use deltaplane_store::PutDraft;
use futures::TryStreamExt;
use tracing::warn;

use crate::{PlanColumns, Snapshot, checkpoint_writer};

/// Which work is allowed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hooks {
    /// A checkpoint that is due.
    pub checkpoint: bool,
    /// Clean-up after it: always, never, or as the table's properties say.
    pub cleanup: Option<bool>,
    /// Whether many other writers are committing now.
    pub among_many: bool,
}

/// The checksum of a version that is being committed, if the previous one is in memory: its file is
/// begun while the commit becomes durable.
pub(crate) struct Ahead {
    sum: VersionChecksum,
    text: Bytes,
    begun: PutDraft,
}

impl Ahead {
    /// `None` if it can't be computed quickly, or wouldn't be written.
    pub(crate) fn begin(base: Option<&Snapshot>, actions: &[Action]) -> Option<Self> {
        let base = base.filter(|b| !b.is_among_many())?;
        // Which applications count depends on the reader's clock if the metadata sets a retention,
        // which may be new here.
        if actions.iter().any(|a| matches!(a, Action::Metadata(_))) {
            return None;
        }
        let sum = base.known_checksum()?.as_ref().clone().after(actions)?;
        let (sum, text) = written(sum, base.state().properties()).ok()?;
        let begun = base
            .store()
            .begin_expendable(&paths::checksum(base.version() + 1), &text);
        Some(Ahead { sum, text, begun })
    }
}

/// Does the work after a commit of these actions; returns whether a checkpoint was written.
pub(crate) async fn run(
    base: Option<&Snapshot>,
    new: &Snapshot,
    actions: &[Action],
    ahead: Option<Ahead>,
    hooks: Hooks,
) -> bool {
    let due = checkpoint_writer::is_due(new, hooks.among_many).await;
    // Among many writers the next version exists before the checksum of this one could be used.
    if (due || !hooks.among_many)
        && let Err(e) = write_checksum(base, new, actions, ahead, due).await
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

/// Writes the checksum of the new version, if it can be computed.
async fn write_checksum(
    base: Option<&Snapshot>,
    new: &Snapshot,
    actions: &[Action],
    ahead: Option<Ahead>,
    due: bool,
) -> Result<()> {
    let ahead = match ahead {
        Some(ahead) => ahead,
        None => match new_checksum(base, new, actions, due).await? {
            Some(sum) => {
                let (sum, text) = written(sum, new.state().properties())?;
                let begun = PutDraft::default();
                Ahead { sum, text, begun }
            }
            None => return Ok(()),
        },
    };
    new.keep_checksum(ahead.sum);
    let key = paths::checksum(new.version());
    new.store().put_expendable(&key, ahead.text, ahead.begun).await
}

/// A checksum in the form of its file.
fn written(mut sum: VersionChecksum, properties: &Properties) -> Result<(VersionChecksum, Bytes)> {
    if properties.transaction_retention_ms.is_some() {
        // Which applications count depends on the reader's clock.
        sum.set_transactions = None;
    }
    let text = Bytes::from(sum.to_json()?);
    Ok((sum, text))
}

/// Computed from the previous checksum where there is one. Otherwise summed up from the state if
/// that reads no checkpoint, or if a checkpoint is due anyway; between checkpoints a table may have
/// no checksum.
async fn new_checksum(
    base: Option<&Snapshot>,
    new: &Snapshot,
    actions: &[Action],
    due: bool,
) -> Result<Option<VersionChecksum>> {
    let state = new.state();
    let before = match base {
        None => Some(VersionChecksum::empty(
            state.protocol().clone(),
            state.metadata().clone(),
        )),
        Some(b) => b.version_checksum().await?,
    };
    match before.and_then(|b| b.after(actions)) {
        Some(sum) => Ok(Some(sum)),
        None if due || new.checkpoint_reader().is_none() => sum_up(new, actions).await,
        None => Ok(None),
    }
}

/// `None` if the sum of the files' claimed sizes overflows.
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
    Ok(Some(sum.with_commit_info(actions)))
}
