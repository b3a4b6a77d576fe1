//! Add actions under the column names that users know: what a plan shows of a file.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, StructArray, new_null_array};
use arrow::datatypes::{DataType, Field, Fields, Int64Type, Schema, SchemaRef, TimeUnit, TimestampMillisecondType};
use deltaplane_error::{Error, Result};
use deltaplane_log::{PlanColumns, Snapshot};
use deltaplane_protocol::arrow_types::primitive_to_arrow;
use deltaplane_protocol::files::ADD_SCHEMA;
use deltaplane_protocol::files::rows::{FileRows, map_values};
use deltaplane_protocol::partition_values::partition_array;
use deltaplane_protocol::paths;
use deltaplane_protocol::prune::{LoggedStats, Pruner};
use deltaplane_protocol::schema::{DataType as DeltaType, Primitive};
use deltaplane_protocol::state::TableState;
use deltaplane_protocol::stats_columns::StatsColumns;
use futures::StreamExt;

use crate::c_stream::Batches;

/// The adds of a version under the column names that deltalake users know.
pub struct AddView {
    schema: SchemaRef,
    /// What of a checkpoint's structs would show all of this.
    structs: SchemaRef,
    statistics: Option<LoggedStats>,
    partitions: Vec<Partition>,
    partition_fields: Fields,
    vectors: bool,
}

impl AddView {
    /// A view of adds of a table in this state; with `statistics` also their minima, maxima and
    /// counts of nulls.
    pub fn new(state: &TableState, statistics: bool) -> Self {
        let partitions: Vec<Partition> = state
            .partition_columns()
            .iter()
            .filter_map(|c| Partition::new(state, c))
            .collect();
        let statistics = statistics.then(|| {
            LoggedStats::new(
                state.schema(),
                state.partition_columns(),
                state.mapping(),
                &StatsColumns::of(state.properties()),
            )
        });
        let mut fields = vec![
            Field::new("path", DataType::Utf8, false),
            Field::new("size_bytes", DataType::Int64, false),
            Field::new(
                "modification_time",
                DataType::Timestamp(TimeUnit::Millisecond, None),
                false,
            ),
            Field::new("num_records", DataType::Int64, true),
        ];
        fields.extend(statistics.iter().flat_map(LoggedStats::fields));
        let partition_fields: Fields = partitions
            .iter()
            .map(|p| Field::new(&p.name, primitive_to_arrow(p.ty), true))
            .collect();
        if !partition_fields.is_empty() {
            fields.push(Field::new(
                "partition",
                DataType::Struct(partition_fields.clone()),
                false,
            ));
        }
        let stored = LoggedStats::stored(
            state.schema(),
            state.partition_columns(),
            state.mapping(),
            &StatsColumns::of(state.properties()),
        );
        let keyed = |p: &Partition| Field::new(&p.physical, primitive_to_arrow(p.ty), true);
        let mut structs = vec![Field::new(
            "stats_parsed",
            DataType::Struct(stored.parsed_fields()),
            true,
        )];
        if !partitions.is_empty() {
            let values = partitions.iter().map(keyed).collect();
            structs.push(Field::new("partitionValues_parsed", DataType::Struct(values), true));
        }
        AddView {
            schema: Arc::new(Schema::new(fields)),
            structs: Arc::new(Schema::new(structs)),
            statistics,
            partitions,
            partition_fields,
            vectors: false,
        }
    }

    /// The same with the column `deletion_vector`, as the log has it (P120).
    pub fn with_vectors(mut self) -> Self {
        let mut fields: Vec<Arc<Field>> = self.schema.fields().iter().cloned().collect();
        if let Ok(vector) = ADD_SCHEMA.field_with_name("deletionVector") {
            fields.push(Arc::new(vector.clone().with_name("deletion_vector")));
            self.vectors = true;
        }
        self.schema = Arc::new(Schema::new(fields));
        self
    }

    /// The files of a version that a pruner keeps, in this view, and the view's columns.
    pub fn of_plan(self, snapshot: &Snapshot, pruner: Option<Arc<Pruner>>) -> (SchemaRef, Batches) {
        snapshot.note_read(pruner.as_ref());
        let plan = snapshot.plan(pruner, self.plan_columns());
        (self.schema.clone(), plan.map(move |batch| self.rows(batch?)).boxed())
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What a plan has to give for this view.
    pub fn plan_columns(&self) -> PlanColumns {
        match self.statistics {
            Some(_) => PlanColumns::Structs(self.structs.clone()),
            None => PlanColumns::Logged,
        }
    }

    /// The rows of a batch of adds, in no more memory than they need.
    pub fn rows(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let mut columns = self.columns(&batch)?;
        drop(batch);
        // Decoders leave room behind the last value, which a table of all files would keep.
        columns.iter_mut().for_each(Array::shrink_to_fit);
        RecordBatch::try_new(self.schema.clone(), columns).map_err(layout)
    }

    fn columns(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let rows = FileRows::new(batch);
        let n = batch.num_rows();
        let times = longs(batch, "modificationTime", |r| rows.modification_time(r));
        let mut columns: Vec<ArrayRef> = vec![
            decoded_paths(batch, &rows)?,
            Arc::new(longs(batch, "size", |r| rows.size(r))),
            Arc::new(times.reinterpret_cast::<TimestampMillisecondType>()),
        ];
        match &self.statistics {
            Some(statistics) => {
                let (num_records, sections) = statistics.columns(batch)?;
                columns.push(Arc::new(num_records));
                columns.extend(sections);
            }
            None => columns.push(Arc::new(Int64Array::from_iter((0..n).map(|r| rows.num_records(r))))),
        }
        if !self.partitions.is_empty() {
            let values = self
                .partitions
                .iter()
                .map(|p| p.values(batch))
                .collect::<Result<Vec<_>>>()?;
            let partition = StructArray::try_new(self.partition_fields.clone(), values, None).map_err(layout)?;
            columns.push(Arc::new(partition));
        }
        if self.vectors {
            columns.extend(batch.column_by_name("deletionVector").cloned());
        }
        Ok(columns)
    }
}

/// A partition column by both of its names.
struct Partition {
    name: String,
    physical: String,
    ty: Primitive,
}

impl Partition {
    fn new(state: &TableState, column: &str) -> Option<Self> {
        let field = state.schema().field_ignore_case(column)?;
        let DeltaType::Primitive(ty) = field.data_type else {
            return None;
        };
        Some(Partition {
            name: column.to_owned(),
            physical: state.mapping().partition_key(state.schema(), column).to_owned(),
            ty,
        })
    }

    /// By the log's texts, or by the struct where the plan left those out.
    fn values(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let maps = batch.column_by_name("partitionValues").and_then(|c| c.as_map_opt());
        let parsed = batch.column_by_name("partitionValues_parsed");
        if let (Some(parsed), true) = (parsed, maps.is_none_or(|m| m.null_count() == m.len())) {
            let column = parsed.as_struct_opt().and_then(|s| s.column_by_name(&self.physical));
            if let Some(column) = column {
                return Ok(column.clone());
            }
        }
        match maps {
            Some(maps) => partition_array(map_values(maps, &self.physical), &self.name, self.ty),
            None => Ok(new_null_array(&primitive_to_arrow(self.ty), batch.num_rows())),
        }
    }
}

/// A numeric column of these adds; the stored column if it has no nulls.
fn longs(batch: &RecordBatch, column: &str, value_of: impl Fn(usize) -> i64) -> Int64Array {
    let stored = batch.column_by_name(column).filter(|c| c.null_count() == 0);
    match stored.and_then(|c| c.as_primitive_opt::<Int64Type>()) {
        Some(numbers) => numbers.clone(),
        None => Int64Array::from_iter_values((0..batch.num_rows()).map(value_of)),
    }
}

/// The paths of these adds; most need no decoding.
fn decoded_paths(batch: &RecordBatch, rows: &FileRows<'_>) -> Result<ArrayRef> {
    let path_column = batch.column_by_name("path").filter(|c| c.null_count() == 0);
    if let Some(paths) = path_column.and_then(|c| c.as_string_opt::<i32>())
        && !paths.value_data().contains(&b'%')
    {
        return Ok(Arc::new(paths.clone()));
    }
    let decoded = (0..batch.num_rows())
        .map(|row| paths::decode(rows.path(row)?))
        .collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(StringArray::from(decoded)))
}

fn layout(e: arrow::error::ArrowError) -> Error {
    Error::internal(format!("can't lay out the add actions: {e}"))
}
