//! Commits: one put-if-absent of a file that is a pure function of (base, staged intent). A loser
//! checks the winners' actions, rebases onto the newest version and tries again, a bounded number
//! of times.

pub(crate) mod dry_run;
pub(crate) mod group;
mod hidden_values;
pub mod own_commits;
pub(crate) mod post_commit;
pub(crate) mod read_set;
pub(crate) mod rebase;
pub(crate) mod recent_commits;
pub(crate) mod retained_files;
pub(crate) mod settling;
pub(crate) mod squash;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{
    Action, Add, AddCdcFile, CommitInfo, DomainMetadata, Metadata, Protocol, Remove, SetTransaction, parse_commit,
    write_commit,
};
use deltaplane_protocol::checksum::VersionChecksum;
use deltaplane_protocol::conflict::{ISOLATION_LEVEL, Intent, Isolation, ReadSet};
use deltaplane_protocol::features::attempt::Base;
use deltaplane_protocol::features::row_tracking;
use deltaplane_protocol::{features, paths};
use deltaplane_store::{
    PutDraft, PutOutcome, RunningWork, Store, begin_traced, retry_limit, with_operation, with_retry_limit,
};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::commit::reader::Commit;
use crate::committer::{self, Maintenance, publish_after_commit};
use crate::environment::{new_id, sleep_up_to};
use crate::listing::is_table;
use crate::transaction::retained_files::{check_kept, first_kept};

use crate::transaction::hidden_values::{hide_values, hides_values};
use crate::transaction::post_commit::{Ahead, Hooks, previous_checksum};
use crate::transaction::rebase::{Rebase, rebase_to, rebase_to_newest};
use crate::transaction::settling::{may_settle_later, settle_later};
use crate::{Snapshot, now_ms};

/// Attempts if the caller sets no bound. Each lost attempt means that another writer succeeded, so
/// hundreds of faster writers exhaust it, not bad luck.
const DEFAULT_ATTEMPTS: usize = 1000;
/// Losses in a row before an attempt waits, and the longest wait.
const PATIENT_LOSSES: usize = 3;
const LONGEST_WAIT_MS: u64 = 250;
/// Puts of one commit under one name while its outcome is unclear, and the longest wait before the
/// first repetition, which doubles each time. The store's `retry_timeout` bounds them too.
const PUT_REPEATS: u32 = 8;
const FIRST_REPEAT_MS: u64 = 50;
/// How long a losing commit may reuse its serialized text and the time in it.
const STANDS_MS: i64 = 1000;
/// How long a store may fail while the work after a commit asks it, before that work is left to
/// the next commit: the caller waits for it, and the commit is done.
pub const AFTER_COMMIT: Duration = Duration::from_secs(5);
/// The same for the checksum of the base, which is read while the commit is put.
const BASE_CHECKSUM: Duration = Duration::from_secs(2);

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

/// A commit that is durable.
pub struct Committed {
    /// The table after it.
    pub snapshot: Snapshot,
    /// Whether newer versions should be opened from the checkpoint that was written of this one.
    pub begins_anew: bool,
    /// Its version.
    pub version: u64,
    /// Number of attempted puts.
    pub attempts: usize,
    /// Metrics of the operation, as in the commit.
    pub metrics: BTreeMap<String, Value>,
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
    read_version: Option<u64>,
    now_ms: i64,
}

impl AsOf {
    pub(crate) fn now(base: Option<&Snapshot>) -> Self {
        AsOf {
            read_version: base.map(Snapshot::version),
            now_ms: now_ms(),
        }
    }
}

/// A serialized commit, for the next name if this one was taken.
struct Attempted {
    as_of: AsOf,
    base: Option<Snapshot>,
    actions: Vec<Action>,
    text: Bytes,
    /// As a reader sees it, from the first use on.
    parsed: OnceLock<Arc<Commit>>,
}

impl Attempted {
    async fn new(staged: &Staged, base: Option<&Snapshot>, rebase: &Rebase, txn_id: &str) -> Result<Self> {
        Self::made(staged, base, rebase, txn_id, AsOf::now(base)).await
    }

    async fn made(
        staged: &Staged,
        base: Option<&Snapshot>,
        rebase: &Rebase,
        txn_id: &str,
        as_of: AsOf,
    ) -> Result<Self> {
        let actions = staged.actions(base, rebase, txn_id, as_of).await?;
        Ok(Attempted {
            as_of,
            base: base.cloned(),
            text: Bytes::from(write_commit(&actions)?),
            actions,
            parsed: OnceLock::new(),
        })
    }

    fn version(&self) -> u64 {
        self.base.as_ref().map_or(0, |base| base.version() + 1)
    }

    /// The commit as a reader sees it.
    fn commit(&self) -> Result<Arc<Commit>> {
        if let Some(parsed) = self.parsed.get() {
            return Ok(Arc::clone(parsed));
        }
        let parsed = Arc::new(Commit::own(self.version(), self.text.clone())?);
        Ok(Arc::clone(self.parsed.get_or_init(|| parsed)))
    }

    /// Rebases this attempt. Returns it unchanged if the serialized commit is identical, so that
    /// the uploaded bytes can be reused.
    async fn rebase(self, staged: &Staged, base: Option<&Snapshot>, rebase: &Rebase, txn_id: &str) -> Result<Self> {
        let is_young = (0..STANDS_MS).contains(&now_ms().saturating_sub(self.as_of.now_ms));
        let same_table = match (&self.base, base) {
            (Some(old), Some(new)) => std::ptr::eq(old.state(), new.state()),
            _ => false,
        };
        if is_young && same_table {
            let made = Self::made(staged, base, rebase, txn_id, self.as_of).await?;
            if made.text == self.text {
                return Ok(made);
            }
        }
        Self::new(staged, base, rebase, txn_id).await
    }
}

/// Facts of a base beyond its protocol and metadata.
#[derive(Default)]
struct Facts {
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

/// Commits to a table, or creates one when `base` is `None`.
///
/// Errors: a conflict kind if another writer's commit conflicts with this one; `ConcurrentWrite` if
/// every attempt lost. After an error nothing is visible, but data files stay.
pub async fn commit(store: &Store, base: Option<Snapshot>, staged: &Staged) -> Result<Committed> {
    let mut traced = begin_traced("commit", || {
        vec![
            ("operation", staged.operation.name.clone()),
            ("table", store.location().uri_text()),
        ]
    });
    let id = RunningWork::id(traced.as_ref());
    let done = with_operation(id, attempt_until_done(store, base, staged, traced.as_mut())).await;
    if let Some(traced) = &mut traced {
        match &done {
            Ok(done) => traced.add("version", done.version),
            Err(e) => traced.add("error", format!("{:?}", e.kind())),
        }
    }
    if let Ok(done) = &done
        && committer::buffer_of(store).is_none()
    {
        own_commits::keep(done);
        shorten(store, done).await;
    }
    done.map_err(|e| e.with_table(store.location().as_str()))
}

async fn attempt_until_done(
    store: &Store,
    mut base: Option<Snapshot>,
    staged: &Staged,
    mut traced: Option<&mut RunningWork>,
) -> Result<Committed> {
    let (mut intent, mut rebase) = (staged.intent(base.as_ref())?, Rebase::default());
    let mut staged = Cow::Borrowed(staged);
    let txn_id = new_id().to_string();
    let most = staged.max_attempts.unwrap_or(DEFAULT_ATTEMPTS).max(1);
    let (mut attempt, mut attempted, mut draft) = (1, None::<Attempted>, PutDraft::default());
    while attempt <= most {
        let turn = committer::turn(store).await;
        // The commit before this one left its version: nothing is asked, and no race is lost.
        let before = base.as_ref().filter(|_| turn.is_some());
        if let Some(newest) = before.and_then(own_commits::continued) {
            let newest = rebase_to(newest, base.as_ref(), &intent, &[], &mut rebase).await?;
            base = Some(newest);
            reapply(&mut staged, &mut rebase, &mut intent, base.as_ref()).await?;
        }
        staged.check_all(store, base.as_ref()).await?;
        // Version 0 is also free in a table whose first commits were cleaned up.
        let free = base.is_some() || !is_table(store).await?;
        let made = match attempted.take() {
            Some(before) => before.rebase(&staged, base.as_ref(), &rebase, &txn_id).await?,
            None => Attempted::new(&staged, base.as_ref(), &rebase, &txn_id).await?,
        };
        if free && base.as_ref().is_none_or(Snapshot::is_fresh) {
            let (put_ms, text) = (now_ms(), made.text.clone());
            if let (Some(buffer), Some(base)) = (committer::buffer_of(store), &base) {
                squash::offer(&buffer, &txn_id, base, rebase.applied(&staged))?;
            }
            let ahead = Ahead::begin(base.as_ref(), &made.actions);
            let previous = async {
                match ahead {
                    None => with_retry_limit(BASE_CHECKSUM, previous_checksum(base.as_ref())).await,
                    Some(_) => None,
                }
            };
            let (put, previous) =
                futures::join!(put(store, base.as_ref(), text.clone(), &txn_id, &mut draft), previous);
            let put = put.inspect_err(|_| withdraw(store, &txn_id))?;
            if put == Put::Won {
                let read = pass_on(turn, base.as_ref(), &made, (put_ms, attempt));
                let ahead = ahead.or_else(|| Ahead::after(previous?, base.as_ref(), &made.actions));
                let won = Won {
                    base: base.as_ref(),
                    made: &made,
                    ahead,
                    put_ms,
                    attempt,
                    read,
                };
                return finish_won(store, &staged, won).await;
            }
            drop(turn);
            withdraw(store, &txn_id);
            if let Some(traced) = &mut traced {
                traced.add_time("lost");
            }
            wait(attempt).await;
            attempt += 1;
        }
        attempted = Some(made);
        base = Some(rebase_to_newest(store, base.as_ref(), &intent, &[], &mut rebase).await?);
        reapply(&mut staged, &mut rebase, &mut intent, base.as_ref()).await?;
    }
    Err(Error::new(
        Kind::ConcurrentWrite,
        format!("other writers committed first in each of {most} attempts: try again, or raise max_commit_retries"),
    ))
}

/// After a checkpoint: has the commits that this process made meanwhile begin at the checkpoint, so
/// that not each of its next commits opens the table again.
async fn shorten(store: &Store, done: &Committed) {
    if !done.begins_anew || own_commits::newer(&done.snapshot).is_none() {
        return;
    }
    let Some(_turn) = committer::turn(store).await else {
        return;
    };
    let opened = with_retry_limit(AFTER_COMMIT, Snapshot::open(store, None)).await;
    if let Some(last) = own_commits::newer(&done.snapshot)
        && let Ok(opened) = opened
    {
        own_commits::keep_early(&opened.following(&last));
    }
}

/// Repeats the transaction's work on rows of files that winners changed.
async fn reapply(
    staged: &mut Cow<'_, Staged>,
    rebase: &mut Rebase,
    intent: &mut Intent,
    base: Option<&Snapshot>,
) -> Result<()> {
    let marked = rebase.take_marked();
    if !marked.is_empty() {
        *staged = Cow::Owned(staged.with_reapplied_rows(marked).await?);
    }
    if let Some((from, to)) = rebase.take_moved() {
        *staged = Cow::Owned(staged.with_relocated_rows(from, to).await?);
        *intent = staged.intent(base)?;
    }
    Ok(())
}

/// Ends the turn of a commit that won: leaves its version to the next commit of this process.
fn pass_on(
    turn: Option<committer::Turn>,
    base: Option<&Snapshot>,
    made: &Attempted,
    (put_ms, attempt): (i64, usize),
) -> Option<Snapshot> {
    let (turn, base) = (turn?, base?);
    let own = Snapshot::after_unread(base.store(), Some(base), made.commit().ok()?).ok()?;
    let own = own.own(Some(base), put_ms).contended(turn.waited, attempt > 1);
    own_commits::keep_early(&own);
    recent_commits::keep(&own);
    Some(own)
}

/// In a transaction over several tables: the command's proposal wasn't taken.
fn withdraw(store: &Store, txn_id: &str) {
    if let Some(buffer) = committer::buffer_of(store) {
        buffer.withdraw(txn_id);
    }
}

/// A commit that is durable, before the work after it.
struct Won<'a> {
    base: Option<&'a Snapshot>,
    made: &'a Attempted,
    /// The checksum, if it was begun.
    ahead: Option<Ahead>,
    put_ms: i64,
    attempt: usize,
    /// The snapshot after it, if it is known already.
    read: Option<Snapshot>,
}

/// Does the work after a commit that is durable.
async fn finish_won(store: &Store, staged: &Staged, won: Won<'_>) -> Result<Committed> {
    let Won {
        base,
        made,
        put_ms,
        attempt,
        read,
        ..
    } = won;
    let (version, text, mut ahead) = (base.map_or(0, |b| b.version() + 1), made.text.clone(), won.ahead);
    if committer::buffer_of(store).is_some() {
        // Nothing of it is in the table before the transaction over several tables commits.
        let (snapshot, _) = reload(store, base, version, text)
            .await
            .map_err(|e| unread(version, e))?;
        return Ok(committed(staged, snapshot.own(base, put_ms), attempt, false));
    }
    if may_settle_later(store)
        && let (Some(base), Some(begun)) = (base, ahead.take())
    {
        match settle_later(store, base, staged, made, put_ms, begun).await {
            Ok(snapshot) => {
                log_commit(&snapshot, attempt);
                return Ok(committed(staged, snapshot, attempt, false));
            }
            Err(begun) => ahead = Some(begun),
        }
    }
    let sum = async {
        match ahead {
            Some(ahead) => Some(ahead.put(store, version).await),
            None => None,
        }
    };
    let after = async {
        let publishing = publish_after_commit(store, version);
        let reloaded = async {
            match read {
                Some(own) if !own.has_too_long_tail() => Ok((own, true)),
                _ => {
                    let (snapshot, answered) = reload(store, base, version, text).await?;
                    Ok((snapshot.own(base, put_ms), answered))
                }
            }
        };
        let (reloaded, sum, ()) = futures::join!(reloaded, sum, publishing);
        let (snapshot, answered) = reloaded.map_err(|e| unread(version, e))?;
        let done = Done { attempt, answered };
        Ok(after_commit(base, staged, &made.actions, sum, snapshot, done).await)
    };
    with_retry_limit(AFTER_COMMIT, after).await
}

async fn after_commit(
    base: Option<&Snapshot>,
    staged: &Staged,
    actions: &[Action],
    checksum: Option<VersionChecksum>,
    snapshot: Snapshot,
    done: Done,
) -> Committed {
    log_commit(&snapshot, done.attempt);
    let hooks = Hooks {
        checkpoint: !staged.skip_checkpoint,
        cleanup: staged.cleanup,
        among_many: snapshot.is_among_many(),
        one_earlier: staged.as_delta_rs,
    };
    let checkpointed = match done.answered {
        true => post_commit::run(base, &snapshot, actions, checksum, hooks).await,
        // The store failed: the next commit does this work.
        false => {
            checksum.into_iter().for_each(|sum| snapshot.keep_checksum(sum));
            false
        }
    };
    committed(staged, snapshot, done.attempt, checkpointed)
}

fn log_commit(snapshot: &Snapshot, attempts: usize) {
    info!(table = %snapshot.store().location(), version = snapshot.version(), attempts, "committed");
}

fn committed(staged: &Staged, snapshot: Snapshot, attempts: usize, checkpointed: bool) -> Committed {
    Committed {
        // The next checkpoint of this kind writes only what changed since the previous one.
        begins_anew: checkpointed && snapshot.writes_v2(),
        version: snapshot.version(),
        snapshot,
        attempts,
        metrics: staged.operation.metrics.clone(),
    }
}

/// How a commit went.
struct Done {
    /// The attempt that won.
    attempt: usize,
    /// Whether the store answered after it.
    answered: bool,
}

#[derive(PartialEq, Eq)]
enum Put {
    Won,
    Taken,
}

/// Puts the commit under its version's name. After a failure with an unclear outcome, the same
/// bytes are put under the same name again, which is safe: exactly one put creates the name,
/// whether it is this one or one that arrives late. After `Exists` the transaction id in the
/// existing file decides (P070, P072).
///
/// Errors: `StoreUnavailable` if the outcome is still unclear after the store's `retry_timeout`.
async fn put(store: &Store, base: Option<&Snapshot>, text: Bytes, txn_id: &str, draft: &mut PutDraft) -> Result<Put> {
    let version = base.map_or(0, |b| b.version() + 1);
    let key = paths::commit(version);
    store.check_text(&key, text.len() as u64).map_err(too_large)?;
    let began_ms = now_ms();
    let timeout = store.retry_timeout().min(retry_limit().unwrap_or(Duration::MAX));
    let timeout_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
    let mut last = None;
    for repeat in 0..PUT_REPEATS {
        if repeat > 0 {
            sleep_up_to(FIRST_REPEAT_MS << repeat).await;
            // After a long sleep the name may be free again because log cleanup removed the winner.
            let is_late = !(0..timeout_ms).contains(&now_ms().saturating_sub(began_ms));
            if is_late || !base.is_none_or(Snapshot::is_fresh) {
                break;
            }
        }
        let failure = match store.put_if_absent_again(&key, text.clone(), draft).await {
            Ok(PutOutcome::Created) => return Ok(Put::Won),
            // The store may have repeated a put that had succeeded: check whose commit it is.
            Ok(PutOutcome::Exists) => None,
            Err(e) if e.kind() == Kind::StoreUnavailable => {
                warn!(version, error = %e, "the outcome of a commit is unclear, reading it back");
                Some(e)
            }
            Err(e) => return Err(e),
        };
        match (is_ours(store, &key, txn_id).await, failure) {
            (Ok(true), _) => return Ok(Put::Won),
            (Ok(false), _) => return Ok(Put::Taken),
            // A local disk has no request that arrives late.
            (Err(again), Some(e)) if again.kind() == Kind::ObjectNotFound && store.local_path(&key).is_some() => {
                return Err(e);
            }
            (Err(again), failure) => last = Some(failure.unwrap_or(again)),
        }
    }
    // The store's error without its own advice: trying again could write the rows twice.
    let said = last
        .as_ref()
        .map_or("", |e| e.message().split("; ").next().unwrap_or(""));
    let open = Error::new(
        Kind::StoreUnavailable,
        format!(
            "whether version {version} was committed isn't known, because the store stopped answering while it was put ({said}): it may be there, or still arrive. Don't write the data again before the table's history shows version {version}: if that version carries the transaction id {txn_id}, this commit is in the table; if it carries another one, it is not and never will be"
        ),
    );
    Err(match last {
        Some(e) => open.with_source(e),
        None => open,
    }
    .with_version(version)
    .with_path(key))
}

/// The error for a commit that exceeds the readers' size limit.
fn too_large(e: Error) -> Error {
    Error::invalid_argument(format!(
        "the commit would be too large for its readers, who need the same setting; do the work in parts, each in a commit of its own: {}",
        e.message()
    ))
}

/// Whether the commit under this name has this transaction id.
///
/// Errors: `CorruptFile` if the store returns another length than it lists, so that a truncated
/// body isn't taken for another writer's commit.
async fn is_ours(store: &Store, key: &str, txn_id: &str) -> Result<bool> {
    let bytes = store.read_listed(&store.head(key).await?).await?;
    let text = String::from_utf8_lossy(&bytes);
    // Text that can't be parsed wasn't written by this transaction.
    let actions = parse_commit(&text).unwrap_or_default();
    Ok(actions
        .iter()
        .any(|a| matches!(a, Action::CommitInfo(i) if i.get("txnId").and_then(Value::as_str) == Some(txn_id))))
}

/// The snapshot of a version that this process has just committed. The commit is durable: if the
/// store doesn't answer, which the flag says, the snapshot is made of what was put.
async fn reload(store: &Store, base: Option<&Snapshot>, version: u64, text: Bytes) -> Result<(Snapshot, bool)> {
    let newest = match base {
        Some(b) => b.after_own(text.clone()).await,
        None => Snapshot::open(store, None).await,
    };
    let read = match newest {
        Ok(newest) if newest.version() == version => return Ok((newest, true)),
        Ok(_) => Snapshot::open(store, Some(version)).await,
        Err(e) => Err(e),
    };
    read.map(|snapshot| (snapshot, true)).or_else(|e| {
        warn!(version, error = %e, "the commit is safe, but can't be read back");
        Ok((
            Snapshot::after_unread(store, base, Arc::new(Commit::own(version, text)?))?,
            false,
        ))
    })
}

/// The error for a durable commit that can't be parsed; the caller must know that it succeeded.
fn unread(version: u64, e: Error) -> Error {
    let what = format!("version {version} is committed, but can't be read back ({e}): don't write it again");
    Error::new(Kind::StoreUnavailable, what).with_version(version)
}

async fn wait(attempt: usize) {
    if attempt <= PATIENT_LOSSES {
        return;
    }
    let most = (1u64 << (attempt - PATIENT_LOSSES).min(8)).min(LONGEST_WAIT_MS);
    sleep_up_to(most).await;
}
