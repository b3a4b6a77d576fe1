//! Additional columns of a writer's files: row ids that rewritten rows keep (P142), or change types
//! (P130). Such columns have no statistics.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field as ArrowField, FieldRef, Schema, SchemaRef};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{Add, AddCdcFile};
use deltaplane_protocol::changes::CHANGE_TYPE;
use deltaplane_protocol::features::StoredIds;
use deltaplane_protocol::features::row_tracking::ICEBERG_IDS;
use deltaplane_protocol::hidden_columns::{ROW_COMMIT_VERSION, ROW_ID};
use deltaplane_protocol::mapping;
use deltaplane_protocol::paths::CHANGE_DIR;
use deltaplane_protocol::schema::{DataType as TableType, Field, Primitive, StructType};
use deltaplane_protocol::stats_columns::StatsColumns;

use super::WriteSpec;
use crate::stats::StatsConfig;

/// The purpose of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileKind {
    /// Rows of the table.
    #[default]
    Data,
    /// Changed rows, which aren't part of the table.
    Changes,
}

impl FileKind {
    /// The directory of the files, below the table's root.
    pub(super) fn dir(self) -> &'static str {
        match self {
            FileKind::Data => "",
            FileKind::Changes => CHANGE_DIR,
        }
    }

    /// The beginning of the files' names.
    pub(super) fn name(self) -> &'static str {
        match self {
            FileKind::Data => "part",
            FileKind::Changes => "cdc",
        }
    }
}

impl WriteSpec {
    /// The same with two more columns in each file: the rows' ids and the versions that last wrote
    /// them.
    pub fn keeping_ids(self, ids: &StoredIds) -> Self {
        let mut columns = [&ids.id, &ids.version].map(|name| Field::new(name.as_str(), Primitive::Long, true));
        if ids.for_iceberg {
            for (column, id) in columns.iter_mut().zip(ICEBERG_IDS) {
                column.metadata.insert(mapping::ID.to_owned(), id.into());
            }
        }
        self.beside(columns)
    }

    /// The same for files of changed rows, with the column of change types.
    pub fn of_changes(self) -> Self {
        WriteSpec {
            kind: FileKind::Changes,
            // Change files are read completely.
            bloom_filters: Vec::new(),
            encodings: BTreeMap::new(),
            stats: StatsConfig {
                columns: StatsColumns::Columns(Vec::new()),
                ..self.stats.clone()
            },
            ..self.beside([Field::new(CHANGE_TYPE, Primitive::String, true)])
        }
    }

    fn beside<const N: usize>(mut self, columns: [Field; N]) -> Self {
        self.unmeasured.extend(columns.iter().map(|f| f.name.clone()));
        self.schema = Arc::new(StructType::new(
            self.schema.fields().iter().cloned().chain(columns).collect(),
        ));
        self
    }
}

/// The schema of files of changed rows in delta-rs's form: what the table declares as NOT NULL is
/// required, and so is the change type.
pub(super) fn declared_schema(schema: &Schema, stored: &StructType) -> SchemaRef {
    let fields = schema.fields().iter().zip(stored.fields());
    let fields = fields.map(|(f, own)| declared(f, &own.data_type, own.nullable && own.name != CHANGE_TYPE));
    Arc::new(Schema::new_with_metadata(
        fields.collect::<Vec<_>>(),
        schema.metadata().clone(),
    ))
}

fn declared(field: &ArrowField, own: &TableType, nullable: bool) -> FieldRef {
    let kind = match (field.data_type(), own) {
        (DataType::Struct(fields), TableType::Struct(own)) => {
            let fields = fields.iter().zip(own.fields());
            DataType::Struct(
                fields
                    .map(|(f, own)| declared(f, &own.data_type, own.nullable))
                    .collect(),
            )
        }
        (DataType::List(item), TableType::Array(own)) => {
            DataType::List(declared(item, &own.element, own.contains_null))
        }
        (kind, _) => kind.clone(),
    };
    Arc::new(field.clone().with_data_type(kind).with_nullable(nullable))
}

/// Refuses nulls in what a field declares as required: the Parquet writer would store other values.
pub(super) fn check_required(field: &ArrowField, array: &ArrayRef, parent: Option<&NullBuffer>) -> Result<()> {
    let nulls = NullBuffer::union(parent, array.logical_nulls().as_ref());
    let own = nulls.as_ref().map_or(0, NullBuffer::null_count);
    if !field.is_nullable() && own > parent.map_or(0, NullBuffer::null_count) {
        return Err(Error::schema_mismatch(format!(
            "rows of the table have null in `{}`, which the table declares as NOT NULL",
            field.name()
        )));
    }
    match field.data_type() {
        DataType::Struct(fields) => {
            let columns = array.as_struct_opt().map_or(&[][..], StructArray::columns);
            let mut parts = fields.iter().zip(columns);
            parts.try_for_each(|(f, column)| check_required(f, column, nulls.as_ref()))
        }
        DataType::List(item) => match array.as_list_opt::<i32>() {
            Some(list) => {
                let (from, to) = (list.value_offsets().first(), list.value_offsets().last());
                let (from, to) = (from.map_or(0, |n| *n as usize), to.map_or(0, |n| *n as usize));
                check_required(item, &list.values().slice(from, to - from), None)
            }
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// A scan's rows with their ids under the column names of files.
pub(super) fn name_ids(batch: &RecordBatch, ids: &StoredIds) -> Result<RecordBatch> {
    let schema = batch.schema();
    let fields = schema.fields().iter().map(|f| match f.name().as_str() {
        ROW_ID => Arc::new(f.as_ref().clone().with_name(&ids.id)),
        ROW_COMMIT_VERSION => Arc::new(f.as_ref().clone().with_name(&ids.version)),
        _ => f.clone(),
    });
    let schema = Schema::new(fields.collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), batch.columns().to_vec()).map_err(layout)
}

/// Rows with this change type; without ids, since change files have none (P143).
pub(super) fn as_change(batch: &RecordBatch, change: &str) -> Result<RecordBatch> {
    let schema = batch.schema();
    let columns_left = schema.fields().iter().zip(batch.columns());
    let columns_left = columns_left.filter(|(f, _)| ![ROW_ID, ROW_COMMIT_VERSION].contains(&f.name().as_str()));
    let (mut fields, mut columns): (Vec<_>, Vec<ArrayRef>) = columns_left.map(|(f, c)| (f.clone(), c.clone())).unzip();
    fields.push(Arc::new(ArrowField::new(CHANGE_TYPE, DataType::Utf8, true)));
    columns.push(Arc::new(StringArray::from_iter_values(std::iter::repeat_n(
        change,
        batch.num_rows(),
    ))));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(layout)
}

fn layout(e: arrow::error::ArrowError) -> Error {
    Error::internal(format!("can't lay out rewritten rows: {e}"))
}

/// The action for a written file of changed rows.
pub(super) fn change_file(add: Add) -> AddCdcFile {
    AddCdcFile {
        path: add.path,
        partition_values: add.partition_values,
        size: add.size,
        data_change: false,
        tags: None,
    }
}
