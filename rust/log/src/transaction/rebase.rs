//! Rebases a commit that lost the race: checks the winning commits against its intent and collects
//! what they did to files that it names. The conflict rules are the protocol's (`conflict`).

use std::collections::{BTreeMap, HashMap, HashSet};

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{Action, Add, Metadata, Protocol, Remove};
use deltaplane_protocol::conflict::{self, Before, Intent, Winner};
use deltaplane_protocol::features::row_tracking;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_store::Store;
use serde_json::Value;

use crate::commit::reader::{Commit, CommitFiles};
use crate::transaction::recent_commits;
use crate::{Snapshot, history};

/// Facts of the winners so far, for the next attempt.
#[derive(Default)]
pub(crate) struct Rebase {
    /// Whether row tracking was enabled meanwhile: the intent's rewritten rows then lack ids.
    pub tracking_began: bool,
    /// Row ids that files of the intent got meanwhile: the first row's id and the version, by
    /// decoded path.
    ids: HashMap<String, (Option<i64>, Option<i64>)>,
    /// Files in which the intent deletes rows by vectors, as winners left them with more rows
    /// deleted, by decoded path.
    marked: BTreeMap<String, Add>,
    /// Decoded paths of files in which the intent deletes rows and whose rows winners moved, and
    /// the files that have the moved rows now.
    moved_from: HashSet<String>,
    moved_to: BTreeMap<String, Add>,
    /// Files that a backfill may not add again, since winners added or removed them.
    touched: HashSet<String>,
}

impl Rebase {
    /// The current state of files in which the intent must repeat its deletions, since winners
    /// deleted rows too.
    pub(crate) fn take_marked(&mut self) -> Vec<Add> {
        std::mem::take(&mut self.marked).into_values().collect()
    }

    /// Decoded paths of files whose rows winners moved while the intent deletes some, and files
    /// that may have these rows now.
    pub(crate) fn take_moved(&mut self) -> Option<(HashSet<String>, Vec<Add>)> {
        let to = std::mem::take(&mut self.moved_to).into_values().collect();
        let from = std::mem::take(&mut self.moved_from);
        (!from.is_empty()).then_some((from, to))
    }

    /// The intent's removes, with the current state of the files.
    pub(crate) fn removes<'a>(&'a self, removes: &'a [Remove]) -> impl Iterator<Item = Remove> + 'a {
        removes.iter().map(|r| {
            let mut r = r.clone();
            self.give_ids(&r.path, &mut r.base_row_id, &mut r.default_row_commit_version);
            r
        })
    }

    /// The intent's adds, with the current state of the files.
    pub(crate) fn adds<'a>(&'a self, adds: &'a [Add]) -> impl Iterator<Item = Add> + 'a {
        let left = |a: &&Add| self.touched.is_empty() || !self.touched.contains(&decoded(&a.path));
        adds.iter().filter(left).map(|a| {
            let mut a = a.clone();
            self.give_ids(&a.path, &mut a.base_row_id, &mut a.default_row_commit_version);
            a
        })
    }

    fn give_ids(&self, path: &str, id: &mut Option<i64>, version: &mut Option<i64>) {
        if self.ids.is_empty() || id.is_some() {
            return;
        }
        if let Some((new, since)) = self.ids.get(&decoded(path)) {
            *id = *new;
            *version = version.or(*since);
        }
    }

    /// Rule 5: a winner's row ids apply to the files that the intent names; a backfill skips files
    /// that others touched.
    fn learn(&mut self, intent: &Intent, winner: &Winner<'_>) -> Result<()> {
        let adds = FileRows::new(winner.adds);
        for row in 0..winner.adds.num_rows() {
            let path = paths::decode(adds.path(row)?)?;
            if intent.backfill {
                self.touched.insert(path);
            } else if intent.marked.contains(&path) {
                self.marked.insert(path, adds.add(row)?);
            } else if intent.removed.contains(&path) {
                self.ids
                    .insert(path, (adds.base_row_id(row), adds.default_row_commit_version(row)));
            }
        }
        if intent.backfill {
            let removes = FileRows::new(winner.removes);
            for row in 0..winner.removes.num_rows() {
                self.touched.insert(paths::decode(removes.path(row)?)?);
            }
        }
        match intent.relocates_rows {
            true => self.learn_moves(intent, winner),
            false => Ok(()),
        }
    }

    /// Records whether a winner moved rows that the intent deletes, or that an earlier winner
    /// moved.
    fn learn_moves(&mut self, intent: &Intent, winner: &Winner<'_>) -> Result<()> {
        let (adds, removes) = (FileRows::new(winner.adds), FileRows::new(winner.removes));
        let mut added = HashMap::new();
        for row in 0..winner.adds.num_rows() {
            added.insert(paths::decode(adds.path(row)?)?, row);
        }
        let mut moves = false;
        for row in 0..winner.removes.num_rows() {
            let path = paths::decode(removes.path(row)?)?;
            let was_moved = self.moved_to.contains_key(&path);
            if let (true, Some(added_row)) = (was_moved, added.get(&path)) {
                self.moved_to.insert(path, adds.add(*added_row)?);
            } else if was_moved && removes.data_change(row) {
                let what = format!("removed `{path}`, to which rows of this transaction had been moved,");
                return Err(conflict::lost(Kind::ConcurrentDeleteDelete, winner, &what));
            } else if was_moved || (intent.marked.contains(&path) && !added.contains_key(&path)) {
                moves = true;
                self.marked.remove(&path);
                if self.moved_to.remove(&path).is_none() {
                    self.moved_from.insert(path);
                }
            }
        }
        for (path, row) in added.into_iter().filter(|(_, row)| moves && !adds.data_change(*row)) {
            self.moved_to.insert(path, adds.add(row)?);
        }
        Ok(())
    }
}

/// Decodes a path of the intent, which was decoded without an error when it was staged.
fn decoded(path: &str) -> String {
    paths::decode(path).unwrap_or_else(|_| path.to_owned())
}

/// The newest version, if the intent and these reads are compatible with all commits since `base`.
///
/// Errors: a conflict kind, naming the winning commit.
pub(crate) async fn rebase_to_newest(
    store: &Store,
    base: Option<&Snapshot>,
    intent: &Intent,
    reads: &[Intent],
    rebase: &mut Rebase,
) -> Result<Snapshot> {
    let newest = match base {
        Some(b) => newest_after(b).await?,
        None => Snapshot::open(store, None).await?,
    };
    rebase_to(newest, base, intent, reads, rebase).await
}

/// As [`rebase_to_newest`], to a version that is known.
pub(crate) async fn rebase_to(
    newest: Snapshot,
    base: Option<&Snapshot>,
    intent: &Intent,
    reads: &[Intent],
    rebase: &mut Rebase,
) -> Result<Snapshot> {
    let seen = base.map(Snapshot::version);
    let commits = match newest
        .commits_in_hand_after(seen)
        .or_else(|| recent_commits::since(&newest, seen))
    {
        Some(commits) => commits,
        None => newest.commits_after(seen).await?,
    };
    let mut next = seen.map_or(0, |v| v + 1);
    let mut before = base.map(|b| Before {
        protocol: b.state().protocol(),
        metadata: b.state().metadata(),
    });
    for c in &commits {
        before = judge(intent, reads, before, c, rebase)?;
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
    let tracks = |s: &Snapshot| row_tracking::is_on(s.state().metadata());
    rebase.tracking_began |= base.is_some_and(|b| !tracks(b)) && tracks(&newest);
    Ok(newest)
}

async fn newest_after(base: &Snapshot) -> Result<Snapshot> {
    // If no commit is found by name after a lost race, the file system's answer was stale.
    if base.is_fresh()
        && !base.has_too_long_tail()
        && let Some(newest) = base.newest_by_name().await?
        && newest.version() > base.version()
    {
        return Ok(newest);
    }
    base.update().await
}

/// Checks one winner; returns the table after it if the intent is compatible.
fn judge<'a>(
    intent: &Intent,
    reads: &[Intent],
    before: Option<Before<'a>>,
    c: &'a Commit,
    rebase: &mut Rebase,
) -> Result<Option<Before<'a>>> {
    let looks_at_files = intent.looks_at_files() || reads.iter().any(Intent::looks_at_files);
    let files = match looks_at_files {
        true => c.files()?,
        false => CommitFiles::none()?,
    };
    let (mut domains, mut app_ids) = (Vec::new(), Vec::new());
    let (mut protocol, mut metadata): (Option<&Protocol>, Option<&Metadata>) = (None, None);
    let info = c.info()?;
    for action in &c.state {
        match action {
            Action::DomainMetadata(d) => domains.push(d.domain.as_str()),
            Action::Txn(t) => app_ids.push(t.app_id.as_str()),
            Action::Protocol(p) => protocol = Some(p),
            Action::Metadata(m) => metadata = Some(m),
            Action::CommitInfo(_) | Action::Add(_) | Action::Remove(_) | Action::Cdc(_) => {}
        }
    }
    let winner = Winner {
        commit: history::as_other(c, &info),
        protocol,
        metadata,
        app_ids: &app_ids,
        domains: &domains,
        adds: &files.adds,
        removes: &files.removes,
        blind_append: info.get("isBlindAppend").and_then(Value::as_bool).unwrap_or_default(),
    };
    conflict::check(intent, before, &winner)?;
    reads
        .iter()
        .try_for_each(|read| conflict::check(read, before, &winner))?;
    rebase.learn(intent, &winner)?;
    Ok(before.map(|b| Before {
        protocol: protocol.unwrap_or(b.protocol),
        metadata: metadata.unwrap_or(b.metadata),
    }))
}
