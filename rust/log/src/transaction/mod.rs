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
mod staged;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{Action, parse_commit, write_commit};
use deltaplane_protocol::checksum::VersionChecksum;
use deltaplane_protocol::conflict::Intent;
use deltaplane_protocol::paths;
use deltaplane_store::{
    PutDraft, PutOutcome, RunningWork, Store, begin_traced, retry_limit, with_operation, with_retry_limit,
};
use serde_json::Value;
use tracing::{info, warn};

use crate::commit::reader::Commit;
use crate::committer::{self, publish_after_commit};
use crate::environment::{new_id, sleep_up_to};
use crate::listing::is_table;
use crate::transaction::post_commit::{Ahead, Hooks, previous_checksum};
use crate::transaction::rebase::{Rebase, rebase_to, rebase_to_newest};
use crate::transaction::settling::{may_settle_later, settle_later};
pub(crate) use crate::transaction::staged::AsOf;
pub use crate::transaction::staged::{Operation, ReappliedRows, RowConflictResolver, Staged};
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
                squash::offer(&buffer, &txn_id, base, staged.rebased(&rebase))?;
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
