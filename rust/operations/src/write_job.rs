//! Writes: planned once, on the driver ([`WriteJob`]); their spec travels as it is, so that data
//! files can be made in any process ([`write_files`]); committed on the driver.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::DataType;
use deltaplane_data::{
    ClusteredWriter, Compression, IdentityValues, Order, StatsConfig, WriteSpec, cast_batch, footer_stats,
};
use deltaplane_error::{Error, Kind, Result};
use deltaplane_log::{
    Committed, DryRun, FileTarget, PlannedWrite, Snapshot, TableSchema, WriteMode, WritePlan, WriteRequest, now_ms,
    plan_append_ahead, plan_write_after, plan_write_on,
};
use deltaplane_protocol::actions::{Add, PartitionValues, Protocol};
use deltaplane_protocol::bloom_filters::{self, BloomFilter};
use deltaplane_protocol::deletion_vectors::num_records;
use deltaplane_protocol::features::RowRules;
use deltaplane_protocol::features::identity_columns::{self, Fill};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::paths;
use deltaplane_protocol::schema::StructType;
use deltaplane_protocol::stats_columns::StatsColumns;
use deltaplane_protocol::zorder::Curve;
use deltaplane_store::Store;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::newest_version::NewestVersion;

/// Retries that a write must be allowed to have for a commit on a version that may be old.
const RETRIES: usize = 3;

/// What writers of files must know, in a form that travels to any machine.
#[derive(Serialize, Deserialize)]
#[serde(rename = "WriteSpec")]
pub struct Spec {
    schema: TableSchema,
    partition_columns: Vec<String>,
    mapping: String,
    partition_columns_in_files: bool,
    shred_variants: bool,
    target_file_size_bytes: Option<u64>,
    row_group_rows: Option<usize>,
    compression: Option<String>,
    bloom_filters: Vec<BloomFilter>,
    encodings: BTreeMap<String, String>,
    stats_columns: StatsColumns,
    /// Whether statistics and change files are in delta-rs's form.
    as_delta_rs: bool,
    string_prefix_length: usize,
    identity: Vec<Fill>,
    /// The row rules for the caller that feeds the writer, which evaluates them before it passes
    /// rows on.
    row_rules: RowRules,
    /// Whether the commit declares them, so that they are to be judged themselves.
    declares: bool,
    /// Paths of the columns by which new rows are ordered, from a minimum number of bytes on.
    clustered_by: Vec<Vec<String>>,
    cluster_from_bytes: u64,
}

impl Spec {
    /// For files of this target, whose identity columns are filled and whose rows are restricted
    /// so; `declares` where the commit itself declares them.
    ///
    /// # Errors
    /// `InvalidArgument` for Bloom filters of columns that can't have one.
    pub fn of(target: &FileTarget<'_>, identity: &[Fill], row_rules: &RowRules, declares: bool) -> Result<Self> {
        let (properties, request) = (target.properties, target.request);
        Ok(Spec {
            schema: TableSchema(Arc::clone(target.schema)),
            partition_columns: target.partition_columns.to_vec(),
            mapping: target.mapping.as_str().to_owned(),
            partition_columns_in_files: target.form.partition_columns,
            shred_variants: target.form.typed_variants,
            target_file_size_bytes: request.target_file_size.or(properties.target_file_size_bytes),
            row_group_rows: request.row_group_rows,
            compression: request.compression.clone().or_else(|| properties.compression.clone()),
            bloom_filters: bloom_filters::resolve(
                properties,
                &request.bloom_filters,
                target.schema,
                target.partition_columns,
            )?,
            encodings: request.encodings.clone(),
            stats_columns: StatsColumns::of(properties),
            as_delta_rs: target.as_delta_rs,
            string_prefix_length: properties.string_prefix_length,
            identity: identity.to_vec(),
            row_rules: row_rules.clone(),
            declares,
            clustered_by: Vec::new(),
            cluster_from_bytes: properties.cluster_from_bytes,
        })
    }

    /// For new rows of a table that is clustered by the columns at these paths.
    fn clustered(mut self, by: &[Vec<String>]) -> Self {
        self.clustered_by = by.to_vec();
        self
    }

    /// How new rows are ordered, and from how many bytes on.
    fn order(&self) -> Option<(Order, usize)> {
        let order = Order {
            columns: self.clustered_by.clone(),
            curve: Curve::Hilbert,
        };
        let from = usize::try_from(self.cluster_from_bytes).unwrap_or(usize::MAX);
        (!order.columns.is_empty()).then_some((order, from))
    }

    /// What identity columns of new rows are filled with.
    pub fn fills(&self) -> Vec<Fill> {
        self.identity.clone()
    }

    /// What the writer of files takes; the time of new files is now.
    ///
    /// # Errors
    /// `InvalidArgument` for a codec that files can't have.
    pub fn write_spec(&self) -> Result<WriteSpec> {
        let mut spec = WriteSpec::new(self.schema.0.clone(), self.partition_columns.clone(), now_ms());
        spec.mapping = Mapping::parse(&self.mapping)?;
        spec.partition_columns_in_files = self.partition_columns_in_files;
        spec.shred_variants = self.shred_variants;
        if let Some(n) = self.target_file_size_bytes {
            spec.target_file_size_bytes = n.max(1);
        }
        if let Some(n) = self.row_group_rows {
            spec.row_group_rows = n.max(1);
        }
        if let Some(c) = &self.compression {
            spec.compression = parse_codec(c)?;
        }
        spec.bloom_filters.clone_from(&self.bloom_filters);
        spec.encodings.clone_from(&self.encodings);
        spec.stats = StatsConfig {
            columns: self.stats_columns.clone(),
            string_prefix_length: self.string_prefix_length,
            as_delta_rs: self.as_delta_rs,
        };
        Ok(spec)
    }
}

/// `snappy`, `zstd`, `zstd(3)`, …
fn parse_codec(text: &str) -> Result<Compression> {
    let lower = text.to_lowercase();
    let (name, level) = match lower.split_once('(') {
        Some((n, l)) => (n, l.strip_suffix(')').and_then(|l| l.trim().parse::<i32>().ok())),
        None => (lower.as_str(), None),
    };
    match name.trim() {
        "none" | "uncompressed" => Ok(Compression::Uncompressed),
        "snappy" => Ok(Compression::Snappy),
        "zstd" => Ok(Compression::Zstd(level.unwrap_or(1))),
        "gzip" => Ok(Compression::Gzip),
        "lz4" | "lz4_raw" => Ok(Compression::Lz4Raw),
        _ => Err(Error::invalid_argument(format!(
            "`{text}` isn't a codec for data files: use zstd, snappy, gzip, lz4_raw or uncompressed"
        ))),
    }
}

/// A write that was checked against the table.
pub struct WriteJob {
    plan: WritePlan,
    /// The newest version, which is being asked for, where the plan was made ahead of it.
    newest: Option<NewestVersion>,
    /// The snapshot that it was planned on, where nobody is asked for the newest version: the
    /// commit finds out.
    unasked: Option<Snapshot>,
    /// Whether the plan fits it, once that is known.
    fits: OnceLock<bool>,
}

impl WriteJob {
    /// Checks a write of rows with this schema. `own` is a snapshot that this process has of the
    /// table, which may be old: it saves opening the table.
    ///
    /// # Errors
    /// What [`deltaplane_log::plan_write`] refuses: a schema that doesn't fit, a table that exists
    /// already, a feature that isn't supported.
    pub async fn begin(
        store: &Store,
        own: Option<&Snapshot>,
        schema: StructType,
        request: WriteRequest,
    ) -> Result<Self> {
        let plan = plan_write_after(store, own, schema, request).await?;
        Ok(Self::of(plan, None))
    }

    fn of(plan: WritePlan, newest: Option<NewestVersion>) -> Self {
        WriteJob {
            plan,
            newest,
            unasked: None,
            fits: OnceLock::new(),
        }
    }

    /// As [`begin`](Self::begin), on the answer of `newest`, which was asked for earlier and saves
    /// a listing. The store is asked again if the answer is of no use, or if this process has
    /// committed since, which `own` shows.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub async fn begin_on(
        store: &Store,
        own: Option<&Snapshot>,
        newest: &NewestVersion,
        schema: StructType,
        request: WriteRequest,
    ) -> Result<Self> {
        let follows = |snapshot: &Snapshot| {
            own.is_none_or(|own| {
                own.version() <= snapshot.version() && own.state().metadata().id == snapshot.state().metadata().id
            })
        };
        // A store that failed is asked again, and says why.
        if let Ok(Some(snapshot)) = newest.answer().await
            && follows(&snapshot)
            && let Some(plan) = plan_write_on(&snapshot, schema.clone(), request.clone()).await?
        {
            return Ok(Self::of(plan, None));
        }
        Self::begin(store, own, schema, request).await
    }

    /// As [`begin`](Self::begin), for a caller that can write the rows again: an append to a table
    /// of an object store is planned on `own`, and the newest version is asked for while the files
    /// are written. [`confirm`](Self::confirm) says whether they fit it. Must be called inside a
    /// tokio runtime.
    ///
    /// A catalog that decides the commits isn't asked at all before the commit, unless other
    /// processes were first lately: it answers the commit with what is newer.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub async fn begin_ahead(
        store: &Store,
        own: Option<&Snapshot>,
        schema: StructType,
        request: WriteRequest,
    ) -> Result<Self> {
        let may_lose = request.commit.max_commit_retries.is_none_or(|most| most >= RETRIES);
        if let Some(own) = own
            && let Ok(Some(plan)) = plan_append_ahead(own, schema.clone(), request.clone()).await
        {
            return Ok(match may_lose && own.asks_by_commit() {
                true => WriteJob {
                    unasked: Some(own.clone()),
                    ..Self::of(plan, None)
                },
                false => Self::of(plan, Some(NewestVersion::asked(own))),
            });
        }
        Self::begin(store, own, schema, request).await
    }

    /// Whether files of this job fit the newest version. If not, they are to be deleted, and the
    /// rows to be written again by another job. `has_failed`: the files couldn't be written or
    /// committed, so that the newest version is asked for in any case.
    ///
    /// # Errors
    /// Errors of the store while the newest version was asked for.
    pub async fn confirm(&self, has_failed: bool) -> Result<bool> {
        if let Some(own) = self.unasked.as_ref().filter(|_| has_failed) {
            let newest = own.newest_after_own().await?;
            return Ok(newest.is_some_and(|newest| std::ptr::eq(newest.state(), own.state())));
        }
        let Some(newest) = &self.newest else { return Ok(true) };
        if let Some(fits) = self.fits.get() {
            return Ok(*fits);
        }
        let fits = match newest.answer().await? {
            Some(newest) => self.planned()?.move_to(newest),
            None => false,
        };
        Ok(*self.fits.get_or_init(|| fits))
    }

    /// Why nothing is to be written, if so.
    pub fn skip(&self) -> Option<&'static str> {
        match &self.plan {
            WritePlan::Skip(why) => Some(why),
            WritePlan::Go(_) => None,
        }
    }

    fn planned(&self) -> Result<&PlannedWrite> {
        match &self.plan {
            WritePlan::Go(planned) => Ok(planned),
            WritePlan::Skip(why) => Err(Error::invalid_argument(format!(
                "this write is skipped ({why}): there is nothing to commit"
            ))),
        }
    }

    /// The location of the table's files.
    ///
    /// # Errors
    /// A job that was skipped has no plan.
    pub fn location(&self) -> Result<String> {
        self.planned().map(|planned| planned.location().to_owned())
    }

    /// The table's protocol before and after the commit.
    pub fn protocols(&self) -> Result<(Protocol, Protocol)> {
        Ok(self.planned()?.protocols())
    }

    /// What writers of its files must know.
    pub fn spec(&self) -> Result<Spec> {
        let planned = self.planned()?;
        let (fills, row_rules) = (planned.fills(), planned.row_rules());
        let spec = Spec::of(&planned.target(), fills, row_rules, planned.declares())?;
        let spec = spec.clustered(planned.clustered_by());
        spec.write_spec()?;
        Ok(spec)
    }

    /// The version that it was planned on, if there is a table.
    pub fn version(&self) -> Result<Option<u64>> {
        Ok(self.planned()?.version())
    }

    /// Whether the table's properties ask for rows to be shuffled to files of a good size before
    /// tasks write them.
    pub fn optimizes(&self) -> Result<bool> {
        Ok(self.planned()?.target().properties.optimize_write)
    }

    /// What the commit of these files would be.
    pub async fn dry_run(&self, adds: Vec<Add>) -> Result<DryRun> {
        self.planned()?.dry_run(adds).await
    }

    /// Commits these files. `None` where another writer made the table in the meantime and the mode
    /// is [`WriteMode::Ignore`].
    ///
    /// # Errors
    /// A conflict with another commit, by its kind; the files stay for the caller to delete.
    pub async fn commit(&self, adds: Vec<Add>) -> Result<Option<Committed>> {
        let planned = self.planned()?;
        if !self.confirm(false).await? {
            return Err(Error::new(
                Kind::MetadataChanged,
                "another writer changed the table while the rows were written: nothing was committed; write them again",
            ));
        }
        match planned.commit(adds).await {
            Err(e) if e.kind() == Kind::TableAlreadyExists && planned.request().mode == WriteMode::Ignore => Ok(None),
            committed => committed.map(Some),
        }
    }
}

/// What the commit of a write did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommitResult {
    /// The version that it made.
    pub version: u64,
    /// How often it was tried.
    pub attempts: usize,
    /// Its metrics, under delta-spark's names.
    pub metrics: BTreeMap<String, Value>,
    /// Whether the table's properties ask for work after it: joining small files, or building
    /// indexes of keys.
    pub has_follow_up: bool,
}

impl From<Committed> for CommitResult {
    fn from(committed: Committed) -> Self {
        CommitResult {
            version: committed.version,
            attempts: committed.attempts,
            has_follow_up: committed.snapshot.state().properties().follow_up() != (false, false),
            metrics: committed.metrics,
        }
    }
}

/// The add actions in the column `add` of rows, as JSON texts or their bytes.
///
/// # Errors
/// The first error of the rows; `Internal` for other columns and for a text that is no add action.
pub fn adds_of_rows(rows: impl Iterator<Item = Result<RecordBatch>>) -> Result<Vec<Add>> {
    let mut adds = Vec::new();
    for batch in rows {
        let batch = batch?;
        let wrong = || Error::internal("add actions are in a column add");
        let column = batch.column_by_name("add").ok_or_else(wrong)?;
        let texts = arrow::compute::cast(column, &DataType::Binary).map_err(|_| wrong())?;
        for text in texts.as_binary::<i32>().iter().flatten() {
            let add = serde_json::from_slice(text);
            adds.push(add.map_err(|e| Error::internal(format!("this is no add action: {e}")))?);
        }
    }
    Ok(adds)
}

/// The files that have rows, and the decoded paths of those whose statistics say that they have
/// none.
///
/// # Errors
/// `CorruptLog` for a path that can't be decoded.
pub fn split_empty(adds: &[Add]) -> Result<(Vec<Add>, Vec<String>)> {
    let (empty, files): (Vec<&Add>, Vec<&Add>) = adds.iter().partition(|add| num_records(add).is_ok_and(|n| n == 0));
    let paths = empty
        .iter()
        .map(|add| paths::decode(&add.path))
        .collect::<Result<_>>()?;
    Ok((files.into_iter().cloned().collect(), paths))
}

/// Deletes files by their paths in the log; a file that is gone already is no error.
pub async fn delete_paths<'a>(store: &Store, logged: impl Iterator<Item = &'a str>) -> Result<()> {
    for path in logged {
        store.delete(&paths::decode(path)?).await?;
    }
    Ok(())
}

/// Writes rows to new files of a table, which no reader sees before they are committed; returns
/// their add actions. Each `task` of a job has a number of its own, by which the values of its
/// identity columns differ from those of the others.
///
/// # Errors
/// The first error of the rows, of their cast to the table's types or of the store; the files that
/// were written are deleted.
pub async fn write_files(
    store: Store,
    spec: &Spec,
    rows: impl Iterator<Item = Result<RecordBatch>>,
    task: u32,
) -> Result<Vec<Add>> {
    let mut identity = IdentityValues::new(spec.fills(), task);
    let write_spec = spec.write_spec()?;
    let schema = write_spec.schema.clone();
    if spec.declares {
        // The data has all columns of a table that it makes: GENERATED ALWAYS refuses its values
        // (P109).
        identity_columns::complete(&schema, schema.as_ref().clone())?;
    }
    let mut writer = ClusteredWriter::new(store, write_spec, spec.order())?;
    for batch in rows {
        let written = match batch.and_then(|batch| cast_batch(&identity.fill(batch)?, &schema)) {
            Ok(batch) => writer.write(batch).await,
            Err(e) => Err(e),
        };
        if let Err(e) = written {
            writer.abort().await;
            return Err(e);
        }
    }
    let mut adds = writer.finish().await?;
    identity_columns::stamp(&mut adds, &identity.last()?);
    Ok(adds)
}

/// Files that are read at once: each holds some row groups in memory.
const ADOPTED_AT_ONCE: usize = 8;

/// A Parquet file below the table's root that another engine wrote.
#[derive(Debug, Clone, Default)]
pub struct AdoptedFile {
    /// Its path below the table's root.
    pub path: String,
    /// The partition values of its rows, as the log writes them.
    pub partition_values: PartitionValues,
}

/// Add actions of another engine's files, which are read for exact statistics if `statistics` are
/// wanted.
pub async fn adopt_files(store: &Store, spec: &Spec, files: Vec<AdoptedFile>, statistics: bool) -> Result<Vec<Add>> {
    let spec = &spec.write_spec()?;
    let adopted = stream::iter(files).map(|file| adopt(store, spec, file, statistics));
    adopted.buffered(ADOPTED_AT_ONCE).try_collect().await
}

async fn adopt(store: &Store, spec: &WriteSpec, file: AdoptedFile, statistics: bool) -> Result<Add> {
    let info = store.head(&file.path).await?;
    let stats = match statistics {
        true => Some(footer_stats(store, &file.path, spec).await?.1),
        false => None,
    };
    Ok(Add {
        path: paths::encode(&file.path),
        partition_values: file.partition_values,
        size: i64::try_from(info.size_bytes).unwrap_or(i64::MAX),
        modification_time: info.modified_ms,
        data_change: true,
        stats,
        ..Add::default()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, RecordBatch, StringArray};

    use super::*;
    use crate::scan::{Scan, ScanRequest};
    use crate::testing::{Table, ids, rows};
    use deltaplane_store::block_on;
    use serde_json::json;

    fn append() -> WriteRequest {
        WriteRequest::new(WriteMode::Append)
    }

    #[test]
    fn a_spec_that_travelled_as_text_writes_the_same_rows() {
        let table = Table::new();
        let job = table.job(append());
        let spec: Spec = serde_json::from_str(&serde_json::to_string(&job.spec().unwrap()).unwrap()).unwrap();
        let batches = [Ok(rows(&[1, 2])), Ok(rows(&[3]))];
        let adds = block_on(write_files(table.store.clone(), &spec, batches.into_iter(), 0)).unwrap();
        let texts = adds.iter().map(|add| json!(add).to_string());
        let texts = Arc::new(StringArray::from_iter_values(texts)) as ArrayRef;
        let travelled = RecordBatch::try_from_iter([("add", texts)]).unwrap();
        let adds = adds_of_rows([Ok(travelled)].into_iter()).unwrap();
        let committed = block_on(job.commit(adds)).unwrap().unwrap();
        assert_eq!((committed.version, job.version().unwrap()), (0, None));
        let scan = Scan::new(&committed.snapshot, ScanRequest::default()).unwrap();
        assert_eq!(ids(scan.stream()), [1, 2, 3]);
    }

    #[test]
    fn files_of_rows_that_fail_are_deleted() {
        let table = Table::new();
        table.append(&[1]);
        let before = files(&table);
        let spec = table.job(append()).spec().unwrap();
        let failing = [Ok(rows(&[2])), Err(Error::invalid_argument("the source failed"))];
        let written = block_on(write_files(table.store.clone(), &spec, failing.into_iter(), 0));
        assert!(written.unwrap_err().to_string().contains("the source failed"));
        assert_eq!(files(&table), before);
    }

    #[test]
    fn a_dry_run_names_the_files_and_commits_nothing() {
        let table = Table::new();
        table.append(&[1]);
        let job = table.job(append());
        let store = table.store.dry_run().unwrap();
        let before = files(&table);
        let adds = block_on(write_files(
            store,
            &job.spec().unwrap(),
            [Ok(rows(&[2, 3]))].into_iter(),
            0,
        ))
        .unwrap();
        let dry_run = block_on(job.dry_run(adds)).unwrap();
        assert_eq!(dry_run.metrics["numOutputRows"], "2", "{dry_run:?}");
        assert_eq!((files(&table), table.snapshot().version()), (before, 0));
    }

    #[test]
    fn a_write_to_an_existing_table_is_skipped_in_mode_ignore() {
        let table = Table::new();
        let late = table.job(WriteRequest::new(WriteMode::Ignore));
        assert_eq!(late.skip(), None);
        let spec = late.spec().unwrap();
        let adds = block_on(write_files(table.store.clone(), &spec, [Ok(rows(&[9]))].into_iter(), 0)).unwrap();
        table.append(&[1]);
        assert!(
            block_on(late.commit(adds)).unwrap().is_none(),
            "another writer made the table meanwhile"
        );
        let job = table.job(WriteRequest::new(WriteMode::Ignore));
        assert_eq!(job.skip(), Some("exists"));
        assert_eq!(job.spec().map(drop).unwrap_err().kind(), Kind::InvalidArgument);
        assert_eq!(table.snapshot().version(), 0);
    }

    #[test]
    fn files_that_were_adopted_have_exact_statistics() {
        let table = Table::new();
        let spec = table.job(append()).spec().unwrap();
        let written = block_on(write_files(
            table.store.clone(),
            &spec,
            [Ok(rows(&[5, 7]))].into_iter(),
            0,
        ))
        .unwrap();
        let file = AdoptedFile {
            path: written[0].path.clone(),
            ..AdoptedFile::default()
        };
        let adopt = |statistics| block_on(adopt_files(&table.store, &spec, vec![file.clone()], statistics)).unwrap();
        let stats: serde_json::Value = serde_json::from_str(adopt(true)[0].stats.as_deref().unwrap()).unwrap();
        assert_eq!(
            (
                &stats["numRecords"],
                &stats["minValues"]["id"],
                &stats["maxValues"]["id"]
            ),
            (&json!(2), &json!(5), &json!(7))
        );
        assert_eq!(
            (adopt(false)[0].stats.as_deref(), adopt(false)[0].size),
            (None, written[0].size)
        );
    }

    #[test]
    fn codecs_have_names_and_levels() {
        assert_eq!(parse_codec("ZSTD(3)").unwrap(), Compression::Zstd(3));
        assert_eq!(parse_codec("none").unwrap(), Compression::Uncompressed);
        assert_eq!(parse_codec("lz4").unwrap(), Compression::Lz4Raw);
        assert_eq!(
            parse_codec("brotli").map(drop).unwrap_err().kind(),
            Kind::InvalidArgument
        );
    }

    #[test]
    fn deleting_files_that_are_gone_is_no_error() {
        let table = Table::new();
        let adds = table.append(&[1]);
        let delete = || block_on(delete_paths(&table.store, adds.iter().map(|add| add.path.as_str())));
        delete().unwrap();
        assert_eq!(files(&table), Vec::<String>::new());
        delete().unwrap();
    }

    /// Names of the table's data files.
    fn files(table: &Table) -> Vec<String> {
        let root = table.store.local_path("").unwrap();
        let names = std::fs::read_dir(root)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".parquet")).collect();
        names.sort();
        names
    }
}
