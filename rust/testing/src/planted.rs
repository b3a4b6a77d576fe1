//! Bugs that are planted to see whether the simulation finds them: in a backend that breaks its
//! promises (here), in actors that forget a rule (`actors/wrong`), or in an actor's clock. The
//! product's code stays as it is.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use deltaplane_error::Result;
use deltaplane_store::{Backend, Listing, ObjectInfo, PutOutcome, Sink};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStore;
use object_store::path::Path;

use crate::catalog::Flaw;
use crate::checkpoints::log_file;

/// A planted bug, named after the rule that it violates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A put-if-absent writes over what is there.
    PutOverwrites,
    /// The store says `Created` where the name was taken.
    TakenSaysCreated,
    /// `Exists` after a doubled put is taken for another writer's commit: commits carry no id to
    /// tell.
    CommitsWithoutId,
    /// A writer takes an unclear commit for a failed one and writes again.
    UnclearRepeated,
    /// A writer that lost commits on the newest version without checking the winners.
    WinnersUnchecked,
    /// A writer that lost checks the last of the winners only.
    OneWinnerChecked,
    /// A checkpoint is written from an older snapshot than it says.
    CheckpointStale,
    /// A checkpoint leaves out tombstones that haven't expired: the checkpointer's clock is a month
    /// ahead.
    TombstonesDropped,
    /// The hint moves before its checkpoint is there.
    HintFirst,
    /// A cleaner deletes commits that no checkpoint replaces.
    CommitsCleanedWithoutCheckpoint,
    /// A cleaner deletes what is promised still: its clock is a month ahead.
    CleanedTooEarly,
    /// A reader doesn't notice gaps, on a store whose listings leave commits out.
    GapsAccepted,
    /// Listings leave out the newest commit.
    ListingsLag,
    /// An application's version isn't looked up before it writes.
    ApplicationUnchecked,
    /// A reader takes the hint's version for the newest.
    HintForTruth,
    /// Commits appear in two steps: readers see the first half.
    CommitsTorn,
    /// A writer that slept for days trusts in what it read before: its clock slept, too.
    SleeperTrusted,
    /// A writer that lost marks its rows again on the vector that it read, and forgets the rows of
    /// the winner's.
    WinnersVectorForgotten,
    /// A catalog ratifies a version again.
    CatalogRatifiesTwice,
    /// A catalog's answer is one version behind.
    CatalogTailLags,
    /// A catalog forgets a commit before it is published.
    CatalogForgetsEarly,
    /// A publisher publishes the newest version before the others.
    PublishedOutOfOrder,
    /// A lost answer of the catalog is taken for a refusal.
    UnknownTakenForRefused,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 23] = [
        Bug::PutOverwrites,
        Bug::TakenSaysCreated,
        Bug::CommitsWithoutId,
        Bug::UnclearRepeated,
        Bug::WinnersUnchecked,
        Bug::OneWinnerChecked,
        Bug::CheckpointStale,
        Bug::TombstonesDropped,
        Bug::HintFirst,
        Bug::CommitsCleanedWithoutCheckpoint,
        Bug::CleanedTooEarly,
        Bug::GapsAccepted,
        Bug::ListingsLag,
        Bug::ApplicationUnchecked,
        Bug::HintForTruth,
        Bug::CommitsTorn,
        Bug::SleeperTrusted,
        Bug::WinnersVectorForgotten,
        Bug::CatalogRatifiesTwice,
        Bug::CatalogTailLags,
        Bug::CatalogForgetsEarly,
        Bug::PublishedOutOfOrder,
        Bug::UnknownTakenForRefused,
    ];

    /// The flaw of a catalog that it is, if it is one.
    pub fn flaw_of_catalog(self) -> Option<Flaw> {
        match self {
            Bug::CatalogRatifiesTwice => Some(Flaw::RatifiesTwice),
            Bug::CatalogTailLags => Some(Flaw::TailLags),
            Bug::CatalogForgetsEarly => Some(Flaw::ForgetsEarly),
            _ => None,
        }
    }

    /// Whether only tables of catalogs can have it.
    pub fn is_of_catalogs(self) -> bool {
        let by_actors = matches!(self, Bug::PublishedOutOfOrder | Bug::UnknownTakenForRefused);
        by_actors || self.flaw_of_catalog().is_some()
    }
}

/// A backend that breaks its promises.
pub struct Faulty {
    inner: Arc<dyn Backend>,
    bug: Bug,
}

impl Faulty {
    /// This backend with this bug.
    pub fn new(inner: Arc<dyn Backend>, bug: Bug) -> Self {
        Faulty { inner, bug }
    }

    async fn put_commit(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        match self.bug {
            Bug::PutOverwrites => self.inner.put(key, bytes).await.map(|()| PutOutcome::Created),
            Bug::TakenSaysCreated => {
                let put = self.inner.put_if_absent(key, bytes).await;
                put.map(|_| PutOutcome::Created)
            }
            Bug::CommitsWithoutId => {
                let text = String::from_utf8_lossy(&bytes).replace("\"txnId\"", "\"lostId\"");
                self.inner.put_if_absent(key, Bytes::from(text)).await
            }
            Bug::CommitsTorn => {
                let half = bytes.slice(..bytes.len() / 2);
                let outcome = self.inner.put_if_absent(key, half).await?;
                if outcome == PutOutcome::Created {
                    self.inner.put(key, bytes).await?;
                }
                Ok(outcome)
            }
            _ => self.inner.put_if_absent(key, bytes).await,
        }
    }
}

fn is_commit(key: &str) -> bool {
    matches!(log_file(key), Some((_, "json")))
}

fn is_checkpoint(key: &str) -> bool {
    matches!(log_file(key), Some((_, "checkpoint")))
}

#[async_trait]
impl Backend for Faulty {
    fn local_path(&self, key: &str) -> Option<PathBuf> {
        self.inner.local_path(key)
    }

    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing> {
        let listing = self.inner.list_from(dir, from_name).await?;
        if !matches!(self.bug, Bug::ListingsLag | Bug::GapsAccepted) {
            return Ok(listing);
        }
        let mut all: Vec<ObjectInfo> = listing.try_collect().await?;
        let newest = all.iter().rposition(|o| is_commit(&o.key));
        // Never the very first one: then there would be no table.
        let left_out = match self.bug {
            Bug::ListingsLag => newest.filter(|_| !from_name.is_empty()),
            _ => newest.map(|index| index / 2),
        };
        if let Some(index) = left_out.filter(|index| *index > 0) {
            all.remove(index);
        }
        Ok(stream::iter(all.into_iter().map(Ok)).boxed())
    }

    async fn list_all(&self, dir: &str) -> Result<Listing> {
        self.inner.list_all(dir).await
    }

    async fn read(&self, key: &str) -> Result<Bytes> {
        self.inner.read(key).await
    }

    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        self.inner.read_range(key, range).await
    }

    async fn read_part(&self, object: &ObjectInfo, range: Range<u64>) -> Result<Bytes> {
        self.inner.read_part(object, range).await
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        self.inner.head(key).await
    }

    async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        self.inner.put(key, bytes).await
    }

    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        match is_commit(key) {
            true => self.put_commit(key, bytes).await,
            false => self.inner.put_if_absent(key, bytes).await,
        }
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.inner.delete(key).await
    }

    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
        self.inner.object(key)
    }

    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>> {
        let Some((version, _)) = log_file(key).filter(|_| is_checkpoint(key)) else {
            return self.inner.upload(key).await;
        };
        match self.bug {
            Bug::HintFirst => {
                let hint = format!(r#"{{"version":{version},"size":1}}"#);
                self.inner.put("_delta_log/_last_checkpoint", Bytes::from(hint)).await?;
                self.inner.upload(key).await
            }
            Bug::CheckpointStale => {
                let newer = key.replace(&format!("{version:020}"), &format!("{:020}", version + 1));
                let next = format!("_delta_log/{:020}.json", version + 1);
                match self.inner.head(&next).await {
                    Ok(_) => self.inner.upload(&newer).await,
                    Err(_) => self.inner.upload(key).await,
                }
            }
            _ => self.inner.upload(key).await,
        }
    }
}
