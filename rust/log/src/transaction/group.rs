//! Commits to several tables of one catalog, all or nothing. Each table's commit is serialized for
//! its newest version and staged; the catalog ratifies all of them in one call. After a lost race
//! the conflict rules compare each table's winners with what the transaction read and wrote there,
//! and all commits are made again, because each names the versions of all.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::conflict::{Intent, Isolation, ReadSet};
use deltaplane_protocol::deletion_vectors::Place;
use deltaplane_protocol::paths;
use deltaplane_store::{Store, pause_in_background, run_in_background, with_retry_limit};
use futures::future::{join_all, try_join_all};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use tracing::{debug, warn};

use crate::committer::managed::Managed;
use crate::committer::{self, Buffer, GroupCommitter, GroupDecision, GroupProposal};
use crate::environment::{new_id, sleep_up_to};
use crate::snapshot::noted_read::NotedRead;
use crate::snapshot::settling::Settling;
use crate::transaction::own_commits::{Cached, LaterSnapshot};
use crate::transaction::post_commit::{Ahead, next_checksum};
use crate::transaction::read_set::selection;
use crate::transaction::rebase::{Rebase, rebase_to_newest};
use crate::transaction::settling::{may_settle_together, needs_more, settle};
use crate::transaction::{
    AFTER_COMMIT, Attempted, Committed, DEFAULT_ATTEMPTS, FIRST_REPEAT_MS, PUT_REPEATS, Staged, Won, finish_won,
    is_ours, own_commits, squash, wait,
};
use crate::{Snapshot, now_ms};

/// Names of the RFC for transactions over several tables (delta-io/delta#7437).
const GROUP: &str = "transactionGroup";
const GROUP_TAG: &str = "delta.multiTableTransaction.transactionId";

/// Time for a transaction's caller to continue before the work after the commits takes processors
/// from it: some twenty requests begin at once. A reader that needs the work begins it.
const RETURN: Duration = Duration::from_millis(10);

/// A table of a transaction over several tables.
#[derive(Clone)]
pub struct GroupMember {
    /// The table outside of the transaction.
    pub store: Store,
    /// What the transaction did there.
    pub buffer: Arc<Buffer>,
}

/// A table's commit as part of a transaction over several tables.
pub struct GroupCommitted {
    /// Its version.
    pub version: u64,
    /// Keys of the files that the commit adds, with those of vectors and changes. `None` if one of
    /// them isn't understood.
    pub files: Option<BTreeSet<String>>,
}

/// Why nothing of a transaction over several tables was reported as committed.
#[derive(Debug)]
pub struct GroupFailure {
    /// The error.
    pub error: Error,
    /// Whether the transaction may have been committed nevertheless, or may be later.
    pub is_unclear: bool,
}

impl From<Error> for GroupFailure {
    fn from(error: Error) -> Self {
        GroupFailure {
            error,
            is_unclear: false,
        }
    }
}

/// Commits what a transaction did on these tables, all or nothing. Returns, for each member, its
/// commit if the transaction wrote to it.
///
/// With `is_serializable`, all rows that the transaction read must be the same at the commit, in
/// each of its tables. Otherwise only what its commands read of the tables that they change, by the
/// isolation level of each table.
///
/// # Errors
/// A conflict kind that names the table; `ConcurrentWrite` if every attempt lost.
pub async fn commit_group(
    committer: &dyn GroupCommitter,
    transaction_id: &str,
    members: &[GroupMember],
    is_serializable: bool,
) -> Result<Vec<Option<GroupCommitted>>, GroupFailure> {
    let opened = members.iter().map(|member| Part::open(member, is_serializable));
    let mut parts = try_join_all(opened).await?;
    let most = parts.iter().filter_map(|part| part.staged.as_ref()?.max_attempts).min();
    let most = most.unwrap_or(DEFAULT_ATTEMPTS).max(1);
    if parts.iter().any(|part| !part.base.is_fresh()) {
        try_join_all(parts.iter_mut().map(Part::rebase)).await?;
    }
    for attempt in 1..=most {
        name_group(committer, transaction_id, &mut parts);
        let round = Round::stage(&parts).await?;
        match round.propose(committer, &parts).await? {
            Outcome::Ratified => return Ok(round.finish(parts, attempt).await),
            Outcome::Lost => round.discard(&parts).await,
        }
        wait(attempt).await;
        try_join_all(parts.iter_mut().map(Part::rebase)).await?;
    }
    Err(Error::new(
        Kind::ConcurrentWrite,
        format!("other writers committed first to a table of the transaction in each of {most} attempts: run it again"),
    )
    .into())
}

/// One table on the way to its commit.
struct Part<'a> {
    member: &'a GroupMember,
    managed: Arc<Managed>,
    base: Snapshot,
    /// All commands as one; `None` for a table that was only read.
    staged: Option<Staged>,
    /// What the commit changes.
    intent: Intent,
    /// What was read; completed at the first lost race.
    reads: Vec<Intent>,
    has_noted_reads: bool,
    rebase: Rebase,
}

impl<'a> Part<'a> {
    async fn open(member: &'a GroupMember, is_serializable: bool) -> Result<Self> {
        let opened = Self::load(member, is_serializable).await;
        opened.map_err(|e| e.with_table(member.store.location().as_str()))
    }

    async fn load(member: &'a GroupMember, is_serializable: bool) -> Result<Self> {
        let managed = committer::of(&member.store).ok_or_else(|| {
            Error::internal("a table outside of a catalog came into a transaction; please report this")
        })?;
        let version = member.buffer.base_version();
        let base = match own_commits::at(&member.store, version, &member.store) {
            Some(own) => own,
            None => Snapshot::open(&member.store, Some(version)).await?,
        };
        // Its catalog said so when the transaction began.
        let base = base.newest_until(member.buffer.began_ms());
        let commands = squash::commands_of(&member.buffer)?;
        let staged = match commands.is_empty() {
            true => None,
            false => Some(squash::squash(&commands)?),
        };
        let table = base.state().metadata();
        let read = |staged: &Arc<Staged>| Intent {
            read: staged.read.clone(),
            metadata: staged.metadata.is_some(),
            isolation: match is_serializable {
                true => Isolation::Serializable,
                false => staged.isolation(Some(table)),
            },
            ..Intent::default()
        };
        let own = commands.iter().filter(|s| !matches!(s.read, ReadSet::Nothing));
        let reads = own.map(read).collect();
        let intent = written(staged.as_ref(), &base)?;
        Ok(Part {
            member,
            managed,
            base,
            staged,
            intent,
            reads,
            has_noted_reads: is_serializable && member.buffer.has_reads(),
            rebase: Rebase::default(),
        })
    }

    /// Moves on to the table's newest version, if all commits since are compatible.
    async fn rebase(&mut self) -> Result<()> {
        let location = self.member.store.location().clone();
        self.rebase_checked().await.map_err(|e| e.with_table(location.as_str()))
    }

    async fn rebase_checked(&mut self) -> Result<()> {
        if std::mem::take(&mut self.has_noted_reads) {
            for read in self.member.buffer.reads() {
                let noted = read.downcast::<NotedRead>().map_err(|_| {
                    Error::internal("a transaction noted something else than reads; please report this")
                })?;
                self.reads.push(Intent {
                    read: selection(&noted.snapshot, noted.pruner.clone()).await?,
                    isolation: Isolation::Serializable,
                    ..Intent::default()
                });
            }
        }
        let store = &self.member.store;
        self.base = rebase_to_newest(store, Some(&self.base), &self.intent, &self.reads, &mut self.rebase).await?;
        let Some(mut staged) = self.staged.take() else {
            return Ok(());
        };
        let marked = self.rebase.take_marked();
        if !marked.is_empty() {
            staged = staged.with_reapplied_rows(marked).await?;
        }
        if let Some((from, to)) = self.rebase.take_moved() {
            staged = staged.with_relocated_rows(from, to).await?;
            self.intent = written(Some(&staged), &self.base)?;
        }
        self.staged = Some(staged);
        Ok(())
    }

    /// The commit on this base, as it is proposed.
    async fn attempt(&self, most_inline_bytes: u64) -> Result<Option<Made>> {
        let Some(staged) = &self.staged else { return Ok(None) };
        let store = &self.member.store;
        staged.check_all(store, Some(&self.base)).await?;
        // A transaction id of its own for each attempt: staged files are known by it.
        let txn_id = new_id().to_string();
        let attempted = Attempted::new(staged, Some(&self.base), &self.rebase, &txn_id).await?;
        store.check_text(&paths::commit(attempted.version()), attempted.text.len() as u64)?;
        let proposal = self
            .managed
            .prepared(attempted.commit()?.as_ref(), &attempted.text, most_inline_bytes)
            .await?;
        Ok(Some(Made {
            attempted,
            txn_id,
            proposal: GroupProposal::Commit(Box::new(proposal)),
        }))
    }
}

/// What a commit changes, without what it read.
fn written(staged: Option<&Staged>, base: &Snapshot) -> Result<Intent> {
    match staged {
        Some(staged) => Ok(Intent {
            read: ReadSet::Nothing,
            ..staged.intent(Some(base))?
        }),
        None => Ok(Intent::default()),
    }
}

/// Names the group in each commit. A single commit is an ordinary one.
fn name_group(committer: &dyn GroupCommitter, transaction_id: &str, parts: &mut [Part<'_>]) {
    let writing = parts.iter().enumerate().filter(|(_, part)| part.staged.is_some());
    let participants: Vec<Value> = writing
        .map(
            |(member, part)| json!({"tableId": committer.table_id(member), "proposedVersion": part.base.version() + 1}),
        )
        .collect();
    if participants.len() < 2 {
        return;
    }
    let group = json!({
        "transactionId": transaction_id,
        "participants": participants,
        "coordinatingCatalog": committer.catalog(),
    });
    for staged in parts.iter_mut().filter_map(|part| part.staged.as_mut()) {
        staged.extra_info.insert(GROUP.to_owned(), group.clone());
        let tags = staged.extra_info.entry("tags".to_owned()).or_insert_with(|| json!({}));
        if let Value::Object(tags) = tags {
            tags.insert(GROUP_TAG.to_owned(), json!(transaction_id));
        }
    }
}

/// A serialized commit of one table.
struct Made {
    attempted: Attempted,
    txn_id: String,
    proposal: GroupProposal,
}

/// One attempt of all tables: their commits in the order of the members.
struct Round {
    made: Vec<Option<Made>>,
    group: Vec<GroupProposal>,
    put_ms: i64,
}

enum Outcome {
    Ratified,
    Lost,
}

impl Round {
    async fn stage(parts: &[Part<'_>]) -> Result<Self> {
        let writing = parts.iter().filter(|part| part.staged.is_some()).count() as u64;
        // All inline commits are in one request.
        let inline = |part: &Part<'_>| part.managed.most_inline_bytes() / writing.max(1);
        let staged = join_all(parts.iter().map(|part| async {
            let made = part.attempt(inline(part)).await;
            made.map_err(|e| e.with_table(part.member.store.location().as_str()))
        }))
        .await;
        let mut failed = None;
        let mut made = Vec::with_capacity(parts.len());
        for staged in staged {
            made.push(staged.unwrap_or_else(|e| {
                failed.get_or_insert(e);
                None
            }));
        }
        let group = parts.iter().zip(&made).map(|(part, made)| match made {
            Some(made) => made.proposal.clone(),
            None => GroupProposal::Unchanged(part.base.version()),
        });
        let round = Round {
            group: group.collect(),
            made,
            put_ms: now_ms(),
        };
        match failed {
            None => Ok(round),
            Some(e) => {
                round.discard(parts).await;
                Err(e)
            }
        }
    }

    /// Proposes all commits until the outcome is known: a lost answer is looked up.
    async fn propose(&self, committer: &dyn GroupCommitter, parts: &[Part<'_>]) -> Result<Outcome, GroupFailure> {
        let timeout = parts.iter().map(|part| part.member.store.retry_timeout()).max();
        let timeout_ms = timeout.map_or(0, |t| i64::try_from(t.as_millis()).unwrap_or(i64::MAX));
        let mut unclear = None;
        for repeat in 0..PUT_REPEATS {
            if repeat > 0 {
                sleep_up_to(FIRST_REPEAT_MS << repeat).await;
                if !(0..timeout_ms).contains(&now_ms().saturating_sub(self.put_ms)) {
                    break;
                }
            }
            match committer.propose_all(&self.group).await {
                Ok(GroupDecision::Ratified) => return Ok(Outcome::Ratified),
                Ok(GroupDecision::Taken(tails)) => {
                    for (part, tail) in parts.iter().zip(tails) {
                        part.managed.learn(0, tail).map_err(|error| GroupFailure {
                            error,
                            is_unclear: true,
                        })?;
                    }
                    match self.is_ours(parts).await {
                        Ok(true) => return Ok(Outcome::Ratified),
                        Ok(false) => return Ok(Outcome::Lost),
                        Err(e) => unclear = Some(e),
                    }
                }
                Ok(GroupDecision::PublishFirst { is_unclear }) => {
                    if is_unclear && unclear.is_none() {
                        unclear = Some(Error::new(Kind::StoreUnavailable, "an answer was lost"));
                    }
                    let published = parts.iter().map(|part| async {
                        let published = part.managed.publish(part.base.version()).await?;
                        part.managed.tell_published(published).await
                    });
                    if let Err(error) = try_join_all(published).await {
                        return Err(self.failed(error, unclear.is_some(), parts).await);
                    }
                }
                Ok(GroupDecision::Unknown(e)) => {
                    warn!(error = %e, "the outcome of a transaction is unclear, asking again");
                    unclear = Some(e);
                }
                Err(error) => return Err(self.failed(error, unclear.is_some(), parts).await),
            }
        }
        match unclear {
            Some(e) => Err(GroupFailure {
                error: self.unknown(e, parts),
                is_unclear: true,
            }),
            None => {
                let error = Error::new(
                    Kind::ConcurrentWrite,
                    "the catalog holds too many unpublished commits of the transaction's tables, although they were published: try again",
                );
                Err(self.failed(error, false, parts).await)
            }
        }
    }

    async fn failed(&self, error: Error, is_unclear: bool, parts: &[Part<'_>]) -> GroupFailure {
        if !is_unclear {
            self.discard(parts).await;
        }
        GroupFailure { error, is_unclear }
    }

    /// Whether the commits are there already: one of them means that all are.
    async fn is_ours(&self, parts: &[Part<'_>]) -> Result<bool> {
        for (part, made) in parts.iter().zip(&self.made) {
            let Some(made) = made else { continue };
            let key = paths::commit(part.base.version() + 1);
            match is_ours(&part.member.store, &key, &made.txn_id).await {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                // Not the next version of this table yet, or cleaned up meanwhile.
                Err(e) if e.kind() == Kind::ObjectNotFound && part.managed.latest() <= Some(part.base.version()) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(false)
    }

    /// The error of an outcome that can't be looked up.
    fn unknown(&self, e: Error, parts: &[Part<'_>]) -> Error {
        let mut versions = parts.iter().zip(&self.made).filter_map(|(part, made)| {
            let version = part.base.version() + 1;
            Some((part.member.store.location(), version, &made.as_ref()?.txn_id))
        });
        let Some((location, version, txn_id)) = versions.next() else {
            return e;
        };
        Error::new(
            Kind::StoreUnavailable,
            format!(
                "whether the transaction was committed isn't known, because the catalog stopped answering ({}). Don't run it again before the history of {location} shows version {version}: if that version carries the transaction id {txn_id}, the whole transaction is committed; if it carries another one, nothing of it is",
                e.message()
            ),
        )
        .with_version(version)
        .with_source(e)
    }

    /// Deletes the staged commits, which will never be ratified.
    async fn discard(&self, parts: &[Part<'_>]) {
        let lost = parts.iter().zip(&self.group).map(|(part, proposal)| async move {
            if let GroupProposal::Commit(proposal) = proposal {
                part.managed.lost(proposal).await;
            }
        });
        join_all(lost).await;
    }

    /// Does the work after the commits, which can't fail the transaction: publication, checksums,
    /// checkpoints. It is done in the background, except for a catalog that has to learn of each
    /// publication before the commit returns.
    async fn finish(self, parts: Vec<Part<'_>>, attempt: usize) -> Vec<Option<GroupCommitted>> {
        // First all: a version is read as soon as it is known.
        for (part, proposal) in parts.iter().zip(self.group) {
            if let GroupProposal::Commit(proposal) = proposal {
                part.managed.won(*proposal);
            }
        }
        let is_later = parts.iter().all(|part| may_settle_together(&part.member.store));
        let (mut committed, mut later, mut now) = (Vec::with_capacity(parts.len()), Vec::new(), Vec::new());
        for (part, made) in parts.into_iter().zip(self.made) {
            let (Some(made), Some(staged)) = (made, part.staged) else {
                committed.push(None);
                continue;
            };
            committed.push(Some(GroupCommitted {
                version: made.attempted.version(),
                files: files_of(&staged),
            }));
            let ratified = Ratified {
                store: part.member.store.clone(),
                base: part.base,
                staged,
                made: Arc::new(made.attempted),
                put_ms: self.put_ms,
                attempt,
            };
            match is_later {
                true => later.push(ratified.later()),
                false => now.push(ratified),
            }
        }
        if is_later {
            drop(run_in_background(join_all(
                later.into_iter().map(RatifiedLater::finish),
            )));
        }
        join_all(now.iter().map(Ratified::finish)).await;
        committed
    }
}

/// A table's commit that is ratified, before the work after it.
struct Ratified {
    store: Store,
    base: Snapshot,
    staged: Staged,
    made: Arc<Attempted>,
    put_ms: i64,
    attempt: usize,
}

impl Ratified {
    /// Caches the snapshot after the commit for the next transaction, which may need it before the
    /// work is done.
    fn later(self) -> RatifiedLater {
        let (settled, answer) = oneshot::channel();
        let wanted = Arc::new(Notify::new());
        let asks = Arc::clone(&wanted);
        let (base, made, put_ms) = (self.base.clone(), Arc::clone(&self.made), self.put_ms);
        let make = move || {
            let unread = Snapshot::after_unread(base.store(), Some(&base), made.commit().ok()?).ok()?;
            let unread = unread.own(Some(&base), put_ms);
            let previous = base.known_checksum().map(|sum| sum.as_ref().clone());
            let sum = previous.and_then(|previous| next_checksum(previous, &base, &made.actions));
            sum.into_iter().for_each(|sum| unread.keep_checksum(sum));
            Some(unread.settling(Settling::new(async move {
                asks.notify_one();
                answer.await.ok().flatten()
            })))
        };
        let (snapshot, replaced) = own_commits::keep_later(&self.base, self.made.text.len() as u64, make);
        RatifiedLater {
            snapshot,
            replaced,
            commit: self,
            settled,
            wanted,
        }
    }

    async fn finish(&self) -> Option<Committed> {
        let won = Won {
            base: Some(&self.base),
            made: &self.made,
            ahead: Ahead::begin(Some(&self.base), &self.made.actions),
            put_ms: self.put_ms,
            attempt: self.attempt,
            read: None,
        };
        match finish_won(&self.store, &self.staged, won).await {
            Ok(done) => {
                own_commits::keep(&done);
                Some(done)
            }
            Err(e) => {
                warn!(table = %self.store.location(), error = %e, "the commit is safe, but can't be read back");
                None
            }
        }
    }

    /// After a checkpoint: opens the table from it for the next transaction, with what a commit
    /// needs of it.
    async fn begin_anew(&self, done: &Committed) {
        let opened = async {
            let opened = Snapshot::open(&self.store, Some(done.version)).await?;
            let sum = done.snapshot.known_checksum().cloned();
            sum.into_iter()
                .for_each(|sum| opened.keep_checksum(sum.as_ref().clone()));
            self.staged.facts(&opened).await?;
            Ok::<_, Error>(opened)
        };
        match with_retry_limit(AFTER_COMMIT, opened).await {
            Ok(opened) => own_commits::keep_early(&opened.following(&done.snapshot)),
            Err(e) => debug!(error = %e, "the next transaction opens the table"),
        }
    }
}

/// A ratified commit whose caller doesn't wait for the work after it.
struct RatifiedLater {
    commit: Ratified,
    snapshot: LaterSnapshot,
    /// To free these snapshots takes longer than to replace them.
    replaced: Vec<Cached>,
    settled: oneshot::Sender<Option<Snapshot>>,
    /// Notified when a reader waits for the work, which then begins without the pause.
    wanted: Arc<Notify>,
}

impl RatifiedLater {
    async fn finish(self) {
        tokio::select! {
            () = self.wanted.notified() => {}
            () = pause_in_background(RETURN) => {}
        }
        drop(self.replaced);
        let Ratified { store, base, made, .. } = &self.commit;
        let unread = self.snapshot.get();
        let ahead = match unread {
            Some(unread) if !needs_more(base, unread, &self.commit.staged).await => Ahead::of(unread),
            _ => None,
        };
        if let Some(ahead) = ahead {
            let settled = settle(store, base, made.text.clone(), self.commit.put_ms, ahead).await;
            // Without a receiver nobody waits for it.
            let _ = self.settled.send(settled);
            return;
        }
        let done = self.commit.finish().await;
        let _ = self.settled.send(done.as_ref().map(|done| done.snapshot.clone()));
        if let Some(done) = done.filter(|done| done.begins_anew) {
            self.commit.begin_anew(&done).await;
        }
    }
}

/// Keys of the files that a commit adds.
fn files_of(staged: &Staged) -> Option<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    let adds = staged.adds.iter().map(|add| &add.path);
    for path in adds.chain(staged.cdc.iter().map(|cdc| &cdc.path)) {
        files.insert(paths::decode(path).ok()?);
    }
    for vector in staged.adds.iter().filter_map(|add| add.deletion_vector.as_ref()) {
        if let Place::File { path, .. } = Place::of(vector).ok()? {
            files.insert(path);
        }
    }
    Some(files)
}
