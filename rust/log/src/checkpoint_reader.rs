//! Reading checkpoints: classic, multi-part and V2 with sidecars (P050–P057). Opening reads footers
//! only; state actions come from their few non-null rows, file actions are streamed.

use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray};
use arrow::compute::{filter_record_batch, is_not_null};
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Int64Type, Schema, SchemaRef};
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{Action, DomainMetadata, Format, Metadata, Protocol, SetTransaction, parse_line};
use deltaplane_protocol::files::{ADD_SCHEMA, REMOVE_SCHEMA, adds_to_batch, conform, map_at, removes_to_batch};
use deltaplane_protocol::paths::{self, LOG_DIR, LogFile};
use deltaplane_protocol::segment::CheckpointFiles;
use deltaplane_store::{ObjectInfo, Store};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, RowSelection};
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use tokio::sync::OnceCell;

use crate::checkpoint_file::ORDER_KEY;
use crate::checkpoint_filter::{self, Skipping};
use crate::checkpoint_runs::{self, Chosen, is_sound, mark};
use crate::listing::listed;
use crate::parquet_file::ParquetFile;
use crate::sidecar_ranges::{self, SidecarFile, SidecarRange};

/// Rows of a batch of file actions: large enough for columnar speed, small enough to stream.
const BATCH_ROWS: usize = 32 * 1024;
/// Bytes of a batch, where rows are long.
const BATCH_BYTES: usize = 64 << 20;
/// A column's values in one row group take no more, or this much for each row: longer ones are no actions, and decoding
/// holds each several times.
const COLUMN_BYTES: i64 = 128 << 20;
const ROW_BYTES: i64 = 16 << 10;
/// Columns that say what is in a file, and the structs among them.
const DESCRIBING: &[&str] = &[
    "partitionValues",
    "stats",
    "stats_parsed",
    "partitionValues_parsed",
    "tags",
];
const PARSED: &[&str] = &["stats_parsed", "partitionValues_parsed"];
/// Columns of files that say nothing of their statistics.
const NO_STATISTICS: &[&str] = &[
    "path",
    "partitionValues",
    "partitionValues_parsed",
    "tags",
    "deletionVector",
    "clusteringProvider",
];
/// A sample of a file's rows is so many runs of so many.
const SAMPLED_RUNS: usize = 128;
const SAMPLED_ROWS: usize = 64;
/// Sidecars that are opened at a time.
const OPENED_AHEAD: usize = 8;

/// A file of a checkpoint. Sidecars are opened when something is read of them: a table may have thousands.
pub(crate) struct Part {
    store: Store,
    key: String,
    opened: OnceCell<Opened>,
    /// What a listing showed of it, where that tells it from another file of its name.
    listed: Option<ObjectInfo>,
    /// How the top file names it, if it does.
    pub sidecar: Option<SidecarFile>,
    /// The very file and its row groups that are wanted, where that isn't all of whatever has the key.
    wanted: Option<(ObjectInfo, Vec<usize>)>,
    range: OnceLock<Option<SidecarRange>>,
}

struct Opened {
    file: ParquetFile,
    footer: ArrowReaderMetadata,
}

/// An opened checkpoint.
pub(crate) struct CheckpointReader {
    parts: Vec<Part>,
    /// Actions of a JSON manifest.
    manifest: Vec<Action>,
}

/// Which columns a plan's batches need beside the files' identity, values and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanColumns {
    /// None: neither partition values nor statistics nor tags, which are empty or null then.
    Files,
    /// As written: statistics as JSON where they are.
    Logged,
    /// Also the parsed structs where a checkpoint has them.
    Parsed,
}

/// What a checkpoint that can be read holds.
pub(crate) struct Checked {
    pub actions: u64,
    /// Live files among them.
    pub adds: u64,
}

/// Which file actions to stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileActions {
    Adds,
    Removes,
}

impl FileActions {
    fn column(self) -> &'static str {
        match self {
            FileActions::Adds => "add",
            FileActions::Removes => "remove",
        }
    }

    fn schema(self) -> SchemaRef {
        match self {
            FileActions::Adds => ADD_SCHEMA.clone(),
            FileActions::Removes => REMOVE_SCHEMA.clone(),
        }
    }
}

impl CheckpointReader {
    /// Reads the footers, but for those of sidecars. A file that can't be opened makes the checkpoint unusable (P057): the
    /// caller falls back to an older one. A sidecar that can't is damage that shows while it is read.
    pub(crate) async fn open(store: &Store, files: &CheckpointFiles) -> Result<Self> {
        let (mut reader, sidecars) = Self::open_top(store, files).await?;
        for s in sidecars {
            reader.parts.push(Part::new(store, s.key()?, Some(s)));
        }
        Ok(reader)
    }

    /// The paths by which a checkpoint names its sidecars, which may be gone.
    pub(crate) async fn sidecar_names(store: &Store, files: &CheckpointFiles) -> Result<Vec<String>> {
        let (_, sidecars) = Self::open_top(store, files).await?;
        sidecars.iter().map(|s| paths::decode(&s.path)).collect()
    }

    async fn open_top(store: &Store, files: &CheckpointFiles) -> Result<(Self, Vec<SidecarFile>)> {
        let (mut parts, mut manifest, mut sidecars) = (Vec::new(), Vec::new(), Vec::new());
        for f in &files.files {
            let shown = listed(f);
            if matches!(f.kind, LogFile::UuidCheckpoint { json: true }) {
                let text = store.read_listed(&shown).await?;
                let (actions, named) = parse_manifest(&text).map_err(|e| e.with_path(&shown.key))?;
                manifest.extend(actions);
                sidecars.extend(named);
            } else {
                let part = Part {
                    listed: Some(shown.clone()).filter(|s| s.etag.is_some()),
                    ..Part::new(store, shown.key, None)
                };
                part.open().await?;
                parts.push(part);
            }
        }
        let reader = CheckpointReader { parts, manifest };
        reader.check_state(files)?;
        sidecars.extend(reader.sidecar_rows().await?);
        Ok((reader, sidecars))
    }

    /// Refuses a file that holds no table's state (P050), by footers alone: where the state is known from elsewhere,
    /// another program's file would count as a checkpoint without data files.
    fn check_state(&self, files: &CheckpointFiles) -> Result<()> {
        let by_manifest = |a: &Action| match a {
            Action::Protocol(_) => Some("protocol"),
            Action::Metadata(_) => Some("metaData"),
            _ => None,
        };
        for name in ["protocol", "metaData"] {
            let in_parts = self.parts.iter().any(|p| p.may_hold(name));
            if !in_parts && !self.manifest.iter().filter_map(by_manifest).any(|n| n == name) {
                let first = files.files.first().map_or("", |f| f.name.as_str());
                return Err(Error::corrupt_file(format!(
                    "the file has a checkpoint's name and no {name} action: it isn't a checkpoint; restore it, or delete it if the commits before it still exist"
                ))
                .with_path(format!("{LOG_DIR}/{first}")));
            }
        }
        Ok(())
    }

    /// Fails unless the state and every file's path can be read.
    pub(crate) async fn check(&self) -> Result<Checked> {
        self.state_actions().await?;
        let (mut actions, mut adds) = (0, 0);
        for part in &self.parts {
            actions += part.rows().await? as u64;
            let mut keys = self.keys(part);
            while let Some(batch) = keys.try_next().await? {
                let is_remove = batch.column_by_name("deletionTimestamp").is_some();
                adds += if is_remove { 0 } else { batch.num_rows() as u64 };
            }
        }
        Ok(Checked { actions, adds })
    }

    /// The files that it consists of.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Path and deletion vector of each file action of a part, in batches like those of [`Self::part_files`].
    pub(crate) fn keys<'a>(&'a self, part: &'a Part) -> BoxStream<'a, Result<RecordBatch>> {
        let of = move |what: FileActions| {
            stream::once(part_column(part, what.column(), DESCRIBING, Rows::All))
                .try_flatten()
                .map(move |s| conform(&s?, &what.schema(), &[]))
        };
        let there = [FileActions::Adds, FileActions::Removes]
            .into_iter()
            .filter(|what| part.may_have(*what));
        stream::iter(there).flat_map(of).boxed()
    }

    async fn sidecar_rows(&self) -> Result<Vec<SidecarFile>> {
        let rows: Vec<StructArray> = self.column("sidecar", &[]).try_collect().await?;
        let mut out = Vec::new();
        for s in &rows {
            for at in 0..s.len() {
                let row = Row { of: s, at };
                out.push(SidecarFile {
                    path: row
                        .text("path")
                        .ok_or_else(|| Error::corrupt_file("the checkpoint names a sidecar without a path"))?,
                    size_in_bytes: row.long("sizeInBytes").unwrap_or(0),
                    modification_time: row.long("modificationTime").unwrap_or(0),
                    tags: row.cell("tags").is_some().then(|| row.map("tags")),
                });
            }
        }
        Ok(out)
    }

    /// Non-null rows of one action column but file actions, which sidecars may have too, with all its fields but these.
    fn column(&self, name: &'static str, without: &'static [&'static str]) -> BoxStream<'_, Result<StructArray>> {
        stream::iter(self.parts.iter().filter(|p| p.sidecar.is_none()))
            .then(move |p| part_column(p, name, without, Rows::Few))
            .try_flatten()
            .boxed()
    }

    /// Protocol, metadata, transactions and domains.
    pub(crate) async fn state_actions(&self) -> Result<Vec<Action>> {
        let mut out: Vec<Action> = self
            .manifest
            .iter()
            .filter(|a| !matches!(a, Action::Add(_) | Action::Remove(_)))
            .cloned()
            .collect();
        for name in ["protocol", "metaData", "txn", "domainMetadata"] {
            let mut rows = self.column(name, &[]);
            while let Some(batch) = rows.try_next().await? {
                for row in 0..batch.len() {
                    out.push(state_action(name, &batch, row)?);
                }
            }
        }
        Ok(out)
    }

    /// Those files in their order, some of them opened ahead: a store answers many at a time.
    fn opened_ahead<'a>(parts: Vec<&'a Part>) -> impl Stream<Item = Result<&'a Part>> {
        let open = |p: &'a Part| async move { p.open().await.map(|_| p) };
        stream::iter(parts).map(open).buffered(OPENED_AHEAD)
    }

    /// The files that may hold such actions, by what is known without opening them.
    fn holding(&self, what: FileActions, skipping: Option<&Skipping>) -> Result<Vec<&Part>> {
        let all: Vec<&Part> = self.parts.iter().filter(|p| p.may_have(what)).collect();
        let Some(skipping) = skipping.filter(|_| what == FileActions::Adds) else {
            return Ok(all);
        };
        let ranges: Vec<&SidecarRange> = all.iter().filter_map(|p| p.range()).collect();
        let keep = sidecar_ranges::may_match(&ranges, skipping.pruner.runs())?;
        if let Some(trace) = &skipping.trace {
            let skipped = ranges.iter().zip(keep.values()).filter(|(_, keep)| !keep);
            for (range, _) in skipped {
                trace.row_groups((1, usize::try_from(range.adds).unwrap_or(usize::MAX)), (0, 0));
            }
        }
        let mut verdicts = keep.values().iter();
        let keeps = |p: &&Part| p.range().is_none() || verdicts.next().unwrap_or(true);
        Ok(all.into_iter().filter(keeps).collect())
    }

    /// File actions as batches of the protocol's file schemas with these columns; others are null. Adds that can be seen not
    /// to match are left out, not all of them.
    pub(crate) fn files<'a>(
        &'a self,
        what: FileActions,
        columns: PlanColumns,
        skipping: Option<&'a Skipping>,
    ) -> BoxStream<'a, Result<RecordBatch>> {
        let parts = match self.holding(what, skipping) {
            Ok(parts) => parts,
            Err(e) => return stream::once(async { Err(e) }).boxed(),
        };
        let from_parquet = Self::opened_ahead(parts).flat_map(move |p| match p {
            Ok(p) => Self::part_files(p, what, columns, skipping),
            Err(e) => stream::once(async { Err(e) }).boxed(),
        });
        match self.manifest_files(what) {
            Ok(Some(batch)) => stream::once(async { Ok(batch) }).chain(from_parquet).boxed(),
            Ok(None) => from_parquet.boxed(),
            Err(e) => stream::once(async { Err(e) }).boxed(),
        }
    }

    /// What the one file of a checkpoint of ours notes of its order.
    pub(crate) fn order_note(&self) -> Option<&str> {
        self.own_top().filter(|_| self.parts.len() == 1)
    }

    /// What the top file of a V2 checkpoint of ours notes of the order in its sidecars.
    pub(crate) fn sidecars_order(&self) -> Option<&str> {
        self.own_top().filter(|_| self.parts.len() > 1)
    }

    fn own_top(&self) -> Option<&str> {
        let (top, sidecars) = self.parts.split_first()?;
        let footer = top.opened.get()?.footer.metadata();
        let is_one = top.sidecar.is_none() && sidecars.iter().all(|s| s.sidecar.is_some());
        mark(footer, ORDER_KEY).filter(|_| is_one && is_sound(footer))
    }

    /// Rows of all its files.
    pub(crate) async fn rows(&self) -> Result<usize> {
        let mut rows: usize = 0;
        for part in &self.parts {
            rows = rows.saturating_add(part.rows().await?);
        }
        Ok(rows)
    }

    /// Some live files from everywhere in the checkpoint, of which only statistics are told.
    pub(crate) fn sample(&self) -> BoxStream<'_, Result<RecordBatch>> {
        let parts = self.parts.iter().filter(|p| p.may_have(FileActions::Adds)).collect();
        Self::opened_ahead(parts)
            .and_then(|part| part_column(part, "add", NO_STATISTICS, Rows::Sample))
            .try_flatten()
            .map(|s| conform(&s?, &ADD_SCHEMA, PARSED))
            .boxed()
    }

    /// The same without those of some parts, which are given in ascending order.
    pub(crate) fn files_beside<'a>(
        &'a self,
        without: &'a [usize],
        what: FileActions,
        columns: PlanColumns,
    ) -> BoxStream<'a, Result<RecordBatch>> {
        if without.is_empty() {
            return self.files(what, columns, None);
        }
        // Only a checkpoint with sidecars has parts to leave out, and it has all its file actions there.
        let parts = self.parts.iter().enumerate();
        let parts = parts.filter(move |(i, p)| without.binary_search(i).is_err() && p.may_have(what));
        stream::iter(parts)
            .flat_map(move |(_, p)| Self::part_files(p, what, columns, None))
            .boxed()
    }

    /// The same of one of its files.
    pub(crate) fn part_files<'a>(
        part: &'a Part,
        what: FileActions,
        columns: PlanColumns,
        skipping: Option<&'a Skipping>,
    ) -> BoxStream<'a, Result<RecordBatch>> {
        let (without, extra): (&'static [&'static str], &'static [&'static str]) = match columns {
            PlanColumns::Files => (DESCRIBING, &[]),
            PlanColumns::Logged => (PARSED, &[]),
            PlanColumns::Parsed => (&[], PARSED),
        };
        stream::once(part_column(
            part,
            what.column(),
            without,
            skipping.map_or(Rows::All, Rows::Matching),
        ))
        .try_flatten()
        .map(move |s| conform(&s?, &what.schema(), extra))
        .boxed()
    }

    /// Whether a JSON manifest has adds.
    pub(crate) fn has_manifest_adds(&self) -> bool {
        self.manifest.iter().any(|a| matches!(a, Action::Add(_)))
    }

    fn manifest_files(&self, what: FileActions) -> Result<Option<RecordBatch>> {
        let batch = match what {
            FileActions::Adds => adds_of(&self.manifest)?,
            FileActions::Removes => removes_to_batch(self.manifest.iter().filter_map(|a| match a {
                Action::Remove(r) => Some(r),
                _ => None,
            }))?,
        };
        Ok((batch.num_rows() > 0).then_some(batch))
    }
}

/// The adds of the JSON manifest at this key.
pub(crate) async fn manifest_adds(store: &Store, key: &str) -> Result<RecordBatch> {
    let (actions, _) = parse_manifest(&store.read(key).await?).map_err(|e| e.with_path(key))?;
    adds_of(&actions)
}

fn adds_of(actions: &[Action]) -> Result<RecordBatch> {
    adds_to_batch(actions.iter().filter_map(|a| match a {
        Action::Add(a) => Some(a),
        _ => None,
    }))
}

fn parse_manifest(text: &[u8]) -> Result<(Vec<Action>, Vec<SidecarFile>)> {
    #[derive(serde::Deserialize)]
    struct Line {
        sidecar: Option<SidecarFile>,
    }
    let bad = |e: &dyn std::fmt::Display| Error::corrupt_file(format!("the checkpoint manifest can't be read ({e})"));
    let text = std::str::from_utf8(text).map_err(|e| bad(&e))?;
    let (mut actions, mut sidecars) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        let l: Line = serde_json::from_str(line).map_err(|e| bad(&e))?;
        match l.sidecar {
            Some(s) => sidecars.push(s),
            None => actions.extend(parse_line(line)?),
        }
    }
    Ok((actions, sidecars))
}

impl Part {
    fn new(store: &Store, key: String, sidecar: Option<SidecarFile>) -> Self {
        Part {
            store: store.clone(),
            key,
            opened: OnceCell::new(),
            listed: None,
            sidecar,
            wanted: None,
            range: OnceLock::new(),
        }
    }

    /// A file that somebody has seen, for some of its row groups.
    pub(crate) fn of_row_groups(store: &Store, seen: ObjectInfo, groups: Vec<usize>) -> Self {
        Part {
            wanted: Some((seen.clone(), groups)),
            ..Part::new(store, seen.key, None)
        }
    }

    /// What lies at this key of the table.
    pub(crate) fn of_key(store: &Store, key: String) -> Self {
        Part::new(store, key, None)
    }

    /// Where it is.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Of a file that was opened: what it is, and its row groups with adds, each with its bytes.
    pub(crate) fn groups_of_adds(&self) -> Option<(&ObjectInfo, Vec<(usize, u64)>)> {
        let Opened { file, footer } = self.opened.get()?;
        let all = footer.metadata().row_groups();
        let bytes = |group: usize| all.get(group).map_or(0, |g| g.compressed_size());
        let groups = groups_with(footer.metadata(), FileActions::Adds.column()).into_iter();
        let sized = groups.map(|g| (g, u64::try_from(bytes(g)).unwrap_or(0)));
        Some((file.info(), sized.collect()))
    }

    /// What the top file tells of a sidecar of ours.
    pub(crate) fn range(&self) -> Option<&SidecarRange> {
        let told = || self.sidecar.as_ref().and_then(SidecarRange::told);
        self.range.get_or_init(told).as_ref()
    }

    /// Whether it may hold such actions, as far as is known without opening it.
    fn may_have(&self, what: FileActions) -> bool {
        self.range().is_none_or(|range| match what {
            FileActions::Adds => range.adds > 0,
            FileActions::Removes => range.removes > 0,
        })
    }

    /// Whether this program wrote it, with parsed bounds that are bounds.
    pub(crate) async fn is_sound(&self) -> Result<bool> {
        Ok(is_sound(self.open().await?.footer.metadata()))
    }

    async fn open(&self) -> Result<&Opened> {
        self.opened.get_or_try_init(|| self.open_anew()).await
    }

    async fn open_anew(&self) -> Result<Opened> {
        if let Some((seen, _)) = &self.wanted {
            // Row groups are those of one file: another one under its name is an error.
            let file = ParquetFile::listed(&self.store, seen.clone());
            let footer = file.footer().await?;
            return Ok(Opened { file, footer });
        }
        if let Some(listed) = &self.listed {
            let file = ParquetFile::listed(&self.store, listed.clone());
            match file.footer().await {
                // Another writer replaced it since, or cleaned it up: what is there now is looked at.
                Err(e) if e.kind() == Kind::VersionNotFound => {}
                footer => {
                    let footer = footer?;
                    return Ok(Opened { file, footer });
                }
            }
        }
        let file = ParquetFile::open(&self.store, self.key.clone()).await?;
        let footer = file.footer().await?;
        Ok(Opened { file, footer })
    }

    /// Whether an action of this name may stand in the file, which was opened.
    fn may_hold(&self, name: &str) -> bool {
        let Some(Opened { footer, .. }) = self.opened.get() else {
            return false;
        };
        let column = footer.schema().field_with_name(name);
        let is_action = column.is_ok_and(|f| matches!(f.data_type(), DataType::Struct(_)));
        is_action && !groups_with(footer.metadata(), name).is_empty()
    }

    /// Rows of the file.
    pub(crate) async fn rows(&self) -> Result<usize> {
        let footer = &self.open().await?.footer;
        Ok(usize::try_from(footer.metadata().file_metadata().num_rows()).unwrap_or(0))
    }
}

/// Which rows of a file's column are wanted.
#[derive(Clone, Copy)]
enum Rows<'a> {
    /// Each that is an action.
    All,
    /// The same, of an action of which there are few.
    Few,
    /// Some of them.
    Sample,
    /// Those that aren't seen not to match.
    Matching(&'a Skipping),
}

async fn part_column<'a>(
    part: &'a Part,
    name: &'static str,
    without: &'static [&'static str],
    wanted: Rows<'a>,
) -> Result<BoxStream<'a, Result<StructArray>>> {
    let Opened { file, footer } = part.open().await?;
    let schema = footer.schema();
    let Ok(field) = schema.field_with_name(name) else {
        return Ok(stream::empty().boxed());
    };
    let DataType::Struct(children) = field.data_type() else {
        return Err(
            Error::corrupt_file(format!("the checkpoint's column `{name}` isn't a struct")).with_path(&part.key),
        );
    };
    let leaves: Vec<String> = children
        .iter()
        .filter(|c| !without.contains(&c.name().as_str()))
        .map(|c| format!("{name}.{}", c.name()))
        .collect();
    let mask = ProjectionMask::columns(footer.parquet_schema(), leaves.iter().map(String::as_str));
    let mut groups = groups_with(footer.metadata(), name);
    if let Some((_, wanted)) = &part.wanted {
        groups.retain(|g| wanted.contains(g));
    }
    let all = Chosen {
        footer: footer.clone(),
        groups,
        rows: None,
    };
    let Chosen {
        footer: indexed,
        groups,
        rows,
    } = match wanted {
        Rows::Matching(skipping) => checkpoint_runs::choose(file, all, skipping, &mask).await?,
        Rows::Sample => Chosen {
            rows: Some(spread(footer.metadata(), &all.groups)),
            ..all
        },
        Rows::All | Rows::Few => all,
    };
    if groups.is_empty() {
        return Ok(stream::empty().boxed());
    }
    let batch_rows = batch_rows(part, footer.metadata(), &groups, &mask)?;
    let mut builder = ParquetRecordBatchStreamBuilder::new_with_metadata(file.clone(), indexed)
        .with_projection(mask)
        .with_row_groups(groups)
        .with_batch_size(batch_rows);
    if let Some(rows) = rows {
        builder = builder.with_row_selection(rows);
    }
    let filter = match wanted {
        Rows::All | Rows::Sample => None,
        Rows::Few => checkpoint_filter::rare(footer, name, children),
        Rows::Matching(skipping) => checkpoint_filter::filter(footer, skipping),
    };
    if let Some(filter) = filter {
        builder = builder.with_row_filter(filter);
    }
    let rows = builder.build().map_err(|e| file.unreadable(e))?;
    // The decoder panics on some damage.
    let rows = AssertUnwindSafe(rows).catch_unwind();
    Ok(rows
        .map(|row| row.unwrap_or_else(|_| Err(ParquetError::General("the decoder gave up".to_owned()))))
        .map_err(|e| file.unreadable(e))
        .try_filter_map(move |batch| async move { present(&batch) })
        .boxed())
}

/// How many rows of these columns are decoded at once, so that memory is bounded.
fn batch_rows(part: &Part, footer: &ParquetMetaData, groups: &[usize], mask: &ProjectionMask) -> Result<usize> {
    let mut most = BATCH_ROWS;
    for (at, group) in footer.row_groups().iter().enumerate() {
        if !groups.contains(&at) {
            continue;
        }
        let read = group
            .columns()
            .iter()
            .enumerate()
            .filter(|(leaf, _)| mask.leaf_included(*leaf));
        let mut bytes: usize = 0;
        for (_, column) in read {
            let size = column.uncompressed_size();
            if size > COLUMN_BYTES.max(group.num_rows().saturating_mul(ROW_BYTES)) {
                return Err(Error::corrupt_file(format!(
                    "the checkpoint's column `{}` has {size} bytes in the {} rows of row group {at}, which no actions take: restore the file, or delete it if the commits before it still exist",
                    column.column_path(),
                    group.num_rows()
                ))
                .with_path(&part.key));
            }
            bytes = bytes.saturating_add(usize::try_from(size).unwrap_or(0));
        }
        let rows = usize::try_from(group.num_rows()).unwrap_or(0).max(1);
        most = most.min(BATCH_BYTES / (bytes / rows).max(1));
    }
    Ok(most.max(1))
}

/// Row groups in which some leaf of this action has a non-null value, by the footer's statistics.
fn groups_with(footer: &ParquetMetaData, name: &str) -> Vec<usize> {
    let inside = |g: &parquet::file::metadata::RowGroupMetaData| {
        g.columns()
            .iter()
            .filter(|c| c.column_path().parts().first().is_some_and(|p| p == name))
            .any(|c| {
                c.statistics()
                    .and_then(|s| s.null_count_opt())
                    .is_none_or(|n| i64::try_from(n) != Ok(c.num_values()))
            })
    };
    footer
        .row_groups()
        .iter()
        .enumerate()
        .filter(|(_, g)| inside(g))
        .map(|(i, _)| i)
        .collect()
}

/// Runs of rows all over these row groups.
fn spread(footer: &ParquetMetaData, groups: &[usize]) -> RowSelection {
    let (mut runs, mut first) = (Vec::new(), 0);
    let runs_of_group = (SAMPLED_RUNS / groups.len().max(1)).max(1);
    for group in groups {
        let rows = footer.row_groups().get(*group).map_or(0, |g| g.num_rows());
        let rows = usize::try_from(rows).unwrap_or(0);
        let step = (rows / runs_of_group).max(SAMPLED_ROWS);
        let starts = (0..rows).step_by(step);
        runs.extend(starts.map(|at| first + at..first + rows.min(at + SAMPLED_ROWS)));
        first += rows;
    }
    RowSelection::from_consecutive_ranges(runs.into_iter(), first)
}

/// The rows whose action is there; `None` when there is none.
fn present(batch: &RecordBatch) -> Result<Option<StructArray>> {
    let damaged = |e| Error::corrupt_file(format!("the checkpoint can't be decoded: {e}"));
    let column = batch.column(0);
    let kept = filter_record_batch(batch, &is_not_null(column).map_err(damaged)?).map_err(damaged)?;
    if kept.num_rows() == 0 {
        return Ok(None);
    }
    Ok(kept.column(0).as_struct_opt().cloned())
}

/// Reads one row of a struct of simple fields.
struct Row<'a> {
    of: &'a StructArray,
    at: usize,
}

impl Row<'_> {
    fn cell(&self, name: &str) -> Option<&ArrayRef> {
        self.of.column_by_name(name).filter(|c| c.is_valid(self.at))
    }

    fn text(&self, name: &str) -> Option<String> {
        Some(self.cell(name)?.as_string_opt::<i32>()?.value(self.at).to_owned())
    }

    fn int(&self, name: &str) -> Option<i32> {
        Some(self.cell(name)?.as_primitive_opt::<Int32Type>()?.value(self.at))
    }

    fn long(&self, name: &str) -> Option<i64> {
        Some(self.cell(name)?.as_primitive_opt::<Int64Type>()?.value(self.at))
    }

    fn texts(&self, name: &str) -> Option<Vec<String>> {
        let items = self.cell(name)?.as_list_opt::<i32>()?.value(self.at);
        let items = items.as_string_opt::<i32>()?;
        Some(items.iter().flatten().map(str::to_owned).collect())
    }

    fn map(&self, name: &str) -> std::collections::BTreeMap<String, Option<String>> {
        self.cell(name)
            .and_then(|c| map_at(c.as_map_opt()?, self.at))
            .unwrap_or_default()
    }
}

fn state_action(name: &str, rows: &StructArray, at: usize) -> Result<Action> {
    let row = Row { of: rows, at };
    let missing = |field: &str| Error::corrupt_file(format!("the checkpoint has a {name} action without `{field}`"));
    Ok(match name {
        "protocol" => Action::Protocol(Protocol {
            min_reader_version: row.int("minReaderVersion").ok_or_else(|| missing("minReaderVersion"))?,
            min_writer_version: row.int("minWriterVersion").ok_or_else(|| missing("minWriterVersion"))?,
            reader_features: row.texts("readerFeatures"),
            writer_features: row.texts("writerFeatures"),
        }),
        "metaData" => Action::Metadata(Metadata {
            id: row.text("id").unwrap_or_default(),
            name: row.text("name"),
            description: row.text("description"),
            format: row
                .cell("format")
                .and_then(|c| c.as_struct_opt())
                .map_or_else(Format::default, |f| {
                    let f = Row { of: f, at };
                    Format {
                        provider: f.text("provider").unwrap_or_else(|| "parquet".to_owned()),
                        options: f.map("options"),
                    }
                }),
            schema_string: row.text("schemaString"),
            partition_columns: row.texts("partitionColumns").unwrap_or_default(),
            created_time: row.long("createdTime"),
            configuration: row
                .map("configuration")
                .into_iter()
                .filter_map(|(k, v)| Some((k, v?)))
                .collect(),
        }),
        "txn" => Action::Txn(SetTransaction {
            app_id: row.text("appId").ok_or_else(|| missing("appId"))?,
            version: row.long("version").ok_or_else(|| missing("version"))?,
            last_updated: row.long("lastUpdated"),
        }),
        _ => Action::DomainMetadata(DomainMetadata {
            domain: row.text("domain").ok_or_else(|| missing("domain"))?,
            configuration: row.text("configuration").unwrap_or_default(),
            removed: row
                .cell("removed")
                .and_then(|c| c.as_boolean_opt())
                .is_some_and(|b| b.value(at)),
        }),
    })
}

/// The Arrow schema of one action column of a V1 checkpoint, for the writer.
pub(crate) fn struct_field(name: &str, schema: &Schema) -> Field {
    Field::new(name, DataType::Struct(Fields::from(schema.fields().to_vec())), true)
}
