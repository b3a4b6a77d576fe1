//! Committing: one put-if-absent of a file that a pure function of (base, staged intent) made.
//! A loser checks the winners' facts, takes the newest version as base and tries again, bounded.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{
    Action, Add, CommitInfo, DomainMetadata, Metadata, Protocol, Remove, SetTransaction, parse_commit, write_commit,
};
use deltaplane_protocol::conflict::{self, Intent, ReadSet, Winner};
use deltaplane_protocol::features::attempt::Base;
use deltaplane_protocol::{features, paths};
use deltaplane_store::{PutOutcome, Store};
use rand::RngExt;
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::commit_reader::Commit;
use crate::post_commit::{self, Hooks};
use crate::{Snapshot, history, now_ms};

/// Attempts when the caller sets no bound: each lost one means that another writer got on, so this
/// is reached only behind hundreds of faster writers.
const DEFAULT_ATTEMPTS: usize = 1000;
/// Losses in a row before an attempt waits, and the longest wait.
const PATIENT_LOSSES: usize = 3;
const LONGEST_WAIT_MS: u64 = 250;

/// What a commit does, under delta-spark's names.
#[derive(Debug, Clone, Default)]
pub struct Operation {
    /// `WRITE`, `CREATE TABLE`, …
    pub name: String,
    /// Parameters, each as text.
    pub parameters: BTreeMap<String, Value>,
    /// Metrics, each as text.
    pub metrics: BTreeMap<String, Value>,
}

/// Everything that a commit will say, whatever version it lands on.
#[derive(Default)]
pub struct Staged {
    /// Files to add.
    pub adds: Vec<Add>,
    /// Files to remove.
    pub removes: Vec<Remove>,
    /// New metadata.
    pub metadata: Option<Metadata>,
    /// New protocol.
    pub protocol: Option<Protocol>,
    /// Applications' versions.
    pub transactions: Vec<SetTransaction>,
    /// Domains to set, or to remove.
    pub domains: Vec<DomainMetadata>,
    /// What the intent rests on.
    pub read: ReadSet,
    /// For the commit's provenance.
    pub operation: Operation,
    /// Free text of the user.
    pub user_metadata: Option<String>,
    /// Free fields of the user, beside the standard ones.
    pub extra_info: BTreeMap<String, Value>,
    /// Program that writes.
    pub engine_info: String,
    /// Leaves out the checkpoint that is due after the commit.
    pub skip_checkpoint: bool,
    /// Whether to clean up the log after the commit; as the table's properties say when absent.
    pub cleanup: Option<bool>,
    /// Attempts in all, the default bound when absent.
    pub max_attempts: Option<usize>,
}

/// A commit that is durable.
pub struct Committed {
    /// The table after it.
    pub snapshot: Snapshot,
    /// Its version.
    pub version: u64,
    /// Puts that were tried.
    pub attempts: usize,
    /// What the operation did, as in the commit.
    pub metrics: BTreeMap<String, Value>,
}

impl Staged {
    fn intent(&self) -> Result<Intent> {
        let removed = self
            .removes
            .iter()
            .map(|r| paths::decode(&r.path))
            .collect::<Result<HashSet<_>>>()?;
        Ok(Intent {
            read: self.read.clone(),
            app_ids: self.transactions.iter().map(|t| t.app_id.clone()).collect(),
            domains: self.domains.iter().map(|d| d.domain.clone()).collect(),
            removed,
            metadata: self.metadata.is_some(),
            protocol: self.protocol.is_some(),
        })
    }

    fn is_blind_append(&self) -> bool {
        self.removes.is_empty() && !self.adds.is_empty() && matches!(self.read, ReadSet::Nothing)
    }

    /// Refuses what no base could make right (P025, P074, P100).
    fn check(&self, base: Option<&Snapshot>) -> Result<()> {
        let mut seen = HashSet::with_capacity(self.adds.len());
        if let Some(twice) = self.adds.iter().find(|a| !seen.insert(a.path.as_str())) {
            return Err(Error::invalid_argument(format!(
                "the file `{}` is added twice in one commit",
                twice.path
            )));
        }
        let Some(base) = base else { return Ok(()) };
        base.state().check_write()?;
        if features::is_append_only(base.state().view()) && self.removes.iter().any(|r| r.data_change) {
            return Err(Error::invalid_argument(
                "the table is append-only (delta.appendOnly = true): rows can't be removed or replaced; append, or unset the property first",
            ));
        }
        Ok(())
    }

    /// The actions of the commit on this base (P071: provenance first).
    fn finish(&self, base: Option<Base<'_>>, txn_id: &str, now: i64) -> Result<Vec<Action>> {
        let info = Action::CommitInfo(self.commit_info(base.map(|b| b.version), txn_id, now));
        let actions = std::iter::once(info)
            .chain(self.protocol.clone().map(Action::Protocol))
            .chain(self.metadata.clone().map(Action::Metadata))
            .chain(self.transactions.iter().cloned().map(Action::Txn))
            .chain(self.domains.iter().cloned().map(Action::DomainMetadata))
            .chain(self.removes.iter().cloned().map(Action::Remove))
            .chain(self.adds.iter().cloned().map(Action::Add))
            .collect();
        features::finish(base, now, actions)
    }

    /// Reads what features want to know of the base.
    async fn facts(&self, base: &Snapshot) -> Result<Facts> {
        let state = base.state();
        let metadata = self.metadata.as_ref().unwrap_or(state.metadata());
        let time_ms = match features::needs_time(metadata) {
            true => base.timestamp_ms().await?,
            false => None,
        };
        let domains = match features::needs_domains(state.protocol()) {
            true => base.domains().await?,
            false => Vec::new(),
        };
        let domains = domains.into_iter().map(|d| (d.domain.clone(), d)).collect();
        Ok(Facts { time_ms, domains })
    }

    fn commit_info(&self, base: Option<u64>, txn_id: &str, now: i64) -> CommitInfo {
        let mut info: CommitInfo = self.extra_info.clone().into_iter().collect();
        info.insert("timestamp".into(), json!(now));
        info.insert("operation".into(), json!(self.operation.name));
        info.insert("operationParameters".into(), json!(self.operation.parameters));
        info.insert("operationMetrics".into(), json!(self.operation.metrics));
        info.insert("isolationLevel".into(), json!("Serializable"));
        info.insert("isBlindAppend".into(), json!(self.is_blind_append()));
        info.insert("engineInfo".into(), json!(self.engine_info));
        info.insert("txnId".into(), json!(txn_id));
        if let Some(v) = base {
            info.insert("readVersion".into(), json!(v));
        }
        if let Some(text) = &self.user_metadata {
            info.insert("userMetadata".into(), json!(text));
        }
        info
    }
}

/// What a base says beyond its protocol and metadata.
#[derive(Default)]
struct Facts {
    time_ms: Option<i64>,
    domains: BTreeMap<String, DomainMetadata>,
}

impl Facts {
    fn base<'a>(&'a self, snapshot: &'a Snapshot) -> Base<'a> {
        Base {
            version: snapshot.version(),
            time_ms: self.time_ms,
            protocol: snapshot.state().protocol(),
            metadata: snapshot.state().metadata(),
            domains: &self.domains,
        }
    }
}

/// Commits to a table, or creates one when `base` is `None`.
///
/// Errors: a conflict kind when another writer's commit rules this one out; `ConcurrentWrite` when
/// every attempt lost; nothing is visible after an error, but data files stay where they are.
pub async fn commit(store: &Store, base: Option<Snapshot>, staged: &Staged) -> Result<Committed> {
    let done = attempt_until_done(store, base, staged).await;
    done.map_err(|e| e.with_table(store.location().as_str()))
}

async fn attempt_until_done(store: &Store, mut base: Option<Snapshot>, staged: &Staged) -> Result<Committed> {
    let intent = staged.intent()?;
    let txn_id = uuid::Uuid::new_v4().to_string();
    let most = staged.max_attempts.unwrap_or(DEFAULT_ATTEMPTS).max(1);
    for attempt in 1..=most {
        staged.check(base.as_ref())?;
        let version = base.as_ref().map_or(0, |b| b.version() + 1);
        let facts = match &base {
            Some(b) => staged.facts(b).await?,
            None => Facts::default(),
        };
        let actions = staged.finish(base.as_ref().map(|b| facts.base(b)), &txn_id, now_ms())?;
        if put(store, version, &actions, &txn_id).await? == Put::Won {
            let snapshot = reload(store, base.as_ref(), version).await?;
            info!(table = %store.location(), version, attempts = attempt, "committed");
            let hooks = Hooks {
                checkpoint: !staged.skip_checkpoint,
                cleanup: staged.cleanup,
            };
            post_commit::run(base.as_ref(), &snapshot, &actions, hooks).await;
            return Ok(Committed {
                snapshot,
                version,
                attempts: attempt,
                metrics: staged.operation.metrics.clone(),
            });
        }
        base = Some(follow_winners(store, base.as_ref(), &intent).await?);
        wait(attempt).await;
    }
    Err(Error::new(
        Kind::ConcurrentWrite,
        format!("other writers committed first in each of {most} attempts: try again, or raise max_commit_retries"),
    ))
}

#[derive(PartialEq, Eq)]
enum Put {
    Won,
    Taken,
}

/// One put-if-absent; an unclear outcome is settled by reading the version back (P070, P072).
async fn put(store: &Store, version: u64, actions: &[Action], txn_id: &str) -> Result<Put> {
    let key = paths::commit(version);
    let text = Bytes::from(write_commit(actions)?);
    match store.put_if_absent(&key, text).await {
        Ok(PutOutcome::Created) => Ok(Put::Won),
        // The store may have retried a put that had arrived: look whose commit it is.
        Ok(PutOutcome::Exists) => Ok(if is_ours(store, &key, txn_id).await? {
            Put::Won
        } else {
            Put::Taken
        }),
        Err(e) if e.kind() == Kind::StoreUnavailable => {
            warn!(version, error = %e, "the outcome of a commit is unclear, reading it back");
            match is_ours(store, &key, txn_id).await {
                Ok(true) => Ok(Put::Won),
                Ok(false) => Ok(Put::Taken),
                Err(again) if again.kind() == Kind::ObjectNotFound => Err(e),
                Err(_) => Err(Error::new(
                    Kind::StoreUnavailable,
                    format!("the store didn't answer while version {version} was being committed, and can't be asked whether it arrived: look for the transaction id {txn_id} in the table's history before trying again"),
                )
                .with_source(e)),
            }
        }
        Err(e) => Err(e),
    }
}

async fn is_ours(store: &Store, key: &str, txn_id: &str) -> Result<bool> {
    let bytes = store.read(key).await?;
    let text = String::from_utf8_lossy(&bytes);
    // Anything that can't be parsed wasn't written by this transaction.
    let actions = parse_commit(&text).unwrap_or_default();
    Ok(actions
        .iter()
        .any(|a| matches!(a, Action::CommitInfo(i) if i.get("txnId").and_then(Value::as_str) == Some(txn_id))))
}

async fn reload(store: &Store, base: Option<&Snapshot>, version: u64) -> Result<Snapshot> {
    let newest = match base {
        Some(b) => b.update().await?,
        None => Snapshot::open(store, None).await?,
    };
    if newest.version() == version {
        Ok(newest)
    } else {
        Snapshot::open(store, Some(version)).await
    }
}

async fn follow_winners(store: &Store, base: Option<&Snapshot>, intent: &Intent) -> Result<Snapshot> {
    let newest = match base {
        Some(b) => b.update().await?,
        None => Snapshot::open(store, None).await?,
    };
    let seen = base.map(Snapshot::version);
    let mut next = seen.map_or(0, |v| v + 1);
    for c in newest.commits_after(seen).await? {
        check_winner(intent, &c)?;
        next += 1;
    }
    if next <= newest.version() {
        return Err(Error::new(
            Kind::ConcurrentWrite,
            format!(
                "the commits from version {next} on were cleaned up before this transaction could check them: run it again"
            ),
        ));
    }
    Ok(newest)
}

fn check_winner(intent: &Intent, c: &Commit) -> Result<()> {
    let files = c.files()?;
    let domains: Vec<&str> = c
        .state
        .iter()
        .filter_map(|a| match a {
            Action::DomainMetadata(d) => Some(d.domain.as_str()),
            _ => None,
        })
        .collect();
    let app_ids: Vec<String> = c
        .state
        .iter()
        .filter_map(|a| match a {
            Action::Txn(t) => Some(t.app_id.clone()),
            _ => None,
        })
        .collect();
    let winner = Winner {
        version: c.version(),
        protocol: c.state.iter().find_map(|a| match a {
            Action::Protocol(p) => Some(p),
            _ => None,
        }),
        metadata: c.state.iter().find_map(|a| match a {
            Action::Metadata(m) => Some(m),
            _ => None,
        }),
        app_ids: &app_ids,
        domains: &domains,
        adds: &files.adds,
        removes: &files.removes,
        description: history::describe(c),
    };
    conflict::check(intent, &winner)
}

async fn wait(attempt: usize) {
    if attempt <= PATIENT_LOSSES {
        return;
    }
    let most = (1u64 << (attempt - PATIENT_LOSSES).min(8)).min(LONGEST_WAIT_MS);
    let ms = rand::rng().random_range(0..=most);
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
