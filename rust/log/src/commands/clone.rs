//! CLONE: a table with another one's files (P078, P022), referenced in place or copied. Cloning
//! again over a clone only adds what is new. Knows no rows.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{Add, DeletionVector, Protocol, Remove, claimed_sum};
use deltaplane_protocol::conflict::ReadSet;
use deltaplane_protocol::deletion_vectors::Place;
use deltaplane_protocol::features::catalog_managed::{self, Authority};
use deltaplane_protocol::features::{Directives, cloned, needs_domains};
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_store::{Store, handle};
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128;

use crate::committer::authority;
use crate::environment::new_id;
use crate::listing::is_missing_place;
use crate::progress::Tell;
use crate::transaction::dry_run::dry_run;
use crate::transaction::{Operation, Staged, commit};
use crate::write::request::CommitRequest;
use crate::{PlanColumns, Snapshot, now_ms};

/// Files that are copied concurrently.
const COPIES: usize = 8;
/// Bytes of a file that are read at once for copying.
const CHUNK: u64 = 8 << 20;

/// Arguments of CLONE.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CloneRequest {
    /// Names the source's files instead of copying them.
    pub shallow: bool,
    /// Whether an existing table becomes the clone; otherwise it is an error.
    pub replace: bool,
    /// Properties in addition to the source's.
    pub properties: BTreeMap<String, String>,
    /// The source's name in a catalog, for the history; without it the history has the location.
    pub source_name: Option<String>,
    /// Whether it is a dry run: no file is copied, and nothing is committed.
    pub dry_run: bool,
    /// Settings of the commit.
    pub commit: CommitRequest,
}

impl CloneRequest {
    /// The same request where a new table must have these properties.
    #[must_use]
    pub fn requiring(&self, properties: BTreeMap<String, String>) -> Self {
        let mut request = self.clone();
        request.properties.extend(properties);
        request
    }
}

/// The result of a clone.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename = "CommandResult")]
pub struct Cloned {
    /// The new version; absent if the clone equalled the source already, and in a dry run.
    pub version: Option<u64>,
    /// Metrics under delta-spark's names.
    pub metrics: BTreeMap<String, i64>,
}

/// Copies files instead of this process, for example by tasks on other machines: from decoded paths
/// in the source to keys in the clone. Called where blocking is allowed; returns the bytes of each,
/// or nothing to leave the copying to this process.
pub type Copies = Arc<dyn Fn(Vec<(String, String)>) -> Result<Option<Vec<u64>>> + Send + Sync>;

/// The table that is cloned.
pub struct CloneSource<'a> {
    /// Its version.
    pub snapshot: &'a Snapshot,
    /// Parquet files without a log of their own: the snapshot's log only describes them.
    pub parquet: Option<ParquetFiles>,
}

/// Parquet files that a scratch log describes by paths below their own root.
pub struct ParquetFiles {
    /// Their root.
    pub store: Store,
    /// Their name in the history.
    pub name: String,
}

impl CloneSource<'_> {
    /// The store that relative paths of the source's files belong to.
    fn store(&self) -> &Store {
        self.parquet.as_ref().map_or(self.snapshot.store(), |p| &p.store)
    }

    /// Name and version in the history; delta-spark writes -1 for a source without versions.
    fn name_and_version(&self) -> (String, Value) {
        match &self.parquet {
            Some(parquet) => (parquet.name.clone(), json!(-1)),
            None => (
                format!("delta.`{}`", self.snapshot.store().location().to_uri()),
                json!(self.snapshot.version()),
            ),
        }
    }
}

/// Makes the table at `target` a clone of this version of the source. Progress counts the copied
/// bytes. `elsewhere` is asked to copy first.
///
/// # Errors
/// `TableAlreadyExists` unless the table may be replaced, `ConcurrentWrite` if another writer
/// commits to it meanwhile: copied files are then orphans.
pub async fn clone_table(
    source: &CloneSource<'_>,
    target: &Store,
    request: &CloneRequest,
    tell: &Tell,
    elsewhere: Option<Copies>,
) -> Result<Cloned> {
    let done = run(source, target, request, tell, elsewhere).await;
    done.map_err(|e| e.with_table(target.location().as_str()))
}

async fn run(
    from: &CloneSource<'_>,
    target: &Store,
    request: &CloneRequest,
    tell: &Tell,
    elsewhere: Option<Copies>,
) -> Result<Cloned> {
    let source = from.snapshot;
    if from.store().location() == target.location() {
        return Err(Error::invalid_argument(
            "a table can't be cloned onto itself: give another place",
        ));
    }
    let base = match Snapshot::open(target, None).await {
        Ok(_) if !request.replace => {
            return Err(Error::new(
                Kind::TableAlreadyExists,
                "a table is here already: replace it (replace=True), or clone to another place",
            ));
        }
        Ok(base) => Some(base),
        Err(e) if e.kind() == Kind::TableNotFound && !is_missing_place(&e) => None,
        Err(e) => return Err(e),
    };
    let domains = cloned::domains(&domains_of(Some(source)).await?, &domains_of(base.as_ref()).await?)?;
    let mut files = Files::of(from, base.as_ref(), request.shallow).await?;
    for file in &files.new {
        cloned::check_numbered(&domains, file.add.base_row_id, &file.add.path)?;
    }
    let (state, now) = (source.state(), now_ms());
    let replaced = base.as_ref().map(Snapshot::state);
    let (mut properties, mut asked) = (request.properties.clone(), Directives::default());
    let authority = authority(target);
    if authority == Authority::Catalog {
        asked = Directives::take(&mut properties)?;
        catalog_managed::ask(&mut asked, &mut properties);
        if let Some(replaced) = replaced {
            catalog_managed::retain(&replaced.metadata().configuration, &mut properties);
        }
    }
    let metadata = cloned::metadata(
        state.metadata(),
        replaced.map(|r| r.metadata()),
        &properties,
        new_id().to_string(),
        now,
    )?;
    // Parquet files need nothing; the log that describes them has the protocol of new tables.
    let needed = match from.parquet {
        Some(_) => Protocol {
            min_reader_version: 1,
            min_writer_version: 1,
            reader_features: None,
            writer_features: None,
        },
        None => state.protocol().clone(),
    };
    let protocol = cloned::protocol(
        &needed,
        replaced.map(|r| r.protocol()),
        &metadata,
        state.schema(),
        asked,
    )?;
    authority.check_commit(&protocol)?;
    let as_before = replaced.is_some_and(|r| *r.metadata() == metadata && *r.protocol() == protocol);
    if as_before && files.new.is_empty() && files.gone.is_empty() {
        let metrics = files.metrics((0, 0));
        return Ok(Cloned { version: None, metrics });
    }
    let copied = match request.dry_run {
        true => files.wanted(),
        false => files.copy(from.store(), target, tell, elsewhere).await?,
    };
    let metrics = files.metrics(copied);
    let (place, version) = from.name_and_version();
    let name = request.source_name.clone().unwrap_or(place);
    let mut parameters = BTreeMap::from([
        ("source".to_owned(), json!(name)),
        ("sourceVersion".to_owned(), version),
    ]);
    if !request.shallow {
        // delta-spark makes shallow clones only, and its history has no such parameter.
        parameters.insert("isShallow".to_owned(), json!("false"));
    }
    let operation = Operation {
        name: "CLONE".to_owned(),
        parameters,
        metrics: metrics.iter().map(|(k, v)| (k.clone(), json!(v.to_string()))).collect(),
    };
    let staged = Staged {
        adds: files.new.into_iter().map(|f| f.add).collect(),
        removes: files.gone,
        metadata: (!as_before).then_some(metadata),
        protocol: (!as_before).then_some(protocol),
        domains,
        read: ReadSet::Table,
        operation,
        max_attempts: Some(1),
        ..request.commit.staged(now)
    };
    if request.dry_run {
        dry_run(target, base.as_ref(), &staged).await?;
        return Ok(Cloned { version: None, metrics });
    }
    if request.shallow {
        target.trust(from.store())?;
    }
    let done = commit(target, base, &staged).await?;
    Ok(Cloned {
        version: Some(done.version),
        metrics,
    })
}

async fn domains_of(table: Option<&Snapshot>) -> Result<Vec<deltaplane_protocol::actions::DomainMetadata>> {
    match table {
        Some(t) if needs_domains(t.state().protocol()) => t.domains().await,
        _ => Ok(Vec::new()),
    }
}

/// A file as the clone names it, and the copies it needs: from decoded path to key.
struct NewFile {
    add: Add,
    copies: Vec<(String, String)>,
}

/// The files that the clone adds and removes.
#[derive(Default)]
struct Files {
    new: Vec<NewFile>,
    gone: Vec<Remove>,
    count: i64,
    size: i64,
}

impl Files {
    async fn of(source: &CloneSource<'_>, base: Option<&Snapshot>, shallow: bool) -> Result<Self> {
        let mut own = live(base).await?;
        let mut files = Files::default();
        let mut batches = source.snapshot.plan(None, PlanColumns::Logged);
        while let Some(batch) = batches.try_next().await? {
            let rows = FileRows::new(&batch);
            for row in 0..batch.num_rows() {
                let add = rows.add(row)?;
                files.count += 1;
                files.size = claimed_sum([files.size, add.size]);
                let file = match shallow {
                    true => named(source.store(), add)?,
                    false => placed(source.store(), add)?,
                };
                if own.remove(&key(&file.add)?).is_none() {
                    files.new.push(file);
                }
            }
        }
        let now = now_ms();
        files.gone = own.values().map(|add| add.to_remove(now, true)).collect();
        Ok(files)
    }

    /// Copies what is new; returns the numbers of files and bytes.
    async fn copy(&mut self, from: &Store, to: &Store, tell: &Tell, elsewhere: Option<Copies>) -> Result<(i64, i64)> {
        let total = u64::try_from(self.wanted().1).unwrap_or(0);
        // Several deletion vectors share a file.
        let wanted: BTreeMap<String, String> = self.new.iter().flat_map(|f| f.copies.iter().cloned()).collect();
        let wanted: Vec<(String, String)> = wanted.into_iter().collect();
        let sizes = match copied_elsewhere(&wanted, elsewhere).await? {
            Some(sizes) => sizes,
            None => copy_all(from, to, &wanted, &Copying::new(tell, total)).await?,
        };
        let bytes = sizes.iter().map(|s| i64::try_from(*s).unwrap_or(i64::MAX));
        Ok((count(sizes.len()), claimed_sum(bytes)))
    }

    /// The numbers of files and bytes to copy, by the sizes in the log: of a file of vectors only
    /// those of the table.
    fn wanted(&self) -> (i64, i64) {
        let mut wanted: BTreeMap<&String, i64> = BTreeMap::new();
        for file in &self.new {
            let vector = file
                .add
                .deletion_vector
                .as_ref()
                .map_or(0, |v| i64::from(v.size_in_bytes));
            for ((path, _), size) in file.copies.iter().zip([file.add.size, vector]) {
                let known = wanted.entry(path).or_default();
                *known = known.saturating_add(size);
            }
        }
        (count(wanted.len()), claimed_sum(wanted.into_values()))
    }

    fn metrics(&self, (copied, copied_bytes): (i64, i64)) -> BTreeMap<String, i64> {
        let metrics = [
            ("sourceTableSize", self.size),
            ("sourceNumOfFiles", self.count),
            ("numRemovedFiles", count(self.gone.len())),
            ("removedFilesSize", claimed_sum(self.gone.iter().filter_map(|r| r.size))),
            ("numCopiedFiles", copied),
            ("copiedFilesSize", copied_bytes),
        ];
        metrics.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

type Key = (String, Option<String>);

fn key(add: &Add) -> Result<Key> {
    let vector = add.deletion_vector.as_ref().map(DeletionVector::unique_id);
    Ok((paths::decode(&add.path)?, vector))
}

/// The files of the table that becomes the clone.
async fn live(base: Option<&Snapshot>) -> Result<HashMap<Key, Add>> {
    let mut own = HashMap::new();
    let Some(base) = base else { return Ok(own) };
    let mut batches = base.plan(None, PlanColumns::Logged);
    while let Some(batch) = batches.try_next().await? {
        let rows = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            let add = rows.add(row)?;
            own.insert(key(&add)?, add);
        }
    }
    Ok(own)
}

/// The file in place: the source's relative paths become absolute (P022).
fn named(source: &Store, mut add: Add) -> Result<NewFile> {
    let root = hadoop_uri(source);
    if is_relative(source, &add.path)? {
        add.path = format!("{root}/{}", add.path.trim_start_matches("./"));
    }
    if let Some(vector) = &mut add.deletion_vector
        && let Place::File { path, .. } = Place::of(vector)?
        && vector.storage_type == "u"
    {
        vector.path_or_inline_dv = format!("{root}/{}", paths::encode(&path));
        vector.storage_type = "p".to_owned();
    }
    add.data_change = true;
    Ok(NewFile {
        add,
        copies: Vec::new(),
    })
}

/// The root as Hadoop writes it: delta-spark's DELETE compares a clone's paths as text.
fn hadoop_uri(source: &Store) -> String {
    let uri = source.location().to_uri();
    let uri = uri.trim_end_matches('/');
    if let Some(path) = uri.strip_prefix("file://") {
        return format!("file:{path}");
    }
    match uri.strip_prefix("s3://") {
        // Hadoop has no file system for `s3:` by default.
        Some(key) if source.location().is_s3a() => format!("s3a://{key}"),
        _ => uri.to_owned(),
    }
}

fn is_relative(source: &Store, path: &str) -> Result<bool> {
    let decoded = paths::decode(path)?;
    Ok(source.own_key(&decoded)?.is_some_and(|key| key == decoded))
}

/// The file under the same key in the clone; a file outside the source gets a name derived from its
/// path.
fn placed(source: &Store, mut add: Add) -> Result<NewFile> {
    let path = paths::decode(&add.path)?;
    let key = own_name(source, &path)?;
    add.path = paths::encode(&key);
    add.data_change = true;
    let mut copies = vec![(path, key)];
    if let Some(vector) = &add.deletion_vector
        && let Place::File { path, .. } = Place::of(vector)?
    {
        if vector.storage_type != "u" {
            return Err(Error::unsupported_feature(
                "the source names a deletion vector's file elsewhere, as a shallow clone does: purge the source's vectors first (REORG … APPLY (PURGE)), or clone the clone's own source",
            ));
        }
        copies.push((path.clone(), path));
    }
    Ok(NewFile { add, copies })
}

fn own_name(source: &Store, path: &str) -> Result<String> {
    if let Some(key) = source.own_key(path)? {
        return Ok(key);
    }
    let name = path.rsplit('/').next().unwrap_or_default();
    Ok(format!("{:032x}-{name}", xxh3_128(path.as_bytes())))
}

async fn copied_elsewhere(wanted: &[(String, String)], elsewhere: Option<Copies>) -> Result<Option<Vec<u64>>> {
    let Some(copies) = elsewhere.filter(|_| !wanted.is_empty()) else {
        return Ok(None);
    };
    let handed_on = wanted.to_vec();
    let done = handle().spawn_blocking(move || copies(handed_on)).await;
    done.map_err(|e| Error::internal(format!("copying was cut short: {e}")))?
}

/// Copies files from one table to another, from decoded paths to keys; returns the bytes of each.
///
/// # Errors
/// `FileMissing` for a file that was vacuumed; errors of the stores.
pub async fn copy_files(from: &Store, to: &Store, files: &[(String, String)]) -> Result<Vec<u64>> {
    copy_all(from, to, files, &Copying::new(&Tell::default(), 0)).await
}

async fn copy_all(from: &Store, to: &Store, files: &[(String, String)], copying: &Copying<'_>) -> Result<Vec<u64>> {
    let copies = stream::iter(files).map(|(path, key)| copy_file(from, path, to, key, copying));
    copies.buffered(COPIES).try_collect().await
}

/// Progress of all copies, in bytes by the sizes in the log.
struct Copying<'a> {
    tell: &'a Tell,
    done: AtomicU64,
    total: u64,
}

impl<'a> Copying<'a> {
    fn new(tell: &'a Tell, total: u64) -> Self {
        Copying {
            tell,
            done: AtomicU64::new(0),
            total,
        }
    }

    fn more(&self, bytes: u64) -> Result<()> {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        // The log has no size of a file of vectors, only those of the table's vectors in it.
        self.tell.tell("copying", done, Some(self.total.max(done)))
    }
}

/// Copies a file of the source; returns its size in bytes.
async fn copy_file(from: &Store, path: &str, to: &Store, key: &str, copying: &Copying<'_>) -> Result<u64> {
    let (from, source) = from.resolve(path)?;
    let shown = from.head(&source).await.map_err(|e| match e.kind() {
        Kind::ObjectNotFound => {
            Error::file_missing("a file of the source is gone, vacuumed or deleted by hand: clone a newer version")
                .with_path(path.to_owned())
        }
        _ => e,
    })?;
    let mut upload = to.upload(key).await?;
    let mut offset = 0;
    while offset < shown.size_bytes {
        let until = shown.size_bytes.min(offset + CHUNK);
        upload.write(from.read_part(&shown, offset..until).await?).await?;
        copying.more(until - offset)?;
        offset = until;
    }
    upload.finish().await
}
