//! Decodes one unit of a file (a row group, or rows of one) into batches of the output: converts
//! columns, adds constants, filters exactly. The predicate's columns are decoded first, and of the
//! others only the matching rows. Blocking; runs on a worker thread.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{concat_batches, filter_record_batch, is_not_null, take};
use arrow::error::ArrowError;
use deltaplane_error::{Error, Result};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection, RowSelectionPolicy, RowSelector,
};

use parquet::basic::CompressionCodec;
use parquet::file::page_index::offset_index::PageLocation;

use super::hidden::Hidden;
use super::plan::{ColumnSource, FilePlan, Part};
use super::source::Input;
use crate::convert::Convert;

/// Rows of one row group.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    /// Which row group.
    pub(super) row_group: usize,
    /// The position in the file of the group's first row.
    pub(super) first: u64,
    /// How many rows will be decoded.
    pub(super) rows: usize,
    /// The rows; `None` for the whole group.
    pub(super) selection: Option<RowSelection>,
}

/// Decodes a unit; `emit` returns false when the receiver is gone.
pub(super) fn decode(
    plan: &FilePlan,
    unit: Unit,
    input: Input,
    mut emit: impl FnMut(RecordBatch) -> bool,
) -> Result<()> {
    let Some(filter) = &plan.filter else {
        for batch in Rows::new(plan, &plan.rest, &unit, input)? {
            if !emit(batch?) {
                break;
            }
        }
        return Ok(());
    };
    let Some((matching, unit)) = matching(plan, filter, unit, input.clone())? else {
        return Ok(());
    };
    let mut offset = 0;
    for rest in Rows::new(plan, &plan.rest, &unit, input)? {
        let rest = rest?;
        let rows = rest.num_rows();
        if !emit(joined(plan, &matching.slice(offset, rows), &rest)?) {
            break;
        }
        offset += rows;
    }
    Ok(())
}

/// The filter columns of the remaining rows, and the unit restricted to these rows; `None` if no
/// row remains.
fn matching(plan: &FilePlan, filter: &Part, unit: Unit, input: Input) -> Result<Option<(RecordBatch, Unit)>> {
    let failed = |e: ArrowError| Error::internal(format!("filtering rows: {e}"));
    let (mut masks, mut batches): (Vec<BooleanArray>, Vec<RecordBatch>) = (Vec::new(), Vec::new());
    for batch in Rows::new(plan, filter, &unit, input)? {
        let batch = batch?;
        let keep = plan.prepared.keep(&batch)?;
        match keep.true_count() {
            0 => {}
            all if all == batch.num_rows() => batches.push(batch),
            _ => batches.push(filter_record_batch(&batch, &keep).map_err(failed)?),
        }
        masks.push(keep);
    }
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if rows == 0 {
        return Ok(None);
    }
    let matching = match batches.as_slice() {
        [single] => single.clone(),
        many => concat_batches(&filter.schema, many).map_err(failed)?,
    };
    let selection = if rows == unit.rows {
        unit.selection
    } else {
        let matches = RowSelection::from_filters(&masks);
        Some(match unit.selection {
            Some(selected) => selected.and_then(&matches),
            None => matches,
        })
    };
    let (row_group, first) = (unit.row_group, unit.first);
    Ok(Some((
        matching,
        Unit {
            row_group,
            first,
            rows,
            selection,
        },
    )))
}

/// The output columns, from both parts of the same rows.
fn joined(plan: &FilePlan, filter: &RecordBatch, rest: &RecordBatch) -> Result<RecordBatch> {
    let columns = plan.outputs.iter().map(|(of_filter, place)| {
        let from = if *of_filter { filter } else { rest };
        let column = from.columns().get(*place).cloned();
        column.ok_or_else(|| Error::internal("a column went missing while filtering"))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rest.num_rows()));
    RecordBatch::try_new_with_options(plan.prepared.output_schema.clone(), columns, &options)
        .map_err(|e| Error::internal(format!("filtered columns don't fit the table's schema: {e}")))
}

/// The batches of a unit's columns, for one part of the plan.
struct Rows<'a> {
    plan: &'a FilePlan,
    part: &'a Part,
    unit: &'a Unit,
    /// For finding the position of a decoding error.
    input: Option<Input>,
    /// Absent if the file has no column of the part.
    reader: Option<ParquetRecordBatchReader>,
    /// Rows left to emit without a reader.
    left: usize,
    /// Positions in the file of the rows left to emit.
    positions: Positions,
}

type Positions = Box<dyn Iterator<Item = i64> + Send>;

/// The positions in the file of a unit's rows.
fn positions(unit: &Unit) -> Positions {
    let first = i64::try_from(unit.first).unwrap_or(i64::MAX);
    let Some(selection) = &unit.selection else {
        return Box::new(first..);
    };
    let selectors: Vec<RowSelector> = selection.iter().copied().collect();
    let runs = selectors.into_iter().scan(first, |position, selector| {
        let start = *position;
        *position = start.saturating_add(i64::try_from(selector.row_count).unwrap_or(i64::MAX));
        Some(if selector.skip { start..start } else { start..*position })
    });
    Box::new(runs.flatten())
}

impl<'a> Rows<'a> {
    fn new(plan: &'a FilePlan, part: &'a Part, unit: &'a Unit, input: Input) -> Result<Self> {
        if part.leaves.is_empty() {
            return Ok(Rows {
                plan,
                part,
                unit,
                input: None,
                reader: None,
                left: unit.rows,
                positions: positions(unit),
            });
        }
        let again = input.clone();
        let reader = reader(plan, part.mask.clone(), unit, input, plan.batch_rows).map_err(|e| corrupt(&e))?;
        Ok(Rows {
            plan,
            part,
            unit,
            input: Some(again),
            reader: Some(reader),
            left: 0,
            positions: positions(unit),
        })
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(reader) = &mut self.reader else {
            let rows = self.left.min(self.plan.batch_rows);
            self.left -= rows;
            return (rows > 0).then(|| assemble(self.part, &[], rows, &mut self.positions));
        };
        let batch = reader.next()?;
        Some(
            batch
                .map_err(|e| self.failed(&e))
                .and_then(|b| assemble(self.part, b.columns(), b.num_rows(), &mut self.positions)),
        )
    }
}

fn reader(
    plan: &FilePlan,
    mask: ProjectionMask,
    unit: &Unit,
    input: Input,
    batch_rows: usize,
) -> Result<ParquetRecordBatchReader, ArrowError> {
    let chunks = plan.metadata.metadata().row_groups().get(unit.row_group);
    let chunks = chunks.into_iter().flat_map(|group| group.columns().iter().enumerate());
    let mut read = chunks.filter(|(leaf, _)| mask.leaf_included(*leaf));
    let lacks_pages = !read.all(|(_, chunk)| input.covers(chunk.byte_range()));
    let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(input, plan.metadata.clone())
        .with_row_groups(vec![unit.row_group])
        .with_projection(mask)
        .with_batch_size(batch_rows);
    if let Some(selection) = &unit.selection {
        builder = builder.with_row_selection(selection.clone());
        // Decoding by a mask reads the pages without selected rows, too, which weren't fetched.
        if lacks_pages {
            builder = builder.with_row_selection_policy(RowSelectionPolicy::Selectors);
        }
    }
    Ok(builder.build()?)
}

impl Rows<'_> {
    fn failed(&self, e: &ArrowError) -> Error {
        if self.uses_lzo() {
            return Error::unsupported_feature(format!(
                "a data file is compressed by LZO, which deltaplane can't read ({e}): write the file again by the program that wrote it, with ZSTD or SNAPPY"
            ));
        }
        match e.to_string().contains("UTF-8").then(|| self.not_utf8()).flatten() {
            Some((column, place)) => Error::corrupt_file(format!(
                "the column `{column}` of a data file can't be read in {place} of the file: its text isn't UTF-8 ({e}); another program wrote it in another encoding: write the file again, or read the other columns"
            )),
            None => corrupt(e),
        }
    }

    /// LZO is Parquet's only codec that the decoder lacks.
    fn uses_lzo(&self) -> bool {
        let group = self.plan.metadata.metadata().row_groups().get(self.unit.row_group);
        let chunks = group.map(|g| g.columns()).unwrap_or_default();
        self.part
            .leaves
            .iter()
            .filter_map(|leaf| chunks.get(*leaf))
            .any(|c| c.compression_codec() == CompressionCodec::LZO)
    }

    /// The column with invalid UTF-8, and the row: decodes its leaves once more, each by itself,
    /// row by row. A dictionary is decoded completely, before its rows.
    fn not_utf8(&self) -> Option<(String, String)> {
        let schema = self.plan.metadata.parquet_schema();
        self.part.leaves.iter().find_map(|leaf| {
            let mask = ProjectionMask::leaves(schema, [*leaf]);
            let read_rows = |rows| reader(self.plan, mask.clone(), self.unit, self.input.clone()?, rows).ok();
            if read_rows(self.plan.batch_rows)?.all(|batch| batch.is_ok()) {
                return None;
            }
            let good = read_rows(1)?.take_while(|batch| batch.is_ok()).count();
            let row = positions(self.unit).nth(good)?;
            let group = self.plan.metadata.metadata().row_groups().get(self.unit.row_group);
            let chunk = group.and_then(|g| g.columns().get(*leaf));
            let place = match chunk.and_then(|c| c.dictionary_page_offset()) {
                Some(_) if good == 0 => format!("the row group that begins with row {}", self.unit.first),
                _ => format!("row {row}"),
            };
            Some((schema.column(*leaf).path().string(), place))
        })
    }
}

fn corrupt(e: &ArrowError) -> Error {
    Error::corrupt_file(format!(
        "a data file's rows can't be decoded ({e}): it was cut short or damaged; restore it, or remove it from the table"
    ))
}

/// A part's columns from the decoded ones.
fn assemble(part: &Part, decoded: &[ArrayRef], rows: usize, positions: &mut Positions) -> Result<RecordBatch> {
    let hidden = part.columns.iter().any(|c| matches!(c, ColumnSource::Hidden(..)));
    let positions: Vec<i64> = if hidden {
        positions.by_ref().take(rows).collect()
    } else {
        Vec::new()
    };
    let columns = part
        .columns
        .iter()
        .zip(part.schema.fields())
        .map(|(source, field)| match source {
            ColumnSource::File(place, convert) => stored(decoded, *place, convert, field.name()),
            ColumnSource::Hidden(in_file, otherwise) => {
                let otherwise = match otherwise {
                    Hidden::Constant(value) => repeat(value, rows)?,
                    Hidden::Position(base) => Arc::new(Int64Array::from_iter_values(
                        positions.iter().map(|p| base.saturating_add(*p)),
                    )),
                };
                match in_file {
                    None => Ok(otherwise),
                    Some((place, convert)) => first_of(&stored(decoded, *place, convert, field.name())?, &otherwise),
                }
            }
            ColumnSource::Constant(value) => repeat(value, rows),
            ColumnSource::Missing(t) => Ok(new_null_array(t, rows)),
        })
        .collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(part.schema.clone(), columns, &options)
        .map_err(|e| Error::internal(format!("decoded columns don't fit the table's schema: {e}")))
}

/// A column of the file in the table's type.
fn stored(decoded: &[ArrayRef], place: usize, convert: &Convert, name: &str) -> Result<ArrayRef> {
    let array = decoded
        .get(place)
        .ok_or_else(|| Error::internal("a column went missing while decoding"))?;
    convert.apply(array).map_err(|e| {
        Error::corrupt_file(format!(
            "the column `{name}` of a data file holds a value that the table's type can't hold ({e}): the file was written against another schema"
        ))
    })
}

/// The values of `one`, replaced by those of `other` where they are null.
fn first_of(values: &ArrayRef, other: &ArrayRef) -> Result<ArrayRef> {
    let failed = |e: ArrowError| Error::internal(format!("row ids: {e}"));
    zip(&is_not_null(values).map_err(failed)?, values, other).map_err(failed)
}

fn repeat(value: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    let zeros = UInt32Array::from(vec![0; rows]);
    take(value, &zeros, None).map_err(|e| Error::internal(format!("repeating a partition value: {e}")))
}

/// The byte ranges that decoding a unit reads: the pages with selected rows where the file has an
/// offset index, else whole column chunks.
pub(super) fn ranges(plan: &FilePlan, unit: &Unit) -> Vec<std::ops::Range<u64>> {
    let metadata = plan.metadata.metadata();
    let group = metadata.row_groups().get(unit.row_group);
    let leaves = plan.parts().flat_map(|p| &p.leaves);
    let chunks = leaves.filter_map(|leaf| Some((*leaf, group?.columns().get(*leaf)?)));
    chunks
        .flat_map(|(leaf, chunk)| {
            let (start, length) = chunk.byte_range();
            let whole = start..start + length;
            let index = metadata.page_index();
            let pages = index.and_then(|index| index.page_locations(unit.row_group, leaf));
            match (&unit.selection, pages) {
                (Some(selection), Some(pages)) => selected_pages(&whole, selection, pages),
                _ => vec![whole],
            }
        })
        .collect()
}

/// The pages of a column chunk that have selected rows, with the dictionary before the first page.
/// The whole chunk if the pages aren't within it.
fn selected_pages(
    whole: &std::ops::Range<u64>,
    selection: &RowSelection,
    pages: &[PageLocation],
) -> Vec<std::ops::Range<u64>> {
    let mut ranges = selection.scan_ranges(pages);
    let first = pages.first().and_then(|page| u64::try_from(page.offset).ok());
    if let Some(first) = first.filter(|first| *first > whole.start) {
        ranges.push(whole.start..first);
    }
    let is_within = |r: &std::ops::Range<u64>| whole.start <= r.start && r.start <= r.end && r.end <= whole.end;
    match ranges.iter().all(is_within) {
        true => ranges,
        false => vec![whole.clone()],
    }
}

/// Shares a plan between units.
pub(super) type SharedPlan = Arc<FilePlan>;
