//! Deletes every older version from the log at once: after a person is erased, commits and
//! checkpoints still have bounds and conditions with the person's values for as long as the log is
//! kept (P063).

use deltaplane_error::{Error, Result};
use deltaplane_protocol::features::checkpoint_protection::protected_before;

use crate::commands::cleanup::CleanupReport;
use crate::committer::{Maintenance, check_permitted};
use crate::transaction::{Operation, Staged, commit};
use crate::write::request::CommitRequest;
use crate::{Snapshot, now_ms};

impl Snapshot {
    /// Commits a version without changes, writes its checkpoint and deletes every older file of
    /// the log that the checkpoint doesn't need, whatever `delta.logRetentionDuration` says.
    ///
    /// An interruption leaves a table that opens, with a part of its history. Readers of older
    /// versions and streams that lag behind fail afterwards.
    ///
    /// # Errors
    /// `InvalidArgument` if `checkpointProtection` forbids it (P157), errors of any commit.
    pub async fn forget_history(&self, request: &CommitRequest) -> Result<CleanupReport> {
        let forgotten = self.commit_and_forget(request).await;
        forgotten.map_err(|e| e.with_table(self.store().location().as_str()))
    }

    async fn commit_and_forget(&self, request: &CommitRequest) -> Result<CleanupReport> {
        self.state().check_write()?;
        self.state().check_properties()?;
        check_permitted(self.store(), Maintenance::LogCleanup)?;
        let staged = Staged {
            operation: Operation {
                name: "FORGET HISTORY".to_owned(),
                ..Operation::default()
            },
            skip_checkpoint: true,
            cleanup: Some(false),
            ..request.staged(now_ms())
        };
        self.check_unprotected(self.version())?;
        let newest = commit(self.store(), Some(self.clone()), &staged).await?.snapshot;
        newest.check_unprotected(newest.version())?;
        newest.checkpoint().await?;
        newest.truncate_log(now_ms(), i64::MAX).await
    }

    /// Checkpoints before a version that is still to come are protected too.
    fn check_unprotected(&self, version: u64) -> Result<()> {
        let protected = protected_before(self.state().metadata());
        if version >= protected {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "the feature `checkpointProtection` keeps each version before {protected} as it is: drop the feature first"
        )))
    }
}
