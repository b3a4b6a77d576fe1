//! VACUUM: deletes files that no version within the retention needs (P044, P125, P200), found by a
//! listing, an inventory or the log alone. Records its start and end as commits. Knows no rows.

pub(crate) mod candidates;
pub(crate) mod retained;
pub(crate) mod unfinished;

use std::collections::HashSet;
use std::sync::Arc;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::paths;
use deltaplane_store::{ObjectInfo, Store, handle};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::committer::{Maintenance, check_permitted};
use crate::progress::Tell;
use crate::transaction::{Operation, commit};
use crate::write::request::CommitRequest;
use crate::{Snapshot, now_ms};
use candidates::{Expired, Listing, empty_directories, listed, read_note, write_note};
use retained::RetainedFiles;
use unfinished::{END, LONGEST_MS, START, START_VERSION};

/// Files per delete request, on stores with requests for several.
const DELETED_AT_ONCE: usize = 5_000;
/// Files per call of the delegate that deletes instead of the store.
const HANDED_ON_AT_ONCE: usize = 100_000;
/// The unit of retentions.
const HOUR_MS: i64 = 3_600_000;

/// When commits record that a vacuum starts and ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VacuumCommits {
    /// If there are files to delete.
    #[default]
    Deleting,
    /// Always, even if nothing is deleted.
    Always,
    /// Never: a RESTORE then can't know that files are being deleted.
    Never,
}

/// Arguments of VACUUM.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VacuumRequest {
    /// How long files stay after their removal; by default as the table's properties say.
    pub retention_ms: Option<i64>,
    /// Whether a retention below the table's is refused.
    pub enforce_retention: bool,
    /// Examines the files that the log removed instead of listing the directory.
    pub lite: bool,
    /// Versions whose files stay whatever their age.
    pub keep_versions: Vec<u64>,
    /// Only reports the files.
    pub dry_run: bool,
    /// When commits record it.
    pub commits: VacuumCommits,
    /// Settings of the commits.
    pub commit: CommitRequest,
}

/// The deleted files, or those that would be deleted.
#[derive(Debug, Default)]
pub struct Vacuumed {
    /// Keys of the files.
    pub files: Vec<String>,
    /// Their bytes.
    pub size_bytes: u64,
    /// Number of directories that contain them.
    pub directories: usize,
    /// The version of the commit that records the end; absent if nothing was deleted.
    pub version: Option<u64>,
    /// Keys of the directories that had no file before, if the directory was listed.
    pub empty_directories: Vec<String>,
}

/// The same for users: counts, and the keys if they are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VacuumResult {
    /// Number of files.
    pub files: usize,
    /// Their bytes.
    pub size_bytes: u64,
    /// Number of directories that contain them.
    pub directories: usize,
    /// The version of the last commit, if there was one.
    pub version: Option<u64>,
    /// Keys of the files below the table's root, if they are wanted.
    pub paths: Vec<String>,
    /// Keys of the directories that had no file before, if they are wanted.
    pub empty_directories: Vec<String>,
}

impl Vacuumed {
    /// For users; `keys` says whether they want the files' keys.
    pub fn result(self, keys: bool) -> VacuumResult {
        VacuumResult {
            files: self.files.len(),
            size_bytes: self.size_bytes,
            directories: self.directories,
            version: self.version,
            paths: if keys { self.files } else { Vec::new() },
            empty_directories: if keys { self.empty_directories } else { Vec::new() },
        }
    }
}

/// Deletes files by their keys instead of the store, for example by tasks on other machines; called
/// where blocking is allowed. False leaves them to the store.
pub type Deletes = Arc<dyn Fn(Vec<String>) -> Result<bool> + Send + Sync>;

/// Deletes the files that the newest version's retention doesn't protect. `inventory` replaces the
/// listing of the directory; its keys are decoded paths or URIs, and those outside of the table are
/// skipped. `delegate` is called first, and the store deletes only if it returns false. Progress
/// counts files: first those examined, then those deleted.
///
/// # Errors
/// `InvalidArgument` for a retention below the table's, `UnsupportedFeature` for a table that this
/// build may not write (P150), errors of the store: files deleted by then are gone, and calling
/// again continues.
pub async fn vacuum(
    store: &Store,
    request: &VacuumRequest,
    inventory: Option<BoxStream<'static, Result<ObjectInfo>>>,
    delegate: Option<Deletes>,
    tell: &Tell,
) -> Result<Vacuumed> {
    // Deletion is irreversible: nothing is read from a cache.
    let store = match request.dry_run {
        true => store.clone(),
        false => store.without_cache()?,
    };
    let done = run(&store, request, inventory, delegate, tell).await;
    done.map_err(|e| e.with_table(store.location().as_str()))
}

async fn run(
    store: &Store,
    request: &VacuumRequest,
    inventory: Option<BoxStream<'static, Result<ObjectInfo>>>,
    delegate: Option<Deletes>,
    tell: &Tell,
) -> Result<Vacuumed> {
    if !request.dry_run {
        check_permitted(store, Maintenance::Vacuum)?;
    }
    let looks_by_log = request.lite && inventory.is_none();
    let listing = async {
        match request.lite || inventory.is_some() {
            true => None,
            false => Some(Listing::begin(store).await),
        }
    };
    let last = async {
        match looks_by_log {
            true => read_note(store).await,
            false => Ok(None),
        }
    };
    // A file that a commit adds after it was listed is known to the version that is opened later,
    // or is younger than the retention.
    let (base, listing, last) = futures::join!(Snapshot::open(store, None), listing, last);
    let base = base?;
    base.state().check_write()?;
    base.state().check_properties()?;
    let retention_ms = retention(&base, request)?;
    // Without a retention, what was removed in this millisecond goes, too.
    let cutoff_ms = now_ms().saturating_sub(retention_ms) + i64::from(retention_ms == 0);
    let expired = async {
        match looks_by_log {
            true => Expired::of(&base, cutoff_ms, last?).await.map(Some),
            false => Ok(None),
        }
    };
    let (mut retained, expired) = futures::try_join!(RetainedFiles::of(&base, cutoff_ms), expired)?;
    for version in &request.keep_versions {
        retained.version(&Snapshot::open(store, Some(*version)).await?).await?;
    }
    let columns = partition_names(&base);
    let lists = listing.is_some();
    let (objects, looked_until) = match (inventory, listing) {
        (Some(_), _) if request.lite => {
            return Err(Error::invalid_argument(
                "an inventory stands in for listing the directory, which a lite vacuum doesn't: leave one of them out",
            ));
        }
        (Some(inventory), _) => (owned(store, inventory), None),
        (None, Some(listing)) => (listing?.objects(store, &columns).await?, None),
        (None, None) => {
            let expired = expired.ok_or_else(|| Error::internal("expired files weren't looked for"))?;
            let until = expired.looked_until.filter(|_| request.keep_versions.is_empty());
            (stream::iter(expired.files).map(Ok).boxed(), until)
        }
    };
    let mut garbage = Garbage::default();
    // A file that the log removed long ago may have been written just now, in a table that was
    // copied.
    let written_before = if request.lite { i64::MAX } else { cutoff_ms };
    garbage
        .collect(objects, &columns, &mut retained, written_before, tell)
        .await?;
    if lists {
        garbage.empty_directories = empty_directories(store, &columns, cutoff_ms).await?;
    }
    if request.dry_run {
        return Ok(garbage.vacuumed(None));
    }
    // Those that deletions leave empty are removed by the next vacuum, unless they are used again.
    if let Err(e) = store.remove_directories(&garbage.empty_directories).await {
        warn!(error = %e, "empty directories can't be removed");
    }
    if garbage.files.is_empty() && request.commits != VacuumCommits::Always {
        return Ok(garbage.vacuumed(None));
    }
    let version = if request.commits == VacuumCommits::Never {
        delete_without_commits(&base, &mut garbage, delegate, tell).await?;
        None
    } else {
        Some(delete(&base, request, &mut garbage, delegate, tell).await?)
    };
    if let Some(until) = looked_until {
        write_note(store, until).await;
    }
    Ok(garbage.vacuumed(version))
}

/// The inventory's files that belong to the table, by their keys.
fn owned(store: &Store, inventory: BoxStream<'static, Result<ObjectInfo>>) -> BoxStream<'static, Result<ObjectInfo>> {
    let store = store.clone();
    let own = move |o: ObjectInfo| Ok(store.own_key(&o.key)?.map(|key| ObjectInfo { key, ..o }));
    inventory.try_filter_map(move |o| std::future::ready(own(o))).boxed()
}

/// How long files stay, in milliseconds.
fn retention(base: &Snapshot, request: &VacuumRequest) -> Result<i64> {
    let promised = base.state().properties().deleted_file_retention_ms;
    let wanted = request.retention_ms.unwrap_or(promised);
    if wanted < 0 {
        return Err(Error::invalid_argument(format!(
            "files can't be kept for {wanted} ms: give a retention of 0 or more"
        )));
    }
    if wanted < promised && request.enforce_retention {
        return Err(Error::invalid_argument(format!(
            "a retention of {} hours is below the table's {} (delta.deletedFileRetentionDuration): versions that can be read now, and files of writers and readers on their way, would be lost (DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT); if nobody else uses the table, turn the check off (enforce_retention_duration=False)",
            hours(wanted),
            hours(promised)
        )));
    }
    Ok(wanted)
}

fn hours(ms: i64) -> String {
    match ms % HOUR_MS {
        0 => (ms / HOUR_MS).to_string(),
        _ => format!("{:.2}", ms as f64 / HOUR_MS as f64),
    }
}

/// The keys of all files that aren't hidden, of a directory that needn't be a table.
pub async fn visible_files(store: &Store, partition_columns: &[String]) -> Result<Vec<String>> {
    let mut objects = listed(store, partition_columns).await?;
    let mut keys = Vec::new();
    while let Some(o) = objects.try_next().await? {
        if !paths::is_hidden(&o.key, partition_columns) {
            keys.push(o.key);
        }
    }
    keys.sort_unstable();
    Ok(keys)
}

/// Names of partition columns in directory names.
pub(crate) fn partition_names(base: &Snapshot) -> Vec<String> {
    let state = base.state();
    let logical = state.partition_columns().iter().map(String::as_str);
    let physical = logical
        .clone()
        .map(|c| state.mapping().partition_key(state.schema(), c));
    logical.chain(physical).map(str::to_owned).collect()
}

/// Files to delete, and directories to remove.
#[derive(Default)]
struct Garbage {
    files: Vec<Doomed>,
    deleted: usize,
    empty_directories: Vec<String>,
}

/// The needed facts of a file to delete.
struct Doomed {
    key: String,
    size_bytes: u64,
}

impl Garbage {
    async fn collect(
        &mut self,
        mut objects: BoxStream<'_, Result<ObjectInfo>>,
        columns: &[String],
        retained: &mut RetainedFiles,
        written_before_ms: i64,
        tell: &Tell,
    ) -> Result<()> {
        let mut looked_at = 0;
        while let Some(o) = objects.try_next().await? {
            looked_at += 1;
            tell.tell_at_times("looking for files", looked_at, None)?;
            if o.modified_ms < written_before_ms && !paths::is_hidden(&o.key, columns) && !retained.has(&o.key) {
                self.files.push(Doomed {
                    key: o.key,
                    size_bytes: o.size_bytes,
                });
            }
        }
        tell.tell("looking for files", looked_at, Some(looked_at))
    }

    fn size_bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, f| sum.saturating_add(f.size_bytes))
    }

    fn directories(&self) -> usize {
        let parents = self
            .files
            .iter()
            .map(|f| f.key.rsplit_once('/').map_or("", |(dir, _)| dir));
        parents.collect::<HashSet<_>>().len()
    }

    fn vacuumed(self, version: Option<u64>) -> Vacuumed {
        Vacuumed {
            size_bytes: self.size_bytes(),
            directories: self.directories(),
            files: self.files.into_iter().map(|f| f.key).collect(),
            version,
            empty_directories: self.empty_directories,
        }
    }

    /// Deletes for at most as long as a command that brings files back waits.
    async fn delete(&mut self, store: &Store, delegate: Option<Deletes>, tell: &Tell) -> Result<()> {
        let all = Some(self.files.len() as u64);
        let (mut deleted, began_ms) = (0, now_ms());
        let at_once = delegate.as_ref().map_or(DELETED_AT_ONCE, |_| HANDED_ON_AT_ONCE);
        for some in self.files.chunks(at_once) {
            if now_ms().saturating_sub(began_ms) > LONGEST_MS {
                return Err(Error::new(
                    Kind::StoreUnavailable,
                    "the vacuum has been deleting for 20 hours and stops here, since a RESTORE waits for no longer: vacuum again, which goes on",
                ));
            }
            let keys: Vec<String> = some.iter().map(|f| f.key.clone()).collect();
            let done = delete_some(store, &keys, delegate.clone()).await;
            deleted += done.as_ref().map_or(0, |()| keys.len());
            self.deleted = deleted;
            done?;
            tell.tell("deleting", deleted as u64, all)?;
        }
        Ok(())
    }
}

async fn delete_some(store: &Store, keys: &[String], delegate: Option<Deletes>) -> Result<()> {
    if let Some(delete) = delegate {
        let handed_on = keys.to_vec();
        let done = handle().spawn_blocking(move || delete(handed_on)).await;
        if done.map_err(|e| Error::internal(format!("deleting was cut short: {e}")))?? {
            return Ok(());
        }
    }
    for some in keys.chunks(DELETED_AT_ONCE) {
        store.delete_all(some).await?;
    }
    Ok(())
}

/// Deletes without a commit.
async fn delete_without_commits(
    base: &Snapshot,
    garbage: &mut Garbage,
    delegate: Option<Deletes>,
    tell: &Tell,
) -> Result<()> {
    let now = Snapshot::open(base.store(), None).await?;
    spare_restored(base, &now, garbage).await?;
    garbage.delete(base.store(), delegate, tell).await?;
    info!(table = %base.store().location(), files = garbage.deleted, "vacuumed, and no commit tells of it");
    Ok(())
}

/// Deletes between two commits that record start and end; returns the version of the second.
async fn delete(
    base: &Snapshot,
    request: &VacuumRequest,
    garbage: &mut Garbage,
    delegate: Option<Deletes>,
    tell: &Tell,
) -> Result<u64> {
    let store = base.store();
    let promised = base.state().properties().deleted_file_retention_ms;
    let mut parameters = vec![
        ("retentionCheckEnabled", json!(request.enforce_retention)),
        ("defaultRetentionMillis", json!(promised)),
    ];
    if let Some(ms) = request.retention_ms {
        parameters.push(("specifiedRetentionMillis", json!(ms)));
    }
    let metrics = vec![
        ("numFilesToDelete", json!(garbage.files.len().to_string())),
        ("sizeOfDataToDelete", json!(garbage.size_bytes().to_string())),
    ];
    let begun = audit(base, request, START, parameters, metrics).await?;
    spare_restored(base, &begun, garbage).await?;
    let deleted = garbage.delete(store, delegate, tell).await;
    let status = if deleted.is_ok() { "COMPLETED" } else { "FAILED" };
    let metrics = vec![
        ("numDeletedFiles", json!(garbage.deleted.to_string())),
        ("numVacuumedDirectories", json!(garbage.directories().to_string())),
    ];
    let without_txn = VacuumRequest {
        commit: CommitRequest {
            txn: Vec::new(),
            commit_info: request
                .commit
                .commit_info
                .clone()
                .into_iter()
                .chain([(START_VERSION.to_owned(), json!(begun.version()))])
                .collect(),
            ..request.commit.clone()
        },
        ..VacuumRequest::default()
    };
    let status = vec![("status", json!(status))];
    let ended = audit(&begun, &without_txn, END, status, metrics).await;
    if let Err(e) = deleted {
        if let Err(unsaid) = ended {
            warn!(error = %unsaid, "the end of a failed vacuum can't be committed");
        }
        return Err(e);
    }
    let ended = ended?;
    info!(table = %store.location(), files = garbage.deleted, version = ended.version(), "vacuumed");
    Ok(ended.version())
}

/// Spares files that another writer restored meanwhile.
async fn spare_restored(base: &Snapshot, begun: &Snapshot, garbage: &mut Garbage) -> Result<()> {
    let mut back = RetainedFiles::default();
    for commit in begun.commits_after(Some(base.version())).await? {
        back.files(base.store(), &commit.files()?.adds)?;
    }
    garbage.files.retain(|f| !back.has(&f.key));
    Ok(())
}

async fn audit(
    base: &Snapshot,
    request: &VacuumRequest,
    name: &str,
    parameters: Vec<(&str, Value)>,
    metrics: Vec<(&str, Value)>,
) -> Result<Snapshot> {
    let named = |pairs: Vec<(&str, Value)>| pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    let mut staged = request.commit.staged(now_ms());
    staged.operation = Operation {
        name: name.to_owned(),
        parameters: named(parameters),
        metrics: named(metrics),
    };
    Ok(commit(base.store(), Some(base.clone()), &staged).await?.snapshot)
}
