//! RESTORE: a new version with the files, columns and properties of an older one (P078, P200).
//! Memory holds only the files that commits since then touched.

use std::collections::{BTreeMap, HashMap};

use arrow::array::Array;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{Add, DomainMetadata, Remove, claimed_sum};
use deltaplane_protocol::conflict::ReadSet;
use deltaplane_protocol::deletion_vectors::Place;
use deltaplane_protocol::features::{clustering, needs_domains, restored};
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::replay::{self, Replay};
use deltaplane_protocol::schema::StructType;
use deltaplane_store::Store;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::commands::vacuum::unfinished::Unfinished;
use crate::commit::reader;
use crate::commit::reader::FileLines;
use crate::history::commits;
use crate::listing::list_from;
use crate::progress::Tell;
use crate::snapshot::filter;
use crate::transaction::{Operation, Staged, commit};
use crate::write::request::CommitRequest;
use crate::{PlanColumns, Snapshot, now_ms};

/// Files that are checked concurrently: enough to hide a store's latency.
const ASKED_AT_ONCE: usize = 32;
/// Missing files that an error names.
const NAMED: usize = 3;

/// Arguments of RESTORE.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RestoreRequest {
    /// The version; without it, the newest one at `timestamp_ms`.
    pub version: Option<u64>,
    /// A time, ms since the epoch.
    pub timestamp_ms: Option<i64>,
    /// The time as the user wrote it, for the history.
    pub timestamp: Option<String>,
    /// Leaves out missing files.
    pub ignore_missing_files: bool,
    /// Continues although a VACUUM started without recording its end, because its process is known
    /// to be gone.
    pub ignore_unfinished_vacuum: bool,
    /// Whether the protocol may go back too.
    pub protocol_downgrade_allowed: bool,
    /// Only reports what would be done.
    pub dry_run: bool,
    /// Settings of the commit.
    pub commit: CommitRequest,
}

/// The result of a restore.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename = "CommandResult")]
pub struct Restored {
    /// The new version; absent if the table already equals the older version, and in a dry run.
    pub version: Option<u64>,
    /// Metrics under delta-spark's names.
    pub metrics: BTreeMap<String, i64>,
}

/// Makes a new version of the table that equals an older one. Progress counts the returning files
/// that were found.
///
/// # Errors
/// `VersionNotFound` for a missing version, `FileMissing` for files of it that were vacuumed,
/// `ConcurrentWrite` if another writer commits anything meanwhile, or while a VACUUM is deleting:
/// nothing is visible then.
pub async fn restore(store: &Store, request: &RestoreRequest, tell: &Tell) -> Result<Restored> {
    let done = run(store, request, tell).await;
    done.map_err(|e| e.with_table(store.location().as_str()))
}

async fn run(store: &Store, request: &RestoreRequest, tell: &Tell) -> Result<Restored> {
    let now = Snapshot::open(store, None).await?;
    now.state().check_write()?;
    now.state().check_properties()?;
    let then = match request.timestamp_ms {
        Some(ms) => Snapshot::open_at(store, ms).await?,
        None => Snapshot::open(store, request.version).await?,
    };
    let mut files = Files::between(&now, &then, request.ignore_unfinished_vacuum).await?;
    files.check_there(store, request.ignore_missing_files, tell).await?;
    let metrics = files.metrics();
    let staged = stage(&now, &then, request, files, &metrics).await?;
    if request.dry_run || is_nothing(&staged) {
        return Ok(Restored { version: None, metrics });
    }
    let done = commit(store, Some(now), &staged).await;
    let done = done.map_err(|e| match e.kind() {
        Kind::ConcurrentWrite => Error::new(
            Kind::ConcurrentWrite,
            "another writer committed while the table was being restored, which a restore doesn't follow (P078): nothing was changed; restore again",
        ),
        _ => e,
    })?;
    Ok(Restored {
        version: Some(done.version),
        metrics,
    })
}

fn is_nothing(staged: &Staged) -> bool {
    let no_files = staged.adds.is_empty() && staged.removes.is_empty();
    no_files && staged.metadata.is_none() && staged.protocol.is_none() && staged.domains.is_empty()
}

async fn stage(
    now: &Snapshot,
    then: &Snapshot,
    request: &RestoreRequest,
    files: Files,
    metrics: &BTreeMap<String, i64>,
) -> Result<Staged> {
    let metadata = restored::metadata(now.state().view(), then.state().view());
    let schema = StructType::from_json(metadata.schema_string.as_deref().unwrap_or_default())?;
    let (before, older) = (now.state().protocol(), then.state().protocol());
    let protocol = restored::protocol(before, older, &metadata, &schema, request.protocol_downgrade_allowed)?;
    let version = request.timestamp_ms.is_none().then(|| json!(then.version()));
    let parameters = [
        ("version", version.unwrap_or(Value::Null)),
        ("timestamp", json!(request.timestamp)),
    ];
    let metrics = metrics.iter().map(|(k, v)| (k.clone(), json!(v.to_string())));
    Ok(Staged {
        adds: files.back.into_values().collect(),
        removes: files.gone,
        metadata: (metadata != *now.state().metadata()).then_some(metadata),
        protocol: (protocol != *before).then_some(protocol),
        domains: clustered_as(now, then).await?,
        read: ReadSet::Table,
        operation: Operation {
            name: "RESTORE".to_owned(),
            parameters: parameters.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
            metrics: metrics.collect(),
        },
        // Any commit of another writer, such as a VACUUM, may invalidate what was checked.
        max_attempts: Some(1),
        ..request.commit.staged(now_ms())
    })
}

/// Of all domains only clustering goes back, as in delta-spark: high-water marks only rise, and
/// users' domains belong to them.
async fn clustered_as(now: &Snapshot, then: &Snapshot) -> Result<Vec<DomainMetadata>> {
    let columns_of = async |snapshot: &Snapshot| match needs_domains(snapshot.state().protocol()) {
        true => Ok(snapshot
            .domains()
            .await?
            .into_iter()
            .find(|d| d.domain == clustering::DOMAIN)),
        false => Ok::<_, Error>(None),
    };
    let (now, then) = (columns_of(now).await?, columns_of(then).await?);
    Ok(match (now, then) {
        (now, then) if now == then => Vec::new(),
        (_, Some(then)) => vec![then],
        (Some(now), None) => vec![DomainMetadata { removed: true, ..now }],
        (None, None) => Vec::new(),
    })
}

/// A file's identity: decoded path and deletion vector.
type Key = (String, Option<String>);

/// The files in which two versions differ.
#[derive(Default)]
struct Files {
    back: HashMap<Key, Add>,
    gone: Vec<Remove>,
    /// Number and bytes of the older version's files.
    count: i64,
    size: i64,
}

impl Files {
    async fn between(now: &Snapshot, then: &Snapshot, ignore_unfinished_vacuum: bool) -> Result<Self> {
        let mut files = Files::default();
        let (touched, vacuums) = touched(now, then).await?;
        if !ignore_unfinished_vacuum {
            vacuums.check(now_ms())?;
        }
        let mut batches = then.plan(None, PlanColumns::Logged);
        while let Some(batch) = batches.try_next().await? {
            let rows = FileRows::new(&batch);
            files.count += i64::try_from(batch.num_rows()).unwrap_or(i64::MAX);
            files.size = claimed_sum(std::iter::once(files.size).chain((0..batch.num_rows()).map(|r| rows.size(r))));
            each_touched(&touched, &batch, |key, add| {
                files.back.insert(key, add);
            })?;
        }
        let (deleted, mut batches) = (now_ms(), now.plan(None, PlanColumns::Logged));
        while let Some(batch) = batches.try_next().await? {
            each_touched(&touched, &batch, |key, add| {
                if files.back.remove(&key).is_none() {
                    files.gone.push(add.to_remove(deleted, true));
                }
            })?;
        }
        for add in files.back.values_mut() {
            add.data_change = true;
        }
        Ok(files)
    }

    /// Checks that returning files and their deletion vectors exist.
    async fn check_there(&mut self, store: &Store, ignore_missing: bool, tell: &Tell) -> Result<()> {
        let looked = stream::iter(self.back.iter()).map(|(key, add)| async move {
            let there = is_there(store, &key.0).await? && has_vector(store, add).await?;
            Ok::<_, Error>((!there).then(|| key.clone()))
        });
        let mut answers = looked.buffer_unordered(ASKED_AT_ONCE);
        let (mut looked_at, mut missing): (u64, Vec<Key>) = (0, Vec::new());
        while let Some(answer) = answers.try_next().await? {
            missing.extend(answer);
            looked_at += 1;
            tell.tell_at_times("looking for files", looked_at, Some(self.back.len() as u64))?;
        }
        drop(answers);
        if let Some((first, _)) = missing.first()
            && !ignore_missing
        {
            let named: Vec<&str> = missing.iter().take(NAMED).map(|(path, _)| path.as_str()).collect();
            return Err(Error::new(
                Kind::FileMissing,
                format!(
                    "{} files of that version are gone, vacuumed or deleted by hand ({}{}): restore a newer version, or leave them out (ignore_missing_files=True)",
                    missing.len(),
                    named.join(", "),
                    if missing.len() > NAMED { ", …" } else { "" }
                ),
            )
            .with_path(first.clone()));
        }
        for key in &missing {
            if let Some(add) = self.back.remove(key) {
                self.count -= 1;
                self.size = self.size.saturating_sub(add.size);
            }
        }
        Ok(())
    }

    fn metrics(&self) -> BTreeMap<String, i64> {
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let metrics = [
            ("tableSizeAfterRestore", self.size),
            ("numOfFilesAfterRestore", self.count),
            ("numRemovedFiles", count(self.gone.len())),
            ("numRestoredFiles", count(self.back.len())),
            ("removedFilesSize", claimed_sum(self.gone.iter().filter_map(|r| r.size))),
            ("restoredFilesSize", claimed_sum(self.back.values().map(|a| a.size))),
        ];
        metrics.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

/// The files that commits after one version and up to another one touch, and the VACUUMs that
/// started then. An earlier VACUUM deletes no file of the older version: it keeps the files that
/// were live when it started.
async fn touched(now: &Snapshot, then: &Snapshot) -> Result<(Replay, Unfinished)> {
    let mut names = commits(list_from(now.store(), then.version() + 1).await?);
    names.retain(|n| n.version <= now.version());
    if names.len() as u64 != now.version() - then.version() {
        return Err(Error::version_not_found(
            "commits since that version vanished while they were being read: log cleanup removed them; restore a newer version",
        )
        .with_version(then.version()));
    }
    let (mut touched, mut vacuums) = (Replay::new(), Unfinished::default());
    let mut read = reader::stream(now.store(), names, FileLines::Retained);
    while let Some(commit) = read.try_next().await? {
        let files = commit.files()?;
        touched.remember(&files.adds)?;
        touched.remember(&files.removes)?;
        vacuums.see(&commit)?;
    }
    Ok((touched, vacuums))
}

fn each_touched(touched: &Replay, batch: &arrow::array::RecordBatch, mut take: impl FnMut(Key, Add)) -> Result<()> {
    let untouched = touched.checkpoint(batch)?;
    let mask = untouched.iter().map(|u| u.map(|u| !u)).collect();
    let batch = filter(batch, &mask)?;
    let (file_keys, vectors) = replay::keys(&batch)?;
    let rows = FileRows::new(&batch);
    for row in 0..batch.num_rows() {
        let vector = vectors.is_valid(row).then(|| vectors.value(row).to_owned());
        take((file_keys.value(row).to_owned(), vector), rows.add(row)?);
    }
    Ok(())
}

async fn has_vector(store: &Store, add: &Add) -> Result<bool> {
    match add.deletion_vector.as_ref().map(Place::of).transpose()? {
        Some(Place::File { path, .. }) => is_there(store, &path).await,
        _ => Ok(true),
    }
}

/// Whether a file exists, in the table or where its log names it.
async fn is_there(store: &Store, path: &str) -> Result<bool> {
    let (store, key) = store.resolve(path)?;
    match store.head(&key).await {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == Kind::ObjectNotFound => Ok(false),
        Err(e) => Err(e),
    }
}
