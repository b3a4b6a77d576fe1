//! Groups the rows of a batch by their partition, and brings them into the types that files store.
//! Knows partition values and directories (P171, P172), not files.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType as ArrowType, Schema, SchemaRef};
use arrow::row::{RowConverter, Rows, SortField};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::PartitionValues;
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::partition_values::partition_text;
use deltaplane_protocol::paths::partition_dir;
use deltaplane_protocol::schema::{DataType, StructType};

use super::WriteSpec;
use crate::convert::{Convert, Rules};
use crate::types::{row_schema, row_type};

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
    at: Vec<usize>,
    types: Vec<ArrowType>,
    /// Positions and types of the stored columns.
    stored: Vec<(usize, DataType)>,
    schema: SchemaRef,
}

impl Splitter {
    pub(super) fn new(spec: &WriteSpec, partition_columns: &[String], stored: &StructType) -> Result<Self> {
        let table = &spec.schema;
        let position = |name: &str| {
            table
                .index_ignore_case(name)
                .ok_or_else(|| Error::internal(format!("the column `{name}` went missing")))
        };
        let at = partition_columns
            .iter()
            .map(|c| position(c))
            .collect::<Result<Vec<_>>>()?;
        let types = at
            .iter()
            .filter_map(|i| table.fields().get(*i))
            .map(|f| row_type(&f.data_type))
            .collect();
        let fields = stored.fields().iter();
        let stored_at = fields
            .map(|f| Ok((position(&f.name)?, f.data_type.clone())))
            .collect::<Result<Vec<_>>>()?;
        Ok(Splitter {
            columns: partition_columns
                .iter()
                .map(|c| spec.mapping.partition_key(table, c).to_owned())
                .collect(),
            at,
            types,
            stored: stored_at,
            schema: row_schema(stored.fields()),
        })
    }

    /// The key as `add.partitionValues` has it.
    pub(super) fn values(&self, key: &[Option<String>]) -> PartitionValues {
        self.columns.iter().cloned().zip(key.iter().cloned()).collect()
    }

    /// The directory of the partition, with a slash at its end; empty for a table without partitions.
    pub(super) fn dir(&self, key: &[Option<String>]) -> String {
        self.columns
            .iter()
            .zip(key)
            .map(|(c, v)| partition_dir(c, v.as_deref()) + "/")
            .collect()
    }

    /// The batch by partitions, in the order of their first rows. A part of fewer than `copy_below` rows
    /// is copied, so that holding it back doesn't hold the whole batch.
    pub(super) fn split(&self, batch: &RecordBatch, copy_below: usize) -> Result<Vec<Part>> {
        let stored = self.stored_columns(batch)?;
        if self.at.is_empty() {
            return Ok(vec![Part {
                key: Vec::new(),
                rows: stored,
            }]);
        }
        let values: Vec<ArrayRef> = self
            .at
            .iter()
            .filter_map(|i| batch.columns().get(*i))
            .cloned()
            .collect();
        let groups = group(&values, &self.types)?;
        groups
            .into_iter()
            .map(|g| {
                let key = values
                    .iter()
                    .map(|v| Ok(partition_text(v.as_ref(), g.first)?.filter(|t| !t.is_empty())))
                    .collect::<Result<Vec<_>>>()?;
                Ok(Part {
                    key,
                    rows: g.rows(&stored, copy_below)?,
                })
            })
            .collect()
    }

    fn stored_columns(&self, batch: &RecordBatch) -> Result<RecordBatch> {
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
        self.stored.iter().map(|(at, _)| *at)
    }
}

fn not_cast(column: &str, why: &str) -> Error {
    Error::schema_mismatch(format!(
        "a batch given to the file writer isn't in the table's schema (column `{column}`: {why}): cast it first"
    ))
}

/// Rows of equal partition values: a range if they stand together.
struct Group {
    first: usize,
    last: usize,
    indices: Vec<u32>,
}

impl Group {
    fn rows(&self, batch: &RecordBatch, copy_below: usize) -> Result<RecordBatch> {
        let n = self.indices.len();
        let together = self.last + 1 - self.first == n;
        if together && (n >= copy_below || n == batch.num_rows()) {
            return Ok(batch.slice(self.first, n));
        }
        take_record_batch(batch, &UInt32Array::from(self.indices.clone()))
            .map_err(|e| Error::internal(format!("taking the rows of a partition: {e}")))
    }
}

fn group(values: &[ArrayRef], types: &[ArrowType]) -> Result<Vec<Group>> {
    let wrap = |e| Error::internal(format!("grouping rows by partition: {e}"));
    let converter = RowConverter::new(types.iter().cloned().map(SortField::new).collect()).map_err(wrap)?;
    let rows: Arc<Rows> = Arc::new(converter.convert_columns(values).map_err(wrap)?);
    let mut groups: Vec<Group> = Vec::new();
    let mut found = HashMap::new();
    let mut previous: Option<(&[u8], usize)> = None;
    for (i, row) in rows.iter().enumerate() {
        let bytes = row.data();
        let index = u32::try_from(i)
            .map_err(|_| Error::invalid_argument("a batch has more than 2^32 rows: write smaller batches"))?;
        // Equal neighbours are the common case: no hash for them.
        let at = match previous {
            Some((same, at)) if same == bytes => at,
            _ => *found.entry(bytes).or_insert_with(|| {
                groups.push(Group {
                    first: i,
                    last: i,
                    indices: Vec::new(),
                });
                groups.len() - 1
            }),
        };
        previous = Some((bytes, at));
        if let Some(g) = groups.get_mut(at) {
            g.last = i;
            g.indices.push(index);
        }
    }
    Ok(groups)
}
