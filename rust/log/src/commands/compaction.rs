//! Writes log compactions (P012): a run of commits reconciled into one file that readers may read
//! instead.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{Action, DeletionVector, write_commit};
use deltaplane_protocol::paths;
use tracing::info;

use crate::Snapshot;
use crate::commit::reader::Commit;

impl Snapshot {
    /// Writes one file that replaces the commits `from` to `to`, both inclusive, for readers.
    ///
    /// Errors: `InvalidArgument` for fewer than two versions or one after this version,
    /// `VersionNotFound` if a commit is missing. An existing compaction stays.
    pub async fn compact_logs(&self, from: u64, to: u64) -> Result<()> {
        self.write_compaction(from, to)
            .await
            .map_err(|e| e.with_table(self.store().location().as_str()))
    }

    async fn write_compaction(&self, from: u64, to: u64) -> Result<()> {
        if from >= to || to > self.version() {
            return Err(Error::invalid_argument(format!(
                "versions {from} to {to} can't be compacted: give at least two versions, the later one at most {}",
                self.version()
            )));
        }
        self.state().check_write()?;
        let mut commits = self.commits_after(from.checked_sub(1)).await?;
        commits.retain(|c| c.version() <= to);
        if commits.len() as u64 != to - from + 1 {
            return Err(Error::version_not_found(format!(
                "versions {from} to {to} can't be compacted: some of their commits were cleaned up"
            ))
            .with_version(from + commits.len() as u64));
        }
        let text = write_commit(&reconcile(&commits)?)?;
        self.store()
            .put_if_absent(&paths::compaction(from, to), Bytes::from(text))
            .await?;
        info!(table = %self.store().location(), from, to, "compacted commits");
        Ok(())
    }
}

/// The newest action per file, domain and application: removes and tombstones of domains stay,
/// provenance and change files go.
fn reconcile(commits: &[std::sync::Arc<Commit>]) -> Result<Vec<Action>> {
    let (mut protocol, mut metadata) = (None, None);
    let (mut txns, mut domains) = (BTreeMap::new(), BTreeMap::new());
    let (mut decided, mut files) = (HashSet::new(), Vec::new());
    for c in commits.iter().rev() {
        let mut here = HashSet::new();
        let mut removes = Vec::new();
        for a in c.actions()? {
            match a {
                Action::Protocol(_) => {
                    protocol.get_or_insert(a);
                }
                Action::Metadata(_) => {
                    metadata.get_or_insert(a);
                }
                Action::Txn(t) => {
                    txns.entry(t.app_id.clone()).or_insert(Action::Txn(t));
                }
                Action::DomainMetadata(d) => {
                    domains.entry(d.domain.clone()).or_insert(Action::DomainMetadata(d));
                }
                Action::Add(mut f) => {
                    let key = key(&f.path, f.deletion_vector.as_ref())?;
                    if !decided.contains(&key) && here.insert(key) {
                        f.data_change = false;
                        files.push(Action::Add(f));
                    }
                }
                Action::Remove(r) => removes.push(r),
                Action::CommitInfo(_) | Action::Cdc(_) => {}
            }
        }
        // An add wins over a remove of the same file in the same commit (P041).
        for mut r in removes {
            let key = key(&r.path, r.deletion_vector.as_ref())?;
            if !decided.contains(&key) && here.insert(key) {
                r.data_change = false;
                files.push(Action::Remove(r));
            }
        }
        decided.extend(here);
    }
    let state = protocol
        .into_iter()
        .chain(metadata)
        .chain(txns.into_values())
        .chain(domains.into_values());
    Ok(state.chain(files).collect())
}

fn key(path: &str, vector: Option<&DeletionVector>) -> Result<(String, Option<String>)> {
    Ok((paths::decode(path)?, vector.map(DeletionVector::unique_id)))
}
