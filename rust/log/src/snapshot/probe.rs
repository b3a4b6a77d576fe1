//! Finds the newest version by probing commit names instead of listing, on stores where a probe is
//! cheap: a writer that knows version n reads n+1, n+2, … until a name is absent.

use std::sync::Arc;

use deltaplane_error::{Kind, Result};
use deltaplane_protocol::paths;
use deltaplane_protocol::segment::LogName;
use deltaplane_store::ProbeResult;

use crate::commit::reader::Commit;
use crate::committer;
use crate::listing::last_checkpoint;
use crate::listing::{list_from, listed, name_of};
use crate::snapshot::Own;
use crate::{Snapshot, now_ms};

/// Most commits that are probed one by one; listing is cheaper beyond this number.
const MOST: usize = 64;
/// A writer that sees at least `MANY_OTHERS` foreign commits within `SHORT_MS` of its own last
/// commit is considered contended.
const MANY_OTHERS: u64 = 3;
const SHORT_MS: i64 = 1000;
/// Own commits larger than this aren't read again to verify that they still exist.
const MOST_OWN_BYTES: u64 = 64 << 10;

fn is_moment(from_ms: i64, to_ms: i64) -> bool {
    (0..SHORT_MS).contains(&to_ms.saturating_sub(from_ms))
}

impl Snapshot {
    /// Whether it saves time to call [`newest_after_own`](Self::newest_after_own) before the newest
    /// version is needed, since it lists an object store and can probably tell the version.
    pub fn can_list_ahead(&self) -> bool {
        !self.store().is_local() && self.is_fresh() && self.commit_in_hand(self.version()).is_some()
    }

    /// Whether an append on this own commit needn't ask for the newest version before: the catalog
    /// answers a lost race with the commits that won, and none was lost lately; and nobody else
    /// commits to a table in a transaction over several tables. After a checkpoint
    /// the process's commits begin at it by themselves; only a tail that is too long asks for one
    /// of another process.
    pub fn asks_by_commit(&self) -> bool {
        let first = self
            .last_own()
            .is_some_and(|own| own.version == self.version() && !own.raced);
        let answers = committer::takes_turns(self.store()) || committer::buffer_of(self.store()).is_some();
        first && self.is_fresh() && !self.has_too_long_tail() && answers
    }

    /// The newest version of the table that this process committed this version to; `None` if only
    /// opening the table again can tell. Names don't identify a table, which may have been deleted
    /// and created again at the same place. The text of the commit does, since no two have the same
    /// transaction id. A catalog knows its tables by their identity.
    pub async fn newest_after_own(&self) -> Result<Option<Self>> {
        if !self.is_fresh() {
            return Ok(None);
        }
        let Some(own) = self.commit_in_hand(self.version()) else {
            return Ok(None);
        };
        if committer::is_managed(self.store()) {
            return match self.update().await {
                // Opening tells whether the name has another table now.
                Err(e) if e.kind() == Kind::TableNotFound => Ok(None),
                newest => newest.map(Some),
            };
        }
        if !self.store().is_local() {
            return self.newest_by_listing().await;
        }
        if own.name.size_bytes > MOST_OWN_BYTES {
            return Ok(None);
        }
        let commit_text = self.store().read_text_if_local(&paths::commit(self.version())).await?;
        match commit_text {
            Some(ProbeResult::Found(_, text)) if own.is_text(&text) => match self.newest_by_name().await? {
                Some(newest) => newest.shortened().await,
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// The newest version by a listing that begins with this version's commit, whose tag identifies
    /// the table; `None` if another object has the commit's name, or stores have no tags.
    async fn newest_by_listing(&self) -> Result<Option<Self>> {
        let listed_ms = now_ms();
        let (names, settled) = futures::join!(list_from(self.store(), self.version()), self.settled());
        let (names, known) = (names?, settled.as_ref().unwrap_or(self));
        let Some(own) = known.commit_in_hand(known.version()).map(|own| &own.name) else {
            return Ok(None);
        };
        let is_own = |name: &LogName| name.name == own.name && listed(name).strong_tag() == listed(own).strong_tag();
        if listed(own).strong_tag().is_none() || !names.iter().any(is_own) {
            return Ok(None);
        }
        let is_newer = |name: &LogName| name.version > self.version();
        let newest = known.updated_by(names.into_iter().filter(is_newer).collect(), None, listed_ms);
        newest.await.map(Some)
    }

    /// The time of this process's last commit behind many foreign commits in a short time, if it
    /// now commits on this version.
    pub(crate) fn crowded_ms(&self, put_ms: i64) -> Option<i64> {
        let own = self.last_own()?;
        let others = self.version().saturating_sub(own.version);
        let crowded = others >= MANY_OTHERS && is_moment(own.put_ms, put_ms);
        crowded.then_some(put_ms).or(own.crowded_ms)
    }

    /// Whether many other writers were committing shortly before this process's last commit.
    pub(crate) fn is_among_many(&self) -> bool {
        let crowded = |own: Own| own.crowded_ms.is_some_and(|since| is_moment(since, own.put_ms));
        self.last_own().is_some_and(crowded)
    }

    /// Starts a long tail from the newer checkpoint that the hint names, with the commits after it
    /// that are in memory; other tails stay. `None` if only a listing can tell.
    async fn shortened(self) -> Result<Option<Self>> {
        if !self.has_long_tail() {
            return Ok(Some(self));
        }
        let from = self.base_checkpoint().map(|(files, _)| files.version);
        match last_checkpoint::read(self.store()).await? {
            Some(hint) if Some(hint) == from && !self.has_too_long_tail() => Ok(Some(self)),
            Some(hint) if Some(hint) > from && hint <= self.version() => self.after_classic(hint).await,
            _ => Ok(None),
        }
    }

    /// The newest version, found by the names of later commits, which must be known to be the
    /// table's; `None` on stores where probing is slow, or if so much is new that a listing is
    /// cheaper.
    pub(crate) async fn newest_by_name(&self) -> Result<Option<Self>> {
        let (asked_ms, mut news) = (now_ms(), Vec::new());
        while news.len() < MOST {
            let key = paths::commit(self.version() + 1 + news.len() as u64);
            let (info, text) = match self.store().read_text_if_local(&key).await? {
                Some(ProbeResult::Found(info, text)) => (info, text),
                Some(ProbeResult::Absent) if news.is_empty() => return Ok(Some(self.clone().newest_until(asked_ms))),
                Some(ProbeResult::Absent) => return Ok(Some(self.extended(news, None)?.newest_until(asked_ms))),
                None => return Ok(None),
            };
            let Some(name) = name_of(info) else { return Ok(None) };
            news.push(Arc::new(Commit::parse(name, text)?));
        }
        Ok(None)
    }
}
