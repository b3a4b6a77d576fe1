//! Groups the rows of a batch by partition, and converts them to the types in files. Knows
//! partition values and directories (P171, P172), not files.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::buffer::ScalarBuffer;
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType as ArrowType, Schema, SchemaRef};
use arrow::row::{RowConverter, SortField};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::PartitionValues;
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::partition_values::partition_text;
use deltaplane_protocol::paths::partition_dir;
use deltaplane_protocol::schema::{DataType, Field, StructType};

use super::WriteSpec;
use crate::convert::{Convert, Rules};
use crate::hashes::Seed;
use crate::processors::processors;
use crate::types::{is_storable, row_schema, row_type};

/// With fewer rows, starting another thread takes longer than processing them.
const ROWS_OF_A_CORE: usize = 65_536;

/// Rows of one partition.
pub(super) struct Part {
    /// Values as text, in the order of the partition columns.
    pub(super) key: Vec<Option<String>>,
    /// The stored columns.
    pub(super) rows: RecordBatch,
}

/// Splits batches of one table.
pub(super) struct Splitter {
    /// Keys of the partition values, in order.
    columns: Vec<String>,
    /// Positions of the partition columns in the table's schema.
    indices: Vec<usize>,
    types: Vec<ArrowType>,
    /// Positions and types of the stored columns.
    stored: Vec<(usize, DataType)>,
    schema: SchemaRef,
    /// Positions of the columns that no file can hold, whatever the type says (P181).
    left_out: Vec<usize>,
}

impl Splitter {
    pub(super) fn new(spec: &WriteSpec, partition_columns: &[String], stored: &StructType) -> Result<Self> {
        let table = &spec.schema;
        let position = |name: &str| {
            table
                .index_ignore_case(name)
                .ok_or_else(|| Error::internal(format!("the column `{name}` went missing")))
        };
        let indices = partition_columns
            .iter()
            .map(|c| position(c))
            .collect::<Result<Vec<_>>>()?;
        let types = indices
            .iter()
            .filter_map(|i| table.fields().get(*i))
            .map(|f| row_type(&f.data_type))
            .collect();
        let fields = stored.fields().iter();
        let stored_at = fields
            .map(|f| Ok((position(&f.name)?, f.data_type.clone())))
            .collect::<Result<Vec<_>>>()?;
        let left_out =
            |(_, f): &(usize, &Field)| !matches!(f.data_type, DataType::Primitive(_)) && !is_storable(&f.data_type);
        let left_out = table.fields().iter().enumerate().filter(left_out);
        Ok(Splitter {
            left_out: left_out.map(|(i, _)| i).collect(),
            columns: partition_columns
                .iter()
                .map(|c| spec.mapping.partition_key(table, c).to_owned())
                .collect(),
            indices,
            types,
            stored: stored_at,
            schema: row_schema(stored.fields()),
        })
    }

    /// The key as `add.partitionValues` has it.
    pub(super) fn values(&self, key: &[Option<String>]) -> PartitionValues {
        self.columns.iter().cloned().zip(key.iter().cloned()).collect()
    }

    /// The directory of the partition, with a slash at its end; empty for a table without
    /// partitions.
    pub(super) fn dir(&self, key: &[Option<String>]) -> String {
        self.columns
            .iter()
            .zip(key)
            .map(|(c, v)| partition_dir(c, v.as_deref()) + "/")
            .collect()
    }

    /// The batch by partition, in the order of the first rows. A part of fewer than `copy_below`
    /// rows is copied, so that holding it doesn't hold the whole batch.
    pub(super) fn split(&self, batch: &RecordBatch, copy_below: usize) -> Result<Vec<Part>> {
        if self.indices.is_empty() {
            return Ok(vec![Part {
                key: Vec::new(),
                rows: self.stored_columns(batch)?,
            }]);
        }
        let sorted = self.sorted(batch)?;
        let all: Vec<usize> = (0..sorted.keys.len()).collect();
        sorted.parts(&all, copy_below)
    }

    /// The batch with its rows grouped by partition, before any are taken.
    pub(super) fn sorted(&self, batch: &RecordBatch) -> Result<Sorted> {
        let values = self.indices.iter().filter_map(|i| batch.columns().get(*i));
        let values: Vec<ArrayRef> = values.cloned().collect();
        let groups = group(&values, &self.types)?;
        let text = |v: &ArrayRef, row| Ok(partition_text(v.as_ref(), row)?.filter(|t| !t.is_empty()));
        let keys = groups
            .groups
            .iter()
            .map(|g| values.iter().map(|v| text(v, g.first)).collect());
        Ok(Sorted {
            rows: self.stored_columns(batch)?,
            keys: keys.collect::<Result<_>>()?,
            groups,
        })
    }

    /// Whether the table is partitioned.
    pub(super) fn splits(&self) -> bool {
        !self.indices.is_empty()
    }

    fn stored_columns(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        for array in self.left_out.iter().filter_map(|i| batch.columns().get(*i)) {
            if array.logical_null_count() < array.len() {
                return Err(Error::internal("rows have values in a column that no file can hold"));
            }
        }
        let mut columns = Vec::with_capacity(self.stored.len());
        for (i, t) in &self.stored {
            let Some(array) = batch.columns().get(*i) else {
                return Err(Error::internal("a batch has fewer columns than the table"));
            };
            if *array.data_type() == ArrowType::Null && row_type(t) != ArrowType::Null {
                // Copied: the rows are elsewhere.
                columns.push(array.clone());
                continue;
            }
            let name = batch
                .schema_ref()
                .fields()
                .get(*i)
                .map(|f| f.name().clone())
                .unwrap_or_default();
            let convert = Convert::new(array.data_type(), t, Rules::File(Mapping::None), &name)
                .map_err(|m| not_cast(&name, &format!("{m:?}")))?;
            columns.push(convert.apply(array).map_err(|e| not_cast(&name, &e.to_string()))?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let fields = self
            .schema
            .fields()
            .iter()
            .zip(&columns)
            .map(|(f, c)| match c.data_type() {
                ArrowType::Null => Arc::new(f.as_ref().clone().with_data_type(ArrowType::Null)),
                _ => f.clone(),
            });
        let schema = match columns.iter().any(|c| *c.data_type() == ArrowType::Null) {
            true => Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            false => self.schema.clone(),
        };
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(|e| not_cast("", &e.to_string()))
    }

    /// Positions of the stored columns in the table's schema.
    pub(super) fn stored(&self) -> impl Iterator<Item = usize> {
        self.stored.iter().map(|(index, _)| *index)
    }
}

fn not_cast(column: &str, why: &str) -> Error {
    Error::schema_mismatch(format!(
        "a batch given to the file writer isn't in the table's schema (column `{column}`: {why}): cast it first"
    ))
}

/// A batch whose rows are grouped by partition, but not moved yet.
pub(super) struct Sorted {
    /// The stored columns.
    rows: RecordBatch,
    groups: Groups,
    /// The groups' values.
    keys: Vec<Vec<Option<String>>>,
}

impl Sorted {
    /// Each partition's values and rows, in the order of their first rows.
    pub(super) fn partitions(&self) -> impl Iterator<Item = (&Vec<Option<String>>, usize)> {
        self.keys.iter().zip(self.groups.groups.iter().map(|g| g.count))
    }

    /// About how many bytes this many of the rows have.
    pub(super) fn bytes_of(&self, rows: usize) -> usize {
        let all = self.rows.num_rows().max(1);
        self.rows.columns().iter().map(bytes_of).sum::<usize>() / all * rows
    }

    /// The rows of the partition with this number.
    pub(super) fn rows_of(&self, number: usize) -> Result<RecordBatch> {
        let group = self.groups.groups.get(number);
        let group = group.ok_or_else(|| Error::internal("a batch hasn't the partition that was asked for"))?;
        self.groups.rows_of(group, &self.rows, 0)
    }

    /// The rows of these partitions; as [`Splitter::split`].
    pub(super) fn parts(&self, wanted: &[usize], copy_below: usize) -> Result<Vec<Part>> {
        let taken = self.groups.take(wanted, &self.rows, copy_below)?;
        let keys = wanted.iter().filter_map(|number| self.keys.get(*number)).cloned();
        Ok(keys.zip(taken).map(|(key, rows)| Part { key, rows }).collect())
    }
}

/// The memory of a column's values.
pub(super) fn bytes_of(column: &ArrayRef) -> usize {
    let sliced = column.to_data().get_slice_memory_size();
    sliced.unwrap_or_else(|_| column.get_array_memory_size())
}

/// A batch's rows by their partition.
struct Groups {
    /// In the order of their first rows.
    groups: Vec<Group>,
    /// For each share of the batch the rows' indexes, group by group, each in order.
    rows: Vec<ScalarBuffer<u32>>,
}

/// Rows of equal partition values: a range if they are adjacent.
struct Group {
    first: usize,
    last: usize,
    count: usize,
    /// Their ranges in each share's indexes.
    runs: Vec<Range<usize>>,
}

/// Consecutive rows of a batch, grouped by the key of their partition.
struct Share<K> {
    /// The groups in the order of their first rows.
    groups: Vec<(K, Group)>,
    /// The rows' indexes, group by group.
    rows: Vec<u32>,
}

impl<K: Hash + Eq + Copy> Share<K> {
    fn of(share: Range<usize>, key: impl Fn(usize) -> K) -> Self {
        let mut groups: Vec<(K, Group)> = Vec::new();
        let mut numbers: Vec<u32> = Vec::with_capacity(share.len());
        let mut numbers_by_key = HashMap::with_hasher(Seed::default());
        let mut previous: Option<(K, usize)> = None;
        for row in share.clone() {
            let key = key(row);
            // Equal neighbours are the common case, which needs no hash.
            let number = match previous {
                Some((same, number)) if same == key => number,
                _ => *numbers_by_key.entry(key).or_insert_with(|| {
                    groups.push((key, Group::begun_by(row)));
                    groups.len() - 1
                }),
            };
            previous = Some((key, number));
            if let Some((_, group)) = groups.get_mut(number) {
                group.last = row;
                group.count += 1;
            }
            numbers.push(u32::try_from(number).unwrap_or(u32::MAX));
        }
        let mut from = 0;
        let mut next: Vec<usize> = Vec::with_capacity(groups.len());
        for (_, group) in &mut groups {
            group.runs.push(from..from + group.count);
            next.push(from);
            from += group.count;
        }
        let mut rows = vec![0_u32; numbers.len()];
        for (row, number) in share.zip(numbers) {
            if let Some(place) = usize::try_from(number).ok().and_then(|number| next.get_mut(number))
                && let Some(slot) = rows.get_mut(*place)
            {
                *slot = u32::try_from(row).unwrap_or(u32::MAX);
                *place += 1;
            }
        }
        Share { groups, rows }
    }
}

impl Group {
    fn begun_by(row: usize) -> Self {
        Group {
            first: row,
            last: row,
            count: 0,
            runs: Vec::new(),
        }
    }
}

impl Groups {
    /// Groups `rows` rows by the key of their partition.
    fn of<K: Hash + Eq + Copy + Send>(rows: usize, key: impl Fn(usize) -> K + Sync) -> Result<Groups> {
        if u32::try_from(rows).is_err() {
            return Err(Error::invalid_argument(
                "a batch has more than 2^32 rows: write smaller batches",
            ));
        }
        let workers = workers(rows);
        let each = rows.div_ceil(workers);
        let shares = on_cores(workers, |n| {
            let from = (n * each).min(rows);
            Ok(Share::of(from..(from + each).min(rows), &key))
        })?;
        let mut groups: Vec<Group> = Vec::new();
        let mut numbers_by_key = HashMap::with_hasher(Seed::default());
        let count = shares.len();
        let mut sorted = Vec::with_capacity(count);
        for (number, share) in shares.into_iter().enumerate() {
            for (key, part) in share.groups {
                let group_number = *numbers_by_key.entry(key).or_insert_with(|| {
                    groups.push(Group {
                        runs: vec![0..0; count],
                        ..Group::begun_by(part.first)
                    });
                    groups.len() - 1
                });
                let Some(group) = groups.get_mut(group_number) else {
                    continue;
                };
                group.last = part.last;
                group.count += part.count;
                if let (Some(run), Some(numbers_by_key)) = (group.runs.get_mut(number), part.runs.into_iter().next()) {
                    *run = numbers_by_key;
                }
            }
            sorted.push(share.rows.into());
        }
        Ok(Groups { groups, rows: sorted })
    }

    /// The rows of these groups of the batch, in order; large groups are gathered by all cores.
    fn take(&self, wanted: &[usize], batch: &RecordBatch, copy_below: usize) -> Result<Vec<RecordBatch>> {
        let groups = wanted.iter().filter_map(|number| self.groups.get(*number));
        let queue = Mutex::new(groups.enumerate());
        let parts = on_cores(workers(batch.num_rows()).min(wanted.len()), |_| {
            let mut taken = Vec::new();
            loop {
                let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((number, group)) = next else { return Ok(taken) };
                taken.push((number, self.rows_of(group, batch, copy_below)?));
            }
        })?;
        let mut taken: Vec<(usize, RecordBatch)> = parts.into_iter().flatten().collect();
        taken.sort_unstable_by_key(|(number, _)| *number);
        Ok(taken.into_iter().map(|(_, rows)| rows).collect())
    }

    fn rows_of(&self, group: &Group, batch: &RecordBatch, copy_below: usize) -> Result<RecordBatch> {
        let n = group.count;
        let together = group.last + 1 - group.first == n;
        if together && (n >= copy_below || n == batch.num_rows()) {
            return Ok(batch.slice(group.first, n));
        }
        let mut rows: Vec<u32> = Vec::with_capacity(n);
        for (share, run) in self.rows.iter().zip(&group.runs) {
            rows.extend_from_slice(share.get(run.clone()).unwrap_or_default());
        }
        let rows = UInt32Array::from(rows);
        take_record_batch(batch, &rows).map_err(|e| Error::internal(format!("taking the rows of a partition: {e}")))
    }
}

/// How many threads pay for this many rows.
fn workers(rows: usize) -> usize {
    let cores = processors();
    cores.min(rows / ROWS_OF_A_CORE + 1)
}

/// Runs `work` on `workers` threads, each with its number, and returns the results.
fn on_cores<T: Send>(workers: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let work = &work;
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|n| scope.spawn(move || work(n))).collect();
        let own = work(0);
        let others = others.into_iter().map(|other| {
            other
                .join()
                .unwrap_or_else(|_| Err(Error::internal("sorting rows by partition was cut short")))
        });
        std::iter::once(own).chain(others).collect()
    })
}

fn group(values: &[ArrayRef], types: &[ArrowType]) -> Result<Groups> {
    // One number per row is the common case.
    if let [array] = values
        && array.null_count() == 0
    {
        let data = array.to_data();
        let (from, to) = (data.offset(), data.offset() + data.len());
        let buffer = data.buffers().first();
        match (array.data_type().primitive_width(), buffer) {
            (Some(4), Some(buffer)) => {
                let all: &[u32] = buffer.typed_data();
                let all = all.get(from..to).unwrap_or_default();
                return Groups::of(all.len(), |row| all.get(row).copied().unwrap_or_default());
            }
            (Some(8), Some(buffer)) => {
                let all: &[u64] = buffer.typed_data();
                let all = all.get(from..to).unwrap_or_default();
                return Groups::of(all.len(), |row| all.get(row).copied().unwrap_or_default());
            }
            _ => {}
        }
    }
    let wrap = |e| Error::internal(format!("grouping rows by partition: {e}"));
    let converter = RowConverter::new(types.iter().cloned().map(SortField::new).collect()).map_err(wrap)?;
    let rows = converter.convert_columns(values).map_err(wrap)?;
    Groups::of(rows.num_rows(), |row| rows.row(row).data())
}
