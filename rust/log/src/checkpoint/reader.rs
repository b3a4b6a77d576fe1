//! Reading checkpoints: classic, multi-part and V2 with sidecars (P050–P057). Opening reads footers
//! only; state actions come from their few non-null rows, file actions are streamed.

use std::ops::Deref;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::Action;
use deltaplane_protocol::files::{ADD_SCHEMA, conform};
use deltaplane_protocol::paths::{self, LogFile};
use deltaplane_protocol::prune::Pruner;
use deltaplane_protocol::segment::CheckpointFiles;
use deltaplane_store::Store;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tokio::sync::OnceCell;

use crate::checkpoint::contents;
use crate::checkpoint::contents::Contents;
use crate::checkpoint::file::ORDER_KEY;
use crate::checkpoint::live_row_groups::LiveGroups;
use crate::checkpoint::part::{FileActions, Part, Rows, Texts, part_column};
use crate::checkpoint::row_filter::Skipping;
use crate::checkpoint::sidecar_stats;
use crate::checkpoint::sidecar_stats::SidecarRange;
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

/// A checkpoint, opened at once or at the first read.
pub(crate) struct CheckpointReader {
    contents: OnceCell<Contents>,
    /// The files to open at the first read, unless the contents are known.
    late: Option<(Store, CheckpointFiles)>,
    /// The file of a classic checkpoint split in two, if it records two runs of live files.
    runs: OnceCell<Option<[Part; 2]>>,
}

/// A file of a checkpoint on its way through a stream.
enum Reading<'a> {
    /// Stays open, for further reads.
    Retained(&'a Part),
    /// Is closed after this read: a footer takes tens of kilobytes, and there are thousands.
    Once(Box<Part>),
}

impl Deref for Reading<'_> {
    type Target = Part;

    fn deref(&self) -> &Part {
        match self {
            Reading::Retained(part) => part,
            Reading::Once(part) => part,
        }
    }
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
        Ok(Self::with(Contents::open(store, files).await?))
    }

    fn with(contents: Contents) -> Self {
        CheckpointReader {
            contents: OnceCell::new_with(Some(contents)),
            late: None,
            runs: OnceCell::new(),
        }
    }

    /// A checkpoint of one file without sidecars, opened at the first read, which then reports
    /// damage. `None` for other checkpoints.
    pub(crate) fn of_one_file(store: &Store, files: &CheckpointFiles) -> Option<Self> {
        let [file] = files.files.as_slice() else { return None };
        let is_classic = file.kind == LogFile::ClassicCheckpoint;
        is_classic.then(|| Self::with(Contents::of_part(Part::listed(store, listed(file)).whole())))
    }

    /// A V2 checkpoint, opened at the first read, which then reports damage: its top file grows
    /// with the number of sidecars. `None` for other checkpoints.
    pub(crate) fn of_sidecars(store: &Store, files: &CheckpointFiles) -> Option<Self> {
        let [file] = files.files.as_slice() else { return None };
        matches!(file.kind, LogFile::UuidCheckpoint { .. }).then(|| CheckpointReader {
            contents: OnceCell::new(),
            late: Some((store.clone(), files.clone())),
            runs: OnceCell::new(),
        })
    }

    async fn contents(&self) -> Result<&Contents> {
        let open = || async {
            match &self.late {
                Some((store, files)) => Contents::open(store, files).await,
                None => Err(Error::internal("a checkpoint has no files")),
            }
        };
        self.contents.get_or_try_init(open).await
    }

    /// Opens all files except sidecars.
    pub(crate) async fn open_all(&self) -> Result<()> {
        for part in self.parts().await?.iter().filter(|p| p.sidecar.is_none()) {
            part.open().await?;
        }
        Ok(())
    }

    /// The file of a copy, which has only a checkpoint's adds.
    pub(crate) async fn copy(made: &Store, key: &str) -> Result<Self> {
        let part = Part::new(made, key.to_owned(), None);
        part.open().await?;
        Ok(Self::with(Contents::of_part(part)))
    }

    /// Whether deltaplane wrote it, as far as its files are open.
    pub(crate) async fn is_own(&self) -> Result<bool> {
        let top = self.parts().await?.first();
        Ok(top.is_some_and(|top| top.own_mark(BOUNDS_KEY).is_some()))
    }

    /// The paths by which a checkpoint names its sidecars; these may be deleted.
    pub(crate) async fn sidecar_names(store: &Store, files: &CheckpointFiles) -> Result<Vec<String>> {
        let (_, sidecars) = Contents::open_top(store, files).await?;
        sidecars.iter().map(|s| paths::decode(&s.path)).collect()
    }

    /// Protocol, metadata, transactions and domains.
    pub(crate) async fn state_actions(&self) -> Result<Vec<Action>> {
        self.contents().await?.state_actions().await
    }

    /// Fails unless the state and every file's path can be read.
    pub(crate) async fn check(&self) -> Result<Checked> {
        self.state_actions().await?;
        let (mut actions, mut adds) = (0, 0);
        for part in self.parts().await? {
            let part = part.to_read_once();
            actions += part.rows().await? as u64;
            let mut keys = Self::keys(&part);
            while let Some(batch) = keys.try_next().await? {
                let is_remove = batch.column_by_name("deletionTimestamp").is_some();
                adds += if is_remove { 0 } else { batch.num_rows() as u64 };
            }
        }
        Ok(Checked { actions, adds })
    }

    /// Its files.
    pub(crate) async fn parts(&self) -> Result<&[Part]> {
        Ok(&self.contents().await?.parts)
    }

    /// Bytes of the sidecars whose live files may match.
    pub(crate) async fn sidecar_bytes(&self, skipping: &Skipping) -> Result<u64> {
        let parts = Self::holding(self.parts().await?, FileActions::Adds, Some(skipping))?;
        Ok(contents::sidecar_bytes(parts.into_iter()))
    }

    /// Bytes of the sidecars by the checkpoint, 0 while that isn't open.
    pub(crate) fn known_sidecar_bytes(&self) -> u64 {
        self.contents
            .get()
            .map_or(0, |c| contents::sidecar_bytes(c.parts.iter()))
    }

    /// Path and deletion vector of each file action of a part, in batches like those of
    /// [`Self::part_files`].
    pub(crate) fn keys(part: &Part) -> BoxStream<'_, Result<RecordBatch>> {
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

    /// These files in their order, some of them opened ahead: a store answers many requests at a
    /// time. `once`: all of the sidecars are read, and none of them stays open.
    fn opened_ahead<'a>(parts: Vec<&'a Part>, once: bool) -> BoxStream<'a, Result<Reading<'a>>> {
        let reading: Vec<Reading<'a>> = parts
            .into_iter()
            .map(|p| match once && p.sidecar.is_some() {
                true => Reading::Once(Box::new(p.to_read_once())),
                false => Reading::Retained(p),
            })
            .collect();
        let open = |part: Reading<'a>| async move { part.open().await.map(|()| part) };
        stream::iter(reading).map(open).buffered(OPENED_AHEAD).boxed()
    }

    /// The files that may have such actions, judged without opening them.
    fn holding<'a>(parts: &'a [Part], what: FileActions, skipping: Option<&Skipping>) -> Result<Vec<&'a Part>> {
        let all: Vec<&Part> = parts.iter().filter(|p| p.may_have(what)).collect();
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
        let begun = async move {
            let contents = self.contents().await?;
            Self::files_of(contents, what, columns, skipping)
        };
        stream::once(begun).try_flatten().boxed()
    }

    fn files_of<'a>(
        contents: &'a Contents,
        what: FileActions,
        columns: PlanColumns,
        skipping: Option<&'a Skipping>,
    ) -> Result<BoxStream<'a, Result<RecordBatch>>> {
        let parts = Self::holding(&contents.parts, what, skipping)?;
        let manifest = contents.manifest_files(what)?;
        if let Some(batch) = &manifest
            && let Some(counters) = skipping.and_then(|s| s.counters.as_deref())
        {
            let adds = (0, batch.num_rows());
            counters.row_groups(adds, adds);
        }
        let of_part = move |p: Reading<'a>| Self::part_files(p, what, columns.clone(), skipping);
        let from_parquet = Self::opened_ahead(parts, skipping.is_none())
            .map_ok(of_part)
            .try_flatten();
        Ok(stream::iter(manifest.map(Ok)).chain(from_parquet).boxed())
    }

    /// Whether it may name a file twice. Checkpoints of deltaplane never do; foreign ones may.
    pub(crate) async fn may_repeat(&self) -> Result<bool> {
        let contents = self.contents().await?;
        Ok(contents.has_manifest() || !contents.parts.iter().all(Part::is_known_own))
    }

    /// Whether a JSON manifest has adds.
    pub(crate) async fn has_manifest_adds(&self) -> Result<bool> {
        Ok(self.contents().await?.has_manifest_adds())
    }

    /// The order that the single file of deltaplane's checkpoint records.
    pub(crate) async fn order_note(&self) -> Result<Option<&str>> {
        Ok(self
            .own_top()
            .await?
            .filter(|(_, files)| *files == 1)
            .map(|(note, _)| note))
    }

    /// The files whose adds are in that order, each by itself.
    pub(crate) async fn parts_in_order(&self) -> Result<Vec<&Part>> {
        let Some(part) = self.parts().await?.first() else {
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
    pub(crate) async fn sidecars_order(&self) -> Result<Option<&str>> {
        Ok(self
            .own_top()
            .await?
            .filter(|(_, files)| *files > 1)
            .map(|(note, _)| note))
    }

    /// The order that the top file records, and the number of all files.
    async fn own_top(&self) -> Result<Option<(&str, usize)>> {
        let parts = self.parts().await?;
        let Some((top, sidecars)) = parts.split_first() else {
            return Ok(None);
        };
        let is_one = top.sidecar.is_none() && sidecars.iter().all(|s| s.sidecar.is_some());
        let note = top.own_mark(ORDER_KEY).filter(|_| is_one);
        Ok(note.map(|note| (note, parts.len())))
    }

    /// Rows of all its files. Opens no sidecar whose rows the top file tells.
    pub(crate) async fn rows(&self) -> Result<usize> {
        let mut rows: usize = 0;
        for part in self.parts().await? {
            rows = rows.saturating_add(match part.range() {
                Some(range) => usize::try_from(range.adds.saturating_add(range.removes)).unwrap_or(usize::MAX),
                None => part.rows().await?,
            });
        }
        Ok(rows)
    }

    /// A sample of live files from the whole checkpoint, with statistics only.
    pub(crate) fn sample<'a>(&'a self) -> BoxStream<'a, Result<RecordBatch>> {
        let begun = async move {
            let parts = self
                .parts()
                .await?
                .iter()
                .filter(|p| p.may_have(FileActions::Adds))
                .collect();
            let column = |part: Reading<'a>| async move {
                part_column(&part, "add", NO_STATISTICS, Rows::Sample, Texts::Copied).await
            };
            let sampled = Self::opened_ahead(parts, true).and_then(column).try_flatten();
            Ok::<_, Error>(sampled)
        };
        stream::once(begun)
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
        let begun = async move {
            let parts = self.parts().await?.iter().enumerate();
            let parts = parts.filter(|(i, p)| without.binary_search(i).is_err() && p.may_have(what));
            let parts: Vec<&Part> = parts.map(|(_, p)| p).collect();
            let files = stream::iter(parts).flat_map(move |p| Self::part_files(p, what, columns.clone(), None));
            Ok::<_, Error>(files)
        };
        stream::once(begun).try_flatten().boxed()
    }

    /// As `files`, of one part.
    pub(crate) fn part_files<'a>(
        part: impl Deref<Target = Part> + Send + Sync + 'a,
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
            let rows = part_column(&part, what.column(), &without, wanted, texts).await?;
            Ok(rows.map(move |s| conform(&s?, &what.schema(), extra)))
        };
        stream::once(column).try_flatten().boxed()
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

/// The Arrow schema of one action column of a V1 checkpoint, for the writer.
pub(crate) fn struct_field(name: &str, schema: &Schema) -> Field {
    Field::new(name, DataType::Struct(Fields::from(schema.fields().to_vec())), true)
}
