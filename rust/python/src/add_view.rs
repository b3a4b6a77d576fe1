//! Add actions under the column names that users know: what a plan shows of a file. Knows no Python. Called by `snapshot` and
//! `spark_plan`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, StructArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::arrow_types::primitive_to_arrow;
use deltaplane_protocol::files::{ADD_SCHEMA, FileRows};
use deltaplane_protocol::partition_values::partition_array;
use deltaplane_protocol::paths;
use deltaplane_protocol::prune::LoggedStats;
use deltaplane_protocol::schema::{DataType as DeltaType, Primitive};
use deltaplane_protocol::state::TableState;
use deltaplane_protocol::stats_columns::StatsColumns;

/// The adds of a version under the column names that deltalake users know.
pub(crate) struct AddView {
    schema: SchemaRef,
    statistics: Option<LoggedStats>,
    partitions: Vec<Partition>,
    partition_fields: Fields,
    vectors: bool,
}

impl AddView {
    pub(crate) fn new(state: &TableState, statistics: bool) -> Self {
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
        AddView {
            schema: Arc::new(Schema::new(fields)),
            statistics,
            partitions,
            partition_fields,
            vectors: false,
        }
    }

    /// The same with the column `deletion_vector`, as the log has it (P120).
    pub(crate) fn with_vectors(mut self) -> Self {
        let mut fields: Vec<Arc<Field>> = self.schema.fields().iter().cloned().collect();
        if let Ok(vector) = ADD_SCHEMA.field_with_name("deletionVector") {
            fields.push(Arc::new(vector.clone().with_name("deletion_vector")));
            self.vectors = true;
        }
        self.schema = Arc::new(Schema::new(fields));
        self
    }

    /// The columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows of a batch of adds.
    pub(crate) fn rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = FileRows::new(batch);
        let n = batch.num_rows();
        let path = (0..n)
            .map(|r| paths::decode(rows.path(r)?))
            .collect::<Result<Vec<_>>>()?;
        let times: Vec<i64> = (0..n).map(|r| rows.modification_time(r)).collect();
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(path)),
            Arc::new(Int64Array::from_iter_values((0..n).map(|r| rows.size(r)))),
            Arc::new(TimestampMillisecondArray::from(times)),
            Arc::new(Int64Array::from_iter((0..n).map(|r| rows.num_records(r)))),
        ];
        if let Some(statistics) = &self.statistics {
            columns.extend(statistics.columns(batch)?);
        }
        if !self.partitions.is_empty() {
            let values = self
                .partitions
                .iter()
                .map(|p| p.values(&rows, n))
                .collect::<Result<Vec<_>>>()?;
            let partition = StructArray::try_new(self.partition_fields.clone(), values, None).map_err(layout)?;
            columns.push(Arc::new(partition));
        }
        if self.vectors {
            columns.extend(batch.column_by_name("deletionVector").cloned());
        }
        RecordBatch::try_new(self.schema.clone(), columns).map_err(layout)
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

    fn values(&self, rows: &FileRows<'_>, n: usize) -> Result<ArrayRef> {
        let texts: Vec<Option<String>> = (0..n)
            .map(|r| rows.partition_values(r).remove(&self.physical).flatten())
            .collect();
        partition_array(texts.iter().map(Option::as_deref), &self.name, self.ty)
    }
}

fn layout(e: arrow::error::ArrowError) -> Error {
    Error::internal(format!("can't lay out the add actions: {e}"))
}
