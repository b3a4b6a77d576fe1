//! Decodes one unit of a file (a row group, or rows of one) into batches of the output: converts columns,
//! adds constants, filters exactly. Blocking; runs on a worker thread, called by `scan`.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::{concat_batches, filter_record_batch, take};
use arrow::error::ArrowError;
use deltaplane_error::{Error, Result};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReaderBuilder, RowSelection};

use super::plan::{ColumnSource, FilePlan};
use super::source::Input;

/// Rows of one row group.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    /// Which row group.
    pub(super) row_group: usize,
    /// How many rows will be decoded.
    pub(super) rows: usize,
    /// Which; `None` for the whole group.
    pub(super) selection: Option<RowSelection>,
}

/// Decodes a unit; `emit` returns false when nobody wants more.
pub(super) fn decode(
    plan: &FilePlan,
    unit: Unit,
    input: Input,
    mut emit: impl FnMut(RecordBatch) -> bool,
) -> Result<()> {
    let mut out = Output {
        plan,
        held: Vec::new(),
        held_rows: 0,
    };
    if plan.leaves.is_empty() {
        let mut left = unit.rows;
        while left > 0 {
            let n = left.min(plan.batch_rows);
            if !out.push(assemble(plan, &[], n)?, &mut emit)? {
                return Ok(());
            }
            left -= n;
        }
        return out.flush(&mut emit).map(|_| ());
    }
    let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(input, plan.metadata.clone())
        .with_row_groups(vec![unit.row_group])
        .with_projection(plan.mask.clone())
        .with_batch_size(plan.batch_rows);
    if let Some(selection) = unit.selection {
        builder = builder.with_row_selection(selection);
    }
    let reader = builder.build().map_err(|e| corrupt(&e.into()))?;
    for batch in reader {
        let batch = batch.map_err(|e| corrupt(&e))?;
        if !out.push(assemble(plan, batch.columns(), batch.num_rows())?, &mut emit)? {
            return Ok(());
        }
    }
    out.flush(&mut emit).map(|_| ())
}

fn corrupt(e: &ArrowError) -> Error {
    Error::corrupt_file(format!(
        "a data file's rows can't be decoded ({e}): it was cut short or damaged; restore it, or remove it from the table"
    ))
}

/// The needed columns of the table from the decoded ones.
fn assemble(plan: &FilePlan, decoded: &[ArrayRef], rows: usize) -> Result<RecordBatch> {
    let columns = plan
        .columns
        .iter()
        .zip(plan.prepared.schema.fields())
        .map(|(source, field)| match source {
            ColumnSource::File(at, convert) => {
                let array = decoded.get(*at).ok_or_else(|| Error::internal("a column went missing while decoding"))?;
                convert.apply(array).map_err(|e| {
                    Error::corrupt_file(format!(
                        "the column `{}` of a data file holds a value that the table's type can't hold ({e}): the file was written against another schema",
                        field.name()
                    ))
                })
            }
            ColumnSource::Constant(value) => repeat(value, rows),
            ColumnSource::Missing(t) => Ok(new_null_array(t, rows)),
        })
        .collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(plan.prepared.schema.clone(), columns, &options)
        .map_err(|e| Error::internal(format!("decoded columns don't fit the table's schema: {e}")))
}

fn repeat(value: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    let zeros = UInt32Array::from(vec![0; rows]);
    take(value, &zeros, None).map_err(|e| Error::internal(format!("repeating a partition value: {e}")))
}

/// Filters batches and joins the small ones that a filter leaves.
struct Output<'a> {
    plan: &'a FilePlan,
    held: Vec<RecordBatch>,
    held_rows: usize,
}

impl Output<'_> {
    fn push(&mut self, batch: RecordBatch, emit: &mut impl FnMut(RecordBatch) -> bool) -> Result<bool> {
        let prepared = &self.plan.prepared;
        let Some(predicate) = &prepared.predicate else {
            return Ok(emit(batch));
        };
        let keep = predicate.evaluate(&batch)?;
        let kept = keep.true_count();
        if kept == 0 {
            return Ok(true);
        }
        let output: Vec<ArrayRef> = batch.columns().iter().take(prepared.outputs).cloned().collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(prepared.output_schema.clone(), output, &options)
            .and_then(|b| {
                if kept == b.num_rows() {
                    Ok(b)
                } else {
                    filter_record_batch(&b, &keep)
                }
            })
            .map_err(|e| Error::internal(format!("filtering rows: {e}")))?;
        self.held_rows += batch.num_rows();
        self.held.push(batch);
        if self.held_rows * 2 >= self.plan.batch_rows {
            self.flush(emit)
        } else {
            Ok(true)
        }
    }

    fn flush(&mut self, emit: &mut impl FnMut(RecordBatch) -> bool) -> Result<bool> {
        let held = std::mem::take(&mut self.held);
        self.held_rows = 0;
        match held.as_slice() {
            [] => Ok(true),
            [one] => Ok(emit(one.clone())),
            many => {
                let joined = concat_batches(&self.plan.prepared.output_schema, many)
                    .map_err(|e| Error::internal(format!("joining filtered rows: {e}")))?;
                Ok(emit(joined))
            }
        }
    }
}

/// The byte ranges that decoding a unit reads.
pub(super) fn ranges(plan: &FilePlan, unit: &Unit) -> Vec<std::ops::Range<u64>> {
    let group = plan.metadata.metadata().row_groups().get(unit.row_group);
    let columns = plan
        .leaves
        .iter()
        .filter_map(|l| group.and_then(|g| g.columns().get(*l)));
    columns
        .map(|c| {
            let (start, length) = c.byte_range();
            start..start + length
        })
        .collect()
}

/// Shares a plan between units.
pub(super) type SharedPlan = Arc<FilePlan>;
