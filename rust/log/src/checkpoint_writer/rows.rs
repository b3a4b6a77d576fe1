//! Actions as rows of a checkpoint (P050–P054): the columns of its files and one struct array for
//! each kind of action.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, Int64Array, ListBuilder, MapBuilder, MapFieldNames,
    RecordBatch, StringArray, StringBuilder, StructArray, new_null_array,
};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{DomainMetadata, Metadata, Protocol, SetTransaction};
use deltaplane_protocol::arrow_types::primitive_to_arrow;
use deltaplane_protocol::files::rows::map_value;
use deltaplane_protocol::files::{ADD_SCHEMA, REMOVE_SCHEMA, string_map};
use deltaplane_protocol::partition_values::partition_array;
use deltaplane_protocol::prune::LoggedStats;
use deltaplane_protocol::schema::Primitive;
use deltaplane_protocol::state::TableState;
use deltaplane_protocol::stats_columns::StatsColumns;

use crate::PlanColumns;
use crate::checkpoint::reader::struct_field;
use crate::checkpoint::sidecar_stats::SidecarFile;

fn arrow_error(e: arrow::error::ArrowError) -> Error {
    Error::internal(format!("the checkpoint can't be laid out: {e}")).with_source(e)
}

/// Columns of a classic checkpoint.
pub(crate) fn classic_schema(adds: &Schema) -> SchemaRef {
    Arc::new(Schema::new(classic_fields(adds)))
}

fn classic_fields(adds: &Schema) -> Vec<Field> {
    vec![
        struct_field("txn", &Schema::new(txn_fields())),
        struct_field("add", adds),
        struct_field("remove", &REMOVE_SCHEMA),
        struct_field("metaData", &Schema::new(metadata_fields())),
        struct_field("protocol", &Schema::new(protocol_fields())),
        struct_field("domainMetadata", &Schema::new(domain_fields())),
    ]
}

/// Columns of the top file of a V2 checkpoint.
pub(crate) fn manifest_schema(adds: &Schema) -> SchemaRef {
    let mut fields = classic_fields(adds);
    fields.push(struct_field("checkpointMetadata", &Schema::new(version_fields())));
    fields.push(struct_field("sidecar", &Schema::new(sidecar_fields())));
    Arc::new(Schema::new(fields))
}

/// The single column of a file that has only live files.
pub(crate) fn adds_schema(adds: &Schema) -> SchemaRef {
    Arc::new(Schema::new(vec![struct_field("add", adds)]))
}

/// Columns of a sidecar.
pub(crate) fn sidecar_schema(adds: &Schema) -> SchemaRef {
    Arc::new(Schema::new(vec![
        struct_field("add", adds),
        struct_field("remove", &REMOVE_SCHEMA),
    ]))
}

/// Rows of a checkpoint never change data (P043).
pub(crate) fn unchanged(batch: &RecordBatch) -> Result<StructArray> {
    replace(
        batch,
        "dataChange",
        Arc::new(BooleanArray::from(vec![false; batch.num_rows()])),
    )
}

/// The form of a table's live files in its checkpoints: statistics as JSON text, as structs, or
/// both (P051).
pub(crate) struct AddRows {
    schema: SchemaRef,
    keep_json: bool,
    structs: Option<Structs>,
}

struct Structs {
    stats: LoggedStats,
    /// Partition columns by their names in the log.
    partitions: Vec<(String, Primitive)>,
}

impl AddRows {
    /// As the table's properties say.
    pub(crate) fn of(state: &TableState) -> Self {
        let properties = state.properties();
        let structs = properties.stats_as_struct.then(|| Structs::of(state));
        Self::with(properties.stats_as_json, structs)
    }

    /// With statistics in both forms, whatever the properties say, so that a copy loses nothing.
    pub(crate) fn with_all(state: &TableState) -> Self {
        Self::with(true, Some(Structs::of(state)))
    }

    fn with(keep_json: bool, structs: Option<Structs>) -> Self {
        let mut fields: Vec<Arc<Field>> = ADD_SCHEMA.fields().iter().cloned().collect();
        fields.extend(structs.iter().flat_map(Structs::fields).map(Arc::new));
        AddRows {
            schema: Arc::new(Schema::new(fields)),
            keep_json,
            structs,
        }
    }

    /// The fields of the column `add`.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Whether they have statistics as text.
    pub(crate) fn keeps_json(&self) -> bool {
        self.keep_json
    }

    /// Which columns the plan of a checkpoint needs.
    pub(crate) fn plan_columns(&self) -> PlanColumns {
        match self.structs {
            Some(_) => PlanColumns::Parsed,
            None => PlanColumns::Logged,
        }
    }

    /// The rows of these live files.
    pub(crate) fn rows(&self, batch: &RecordBatch) -> Result<StructArray> {
        let Some(structs) = &self.structs else {
            return self.with_structs(batch, Vec::new());
        };
        let mut columns: Vec<ArrayRef> = vec![Arc::new(structs.stats.parsed(batch)?)];
        if !structs.partitions.is_empty() {
            columns.push(Arc::new(structs.partition_values(batch)?));
        }
        self.with_structs(batch, columns)
    }

    /// As `rows`, for rows of a checkpoint that deltaplane wrote: their structs are reused if the
    /// table still has the same columns.
    pub(crate) fn rows_again(&self, batch: &RecordBatch) -> Result<StructArray> {
        let own = self.schema.fields().iter().skip(ADD_SCHEMA.fields().len());
        let own_columns = own.map(|field| {
            let column = batch.column_by_name(field.name())?;
            (column.data_type() == field.data_type()).then(|| column.clone())
        });
        match own_columns.collect::<Option<Vec<_>>>() {
            Some(columns) => self.with_structs(batch, columns),
            None => self.rows(batch),
        }
    }

    fn with_structs(&self, batch: &RecordBatch, structs: Vec<ArrayRef>) -> Result<StructArray> {
        let plain = batch
            .project(&(0..ADD_SCHEMA.fields().len()).collect::<Vec<_>>())
            .map_err(arrow_error)?;
        let mut adds = unchanged(&plain)?;
        if !self.keep_json {
            let none = new_null_array(&DataType::Utf8, batch.num_rows());
            adds = replace(&RecordBatch::from(adds), "stats", none)?;
        }
        let columns = adds.columns().iter().cloned().chain(structs).collect();
        StructArray::try_new(self.schema.fields().clone(), columns, None).map_err(arrow_error)
    }
}

impl Structs {
    fn of(state: &TableState) -> Self {
        let (schema, mapping) = (state.schema(), state.mapping());
        let key = |c: &String| match schema.field_ignore_case(c)?.data_type {
            deltaplane_protocol::schema::DataType::Primitive(p) => {
                Some((mapping.partition_key(schema, c).to_owned(), p))
            }
            _ => None,
        };
        Structs {
            stats: LoggedStats::stored(
                schema,
                state.partition_columns(),
                mapping,
                &StatsColumns::of(state.properties()),
            ),
            partitions: state.partition_columns().iter().filter_map(key).collect(),
        }
    }

    fn partition_fields(&self) -> Fields {
        let typed = |(c, p): &(String, Primitive)| Field::new(c, primitive_to_arrow(*p), true);
        self.partitions.iter().map(typed).collect()
    }

    fn fields(&self) -> Vec<Field> {
        let mut out = vec![Field::new(
            "stats_parsed",
            DataType::Struct(self.stats.parsed_fields()),
            true,
        )];
        if !self.partitions.is_empty() {
            out.push(Field::new(
                "partitionValues_parsed",
                DataType::Struct(self.partition_fields()),
                true,
            ));
        }
        out
    }

    fn partition_values(&self, batch: &RecordBatch) -> Result<StructArray> {
        let maps = batch.column_by_name("partitionValues").and_then(|c| c.as_map_opt());
        let columns = self.partitions.iter().map(|(c, p)| {
            let texts = (0..batch.num_rows()).map(|row| maps.and_then(|m| map_value(m, row, c)));
            partition_array(texts, c, *p)
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        StructArray::try_new(self.partition_fields(), columns, None).map_err(arrow_error)
    }
}

fn replace(batch: &RecordBatch, column: &str, with: ArrayRef) -> Result<StructArray> {
    let columns = batch
        .schema()
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(f, c)| if f.name() == column { with.clone() } else { c.clone() })
        .collect();
    StructArray::try_new(batch.schema().fields().clone(), columns, None).map_err(arrow_error)
}

fn texts() -> DataType {
    DataType::List(Arc::new(Field::new("element", DataType::Utf8, true)))
}

fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
}

fn long(name: &str) -> Field {
    Field::new(name, DataType::Int64, true)
}

fn protocol_fields() -> Vec<Field> {
    vec![
        Field::new("minReaderVersion", DataType::Int32, true),
        Field::new("minWriterVersion", DataType::Int32, true),
        Field::new("readerFeatures", texts(), true),
        Field::new("writerFeatures", texts(), true),
    ]
}

fn metadata_fields() -> Vec<Field> {
    vec![
        text("id"),
        text("name"),
        text("description"),
        Field::new("format", DataType::Struct(format_fields()), true),
        text("schemaString"),
        Field::new("partitionColumns", texts(), true),
        Field::new("configuration", string_map(), true),
        long("createdTime"),
    ]
}

fn format_fields() -> Fields {
    Fields::from(vec![text("provider"), Field::new("options", string_map(), true)])
}

fn txn_fields() -> Vec<Field> {
    vec![text("appId"), long("version"), long("lastUpdated")]
}

fn domain_fields() -> Vec<Field> {
    vec![
        text("domain"),
        text("configuration"),
        Field::new("removed", DataType::Boolean, true),
    ]
}

fn version_fields() -> Vec<Field> {
    vec![long("version"), Field::new("tags", string_map(), true)]
}

fn sidecar_fields() -> Vec<Field> {
    vec![
        text("path"),
        long("sizeInBytes"),
        long("modificationTime"),
        Field::new("tags", string_map(), true),
    ]
}

fn text_list(items: Option<&Vec<String>>) -> ArrayRef {
    let mut b = ListBuilder::new(StringBuilder::new()).with_field(Field::new("element", DataType::Utf8, true));
    for i in items.into_iter().flatten() {
        b.values().append_value(i);
    }
    b.append(items.is_some());
    Arc::new(b.finish())
}

fn text_maps() -> MapBuilder<StringBuilder, StringBuilder> {
    let names = MapFieldNames {
        entry: "key_value".into(),
        key: "key".into(),
        value: "value".into(),
    };
    MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new())
}

fn text_map<'a>(entries: impl Iterator<Item = (&'a String, Option<&'a String>)>) -> Result<ArrayRef> {
    let mut b = text_maps();
    for (k, v) in entries {
        b.keys().append_value(k);
        b.values().append_option(v);
    }
    b.append(true).map_err(arrow_error)?;
    Ok(Arc::new(b.finish()))
}

fn one(value: Option<&String>) -> ArrayRef {
    Arc::new(StringArray::from(vec![value.map(String::as_str)]))
}

fn rows(fields: Vec<Field>, columns: Vec<ArrayRef>) -> Result<StructArray> {
    StructArray::try_new(fields.into(), columns, None).map_err(arrow_error)
}

/// One row.
pub(crate) fn protocol_array(p: &Protocol) -> Result<StructArray> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![p.min_reader_version])),
        Arc::new(Int32Array::from(vec![p.min_writer_version])),
        text_list(p.reader_features.as_ref()),
        text_list(p.writer_features.as_ref()),
    ];
    rows(protocol_fields(), columns)
}

/// One row.
pub(crate) fn metadata_array(m: &Metadata) -> Result<StructArray> {
    let format: Vec<ArrayRef> = vec![
        one(Some(&m.format.provider)),
        text_map(m.format.options.iter().map(|(k, v)| (k, v.as_ref())))?,
    ];
    let columns: Vec<ArrayRef> = vec![
        one(Some(&m.id)),
        one(m.name.as_ref()),
        one(m.description.as_ref()),
        Arc::new(StructArray::try_new(format_fields(), format, None).map_err(arrow_error)?),
        one(m.schema_string.as_ref()),
        text_list(Some(&m.partition_columns)),
        text_map(m.configuration.iter().map(|(k, v)| (k, Some(v))))?,
        Arc::new(Int64Array::from(vec![m.created_time])),
    ];
    rows(metadata_fields(), columns)
}

/// A row for each application.
pub(crate) fn txn_array(t: &[SetTransaction]) -> Result<StructArray> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(t.iter().map(|t| &t.app_id))),
        Arc::new(Int64Array::from_iter_values(t.iter().map(|t| t.version))),
        Arc::new(Int64Array::from_iter(t.iter().map(|t| t.last_updated))),
    ];
    rows(txn_fields(), columns)
}

/// A row for each domain.
pub(crate) fn domain_array(d: &[DomainMetadata]) -> Result<StructArray> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(d.iter().map(|d| &d.domain))),
        Arc::new(StringArray::from_iter_values(d.iter().map(|d| &d.configuration))),
        Arc::new(BooleanArray::from(vec![false; d.len()])),
    ];
    rows(domain_fields(), columns)
}

/// The row with a V2 checkpoint's version (P056).
pub(crate) fn version_array(version: u64) -> Result<StructArray> {
    let version = i64::try_from(version).map_err(|_| Error::internal("a version is out of range"))?;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![version])),
        new_null_array(&string_map(), 1),
    ];
    rows(version_fields(), columns)
}

/// A row for each sidecar.
pub(crate) fn sidecar_array(s: &[SidecarFile]) -> Result<StructArray> {
    let mut tags = text_maps();
    for sidecar in s {
        for (key, value) in sidecar.tags.iter().flatten() {
            tags.keys().append_value(key);
            tags.values().append_option(value.as_ref());
        }
        tags.append(sidecar.tags.is_some()).map_err(arrow_error)?;
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(s.iter().map(|s| &s.path))),
        Arc::new(Int64Array::from_iter_values(s.iter().map(|s| s.size_in_bytes))),
        Arc::new(Int64Array::from_iter_values(s.iter().map(|s| s.modification_time))),
        Arc::new(tags.finish()),
    ];
    rows(sidecar_fields(), columns)
}
