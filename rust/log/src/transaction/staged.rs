//! The content of a commit before it has a version: what it depends on, and its actions on each
//! version on which it is tried.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{
    Action, Add, AddCdcFile, CommitInfo, DomainMetadata, Metadata, Protocol, Remove, SetTransaction,
};
use deltaplane_protocol::conflict::{ISOLATION_LEVEL, Intent, Isolation, ReadSet};
use deltaplane_protocol::features::attempt::Base;
use deltaplane_protocol::features::row_tracking;
use deltaplane_protocol::{features, paths};
use deltaplane_store::Store;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::committer::{self, Maintenance};
use crate::transaction::hidden_values::{hide_values, hides_values};
use crate::transaction::rebase::Rebase;
use crate::transaction::retained_files::{check_kept, first_kept};
use crate::{Snapshot, now_ms};

/// What a commit did, with delta-spark's names.
#[derive(Debug, Clone, Default)]
pub struct Operation {
    /// `WRITE`, `CREATE TABLE`, …
    pub name: String,
    /// Parameters, each as text.
    pub parameters: BTreeMap<String, Value>,
    /// Metrics, each as text.
    pub metrics: BTreeMap<String, Value>,
}

/// The content of a commit, independent of its version.
#[derive(Clone, Default)]
pub struct Staged {
    /// Files to add.
    pub adds: Vec<Add>,
    /// Files to remove.
    pub removes: Vec<Remove>,
    /// Files of changed rows (P130).
    pub cdc: Vec<AddCdcFile>,
    /// Repeats deletions in files whose vectors grew while this transaction lost the race.
    pub row_conflicts: Option<Arc<dyn RowConflictResolver>>,
    /// New metadata.
    pub metadata: Option<Metadata>,
    /// New protocol.
    pub protocol: Option<Protocol>,
    /// Applications' versions.
    pub transactions: Vec<SetTransaction>,
    /// Domains to set, or to remove.
    pub domains: Vec<DomainMetadata>,
    /// What the intent depends on.
    pub read: ReadSet,
    /// Whether it must have seen all changes by other writers to what it read, whatever the table's
    /// isolation level.
    pub is_serializable: bool,
    /// The commit's provenance.
    pub operation: Operation,
    /// Free text of the user.
    pub user_metadata: Option<String>,
    /// Free fields of the user, besides the standard ones.
    pub extra_info: BTreeMap<String, Value>,
    /// The program that writes.
    pub engine_info: String,
    /// Skips the checkpoint that is due after the commit.
    pub skip_checkpoint: bool,
    /// Whether to clean up the log after the commit; by default as the table's properties say.
    pub cleanup: Option<bool>,
    /// Attempts in all; the default bound when absent.
    pub max_attempts: Option<usize>,
    /// Whether the commit follows delta-rs: the user's fields take precedence over the standard
    /// ones, parameters of the user are added to the operation's, and checkpoints are due one
    /// version earlier, since the first commit counts.
    pub as_delta_rs: bool,
}

/// Repeats a transaction's work on files in which other writers deleted more rows meanwhile
/// (row-level concurrency): deleting other rows by vectors, or moving the remaining ones.
pub trait RowConflictResolver: Send + Sync {
    /// Decoded paths of the files.
    fn paths(&self) -> HashSet<String>;

    /// The new actions for the current state of these files.
    ///
    /// # Errors
    /// A conflict kind if another writer deleted or changed one of the rows; errors of the store.
    fn reapply(&self, files: Vec<Add>) -> BoxFuture<'_, Result<ReappliedRows>>;

    /// Whether it can find its rows by their ids after others moved them.
    fn relocates_rows(&self) -> bool {
        false
    }

    /// The new actions for rows that were in the files of these decoded paths and were moved to
    /// some of `to`.
    ///
    /// # Errors
    /// As [`reapply`](Self::reapply).
    fn relocate(&self, from: HashSet<String>, to: Vec<Add>) -> BoxFuture<'_, Result<ReappliedRows>> {
        drop((from, to));
        Box::pin(async {
            Err(Error::internal(
                "moved rows were to be found by a transaction that can't",
            ))
        })
    }
}

/// Actions for files whose vectors grew.
#[derive(Debug, Default)]
pub struct ReappliedRows {
    /// Decoded paths of the files whose earlier actions these replace.
    pub replaced: HashSet<String>,
    /// The current files.
    pub removes: Vec<Remove>,
    /// Files with vectors.
    pub adds: Vec<Add>,
}

impl Staged {
    pub(crate) fn intent(&self, base: Option<&Snapshot>) -> Result<Intent> {
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
            marked: self.row_conflicts.as_ref().map(|m| m.paths()).unwrap_or_default(),
            relocates_rows: self.row_conflicts.as_ref().is_some_and(|m| m.relocates_rows()),
            metadata: self.metadata.is_some(),
            protocol: self.protocol.is_some(),
            isolation: self.isolation(base.map(|b| b.state().metadata())),
            backfill: self.is_backfill(),
        })
    }

    fn is_backfill(&self) -> bool {
        row_tracking::only_numbers_files(&self.operation.name)
    }

    pub(crate) fn isolation(&self, table: Option<&Metadata>) -> Isolation {
        if self.is_serializable {
            return Isolation::Serializable;
        }
        let other_actions = self.metadata.is_some()
            || self.protocol.is_some()
            || !self.transactions.is_empty()
            || !self.domains.is_empty();
        let moves_rows = self.adds.iter().map(|a| a.data_change);
        let changes_rows = moves_rows.chain(self.removes.iter().map(|r| r.data_change)).any(|c| c);
        let level = table.and_then(|m| m.configuration.get(ISOLATION_LEVEL));
        Isolation::of(level.map(String::as_str), other_actions || changes_rows)
    }

    fn is_blind_append(&self) -> bool {
        // As in delta-spark, also for a commit without files.
        self.removes.is_empty() && matches!(self.read, ReadSet::Nothing) && !self.is_backfill()
    }

    /// The same transaction with its deletions repeated in these files.
    pub(crate) async fn with_reapplied_rows(&self, files: Vec<Add>) -> Result<Self> {
        let Some(conflicts) = &self.row_conflicts else {
            return Ok(self.clone());
        };
        self.with(conflicts.reapply(files).await?)
    }

    /// The same transaction with its deletions repeated in the files to which winners moved the
    /// rows.
    pub(crate) async fn with_relocated_rows(&self, from: HashSet<String>, to: Vec<Add>) -> Result<Self> {
        match &self.row_conflicts {
            Some(conflicts) => self.with(conflicts.relocate(from, to).await?),
            None => Ok(self.clone()),
        }
    }

    fn with(&self, new: ReappliedRows) -> Result<Self> {
        let stays = |path: &str| paths::decode(path).is_ok_and(|p| !new.replaced.contains(&p));
        let mut staged = self.clone();
        staged.removes.retain(|r| stays(&r.path));
        staged.adds.retain(|a| stays(&a.path));
        staged.removes.extend(new.removes);
        staged.adds.extend(new.adds);
        Ok(staged)
    }

    /// Refuses an intent that is invalid on every base (P025, P074, P100).
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

    /// Refuses a commit that what decides the table's commits doesn't take, or doesn't permit
    /// (P158).
    fn check_authority(&self, store: &Store, base: Option<&Snapshot>) -> Result<()> {
        let protocol = self.protocol.as_ref().or(base.map(|b| b.state().protocol()));
        if let Some(protocol) = protocol {
            committer::authority(store).check_commit(protocol)?;
        }
        let mut file_actions = self
            .adds
            .iter()
            .map(|a| a.data_change)
            .chain(self.removes.iter().map(|r| r.data_change));
        let moves_rows = !self.adds.is_empty() && !self.removes.is_empty() && !file_actions.any(|changes| changes);
        match moves_rows {
            true => committer::check_permitted(store, Maintenance::Optimize),
            false => Ok(()),
        }
    }

    /// As `check`, and checks the base's files: their meaning must not change.
    pub(crate) async fn check_all(&self, store: &Store, base: Option<&Snapshot>) -> Result<()> {
        self.check(base)?;
        self.check_authority(store, base)?;
        match base {
            Some(base) => check_kept(base, self.metadata.as_ref(), &self.adds, &self.removes).await,
            None => Ok(()),
        }
    }

    /// The intent with the state of its files that winners left.
    pub(crate) fn rebased(&self, rebase: &Rebase) -> Staged {
        Staged {
            adds: rebase.adds(&self.adds).collect(),
            removes: rebase.removes(&self.removes).collect(),
            ..self.clone()
        }
    }

    /// The actions of the commit on this base (P071: provenance first).
    fn finish(&self, base: Option<Base<'_>>, rebase: &Rebase, txn_id: &str, as_of: AsOf) -> Result<Vec<Action>> {
        let mut info = self.commit_info(base, txn_id, as_of);
        if rebase.tracking_began {
            row_tracking::lost_ids(&mut info);
        }
        let info = Action::CommitInfo(info);
        let actions = std::iter::once(info)
            .chain(self.protocol.clone().map(Action::Protocol))
            .chain(self.metadata.clone().map(Action::Metadata))
            .chain(self.transactions.iter().cloned().map(Action::Txn))
            .chain(self.domains.iter().cloned().map(Action::DomainMetadata))
            .chain(rebase.removes(&self.removes).map(Action::Remove))
            .chain(rebase.adds(&self.adds).map(Action::Add))
            .chain(self.cdc.iter().cloned().map(Action::Cdc))
            .collect();
        features::finish(base, as_of.now_ms, actions)
    }

    /// The actions of the commit on this base, after reading the needed facts of it.
    pub(crate) async fn actions(
        &self,
        base: Option<&Snapshot>,
        rebase: &Rebase,
        txn_id: &str,
        as_of: AsOf,
    ) -> Result<Vec<Action>> {
        let facts = match base {
            Some(b) => self.facts(b).await?,
            None => Facts::default(),
        };
        self.finish(base.map(|b| facts.base(b)), rebase, txn_id, as_of)
    }

    /// Reads the facts of the base that features need.
    pub(super) async fn facts(&self, base: &Snapshot) -> Result<Facts> {
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
        let keeps_files = match row_tracking::begins(state.metadata(), metadata) {
            true => first_kept(base, &self.removes, &[]).await?.is_some(),
            false => true,
        };
        Ok(Facts {
            time_ms,
            domains,
            keeps_files,
        })
    }

    fn commit_info(&self, base: Option<Base<'_>>, txn_id: &str, as_of: AsOf) -> CommitInfo {
        let mut info: CommitInfo = self.extra_info.clone().into_iter().collect();
        info.insert("timestamp".into(), json!(as_of.now_ms));
        info.insert("operation".into(), json!(self.operation.name));
        info.insert("operationParameters".into(), json!(self.operation.parameters));
        info.insert("operationMetrics".into(), json!(self.operation.metrics));
        info.insert(
            "isolationLevel".into(),
            json!(self.isolation(base.map(|b| b.metadata)).as_str()),
        );
        info.insert("isBlindAppend".into(), json!(self.is_blind_append()));
        info.insert("engineInfo".into(), json!(self.engine_info));
        info.insert("txnId".into(), json!(txn_id));
        if let Some(version) = as_of.read_version {
            info.insert("readVersion".into(), json!(version));
        }
        if let Some(text) = &self.user_metadata {
            info.insert("userMetadata".into(), json!(text));
        }
        if self.as_delta_rs {
            self.keep_extra_info(&mut info);
        }
        let metadata = self.metadata.as_ref().or(base.map(|b| b.metadata));
        if metadata.is_some_and(hides_values) {
            hide_values(&mut info);
        }
        info
    }

    /// Writes the user's fields over the standard ones, and the user's parameters beside the
    /// operation's, as texts.
    fn keep_extra_info(&self, info: &mut CommitInfo) {
        const PARAMETERS: &str = "operationParameters";
        for (key, value) in self.extra_info.iter().filter(|(key, _)| *key != PARAMETERS) {
            info.insert(key.clone(), value.clone());
        }
        let Some(Value::Object(added)) = self.extra_info.get(PARAMETERS) else {
            return;
        };
        let mut parameters = self.operation.parameters.clone();
        for (key, value) in added {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            parameters.entry(key.clone()).or_insert(json!(text));
        }
        info.insert(PARAMETERS.into(), json!(parameters));
    }
}

/// When a commit's text was serialized, and on which version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AsOf {
    pub(super) read_version: Option<u64>,
    pub(super) now_ms: i64,
}

impl AsOf {
    pub(crate) fn now(base: Option<&Snapshot>) -> Self {
        AsOf {
            read_version: base.map(Snapshot::version),
            now_ms: now_ms(),
        }
    }
}

/// Facts of a base beyond its protocol and metadata.
#[derive(Default)]
pub(super) struct Facts {
    time_ms: Option<i64>,
    domains: BTreeMap<String, DomainMetadata>,
    keeps_files: bool,
}

impl Facts {
    fn base<'a>(&'a self, snapshot: &'a Snapshot) -> Base<'a> {
        Base {
            version: snapshot.version(),
            time_ms: self.time_ms,
            protocol: snapshot.state().protocol(),
            metadata: snapshot.state().metadata(),
            domains: &self.domains,
            keeps_files: self.keeps_files,
        }
    }
}
