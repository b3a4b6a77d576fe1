//! Finds the row groups and rows of a checkpoint's file that may hold files matching a predicate,
//! by Parquet's statistics of the columns of bounds: nothing is decoded. Applies only to files that
//! deltaplane wrote, because only they keep the promise of [`BOUNDS_KEY`].

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt32Array, UInt64Array};
use arrow::compute::{nullif, take};
use arrow::datatypes::{DataType, Field, Fields, UInt64Type};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::prune::{RunBounds, RunPruner, RunRange};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, RowSelection};
use parquet::file::metadata::page_index::PageIndexProvider;
use parquet::file::metadata::{ColumnChunkMask, ParquetMetaData, RowGroupMetaData};
use parquet::schema::types::SchemaDescriptor;

use crate::checkpoint::parquet_file::ParquetFile;
use crate::checkpoint::row_filter::Skipping;

/// The footer's key which promises that parsed bounds are sound: no minimum above its maximum and
/// no NaN, which Parquet's statistics would leave out. The file has null where a writer logged such
/// a bound.
pub(crate) const BOUNDS_KEY: &str = "deltaplane.bounds";
/// The value under that key.
pub(crate) const BOUNDS_VALUE: &str = "sound";

/// Whether a file's parsed bounds are sound.
pub(crate) fn is_sound(footer: &ParquetMetaData) -> bool {
    mark(footer, BOUNDS_KEY) == Some(BOUNDS_VALUE)
}

/// The footer's value for this key.
pub(crate) fn mark<'a>(footer: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let marks = footer.file_metadata().key_value_metadata()?;
    marks.iter().find(|m| m.key == key)?.value.as_deref()
}

/// The part of a file to decode.
#[derive(Clone)]
pub(crate) struct Chosen {
    pub footer: ArrowReaderMetadata,
    pub groups: Vec<usize>,
    /// Rows of these groups, one group after the other; all when absent.
    pub rows: Option<RowSelection>,
}

impl Chosen {
    /// Numbers of row groups and of their adds.
    fn size(&self) -> (usize, usize) {
        let all = self.footer.metadata().row_groups();
        let adds = self.groups.iter().filter_map(|g| all.get(*g)).map(adds_of);
        (self.groups.len(), adds.fold(0, usize::saturating_add))
    }
}

/// The part of these row groups of adds that may match; `read` are the columns to decode.
pub(crate) async fn choose(
    file: &ParquetFile,
    all: Chosen,
    skipping: &Skipping,
    read: &ProjectionMask,
) -> Result<Chosen> {
    let chosen = chosen(file, &all, skipping.pruner.runs(), read)
        .await?
        .unwrap_or_else(|| all.clone());
    if let Some(counters) = &skipping.counters {
        let (before, after) = (all.size(), chosen.size());
        counters.row_groups(before, after);
        // Pages with rows of other actions stay.
        let skipped = chosen.rows.as_ref().map_or(0, RowSelection::skipped_row_count);
        counters.skipped_by_pages(skipped);
    }
    Ok(chosen)
}

/// Rows of a row group that are adds, of which each has a path. All rows if the footer doesn't
/// tell.
fn adds_of(group: &RowGroupMetaData) -> usize {
    let path = group
        .columns()
        .iter()
        .find(|c| c.column_path().parts() == ["add", "path"]);
    let others = path.and_then(|c| c.statistics()?.null_count_opt()).unwrap_or(0);
    let rows = u64::try_from(group.num_rows()).unwrap_or(0);
    usize::try_from(rows.saturating_sub(others)).unwrap_or(usize::MAX)
}

/// Least and greatest values of these leaves in the adds of a file with one row group.
pub(crate) fn ranges_of_group(footer: &ArrowReaderMetadata, leaves: &[RunBounds]) -> Result<Vec<Option<RunRange>>> {
    match Columns::of(footer, leaves).filter(|_| footer.metadata().num_row_groups() == 1) {
        Some(columns) => columns.of_groups(footer.metadata(), &[0]),
        None => Ok(vec![None; leaves.len()]),
    }
}

/// As `choose`; `None` if nothing can be skipped.
async fn chosen(file: &ParquetFile, all: &Chosen, pruner: &RunPruner, read: &ProjectionMask) -> Result<Option<Chosen>> {
    let Some(columns) = Columns::of(&all.footer, pruner.bounds()) else {
        return Ok(None);
    };
    let ranges = columns.of_groups(all.footer.metadata(), &all.groups)?;
    let keep = pruner.keep(all.groups.len(), &ranges)?;
    let groups_chosen = all
        .groups
        .iter()
        .zip(keep.values())
        .filter_map(|(g, k)| k.then_some(*g));
    let groups: Vec<usize> = groups_chosen.collect();
    let (mut footer, mut rows) = (all.footer.clone(), None);
    if !groups.is_empty() {
        let (bounds, places) = (columns.mask(&groups, None), columns.mask(&groups, Some(read)));
        footer = file.page_index(&footer, bounds, places).await?;
        if let Some(index) = footer.metadata().page_index() {
            rows = columns.rows(footer.metadata(), index.as_ref(), &groups, pruner)?;
        }
    }
    Ok(Some(Chosen { footer, groups, rows }))
}

/// A leaf of the file.
struct Column {
    index: usize,
    field: Field,
}

/// The leaves that the predicate needs, in the pruner's order.
struct Columns<'a> {
    schema: &'a SchemaDescriptor,
    bounds: Vec<Option<(Column, Column)>>,
    null_is_unknown: Vec<bool>,
    /// A leaf with a value in every add.
    path: Column,
}

impl<'a> Columns<'a> {
    /// `None` if nothing can be skipped.
    fn of(footer: &'a ArrowReaderMetadata, leaves: &[RunBounds]) -> Option<Self> {
        if !is_sound(footer.metadata()) {
            return None;
        }
        let schema = footer.parquet_schema();
        let places: BTreeMap<&[String], usize> = schema
            .columns()
            .iter()
            .enumerate()
            .map(|(i, c)| (c.path().parts(), i))
            .collect();
        let find = |below: &[String]| {
            let path: Vec<String> = std::iter::once("add".to_owned()).chain(below.iter().cloned()).collect();
            let field = leaf(footer.schema().fields(), &path)?;
            Some(Column {
                index: *places.get(path.as_slice())?,
                field,
            })
        };
        let both = |b: &RunBounds| Some((find(&b.min)?, find(&b.max)?));
        let bounds: Vec<_> = leaves.iter().map(both).collect();
        if bounds.iter().all(Option::is_none) {
            return None;
        }
        Some(Columns {
            schema,
            bounds,
            null_is_unknown: leaves.iter().map(|b| b.null_is_unknown).collect(),
            path: find(&["path".to_owned()])?,
        })
    }

    /// All leaves that the predicate needs, and `more`.
    fn mask(&self, groups: &[usize], more: Option<&ProjectionMask>) -> ColumnChunkMask {
        let own = self
            .bounds
            .iter()
            .flatten()
            .flat_map(|(min, max)| [min.index, max.index]);
        let mut columns: BTreeSet<usize> = own.chain([self.path.index]).collect();
        if let Some(read) = more {
            columns.extend((0..self.schema.num_columns()).filter(|c| read.leaf_included(*c)));
        }
        ColumnChunkMask::row_groups_and_columns(groups.iter().copied(), columns)
    }

    fn converter<'c>(&'c self, column: &'c Column) -> Result<StatisticsConverter<'c>> {
        let stats = StatisticsConverter::from_column_index(column.index, &column.field, self.schema);
        stats
            .map(|c| c.with_missing_null_counts_as_zero(false))
            .map_err(unusable)
    }

    /// A range for each leaf, with a value for each of these row groups.
    fn of_groups(&self, metadata: &'a ParquetMetaData, groups: &[usize]) -> Result<Vec<Option<RunRange>>> {
        let chosen: Vec<_> = groups.iter().filter_map(|g| metadata.row_groups().get(*g)).collect();
        let here = || chosen.iter().copied();
        let others = self
            .converter(&self.path)?
            .row_group_null_counts(here())
            .map_err(unusable)?;
        self.ranges(|column| {
            let stats = self.converter(column)?;
            Ok(Known {
                min: stats.row_group_mins(here()).map_err(unusable)?,
                max: stats.row_group_maxes(here()).map_err(unusable)?,
                nulls: stats.row_group_null_counts(here()).map_err(unusable)?,
                others: others.clone(),
            })
        })
    }

    fn ranges(&self, known_of: impl Fn(&Column) -> Result<Known>) -> Result<Vec<Option<RunRange>>> {
        let range = |(bounds, strict): (&Option<(Column, Column)>, &bool)| {
            let Some((min, max)) = bounds else { return Ok(None) };
            let (min, max) = (known_of(min)?, known_of(max)?);
            Ok(Some((min.trusted(&min.min, *strict)?, max.trusted(&max.max, *strict)?)))
        };
        self.bounds.iter().zip(&self.null_is_unknown).map(range).collect()
    }

    /// The rows of the groups that may match, by the pages that hold them; `None` if those are all.
    fn rows(
        &self,
        metadata: &ParquetMetaData,
        index: &dyn PageIndexProvider,
        groups: &[usize],
        pruner: &RunPruner,
    ) -> Result<Option<RowSelection>> {
        let (mut selected, mut first) = (Vec::new(), 0);
        for group in groups {
            let rows = metadata.row_groups().get(*group).map_or(0, |g| g.num_rows());
            let rows = usize::try_from(rows).unwrap_or(0);
            match self.pages(index, *group, rows)? {
                Some(Paged { starts, ranges }) => {
                    let keep = pruner.keep(starts.len(), &ranges)?;
                    let ends = starts.iter().copied().skip(1).chain([rows]);
                    let runs = starts.iter().copied().zip(ends).zip(keep.values());
                    selected.extend(runs.filter_map(|((from, until), k)| k.then_some(first + from..first + until)));
                }
                None => selected.push(first..first + rows),
            }
            first += rows;
        }
        Ok(
            match selected.iter().map(ExactSizeIterator::len).sum::<usize>() == first {
                true => None,
                false => Some(RowSelection::from_consecutive_ranges(selected.into_iter(), first)),
            },
        )
    }

    /// The starts of the runs of pages in a row group, and the ranges of the runs. Columns have
    /// different pages, so a run ends where a page of any column does. `None` if a column has no
    /// index.
    fn pages(&self, index: &dyn PageIndexProvider, group: usize, rows: usize) -> Result<Option<Paged>> {
        let bounds = self.bounds.iter().flatten().flat_map(|(min, max)| [min, max]);
        let mut all: BTreeSet<usize> = BTreeSet::new();
        for column in bounds.chain([&self.path]) {
            match page_starts(index, group, column.index, rows) {
                Some(starts) => all.extend(starts),
                None => return Ok(None),
            }
        }
        let starts: Vec<usize> = all.into_iter().collect();
        let groups = [group];
        let ranges = self.ranges(|column| {
            let own = page_starts(index, group, column.index, rows).unwrap_or_default();
            let page = |row: &usize| u32::try_from(own.partition_point(|s| s <= row).saturating_sub(1)).ok();
            let pages: UInt32Array = starts.iter().map(page).collect();
            let pick = |array: &dyn Array| take(array, &pages, None).map_err(arrow_failed);
            let converter = self.converter(column)?;
            let nulls = pick(&converter.data_page_null_counts(index, &groups).map_err(unusable)?)?;
            Ok(Known {
                min: pick(&converter.data_page_mins(index, &groups).map_err(unusable)?)?,
                max: pick(&converter.data_page_maxes(index, &groups).map_err(unusable)?)?,
                nulls: nulls.as_primitive::<UInt64Type>().clone(),
                // Pages of two columns hold different rows, so null counts can't be compared: a
                // page with a row of another action counts as one with an unknown bound.
                others: UInt64Array::from(vec![0; starts.len()]),
            })
        })?;
        Ok(Some(Paged { starts, ranges }))
    }
}

/// The runs of pages of a row group.
struct Paged {
    /// First row of each run.
    starts: Vec<usize>,
    /// The range of each leaf in each run, if known.
    ranges: Vec<Option<RunRange>>,
}

/// Parquet's statistics of a column in each run.
struct Known {
    min: ArrayRef,
    max: ArrayRef,
    nulls: UInt64Array,
    /// Number of rows that aren't adds.
    others: UInt64Array,
}

impl Known {
    /// The bound, where every add has one.
    fn trusted(&self, bound: &ArrayRef, null_is_unknown: bool) -> Result<ArrayRef> {
        if !null_is_unknown {
            return Ok(bound.clone());
        }
        let complete = |i: usize| {
            let known = self.nulls.is_valid(i) && self.others.is_valid(i);
            known && self.nulls.value(i) == self.others.value(i)
        };
        let unknown: BooleanArray = (0..bound.len()).map(|i| Some(!complete(i))).collect();
        nullif(bound, &unknown).map_err(arrow_failed)
    }
}

/// First rows of a column's pages in a row group, if the index has them.
fn page_starts(index: &dyn PageIndexProvider, group: usize, column: usize, rows: usize) -> Option<Vec<usize>> {
    let pages = index.page_locations(group, column)?;
    index.column_index(group, column)?;
    let starts: Vec<usize> = pages
        .iter()
        .map(|p| usize::try_from(p.first_row_index).ok())
        .collect::<Option<_>>()?;
    let ascending = starts.windows(2).all(|w| matches!(w, [a, b] if a < b));
    (ascending && starts.first() == Some(&0) && starts.last().is_some_and(|last| *last < rows)).then_some(starts)
}

/// The leaf at this path through structs.
fn leaf(fields: &Fields, path: &[String]) -> Option<Field> {
    let (name, rest) = path.split_first()?;
    let field = fields.iter().find(|f| f.name() == name)?;
    match (field.data_type(), rest) {
        (DataType::Struct(inner), [_, ..]) => leaf(inner, rest),
        (DataType::Struct(_) | DataType::List(_) | DataType::Map(..), _) | (_, [_, ..]) => None,
        (_, []) => Some(field.as_ref().clone()),
    }
}

fn unusable(e: parquet::errors::ParquetError) -> Error {
    Error::corrupt_file(format!("a checkpoint's statistics can't be read: {e}")).with_source(e)
}

fn arrow_failed(e: arrow::error::ArrowError) -> Error {
    Error::internal(format!("a checkpoint's statistics can't be used: {e}")).with_source(e)
}
