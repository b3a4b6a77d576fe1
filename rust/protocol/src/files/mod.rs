//! File actions as Arrow batches: the columnar form of adds and removes that replay, pruning and
//! checkpoints share. One row is one action; columns are the action's fields by their protocol
//! names.

pub mod lines;
pub mod order;
pub mod rows;
pub mod seen;

use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayBuilder, ArrayRef, AsArray, BooleanBuilder, Int32Builder, Int64Builder, MapBuilder, MapFieldNames,
    RecordBatch, StringBuilder, StructArray, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};

use crate::actions::{Add, DeletionVector, Remove};
use crate::files::lines::{AddLine, Pairs, RemoveLine};
use crate::{Error, Result};

/// The Arrow type of a map of strings, for partition values, tags and properties.
pub fn string_map() -> DataType {
    let entries = Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Utf8, true),
    ]);
    DataType::Map(
        Arc::new(Field::new("key_value", DataType::Struct(entries), false)),
        false,
    )
}

fn deletion_vector_fields() -> Fields {
    Fields::from(vec![
        Field::new("storageType", DataType::Utf8, true),
        Field::new("pathOrInlineDv", DataType::Utf8, true),
        Field::new("offset", DataType::Int32, true),
        Field::new("sizeInBytes", DataType::Int32, true),
        Field::new("cardinality", DataType::Int64, true),
    ])
}

/// Columns of a batch of adds.
pub static ADD_SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("path", DataType::Utf8, true),
        Field::new("partitionValues", string_map(), true),
        Field::new("size", DataType::Int64, true),
        Field::new("modificationTime", DataType::Int64, true),
        Field::new("dataChange", DataType::Boolean, true),
        Field::new("stats", DataType::Utf8, true),
        Field::new("tags", string_map(), true),
        Field::new("deletionVector", DataType::Struct(deletion_vector_fields()), true),
        Field::new("baseRowId", DataType::Int64, true),
        Field::new("defaultRowCommitVersion", DataType::Int64, true),
        Field::new("clusteringProvider", DataType::Utf8, true),
    ]))
});

/// Columns of a batch of removes.
pub static REMOVE_SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("path", DataType::Utf8, true),
        Field::new("deletionTimestamp", DataType::Int64, true),
        Field::new("dataChange", DataType::Boolean, true),
        Field::new("extendedFileMetadata", DataType::Boolean, true),
        Field::new("partitionValues", string_map(), true),
        Field::new("size", DataType::Int64, true),
        Field::new("deletionVector", DataType::Struct(deletion_vector_fields()), true),
        Field::new("baseRowId", DataType::Int64, true),
        Field::new("defaultRowCommitVersion", DataType::Int64, true),
    ]))
});

fn arrow_error(e: arrow::error::ArrowError) -> Error {
    Error::corrupt_log(format!("file actions can't be laid out as columns: {e}")).with_source(e)
}

// Arrow's builders start with room for 1,024 rows each; most commits have a few, and a snapshot
// holds many commits.
fn strings(rows: usize) -> StringBuilder {
    StringBuilder::with_capacity(rows, 0)
}

struct StringMaps(MapBuilder<StringBuilder, StringBuilder>);

impl StringMaps {
    fn new(rows: usize) -> Self {
        let names = MapFieldNames {
            entry: "key_value".into(),
            key: "key".into(),
            value: "value".into(),
        };
        StringMaps(MapBuilder::with_capacity(Some(names), strings(0), strings(0), rows))
    }

    fn append(&mut self, map: Option<&Pairs<'_>>) -> Result<()> {
        for (k, v) in map.into_iter().flat_map(Pairs::iter) {
            self.0.keys().append_value(k);
            self.0.values().append_option(v);
        }
        self.0.append(map.is_some()).map_err(arrow_error)
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.0.finish())
    }
}

struct Vectors {
    storage: StringBuilder,
    path: StringBuilder,
    offset: Int32Builder,
    size: Int32Builder,
    cardinality: Int64Builder,
    valid: Vec<bool>,
}

impl Vectors {
    /// Most files have none: room is allocated on demand.
    fn new() -> Self {
        Vectors {
            storage: strings(0),
            path: strings(0),
            offset: Int32Builder::with_capacity(0),
            size: Int32Builder::with_capacity(0),
            cardinality: Int64Builder::with_capacity(0),
            valid: Vec::new(),
        }
    }

    fn append(&mut self, dv: Option<&DeletionVector>) {
        self.storage.append_option(dv.map(|d| &d.storage_type));
        self.path.append_option(dv.map(|d| &d.path_or_inline_dv));
        self.offset.append_option(dv.and_then(|d| d.offset));
        self.size.append_option(dv.map(|d| d.size_in_bytes));
        self.cardinality.append_option(dv.map(|d| d.cardinality));
        self.valid.push(dv.is_some());
    }

    fn finish(mut self) -> Result<ArrayRef> {
        let children: Vec<ArrayRef> = vec![
            Arc::new(self.storage.finish()),
            Arc::new(self.path.finish()),
            Arc::new(self.offset.finish()),
            Arc::new(self.size.finish()),
            Arc::new(self.cardinality.finish()),
        ];
        let nulls = NullBuffer::from(self.valid);
        let array = StructArray::try_new(deletion_vector_fields(), children, Some(nulls)).map_err(arrow_error)?;
        Ok(Arc::new(array))
    }
}

/// Builds a batch of [`ADD_SCHEMA`].
pub struct AddRows {
    path: StringBuilder,
    values: StringMaps,
    size: Int64Builder,
    time: Int64Builder,
    change: BooleanBuilder,
    stats: StringBuilder,
    tags: StringMaps,
    vectors: Vectors,
    row_id: Int64Builder,
    row_version: Int64Builder,
    provider: StringBuilder,
}

impl AddRows {
    /// Empty, with room for this many rows.
    pub fn with_capacity(rows: usize) -> Self {
        let longs = || Int64Builder::with_capacity(rows);
        AddRows {
            path: strings(rows),
            values: StringMaps::new(rows),
            size: longs(),
            time: longs(),
            change: BooleanBuilder::with_capacity(rows),
            stats: strings(rows),
            tags: StringMaps::new(rows),
            vectors: Vectors::new(),
            row_id: longs(),
            row_version: longs(),
            provider: strings(rows),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.size.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends one add.
    pub fn push(&mut self, add: &AddLine<'_>) -> Result<()> {
        self.path.append_value(&add.path);
        self.values.append(Some(&add.partition_values))?;
        self.size.append_value(add.size);
        self.time.append_value(add.modification_time);
        self.change.append_value(add.data_change);
        self.stats.append_option(add.stats.as_ref());
        self.tags.append(add.tags.as_ref())?;
        self.vectors.append(add.deletion_vector.as_deref());
        self.row_id.append_option(add.base_row_id);
        self.row_version.append_option(add.default_row_commit_version);
        self.provider.append_option(add.clustering_provider.as_ref());
        Ok(())
    }

    /// All of them.
    pub fn finish(mut self) -> Result<RecordBatch> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.path.finish()),
            self.values.finish(),
            Arc::new(self.size.finish()),
            Arc::new(self.time.finish()),
            Arc::new(self.change.finish()),
            Arc::new(self.stats.finish()),
            self.tags.finish(),
            self.vectors.finish()?,
            Arc::new(self.row_id.finish()),
            Arc::new(self.row_version.finish()),
            Arc::new(self.provider.finish()),
        ];
        RecordBatch::try_new(ADD_SCHEMA.clone(), columns).map_err(arrow_error)
    }
}

/// Builds a batch of [`REMOVE_SCHEMA`].
pub struct RemoveRows {
    path: StringBuilder,
    deleted: Int64Builder,
    change: BooleanBuilder,
    extended: BooleanBuilder,
    values: StringMaps,
    size: Int64Builder,
    vectors: Vectors,
    row_id: Int64Builder,
    row_version: Int64Builder,
}

impl RemoveRows {
    /// Empty, with room for this many rows.
    pub fn with_capacity(rows: usize) -> Self {
        let longs = || Int64Builder::with_capacity(rows);
        RemoveRows {
            path: strings(rows),
            deleted: longs(),
            change: BooleanBuilder::with_capacity(rows),
            extended: BooleanBuilder::with_capacity(rows),
            values: StringMaps::new(rows),
            size: longs(),
            vectors: Vectors::new(),
            row_id: longs(),
            row_version: longs(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.size.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends one remove.
    pub fn push(&mut self, remove: &RemoveLine<'_>) -> Result<()> {
        self.path.append_value(&remove.path);
        self.deleted.append_option(remove.deletion_timestamp);
        self.change.append_value(remove.data_change);
        self.extended.append_option(remove.extended_file_metadata);
        self.values.append(remove.partition_values.as_ref())?;
        self.size.append_option(remove.size);
        self.vectors.append(remove.deletion_vector.as_deref());
        self.row_id.append_option(remove.base_row_id);
        self.row_version.append_option(remove.default_row_commit_version);
        Ok(())
    }

    /// All of them.
    pub fn finish(mut self) -> Result<RecordBatch> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.path.finish()),
            Arc::new(self.deleted.finish()),
            Arc::new(self.change.finish()),
            Arc::new(self.extended.finish()),
            self.values.finish(),
            Arc::new(self.size.finish()),
            self.vectors.finish()?,
            Arc::new(self.row_id.finish()),
            Arc::new(self.row_version.finish()),
        ];
        RecordBatch::try_new(REMOVE_SCHEMA.clone(), columns).map_err(arrow_error)
    }
}

/// These adds as a batch of [`ADD_SCHEMA`].
pub fn adds_to_batch<'a>(adds: impl IntoIterator<Item = &'a Add>) -> Result<RecordBatch> {
    let adds = adds.into_iter();
    let mut rows = AddRows::with_capacity(adds.size_hint().0);
    for add in adds {
        rows.push(&AddLine::from(add))?;
    }
    rows.finish()
}

/// These removes as a batch of [`REMOVE_SCHEMA`].
pub fn removes_to_batch<'a>(removes: impl IntoIterator<Item = &'a Remove>) -> Result<RecordBatch> {
    let removes = removes.into_iter();
    let mut rows = RemoveRows::with_capacity(removes.size_hint().0);
    for remove in removes {
        rows.push(&RemoveLine::from(remove))?;
    }
    rows.finish()
}

/// A struct column of a checkpoint as a batch of `schema`: columns by name, cast if a writer chose
/// another type, null if absent (P055). Columns in `extra` stay unchanged, all others that `schema`
/// doesn't name are dropped.
pub fn conform(column: &StructArray, schema: &SchemaRef, extra: &[&str]) -> Result<RecordBatch> {
    let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
    let mut columns = Vec::with_capacity(fields.len());
    for (index, f) in schema.fields().iter().enumerate() {
        let is_extra = extra.contains(&f.name().as_str());
        columns.push(match (column.column_by_name(f.name()), fields.get_mut(index)) {
            (None, _) => new_null_array(f.data_type(), column.len()),
            (Some(c), Some(field)) if is_extra => {
                *field = Arc::new(Field::new(f.name(), c.data_type().clone(), true));
                c.clone()
            }
            (Some(c), _) => conform_array(c, f.data_type())?,
        });
    }
    for name in extra {
        let is_new = schema.column_with_name(name).is_none();
        if let Some(c) = column.column_by_name(name).filter(|_| is_new) {
            fields.push(Arc::new(Field::new(*name, c.data_type().clone(), true)));
            columns.push(c.clone());
        }
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(arrow_error)
}

/// An array in this type: structs by field name (absent → null, extra → dropped), all other types
/// by a cast.
pub fn conform_array(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(array.clone());
    }
    if let (DataType::Struct(fields), Some(s)) = (to, array.as_struct_opt()) {
        let children = fields
            .iter()
            .map(|f| match s.column_by_name(f.name()) {
                None => Ok(new_null_array(f.data_type(), s.len())),
                Some(c) => conform_array(c, f.data_type()),
            })
            .collect::<Result<Vec<_>>>()?;
        let out = StructArray::try_new(fields.clone(), children, s.nulls().cloned()).map_err(arrow_error)?;
        return Ok(Arc::new(out));
    }
    cast(array, to).map_err(arrow_error)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::StringViewArray;

    use super::*;
    use crate::files::rows::FileRows;

    #[test]
    fn adds_survive_the_columnar_form() {
        let a = Add {
            path: "p=1/a%20b".into(),
            partition_values: [("p".to_owned(), Some("1".to_owned())), ("q".to_owned(), None)].into(),
            size: 5,
            modification_time: 7,
            data_change: true,
            stats: Some("{}".into()),
            tags: Some([("k".to_owned(), None)].into()),
            deletion_vector: Some(DeletionVector {
                storage_type: "u".into(),
                path_or_inline_dv: "x".into(),
                offset: Some(0),
                size_in_bytes: 3,
                cardinality: 2,
            }),
            base_row_id: Some(3),
            ..Add::default()
        };
        let b = Add {
            path: "z".into(),
            ..Add::default()
        };
        let batch = adds_to_batch([&a, &b]).unwrap();
        let rows = FileRows::new(&batch);
        assert_eq!(rows.add(0).unwrap(), a);
        assert_eq!(rows.add(1).unwrap(), b);
    }

    #[test]
    fn conform_fills_absent_columns() {
        // P055
        let batch = adds_to_batch([&Add {
            path: "a".into(),
            ..Add::default()
        }])
        .unwrap();
        let narrow = StructArray::from(batch.project(&[0, 2]).unwrap());
        let out = conform(&narrow, &ADD_SCHEMA, &[]).unwrap();
        assert_eq!(out.num_columns(), ADD_SCHEMA.fields().len());
        assert_eq!(FileRows::new(&out).path(0).unwrap(), "a");
    }

    #[test]
    fn what_is_kept_keeps_its_type() {
        let views: ArrayRef = Arc::new(StringViewArray::from(vec![Some("{}"), None]));
        let input = StructArray::from(vec![
            (Arc::new(Field::new("stats", DataType::Utf8View, true)), views.clone()),
            (Arc::new(Field::new("more", DataType::Utf8View, true)), views),
        ]);
        let conformed = conform(&input, &ADD_SCHEMA, &["more", "stats", "absent"]).unwrap();
        let cast = conform(&input, &ADD_SCHEMA, &[]).unwrap();
        let ty = |batch: &RecordBatch, name| batch.column_by_name(name).map(|c| c.data_type().clone());
        assert_eq!(conformed.num_columns(), ADD_SCHEMA.fields().len() + 1);
        assert_eq!(ty(&conformed, "stats"), Some(DataType::Utf8View));
        assert_eq!(ty(&cast, "stats"), Some(DataType::Utf8));
        for batch in [conformed, cast] {
            let rows = FileRows::new(&batch);
            assert_eq!([rows.stats(0), rows.stats(1), rows.stats(2)], [Some("{}"), None, None]);
        }
    }
}
