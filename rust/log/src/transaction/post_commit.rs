//! Work after a commit: checksum, checkpoint, clean-up. The commit is already durable; a failure
//! here is logged, and the next commit continues without it.

use bytes::Bytes;
use deltaplane_error::Result;
use deltaplane_protocol::actions::{Action, Add};
use deltaplane_protocol::checksum::VersionChecksum;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_protocol::properties::Properties;
use deltaplane_store::{PutDraft, Store};
use futures::TryStreamExt;
use tracing::warn;

use crate::committer::{Maintenance, permits};
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
    /// Whether checkpoints are due one version earlier than multiples of the interval.
    pub one_earlier: bool,
}

/// The checksum of a version that is being committed: its file is begun while the commit becomes
/// durable, and put while the commit is looked at.
pub(crate) struct Ahead {
    sum: VersionChecksum,
    text: Bytes,
    begun: PutDraft,
}

/// The previous version's checksum, read while the commit is put. In an object store that saves a
/// round; on a local disk it is read after the commit, since the commit may lose.
pub(crate) async fn previous_checksum(base: Option<&Snapshot>) -> Option<VersionChecksum> {
    let base = base.filter(|b| !b.store().is_local() && !b.is_among_many())?;
    base.version_checksum().await.ok().flatten()
}

impl Ahead {
    /// `None` if the previous checksum isn't in memory, or if this one wouldn't be written.
    pub(crate) fn begin(base: Option<&Snapshot>, actions: &[Action]) -> Option<Self> {
        let known = base?.known_checksum()?.as_ref().clone();
        Self::after(known, base, actions)
    }

    /// The checksum of a snapshot that has one, whose file isn't begun.
    pub(crate) fn of(snapshot: &Snapshot) -> Option<Self> {
        let sum = snapshot.known_checksum()?.as_ref().clone();
        Self::unbegun(sum, snapshot.state().properties())
    }

    /// Computed from the checksum of the base; `None` if it wouldn't be written so early.
    pub(crate) fn after(previous: VersionChecksum, base: Option<&Snapshot>, actions: &[Action]) -> Option<Self> {
        let base = base?;
        let ahead = Self::unbegun(next_checksum(previous, base, actions)?, base.state().properties())?;
        let key = paths::checksum(base.version() + 1);
        let begun = base.store().begin_expendable(&key, &ahead.text);
        Some(Ahead { begun, ..ahead })
    }

    fn unbegun(sum: VersionChecksum, properties: &Properties) -> Option<Self> {
        let (sum, text) = written(sum, properties).ok()?;
        Some(Ahead {
            sum,
            text,
            begun: PutDraft::default(),
        })
    }

    /// The checksum.
    pub(crate) fn sum(&self) -> &VersionChecksum {
        &self.sum
    }

    /// Writes the file. The checksum is known even if its file couldn't be written.
    pub(crate) async fn put(self, store: &Store, version: u64) -> VersionChecksum {
        let key = paths::checksum(version);
        if let Err(e) = store.put_expendable(&key, self.text, self.begun).await {
            warn!(version, error = %e, "the commit is safe, but its checksum couldn't be written");
        }
        self.sum
    }
}

/// The checksum of the version after `base`, from that of `base`; `None` if it wouldn't be written
/// before the version is looked at.
pub(crate) fn next_checksum(previous: VersionChecksum, base: &Snapshot, actions: &[Action]) -> Option<VersionChecksum> {
    // Which applications count depends on the reader's clock if the metadata sets a retention,
    // which may be new here.
    if base.is_among_many() || actions.iter().any(|a| matches!(a, Action::Metadata(_))) {
        return None;
    }
    previous.after(actions)
}

/// Does the work after a commit of these actions; returns whether a checkpoint was written.
pub(crate) async fn run(
    base: Option<&Snapshot>,
    new: &Snapshot,
    actions: &[Action],
    written: Option<VersionChecksum>,
    hooks: Hooks,
) -> bool {
    let due = checkpoint_writer::is_due(new, hooks.among_many, hooks.one_earlier).await;
    // Among many writers the next version exists before the checksum of this one could be used.
    if let Some(sum) = written {
        new.keep_checksum(sum);
    } else if (due || !hooks.among_many)
        && let Err(e) = write_checksum(base, new, actions, due).await
    {
        warn!(version = new.version(), error = %e, "the commit is safe, but its checksum couldn't be written");
    }
    let hint = match hooks.checkpoint && due {
        true => checkpoint_writer::after_commit(new).await,
        false => None,
    };
    let written = hint.is_some();
    let wanted = hooks.cleanup.unwrap_or(
        written && new.state().properties().cleanup_enabled && permits(new.store(), Maintenance::LogCleanup),
    );
    let named = async {
        if let Some(hint) = &hint {
            checkpoint_writer::name_by_hint(new, hint).await;
        }
    };
    // Clean-up finds checkpoints by listing them, not by the hint.
    let cleaned = async {
        if wanted && let Err(e) = new.cleanup_metadata().await {
            warn!(version = new.version(), error = %e, "the commit is safe, but old log files couldn't be cleaned up");
        }
    };
    futures::join!(named, cleaned);
    written
}

/// Writes the checksum of the new version, if it can be computed.
async fn write_checksum(base: Option<&Snapshot>, new: &Snapshot, actions: &[Action], due: bool) -> Result<()> {
    let Some(sum) = new_checksum(base, new, actions, due).await? else {
        return Ok(());
    };
    let (sum, text) = written(sum, new.state().properties())?;
    new.keep_checksum(sum);
    let key = paths::checksum(new.version());
    new.store().put_expendable(&key, text, PutDraft::default()).await
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
