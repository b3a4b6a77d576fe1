//! Reading checkpoints: classic, multi-part and V2 with sidecars (P050–P057). Opening reads footers
//! only; state actions come from their few non-null rows, file actions are streamed.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray};
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Int64Type, Schema, SchemaRef};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{Action, DomainMetadata, Format, Metadata, Protocol, SetTransaction, parse_line};
use deltaplane_protocol::files::rows::map_at;
use deltaplane_protocol::files::{ADD_SCHEMA, adds_to_batch, conform, removes_to_batch};
use deltaplane_protocol::paths::{self, LOG_DIR, LogFile};
use deltaplane_protocol::prune::Pruner;
use deltaplane_protocol::segment::CheckpointFiles;
use deltaplane_store::Store;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use tokio::sync::OnceCell;

use crate::checkpoint::file::ORDER_KEY;
use crate::checkpoint::live_row_groups::LiveGroups;
use crate::checkpoint::part::{FileActions, Part, Rows, STATE, Texts, no_checkpoint, part_column};
use crate::checkpoint::row_filter::Skipping;
use crate::checkpoint::sidecar_stats;
use crate::checkpoint::sidecar_stats::{SidecarFile, SidecarRange};
use crate::checkpoint::skipping::BOUNDS_KEY;
use crate::listing::listed;

/// Columns that describe a file's content, and the structs among them.
const DESCRIBING: &[&str] = &[
    "partitionValues",
    "stats",
    "stats_parsed",
    "partitionValues_parsed",
    "tags",
];
const PARSED: &[&str] = &["stats_parsed", "partitionValues_parsed"];
/// Columns that are returned as views to readers that use them once.
const VIEWED: &[&str] = &["stats_parsed", "partitionValues_parsed", "stats"];
/// Columns that commits have as well.
const LOGGED: &[&str] = &["partitionValues", "stats", "tags"];
/// Columns of files without any statistics.
const NO_STATISTICS: &[&str] = &[
    "path",
    "partitionValues",
    "partitionValues_parsed",
    "tags",
    "deletionVector",
    "clusteringProvider",
];
/// Sidecars that are opened concurrently.
const OPENED_AHEAD: usize = 8;

/// An opened checkpoint.
pub(crate) struct CheckpointReader {
    parts: Vec<Part>,
    /// Actions of a JSON manifest.
    manifest: Vec<Action>,
    /// The file of a classic checkpoint split in two, if it records two runs of live files.
    runs: OnceCell<Option<[Part; 2]>>,
}

/// Which columns a plan's batches need beside the files' identity, values and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanColumns {
    /// None: neither partition values nor statistics nor tags, which are empty or null then.
    Files,
    /// As written: statistics as JSON where they are.
    Logged,
    /// Also the parsed structs where a checkpoint has them.
    Parsed,
    /// The same, but of a checkpoint's file of ours that has all of these fields the structs alone:
    /// they say what the maps and the JSON say, for a fraction of the bytes. Tags are left out.
    /// JSON may come as views.
    Structs(SchemaRef),
}

/// What a checkpoint that can be read holds.
pub(crate) struct Checked {
    pub actions: u64,
    /// Live files among them.
    pub adds: u64,
}

impl CheckpointReader {
    /// Reads the footers, but for those of sidecars. A file that can't be opened makes the
    /// checkpoint unusable (P057): the caller falls back to an older one. A sidecar that can't is
    /// damage that shows while it is read.
    pub(crate) async fn open(store: &Store, files: &CheckpointFiles) -> Result<Self> {
        let (mut reader, sidecars) = Self::open_top(store, files).await?;
        for s in sidecars {
            reader.parts.push(Part::new(store, s.key()?, Some(s)));
        }
        Ok(reader)
    }

    /// A checkpoint of one file without sidecars, opened at the first read, which then reports
    /// damage. `None` for other checkpoints.
    pub(crate) fn of_one_file(store: &Store, files: &CheckpointFiles) -> Option<Self> {
        let [file] = files.files.as_slice() else { return None };
        if file.kind != LogFile::ClassicCheckpoint {
            return None;
        }
        Some(CheckpointReader {
            parts: vec![Part::listed(store, listed(file)).whole()],
            manifest: Vec::new(),
            runs: OnceCell::new(),
        })
    }

    /// Opens all files except sidecars.
    pub(crate) async fn open_all(&self) -> Result<()> {
        for part in self.parts.iter().filter(|p| p.sidecar.is_none()) {
            part.open().await?;
        }
        Ok(())
    }

    /// The file of a copy, which has only a checkpoint's adds.
    pub(crate) async fn copy(made: &Store, key: &str) -> Result<Self> {
        let part = Part::new(made, key.to_owned(), None);
        part.open().await?;
        Ok(CheckpointReader {
            parts: vec![part],
            manifest: Vec::new(),
            runs: OnceCell::new(),
        })
    }

    /// Whether deltaplane wrote it, as far as its files are open.
    pub(crate) fn is_own(&self) -> bool {
        self.parts.first().is_some_and(|top| top.own_mark(BOUNDS_KEY).is_some())
    }

    /// The paths by which a checkpoint names its sidecars; these may be deleted.
    pub(crate) async fn sidecar_names(store: &Store, files: &CheckpointFiles) -> Result<Vec<String>> {
        let (_, sidecars) = Self::open_top(store, files).await?;
        sidecars.iter().map(|s| paths::decode(&s.path)).collect()
    }

    async fn open_top(store: &Store, files: &CheckpointFiles) -> Result<(Self, Vec<SidecarFile>)> {
        let (mut parts, mut manifest, mut sidecars) = (Vec::new(), Vec::new(), Vec::new());
        for f in &files.files {
            let shown = listed(f);
            if matches!(f.kind, LogFile::UuidCheckpoint { json: true }) {
                let text = store.read_text(&shown).await?;
                let (actions, named) = parse_manifest(&text).map_err(|e| e.with_path(&shown.key))?;
                manifest.extend(actions);
                sidecars.extend(named);
            } else {
                let part = Part::listed(store, shown);
                part.open().await?;
                parts.push(part);
            }
        }
        let reader = CheckpointReader {
            parts,
            manifest,
            runs: OnceCell::new(),
        };
        reader.check_state(files)?;
        sidecars.extend(reader.sidecar_rows().await?);
        Ok((reader, sidecars))
    }

    /// Refuses a file without a table's state (P050), judged by footers alone. Where the state is
    /// known already, a foreign file would otherwise pass as a checkpoint without data files.
    fn check_state(&self, files: &CheckpointFiles) -> Result<()> {
        let by_manifest = |a: &Action| match a {
            Action::Protocol(_) => Some("protocol"),
            Action::Metadata(_) => Some("metaData"),
            _ => None,
        };
        for name in STATE {
            let in_parts = self.parts.iter().any(|p| p.may_hold(name));
            if !in_parts && !self.manifest.iter().filter_map(by_manifest).any(|n| n == name) {
                let first = files.files.first().map_or("", |f| &*f.name);
                return Err(no_checkpoint(name).with_path(format!("{LOG_DIR}/{first}")));
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

    /// Its files.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Path and deletion vector of each file action of a part, in batches like those of
    /// [`Self::part_files`].
    pub(crate) fn keys<'a>(&'a self, part: &'a Part) -> BoxStream<'a, Result<RecordBatch>> {
        let files_of = move |what: FileActions| {
            stream::once(part_column(part, what.column(), DESCRIBING, Rows::All, Texts::Copied))
                .try_flatten()
                .map(move |s| conform(&s?, &what.schema(), &[]))
        };
        let there = [FileActions::Adds, FileActions::Removes]
            .into_iter()
            .filter(|what| part.may_have(*what));
        stream::iter(there).flat_map(files_of).boxed()
    }

    async fn sidecar_rows(&self) -> Result<Vec<SidecarFile>> {
        let rows: Vec<StructArray> = self.column("sidecar", &[]).try_collect().await?;
        let mut out = Vec::new();
        for s in &rows {
            for index in 0..s.len() {
                let row = Row { columns: s, index };
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

    /// The non-null rows of one action column, with all fields except `without`. Not for file
    /// actions, which sidecars may have too.
    fn column(&self, name: &'static str, without: &'static [&'static str]) -> BoxStream<'_, Result<StructArray>> {
        stream::iter(self.parts.iter().filter(|p| p.sidecar.is_none()))
            .then(move |p| part_column(p, name, without, Rows::Few, Texts::Copied))
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

    /// These files in their order, some of them opened ahead: a store answers many requests at a
    /// time.
    fn opened_ahead<'a>(parts: Vec<&'a Part>) -> impl Stream<Item = Result<&'a Part>> {
        let open = |p: &'a Part| async move { p.open().await.map(|()| p) };
        stream::iter(parts).map(open).buffered(OPENED_AHEAD)
    }

    /// The files that may have such actions, judged without opening them.
    fn holding(&self, what: FileActions, skipping: Option<&Skipping>) -> Result<Vec<&Part>> {
        let all: Vec<&Part> = self.parts.iter().filter(|p| p.may_have(what)).collect();
        let Some(skipping) = skipping.filter(|_| what == FileActions::Adds) else {
            return Ok(all);
        };
        let ranges: Vec<&SidecarRange> = all.iter().filter_map(|p| p.range()).collect();
        let keep = sidecar_stats::may_match(&ranges, skipping.pruner.runs())?;
        if let Some(counters) = &skipping.counters {
            let skipped = ranges.iter().zip(keep.values()).filter(|(_, keep)| !keep);
            for (range, _) in skipped {
                counters.row_groups((1, usize::try_from(range.adds).unwrap_or(usize::MAX)), (0, 0));
            }
        }
        let mut verdicts = keep.values().iter();
        let keeps = |p: &&Part| p.range().is_none() || verdicts.next().unwrap_or(true);
        Ok(all.into_iter().filter(keeps).collect())
    }

    /// File actions as batches of the protocol's file schemas with these columns; other columns are
    /// null. Leaves out many, but not all, adds that can't match.
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
            Ok(p) => Self::part_files(p, what, columns.clone(), skipping),
            Err(e) => stream::once(async { Err(e) }).boxed(),
        });
        match self.manifest_files(what) {
            Ok(Some(batch)) => {
                if let Some(counters) = skipping.and_then(|s| s.counters.as_deref()) {
                    let adds = (0, batch.num_rows());
                    counters.row_groups(adds, adds);
                }
                stream::once(async { Ok(batch) }).chain(from_parquet).boxed()
            }
            Ok(None) => from_parquet.boxed(),
            Err(e) => stream::once(async { Err(e) }).boxed(),
        }
    }

    /// Whether it may name a file twice. Checkpoints of deltaplane never do; foreign ones may.
    pub(crate) fn may_repeat(&self) -> bool {
        !self.manifest.is_empty() || !self.parts.iter().all(Part::is_known_own)
    }

    /// The order that the single file of deltaplane's checkpoint records.
    pub(crate) fn order_note(&self) -> Option<&str> {
        self.own_top().filter(|_| self.parts.len() == 1)
    }

    /// The files whose adds are in that order, each by itself.
    pub(crate) async fn parts_in_order(&self) -> Result<Vec<&Part>> {
        let Some(part) = self.parts.first() else {
            return Ok(Vec::new());
        };
        let cut = async {
            match LiveGroups::of(part) {
                Some(LiveGroups { sorted, recent }) => {
                    Ok::<_, Error>(Some([part.only(sorted).await?, part.only(recent).await?]))
                }
                None => Ok(None),
            }
        };
        Ok(match self.runs.get_or_try_init(|| cut).await? {
            Some(runs) => runs.iter().collect(),
            None => vec![part],
        })
    }

    /// The order of the sidecars that the top file of deltaplane's V2 checkpoint records.
    pub(crate) fn sidecars_order(&self) -> Option<&str> {
        self.own_top().filter(|_| self.parts.len() > 1)
    }

    fn own_top(&self) -> Option<&str> {
        let (top, sidecars) = self.parts.split_first()?;
        let is_one = top.sidecar.is_none() && sidecars.iter().all(|s| s.sidecar.is_some());
        top.own_mark(ORDER_KEY).filter(|_| is_one)
    }

    /// Rows of all its files.
    pub(crate) async fn rows(&self) -> Result<usize> {
        let mut rows: usize = 0;
        for part in &self.parts {
            rows = rows.saturating_add(part.rows().await?);
        }
        Ok(rows)
    }

    /// A sample of live files from the whole checkpoint, with statistics only.
    pub(crate) fn sample(&self) -> BoxStream<'_, Result<RecordBatch>> {
        let parts = self.parts.iter().filter(|p| p.may_have(FileActions::Adds)).collect();
        Self::opened_ahead(parts)
            .and_then(|part| part_column(part, "add", NO_STATISTICS, Rows::Sample, Texts::Copied))
            .try_flatten()
            .map(|s| conform(&s?, &ADD_SCHEMA, PARSED))
            .boxed()
    }

    /// As `files`, without some parts, which are passed in ascending order.
    pub(crate) fn files_beside<'a>(
        &'a self,
        without: &'a [usize],
        what: FileActions,
        columns: PlanColumns,
    ) -> BoxStream<'a, Result<RecordBatch>> {
        if without.is_empty() {
            return self.files(what, columns, None);
        }
        // Only a checkpoint with sidecars has parts to leave out, and all its file actions are
        // there.
        let parts = self.parts.iter().enumerate();
        let parts = parts.filter(move |(i, p)| without.binary_search(i).is_err() && p.may_have(what));
        stream::iter(parts)
            .flat_map(move |(_, p)| Self::part_files(p, what, columns.clone(), None))
            .boxed()
    }

    /// As `files`, of one part.
    pub(crate) fn part_files<'a>(
        part: &'a Part,
        what: FileActions,
        columns: PlanColumns,
        skipping: Option<&'a Skipping>,
    ) -> BoxStream<'a, Result<RecordBatch>> {
        let column = async move {
            let mut read = match &columns {
                PlanColumns::Files => Vec::new(),
                PlanColumns::Logged => LOGGED.to_vec(),
                PlanColumns::Parsed => DESCRIBING.to_vec(),
                PlanColumns::Structs(wanted) => match part.has_own_structs(what, wanted).await? {
                    true => PARSED.to_vec(),
                    false => [VIEWED, &["partitionValues"]].concat(),
                },
            };
            // The remaining rows are judged again by columns that the filter didn't see, if there
            // are any.
            if let Some(skipping) = skipping
                && !part.is_filtered(skipping).await?
            {
                read.extend(judged(&skipping.pruner));
            }
            let extra: &'static [&'static str] = match (&columns, PARSED.iter().any(|c| read.contains(c))) {
                (PlanColumns::Structs(_), _) if read.contains(&"stats") => VIEWED,
                (_, true) => PARSED,
                (_, false) => &[],
            };
            let without: Vec<&str> = DESCRIBING.iter().copied().filter(|c| !read.contains(c)).collect();
            // Filtering leaves few rows, which are then copied.
            let texts = match extra == VIEWED || skipping.is_some() {
                true => Texts::InPlace,
                false => Texts::Copied,
            };
            let wanted = skipping.map_or(Rows::All, Rows::Matching);
            let rows = part_column(part, what.column(), &without, wanted, texts).await?;
            Ok(rows.map(move |s| conform(&s?, &what.schema(), extra)))
        };
        stream::once(column).try_flatten().boxed()
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

/// Columns by which a predicate judges files, as foreign checkpoints may have them.
fn judged(pruner: &Pruner) -> Vec<&'static str> {
    let mut columns = Vec::new();
    if !pruner.partition_columns_needed().is_empty() {
        columns.extend(["partitionValues", "partitionValues_parsed"]);
    }
    if !pruner.stats_leaves_needed().is_empty() {
        columns.extend(["stats", "stats_parsed"]);
    }
    columns
}

/// The adds of the JSON manifest at this key.
pub(crate) async fn manifest_adds(store: &Store, key: &str) -> Result<RecordBatch> {
    let text = store.read_text(&store.head(key).await?).await?;
    let (actions, _) = parse_manifest(&text).map_err(|e| e.with_path(key))?;
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

/// Reads one row of a struct of simple fields.
struct Row<'a> {
    columns: &'a StructArray,
    index: usize,
}

impl Row<'_> {
    fn cell(&self, name: &str) -> Option<&ArrayRef> {
        self.columns.column_by_name(name).filter(|c| c.is_valid(self.index))
    }

    fn text(&self, name: &str) -> Option<String> {
        Some(self.cell(name)?.as_string_opt::<i32>()?.value(self.index).to_owned())
    }

    fn int(&self, name: &str) -> Option<i32> {
        Some(self.cell(name)?.as_primitive_opt::<Int32Type>()?.value(self.index))
    }

    fn long(&self, name: &str) -> Option<i64> {
        Some(self.cell(name)?.as_primitive_opt::<Int64Type>()?.value(self.index))
    }

    fn texts(&self, name: &str) -> Option<Vec<String>> {
        let items = self.cell(name)?.as_list_opt::<i32>()?.value(self.index);
        let items = items.as_string_opt::<i32>()?;
        Some(items.iter().flatten().map(str::to_owned).collect())
    }

    fn map(&self, name: &str) -> std::collections::BTreeMap<String, Option<String>> {
        self.cell(name)
            .and_then(|c| map_at(c.as_map_opt()?, self.index))
            .unwrap_or_default()
    }
}

fn state_action(name: &str, rows: &StructArray, index: usize) -> Result<Action> {
    let row = Row { columns: rows, index };
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
                    let f = Row { columns: f, index };
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
                .is_some_and(|b| b.value(index)),
        }),
    })
}

/// The Arrow schema of one action column of a V1 checkpoint, for the writer.
pub(crate) fn struct_field(name: &str, schema: &Schema) -> Field {
    Field::new(name, DataType::Struct(Fields::from(schema.fields().to_vec())), true)
}
