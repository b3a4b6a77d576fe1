//! One file of a checkpoint: opened at the first read, its columns streamed, of adds only the rows
//! that may match.

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use arrow::array::{AsArray, RecordBatch, StructArray};
use arrow::compute::{filter_record_batch, is_not_null};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::files::{ADD_SCHEMA, REMOVE_SCHEMA};
use deltaplane_store::{ObjectInfo, Store};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, RowSelection};
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMask, ColumnChunkMetaData, ParquetMetaData};
use tokio::sync::OnceCell;

use crate::checkpoint::parquet_file::ParquetFile;
use crate::checkpoint::row_filter;
use crate::checkpoint::row_filter::Skipping;
use crate::checkpoint::row_group_writer::ReusedRowGroup;
use crate::checkpoint::sidecar_stats::{SidecarFile, SidecarRange};
use crate::checkpoint::skipping;
use crate::checkpoint::skipping::{Chosen, is_sound, mark};

/// Rows of a batch of file actions: large enough for columnar speed, small enough that converting a
/// batch takes a few megabytes.
const BATCH_ROWS: usize = 8 * 1024;
/// Most bytes of a batch, for files whose rows are long.
const BATCH_BYTES: usize = 16 << 20;
/// A column's values in one row group may take at most this much, or this much per row. Longer
/// values are no actions, and decoding holds several copies of each.
const COLUMN_BYTES: i64 = 128 << 20;
const ROW_BYTES: i64 = 16 << 10;
/// A sample of a file's rows is this many runs of consecutive rows.
const SAMPLED_RUNS: usize = 128;
const SAMPLED_ROWS: usize = 64;
/// Actions that every checkpoint has.
pub(crate) const STATE: [&str; 2] = ["protocol", "metaData"];

/// Which file actions to stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileActions {
    Adds,
    Removes,
}

impl FileActions {
    pub(crate) fn column(self) -> &'static str {
        match self {
            FileActions::Adds => "add",
            FileActions::Removes => "remove",
        }
    }

    pub(crate) fn schema(self) -> SchemaRef {
        match self {
            FileActions::Adds => ADD_SCHEMA.clone(),
            FileActions::Removes => REMOVE_SCHEMA.clone(),
        }
    }
}

/// A file of a checkpoint. Sidecars are opened when something is read of them: a table may have
/// thousands.
pub(crate) struct Part {
    store: Store,
    key: String,
    opened: OnceCell<Opened>,
    /// The listed object, if its tag tells it from another file of the same name.
    listed: Option<ObjectInfo>,
    /// The sidecar action of the top file, if the file is a sidecar.
    pub sidecar: Option<SidecarFile>,
    range: OnceLock<Option<SidecarRange>>,
    /// The exact file and the row groups to read, if that is a part of the file.
    wanted: Option<(ObjectInfo, Vec<usize>)>,
    /// Whether the file alone is the whole checkpoint.
    is_whole: bool,
}

#[derive(Clone)]
struct Opened {
    file: ParquetFile,
    footer: ArrowReaderMetadata,
}

impl Part {
    pub(crate) fn new(store: &Store, key: String, sidecar: Option<SidecarFile>) -> Self {
        Part {
            store: store.clone(),
            key,
            opened: OnceCell::new(),
            listed: None,
            sidecar,
            range: OnceLock::new(),
            wanted: None,
            is_whole: false,
        }
    }

    /// The same file, to be opened for one read and then dropped.
    pub(crate) fn to_read_once(&self) -> Part {
        Part {
            opened: OnceCell::new_with(self.opened.get().cloned()),
            listed: self.listed.clone(),
            range: self.range.clone(),
            wanted: self.wanted.clone(),
            is_whole: self.is_whole,
            ..Part::new(&self.store, self.key.clone(), self.sidecar.clone())
        }
    }

    /// A file as a listing returned it.
    pub(crate) fn listed(store: &Store, shown: ObjectInfo) -> Self {
        let listed = Some(shown.clone()).filter(|s| s.etag.is_some());
        Part {
            listed,
            ..Part::new(store, shown.key, None)
        }
    }

    /// The same file, required to contain the whole checkpoint.
    pub(crate) fn whole(self) -> Self {
        Part { is_whole: true, ..self }
    }

    /// Some row groups of a file that another process has seen.
    pub(crate) fn of_row_groups(store: &Store, seen: ObjectInfo, groups: Vec<usize>) -> Self {
        Part {
            wanted: Some((seen.clone(), groups)),
            ..Part::new(store, seen.key, None)
        }
    }

    /// Only these row groups of the same file, opened.
    pub(crate) async fn only(&self, groups: Range<usize>) -> Result<Part> {
        let opened = self.opened().await?.clone();
        let part = Part::of_row_groups(&self.store, opened.file.info().clone(), groups.collect());
        Ok(Part {
            opened: OnceCell::new_with(Some(opened)),
            ..part
        })
    }

    /// Its footer.
    pub(crate) async fn footer(&self) -> Result<&ParquetMetaData> {
        Ok(self.opened().await?.footer.metadata())
    }

    /// The same footer with the whole page index of these row groups.
    pub(crate) async fn with_page_index(&self, groups: Range<usize>) -> Result<ArrowReaderMetadata> {
        let Opened { file, footer } = self.opened().await?;
        let all = || ColumnChunkMask::row_groups(groups.clone());
        file.page_index(footer, all(), all()).await
    }

    /// One of its row groups, for copying. `footer` has its page index.
    pub(crate) async fn reused_row_group<'a>(
        &self,
        footer: &'a ArrowReaderMetadata,
        group: usize,
    ) -> Result<ReusedRowGroup<'a>> {
        let (file, footer) = (&self.opened().await?.file, footer.metadata());
        let columns = footer.row_groups().get(group).map(|g| g.columns()).unwrap_or_default();
        let bytes = columns.iter().map(|c| c.byte_range());
        let start = bytes.clone().map(|(start, _)| start).min().unwrap_or(0);
        let end = bytes
            .map(|(start, length)| start.saturating_add(length))
            .max()
            .unwrap_or(0);
        Ok(ReusedRowGroup {
            footer,
            group,
            bytes: file.bytes(start..end).await?,
            start,
        })
    }

    /// The file's key.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// For an opened file: the object, and its row groups with adds, each with its bytes.
    pub(crate) fn groups_of_adds(&self) -> Option<(&ObjectInfo, Vec<(usize, u64)>)> {
        let Opened { file, footer } = self.opened.get()?;
        let all = footer.metadata().row_groups();
        let bytes = |group: usize| all.get(group).map_or(0, |g| g.compressed_size());
        let groups = groups_with(footer.metadata(), FileActions::Adds.column()).into_iter();
        let sized = groups.map(|g| (g, u64::try_from(bytes(g)).unwrap_or(0)));
        Some((file.info(), sized.collect()))
    }

    /// The sidecar's range that the top file records, if deltaplane wrote it.
    pub(crate) fn range(&self) -> Option<&SidecarRange> {
        let range = || self.sidecar.as_ref().and_then(SidecarRange::from_tags);
        self.range.get_or_init(range).as_ref()
    }

    /// Whether one of its live files may have one of these paths, which are sorted and decoded.
    /// Reads at most the file's filter.
    pub(crate) async fn may_have_path(&self, paths: &[&str]) -> bool {
        let Some(known) = self.range().and_then(|range| range.paths.as_ref()) else {
            return true;
        };
        let near = known.near(paths);
        let filter = known.filter_for(near).filter(|_| !near.is_empty());
        let Some((filter, bytes)) = filter.and_then(|filter| Some((filter, filter.bytes()?))) else {
            return !near.is_empty();
        };
        match self.store.read_range(&self.key, bytes).await {
            Ok(content) => !filter.excludes(&content, near),
            // Reading the paths themselves tells what is wrong.
            Err(_) => true,
        }
    }

    /// Whether it may have such actions, judged without opening it.
    pub(crate) fn may_have(&self, what: FileActions) -> bool {
        self.range().is_none_or(|range| match what {
            FileActions::Adds => range.adds > 0,
            FileActions::Removes => range.removes > 0,
        })
    }

    /// Whether deltaplane is known to have written it, without opening it.
    pub(crate) fn is_known_own(&self) -> bool {
        let opened = self.opened.get().is_some_and(|o| is_sound(o.footer.metadata()));
        opened || self.range().is_some()
    }

    /// Whether deltaplane wrote it, with sound parsed bounds.
    pub(crate) async fn is_sound(&self) -> Result<bool> {
        Ok(is_sound(self.opened().await?.footer.metadata()))
    }

    /// Whether deltaplane wrote it, with all of these fields of such actions.
    pub(crate) async fn has_own_structs(&self, what: FileActions, wanted: &Schema) -> Result<bool> {
        let footer = &self.opened().await?.footer;
        let action = footer.schema().field_with_name(what.column());
        let has_all = match action.map(|f| f.data_type()) {
            Ok(DataType::Struct(own)) => covers(own, wanted.fields()),
            _ => false,
        };
        Ok(has_all && is_sound(footer.metadata()))
    }

    /// Whether the filter columns alone rule out every row, so that the other columns need not be
    /// read.
    pub(crate) async fn is_filtered(&self, skipping: &Skipping) -> Result<bool> {
        let footer = &self.opened().await?.footer;
        let is_own = is_sound(footer.metadata());
        Ok(row_filter::is_complete(footer, &skipping.pruner, is_own))
    }

    /// Opens the file unless it is open.
    pub(crate) async fn open(&self) -> Result<()> {
        self.opened().await.map(|_| ())
    }

    /// The footer's value for this key, if the file is open and sound.
    pub(crate) fn own_mark(&self, key: &str) -> Option<&str> {
        let footer = self.opened.get()?.footer.metadata();
        mark(footer, key).filter(|_| is_sound(footer))
    }

    async fn opened(&self) -> Result<&Opened> {
        self.opened.get_or_try_init(|| self.open_sound()).await
    }

    async fn open_sound(&self) -> Result<Opened> {
        let opened = self.open_anew().await?;
        if self.is_whole {
            check_whole(&opened.footer).map_err(|e| e.with_path(&self.key))?;
        }
        Ok(opened)
    }

    async fn open_anew(&self) -> Result<Opened> {
        if let Some((seen, _)) = &self.wanted {
            // Row groups belong to one exact file: another file under its name is an error.
            let file = ParquetFile::listed(&self.store, seen.clone());
            let footer = file.footer().await?;
            return Ok(Opened { file, footer });
        }
        if let Some(listed) = &self.listed {
            let file = ParquetFile::listed(&self.store, listed.clone());
            match file.footer().await {
                // Another writer has replaced or deleted it since: the current object is opened.
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

    /// Whether the opened file may have an action of this name.
    pub(crate) fn may_hold(&self, name: &str) -> bool {
        self.opened.get().is_some_and(|opened| holds(&opened.footer, name))
    }

    /// Number of rows.
    pub(crate) async fn rows(&self) -> Result<usize> {
        let footer = &self.opened().await?.footer;
        Ok(usize::try_from(footer.metadata().file_metadata().num_rows()).unwrap_or(0))
    }
}

/// Whether a file may have an action of this name.
fn holds(footer: &ArrowReaderMetadata, name: &str) -> bool {
    let column = footer.schema().field_with_name(name);
    let is_action = column.is_ok_and(|f| matches!(f.data_type(), DataType::Struct(_)));
    is_action && !groups_with(footer.metadata(), name).is_empty()
}

/// Refuses a file that isn't a whole checkpoint by itself.
fn check_whole(footer: &ArrowReaderMetadata) -> Result<()> {
    if let Some(name) = STATE.iter().find(|name| !holds(footer, name)) {
        return Err(no_checkpoint(name));
    }
    if holds(footer, "sidecar") {
        return Err(Error::corrupt_file(
            "the checkpoint names sidecars, and the table doesn't have the feature v2Checkpoint: delete it if the commits before it still exist",
        ));
    }
    Ok(())
}

/// The error for a file without an action that every checkpoint has (P050).
pub(crate) fn no_checkpoint(name: &str) -> Error {
    Error::corrupt_file(format!(
        "the file has a checkpoint's name and no {name} action: it isn't a checkpoint; restore it, or delete it if the commits before it still exist"
    ))
}

/// Selects rows of a file's column.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a> {
    /// Every action.
    All,
    /// Every action of a rare kind.
    Few,
    /// A sample.
    Sample,
    /// Actions that the predicate doesn't rule out.
    Matching(&'a Skipping),
}

/// How the JSON statistics of checkpoint rows are returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Texts {
    /// Copied into a column.
    Copied,
    /// As views of the decoded pages, for readers that use them once, since they are most of a
    /// checkpoint's bytes.
    InPlace,
}

/// The actions of a column in these rows, without some of its fields.
pub(crate) async fn part_column(
    part: &Part,
    name: &'static str,
    without: &[&str],
    wanted: Rows<'_>,
    texts: Texts,
) -> Result<BoxStream<'static, Result<StructArray>>> {
    let Opened { file, footer } = part.opened().await?;
    let schema = footer.schema();
    let Ok(field) = schema.field_with_name(name) else {
        return Ok(stream::empty().boxed());
    };
    let DataType::Struct(children) = field.data_type() else {
        return Err(
            Error::corrupt_file(format!("the checkpoint's column `{name}` isn't a struct")).with_path(&part.key),
        );
    };
    let mut groups = groups_with(footer.metadata(), name);
    if let Some((_, wanted)) = &part.wanted {
        groups.retain(|g| wanted.contains(g));
    }
    let absent = without_values(footer, name, children, &groups);
    let read: Vec<Vec<String>> = children
        .iter()
        .map(|c| c.name().as_str())
        .filter(|c| !without.contains(c) && !absent.contains(c))
        .map(|c| row_filter::path(&[name, c]))
        .collect();
    let mask = row_filter::mask(footer.parquet_schema(), &read);
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
        Rows::Matching(skipping) => skipping::choose(file, all, skipping, &mask).await?,
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
    let typed = match texts {
        Texts::InPlace => in_place(&indexed).unwrap_or(indexed),
        Texts::Copied => indexed,
    };
    let mut builder = ParquetRecordBatchStreamBuilder::new_with_metadata(file.clone(), typed)
        .with_projection(mask)
        .with_row_groups(groups)
        .with_batch_size(batch_rows);
    if let Some(rows) = rows {
        builder = builder.with_row_selection(rows);
    }
    let filter = match wanted {
        Rows::All | Rows::Sample => None,
        Rows::Few => row_filter::rare(footer, name, children),
        Rows::Matching(skipping) => row_filter::filter(footer, skipping),
    };
    if let Some(filter) = filter {
        builder = builder.with_row_filter(filter);
    }
    let rows = builder.build().map_err(|e| file.unreadable(e))?;
    // The decoder panics on some damage.
    let rows = AssertUnwindSafe(rows).catch_unwind();
    // The stream may outlive the part.
    let file = file.clone();
    Ok(rows
        .map(|row| row.unwrap_or_else(|_| Err(ParquetError::General("the decoder gave up".to_owned()))))
        .map_err(move |e| file.unreadable(e))
        .try_filter_map(move |batch| async move { present(&batch) })
        .boxed())
}

/// The same file with statistics in text decoded to views.
fn in_place(footer: &ArrowReaderMetadata) -> Option<ArrowReaderMetadata> {
    let viewed = |field: &FieldRef| match (field.name().as_str(), field.data_type()) {
        ("stats", DataType::Utf8) => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View)),
        _ => field.clone(),
    };
    let fields = footer.schema().fields().iter().map(|field| match field.data_type() {
        DataType::Struct(inner) if field.name() == "add" => {
            let inner = DataType::Struct(inner.iter().map(viewed).collect());
            Arc::new(field.as_ref().clone().with_data_type(inner))
        }
        _ => field.clone(),
    });
    let schema = Arc::new(Schema::new(fields.collect::<Fields>()));
    let options = ArrowReaderOptions::new().with_schema(schema);
    ArrowReaderMetadata::try_new(footer.metadata().clone(), options).ok()
}

/// Fields of an action without a value in any of these row groups: a field that isn't read is null
/// as well. A checkpoint has many fields that few tables use. Lists and maps are excluded, since
/// they may be empty.
fn without_values<'a>(
    footer: &ArrowReaderMetadata,
    action: &str,
    fields: &'a Fields,
    groups: &[usize],
) -> BTreeSet<&'a str> {
    let mut empty: BTreeSet<&str> = fields
        .iter()
        .filter(|f| is_flat(f))
        .map(|f| f.name().as_str())
        .collect();
    for group in groups.iter().filter_map(|g| footer.metadata().row_groups().get(*g)) {
        for column in group.columns().iter().filter(|c| is_of(c, action) && !is_all_null(c)) {
            if let Some(field) = column.column_path().parts().get(1) {
                empty.remove(field.as_str());
            }
        }
    }
    empty
}

/// Whether a field has only primitive values.
fn is_flat(field: &Field) -> bool {
    match field.data_type() {
        DataType::Struct(inner) => inner.iter().all(|f| is_flat(f)),
        other => !other.is_nested(),
    }
}

/// Rows of these columns to decode at once within the memory bound.
fn batch_rows(part: &Part, footer: &ParquetMetaData, groups: &[usize], mask: &ProjectionMask) -> Result<usize> {
    let mut most = BATCH_ROWS;
    for (number, group) in footer.row_groups().iter().enumerate() {
        if !groups.contains(&number) {
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
                    "the checkpoint's column `{}` has {size} bytes in the {} rows of row group {number}, which no actions take: restore the file, or delete it if the commits before it still exist",
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

/// Whether a column belongs to this action.
pub(crate) fn is_of(column: &ColumnChunkMetaData, action: &str) -> bool {
    column.column_path().parts().first().is_some_and(|p| p == action)
}

/// Whether it is known to have no value.
pub(crate) fn is_all_null(column: &ColumnChunkMetaData) -> bool {
    let nulls = column.statistics().and_then(|s| s.null_count_opt());
    nulls.is_some_and(|n| i64::try_from(n) == Ok(column.num_values()))
}

/// Row groups in which some leaf of this action has a non-null value, by the footer's statistics.
fn groups_with(footer: &ParquetMetaData, name: &str) -> Vec<usize> {
    let inside = |g: &parquet::file::metadata::RowGroupMetaData| {
        g.columns().iter().filter(|c| is_of(c, name)).any(|c| !is_all_null(c))
    };
    footer
        .row_groups()
        .iter()
        .enumerate()
        .filter(|(_, g)| inside(g))
        .map(|(i, _)| i)
        .collect()
}

/// Whether all of these fields exist, each with its type.
fn covers(own: &Fields, wanted: &Fields) -> bool {
    wanted.iter().all(|want| {
        let have = own.find(want.name()).map(|(_, f)| f.data_type());
        match (have, want.data_type()) {
            (Some(DataType::Struct(own)), DataType::Struct(wanted)) => covers(own, wanted),
            (have, want) => have == Some(want),
        }
    })
}

/// Runs of rows spread over these row groups.
fn spread(footer: &ParquetMetaData, groups: &[usize]) -> RowSelection {
    let (mut runs, mut first) = (Vec::new(), 0);
    let runs_of_group = (SAMPLED_RUNS / groups.len().max(1)).max(1);
    for group in groups {
        let rows = footer.row_groups().get(*group).map_or(0, |g| g.num_rows());
        let rows = usize::try_from(rows).unwrap_or(0);
        let step = (rows / runs_of_group).max(SAMPLED_ROWS);
        let starts = (0..rows).step_by(step);
        runs.extend(starts.map(|start| first + start..first + rows.min(start + SAMPLED_ROWS)));
        first += rows;
    }
    RowSelection::from_consecutive_ranges(runs.into_iter(), first)
}

/// The rows whose action isn't null; `None` if there is none.
fn present(batch: &RecordBatch) -> Result<Option<StructArray>> {
    let damaged = |e| Error::corrupt_file(format!("the checkpoint can't be decoded: {e}"));
    let column = batch.column(0);
    let rows = filter_record_batch(batch, &is_not_null(column).map_err(damaged)?).map_err(damaged)?;
    if rows.num_rows() == 0 {
        return Ok(None);
    }
    Ok(rows.column(0).as_struct_opt().cloned())
}
