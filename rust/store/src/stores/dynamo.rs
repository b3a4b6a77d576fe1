//! Commits on S3 through a DynamoDB table, with the layout of delta-spark's S3DynamoDBLogStore and
//! delta-rs. Owns the order of a commit's steps and their recovery; requests are `dynamo_items`,
//! bytes are `objects`. All other objects go to S3 directly.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use object_store::ObjectStore;
use object_store::path::Path;
use tracing::warn;
use uuid::Uuid;

use super::dynamo_items::{Claim, Entry, Items};
use super::objects::Objects;
use crate::backend::{Backend, LOG_DIR, Level, Listing, ObjectInfo, PutOutcome, Sink, join_key};

/// Digits of a version in a commit's name.
const DIGITS: usize = 20;
/// Attempts to read a commit whose temporary file is gone: the process that removed it has copied
/// it before.
const LOOKS: usize = 2;

/// S3 with a lock table.
pub(super) struct Dynamo {
    pub(super) objects: Objects,
    pub(super) items: Items,
    /// Whether S3 itself supports conditional puts.
    pub(super) conditional: bool,
}

impl Dynamo {
    /// The steps of delta-spark: check that no commit of this name exists and the previous one
    /// does; write the temporary file; write the item; copy; mark as done.
    async fn commit(&self, name: &str, version: u64, bytes: Bytes) -> Result<PutOutcome> {
        let key = join_key(LOG_DIR, name);
        if self.is_there(&key).await? {
            return Ok(PutOutcome::Exists);
        }
        match version.checked_sub(1) {
            Some(previous) => self.require_previous(previous).await?,
            None => self.items.refuse_other_spelling().await?,
        }
        let entry = Entry::new(name, &format!(".tmp/{name}.{}", Uuid::new_v4()));
        let temporary = join_key(LOG_DIR, &entry.temp_path);
        // Written in the same way as the commit will be: a store that doesn't support it fails
        // before anything is decided.
        self.create(&temporary, bytes.clone()).await?;
        match self.items.claim(&entry).await {
            Ok(Claim::Ours) => {}
            Ok(Claim::Theirs(theirs)) => {
                self.forget(&temporary).await;
                return self.lost(&key, theirs).await;
            }
            Err(e) => {
                // While it is unclear whether the item was written, the temporary file may be the
                // only copy of the commit.
                if e.kind() != Kind::StoreUnavailable {
                    self.forget(&temporary).await;
                }
                return Err(e);
            }
        }
        let outcome = self.copy(&key, bytes).await?;
        self.complete(&entry).await;
        Ok(outcome)
    }

    /// Makes sure that the previous commit is visible: recovers it if it is unfinished; without it
    /// the next commit would make a gap.
    async fn require_previous(&self, version: u64) -> Result<()> {
        let name = commit_name(version);
        match self.items.get(&name).await? {
            Some(entry) if !entry.complete => return self.recover(&entry).await,
            Some(_) => {}
            None => self.items.refuse_other_spelling().await?,
        }
        if self.is_there(&join_key(LOG_DIR, &name)).await? {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "the commit before this one, {name}, is not on S3, so that this one would leave a gap; open the table's newest version"
        )))
    }

    /// Another writer has the item of this commit: copies its file to its name, so that callers can
    /// read the winner.
    async fn lost(&self, key: &str, theirs: Entry) -> Result<PutOutcome> {
        if !theirs.complete {
            self.recover(&theirs).await?;
        } else if !self.is_there(key).await? {
            return Err(Error::invalid_argument(format!(
                "the lock table {} still has the completed entry of {} of an earlier table at this place, whose commit is gone; delete that table's entries first",
                self.items.table(),
                theirs.file_name
            )));
        }
        Ok(PutOutcome::Exists)
    }

    /// Copies the file of an unfinished commit, unless another process did, and marks it as done.
    async fn recover(&self, entry: &Entry) -> Result<()> {
        let key = join_key(LOG_DIR, &entry.file_name);
        let temporary = join_key(LOG_DIR, &entry.temp_path);
        for _ in 0..LOOKS {
            if self.is_there(&key).await? {
                self.complete(entry).await;
                return Ok(());
            }
            match self.objects.read(&temporary).await {
                Ok(bytes) => {
                    warn!(commit = %entry.file_name, "finishing a commit that its writer left half done");
                    self.create(&key, bytes).await?;
                    self.complete(entry).await;
                    return Ok(());
                }
                Err(e) if e.kind() == Kind::ObjectNotFound => {}
                Err(e) => return Err(e),
            }
        }
        Err(Error::corrupt_log(format!(
            "the lock table {} says that {} was committed, but neither it nor its temporary file {} is on S3; restore one of them, or delete the entry if the commit may be given up",
            self.items.table(),
            entry.file_name,
            entry.temp_path
        )))
    }

    /// Copies the commit to its own name. The item has decided, so an existing object is either the
    /// same bytes, copied by a reader, or a commit of a writer that ignores the lock table, which
    /// stays.
    async fn copy(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        let open = |e: Error| {
            let what = "the commit's entry is in the lock table, but its copy on S3 failed; it becomes visible when the table is read next";
            Error::new(Kind::StoreUnavailable, format!("{what}: {}", e.message()))
        };
        match self.create(key, bytes.clone()).await.map_err(open)? {
            PutOutcome::Created => Ok(PutOutcome::Created),
            PutOutcome::Exists if self.objects.read(key).await.map_err(open)? == bytes => Ok(PutOutcome::Created),
            PutOutcome::Exists => Ok(PutOutcome::Exists),
        }
    }

    /// Marks a visible commit as done and deletes its temporary file. A failure is harmless: the
    /// next reader or writer repeats it.
    async fn complete(&self, entry: &Entry) {
        match self.items.complete(entry).await {
            Ok(()) => self.forget(&join_key(LOG_DIR, &entry.temp_path)).await,
            Err(e) => warn!(commit = %entry.file_name, error = %e, "a commit couldn't be marked as complete"),
        }
    }

    async fn forget(&self, temporary: &str) {
        if let Err(e) = self.objects.delete(temporary).await {
            warn!(file = temporary, error = %e, "a temporary file stays");
        }
    }

    /// Creates an object unless its name is taken: by S3's conditional put, or by a `head` where S3
    /// has none.
    async fn create(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        if self.conditional {
            return self.objects.put_if_absent(key, bytes).await;
        }
        if self.is_there(key).await? {
            return Ok(PutOutcome::Exists);
        }
        self.objects.put(key, bytes).await?;
        Ok(PutOutcome::Created)
    }

    async fn is_there(&self, key: &str) -> Result<bool> {
        match self.objects.head(key).await {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == Kind::ObjectNotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Whether this call made a commit visible that S3 didn't show because its writer left it
    /// unfinished.
    async fn recovered(&self, key: &str, e: &Error) -> Result<bool> {
        let Some((name, _)) = commit_of(key).filter(|_| e.kind() == Kind::ObjectNotFound) else {
            return Ok(false);
        };
        match self.items.get(name).await? {
            Some(entry) if !entry.complete => self.recover(&entry).await.map(|()| true),
            _ => Ok(false),
        }
    }
}

/// A commit's name and version, for the key of a commit.
fn commit_of(key: &str) -> Option<(&str, u64)> {
    let name = key.strip_prefix(LOG_DIR)?.strip_prefix('/')?;
    let digits = name.strip_suffix(".json")?;
    let plain = digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
    Some((name, digits.parse().ok().filter(|_| plain)?))
}

fn commit_name(version: u64) -> String {
    format!("{version:0DIGITS$}.json")
}

#[async_trait]
impl Backend for Dynamo {
    fn local_path(&self, _: &str) -> Option<PathBuf> {
        None
    }

    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing> {
        if dir.trim_matches('/') == LOG_DIR
            && let Some(newest) = self.items.newest().await?
            && !newest.complete
        {
            self.recover(&newest).await?;
        }
        self.objects.list_from(dir, from_name).await
    }

    async fn list_all(&self, dir: &str) -> Result<Listing> {
        self.objects.list_all(dir).await
    }

    async fn list_level(&self, dir: &str) -> Result<Option<Level>> {
        self.objects.list_level(dir).await
    }

    async fn read(&self, key: &str) -> Result<Bytes> {
        match self.objects.read(key).await {
            Err(e) if self.recovered(key, &e).await? => self.objects.read(key).await,
            read => read,
        }
    }

    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        match self.objects.read_range(key, range.clone()).await {
            Err(e) if self.recovered(key, &e).await? => self.objects.read_range(key, range).await,
            read => read,
        }
    }

    async fn read_part(&self, object: &ObjectInfo, range: Range<u64>) -> Result<Bytes> {
        self.objects.read_part(object, range).await
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        match self.objects.head(key).await {
            Err(e) if self.recovered(key, &e).await? => self.objects.head(key).await,
            head => head,
        }
    }

    async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        self.objects.put(key, bytes).await
    }

    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        match commit_of(key) {
            Some((name, version)) => self.commit(name, version, bytes).await,
            None => self.create(key, bytes).await,
        }
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.objects.delete(key).await
    }

    async fn delete_all(&self, keys: &[String]) -> Result<()> {
        self.objects.delete_all(keys).await
    }

    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
        self.objects.object(key)
    }

    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>> {
        self.objects.upload(key).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commits_ask_the_lock_table() {
        let name = "00000000000000000017.json";
        assert_eq!(commit_of(&format!("_delta_log/{name}")), Some((name, 17)));
        assert_eq!(commit_name(17), name);
        for key in [
            "_delta_log/_last_checkpoint",
            "_delta_log/00000000000000000017.crc",
            "_delta_log/0000000000000000017.json",
            "_delta_log/+0000000000000000017.json",
            "_delta_log/00000000000000000010.checkpoint.x.json",
            "_delta_log/99999999999999999999.json",
            "_delta_log/.tmp/00000000000000000017.json",
            "00000000000000000017.json",
            "a/_delta_log/00000000000000000017.json",
        ] {
            assert_eq!(commit_of(key), None, "{key}");
        }
    }
}
