//! File actions as Arrow batches: the columnar form of adds and removes that replay, pruning and
//! checkpoints share. One row is one action; columns are the action's fields by their protocol names.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayBuilder, ArrayRef, AsArray, BooleanBuilder, Int32Builder, Int64Builder, MapArray, MapBuilder,
    MapFieldNames, RecordBatch, StringBuilder, StructArray, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Int64Type, Schema, SchemaRef};

use crate::actions::{Add, DeletionVector, PartitionValues, Remove};
use crate::file_lines::{AddLine, Pairs, RemoveLine};
use crate::{Error, Result};

type Tags = Option<std::collections::BTreeMap<String, Option<String>>>;

/// The Arrow type of a map of texts, as partition values, tags and properties stand in batches.
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

// Arrow's builders begin with room for 1,024 rows each; most commits hold a few, and a snapshot keeps many commits.
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
    /// Most files have none: room is made for those that have.
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

/// Adds on their way into a batch of [`ADD_SCHEMA`].
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
    /// None yet, and room for so many.
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

    /// Takes one more.
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

/// Removes on their way into a batch of [`REMOVE_SCHEMA`].
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
    /// None yet, and room for so many.
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

    /// Takes one more.
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

/// A struct column of a checkpoint as a batch of `schema`: columns by name, cast where a writer
/// chose another layout, null where absent (P055). Columns in `extra` are kept as they are, all others that `schema`
/// doesn't name are dropped.
pub fn conform(column: &StructArray, schema: &SchemaRef, extra: &[&str]) -> Result<RecordBatch> {
    let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
    let mut columns = Vec::with_capacity(fields.len());
    for (at, f) in schema.fields().iter().enumerate() {
        let kept = extra.contains(&f.name().as_str());
        columns.push(match (column.column_by_name(f.name()), fields.get_mut(at)) {
            (None, _) => new_null_array(f.data_type(), column.len()),
            (Some(c), Some(field)) if kept => {
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

/// An array in this type: structs by field name (absent → null, extra → dropped), all else by cast.
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

/// Typed access to the rows of a batch of file actions. Absent columns read as null.
pub struct FileRows<'a> {
    batch: &'a RecordBatch,
}

impl<'a> FileRows<'a> {
    /// Looks at this batch.
    pub fn new(batch: &'a RecordBatch) -> Self {
        FileRows { batch }
    }

    fn text(&self, column: &str, row: usize) -> Option<&'a str> {
        text_at(self.batch.column_by_name(column)?, row)
    }

    fn long(&self, column: &str, row: usize) -> Option<i64> {
        let a = self.batch.column_by_name(column)?.as_primitive_opt::<Int64Type>()?;
        (row < a.len() && a.is_valid(row)).then(|| a.value(row))
    }

    fn flag(&self, column: &str, row: usize) -> Option<bool> {
        let a = self.batch.column_by_name(column)?.as_boolean_opt()?;
        (row < a.len() && a.is_valid(row)).then(|| a.value(row))
    }

    fn map(&self, column: &str, row: usize) -> Option<PartitionValues> {
        map_at(self.batch.column_by_name(column)?.as_map_opt()?, row)
    }

    /// The raw path of a row.
    pub fn path(&self, row: usize) -> Result<&'a str> {
        self.text("path", row).ok_or_else(|| {
            Error::corrupt_log("a file action without a path: the log was damaged or written by a faulty program")
        })
    }

    /// Size of the file of a row in bytes.
    pub fn size(&self, row: usize) -> i64 {
        self.long("size", row).unwrap_or(0)
    }

    /// Whether the action changes the table's rows; one that doesn't say so counts as if it did.
    pub fn data_change(&self, row: usize) -> bool {
        self.flag("dataChange", row).unwrap_or(true)
    }

    /// Creation time of the file of a row, ms.
    pub fn modification_time(&self, row: usize) -> i64 {
        self.long("modificationTime", row).unwrap_or(0)
    }

    /// Number of rows of the file according to its statistics; a negative one says nothing.
    pub fn num_records(&self, row: usize) -> Option<i64> {
        num_records(self.stats(row)?)
    }

    /// Number of rows that the file's vector leaves, according to its statistics (P166).
    pub fn live_records(&self, row: usize) -> Option<i64> {
        let deleted = self.deletion_vector(row).map_or(0, |dv| dv.cardinality);
        self.num_records(row)?.checked_sub(deleted).filter(|n| *n >= 0)
    }

    /// When the file of a remove was deleted, ms; 0 when not given (P029).
    pub fn deletion_timestamp(&self, row: usize) -> i64 {
        self.long("deletionTimestamp", row).unwrap_or(0)
    }

    /// Statistics of a row as JSON text.
    pub fn stats(&self, row: usize) -> Option<&'a str> {
        self.text("stats", row)
    }

    /// The partition values of a row.
    pub fn partition_values(&self, row: usize) -> PartitionValues {
        self.map("partitionValues", row).unwrap_or_default()
    }

    /// The deletion vector of a row.
    pub fn deletion_vector(&self, row: usize) -> Option<DeletionVector> {
        let s = self.batch.column_by_name("deletionVector")?.as_struct_opt()?;
        if row >= s.len() || s.is_null(row) {
            return None;
        }
        let int = |name: &str| {
            let a = s.column_by_name(name)?.as_primitive_opt::<Int32Type>()?;
            a.is_valid(row).then(|| a.value(row))
        };
        let cardinality = s.column_by_name("cardinality")?.as_primitive_opt::<Int64Type>()?;
        Some(DeletionVector {
            storage_type: text_at(s.column_by_name("storageType")?, row)?.to_owned(),
            path_or_inline_dv: text_at(s.column_by_name("pathOrInlineDv")?, row)?.to_owned(),
            offset: int("offset"),
            size_in_bytes: int("sizeInBytes").unwrap_or(0),
            cardinality: if cardinality.is_valid(row) {
                cardinality.value(row)
            } else {
                0
            },
        })
    }

    /// The id of the file's first row (P143).
    pub fn base_row_id(&self, row: usize) -> Option<i64> {
        self.long("baseRowId", row)
    }

    /// The version that added the file's rows, where they don't say otherwise (P143).
    pub fn default_row_commit_version(&self, row: usize) -> Option<i64> {
        self.long("defaultRowCommitVersion", row)
    }

    /// The whole add of a row.
    pub fn add(&self, row: usize) -> Result<Add> {
        Ok(Add {
            path: self.path(row)?.to_owned(),
            partition_values: self.partition_values(row),
            size: self.size(row),
            modification_time: self.modification_time(row),
            data_change: self.flag("dataChange", row).unwrap_or(false),
            stats: self.stats(row).map(str::to_owned),
            tags: self.tags(row),
            deletion_vector: self.deletion_vector(row),
            base_row_id: self.base_row_id(row),
            default_row_commit_version: self.default_row_commit_version(row),
            clustering_provider: self.text("clusteringProvider", row).map(str::to_owned),
        })
    }

    fn tags(&self, row: usize) -> Tags {
        self.map("tags", row)
    }
}

/// Number of rows according to statistics as text; a negative one says nothing.
pub fn num_records(stats: &str) -> Option<i64> {
    let stats: NumRecords = serde_json::from_str(stats).ok()?;
    stats.num_records.filter(|n| *n >= 0)
}

/// The one statistic that needs no schema.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct NumRecords {
    num_records: Option<i64>,
}

fn text_at(array: &ArrayRef, row: usize) -> Option<&str> {
    if row >= array.len() || array.is_null(row) {
        return None;
    }
    match array.as_string_opt::<i32>() {
        Some(texts) => Some(texts.value(row)),
        // Statistics come so from who only looks at them.
        None => array.as_string_view_opt().map(|texts| texts.value(row)),
    }
}

/// The value of a key in one row of a map column with string keys and values; the last one, should it stand there twice.
pub fn map_value<'a>(maps: &'a MapArray, row: usize, key: &str) -> Option<&'a str> {
    if row >= maps.len() || maps.is_null(row) {
        return None;
    }
    let offset = |at: usize| usize::try_from(*maps.offsets().get(at)?).ok();
    let entries = offset(row)?..offset(row + 1)?;
    let found = entries.rev().find(|entry| text_at(maps.keys(), *entry) == Some(key))?;
    text_at(maps.values(), found)
}

/// The value of a key in each row of such a column.
pub fn map_values<'a>(maps: &'a MapArray, key: &'a str) -> impl Iterator<Item = Option<&'a str>> {
    let texts = |array: &'a ArrayRef| array.as_string_opt::<i32>();
    let both = texts(maps.keys()).zip(texts(maps.values()));
    let offsets = maps.value_offsets().windows(2);
    offsets.enumerate().map(move |(row, ends)| {
        let ((keys, values), [from, until]) = (both.filter(|_| maps.is_valid(row))?, ends) else {
            return None;
        };
        let entries = usize::try_from(*from).ok()?..usize::try_from(*until).ok()?;
        let found = entries.rev().find(|entry| keys.value(*entry) == key)?;
        values.is_valid(found).then(|| values.value(found))
    })
}

/// One row of a map column with string keys and values.
pub fn map_at(maps: &MapArray, row: usize) -> Option<PartitionValues> {
    if row >= maps.len() || maps.is_null(row) {
        return None;
    }
    let entries = maps.value(row);
    let (keys, values) = (entries.column(0), entries.column(1));
    Some(
        (0..entries.len())
            .filter_map(|i| Some((text_at(keys, i)?.to_owned(), text_at(values, i).map(str::to_owned))))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::StringViewArray;

    use super::*;

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
    fn a_value_is_found_without_its_map() {
        let values = [("p".to_owned(), Some("1".to_owned())), ("q".to_owned(), None)];
        let with = Add {
            partition_values: values.into(),
            ..Add::default()
        };
        let batch = adds_to_batch([&Add::default(), &with]).unwrap();
        let maps = batch.column_by_name("partitionValues").unwrap().as_map();
        let of = |row, key| map_value(maps, row, key);
        assert_eq!(
            [of(1, "p"), of(1, "q"), of(1, "r"), of(0, "p"), of(2, "p")],
            [Some("1"), None, None, None, None]
        );
        let second = maps.slice(1, 1);
        assert_eq!(map_value(&second, 0, "p"), Some("1"));
        for (maps, key) in [(maps, "p"), (maps, "q"), (maps, "r"), (&second, "p")] {
            let each: Vec<_> = (0..maps.len()).map(|row| map_value(maps, row, key)).collect();
            assert_eq!(map_values(maps, key).collect::<Vec<_>>(), each);
        }
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
        let given = StructArray::from(vec![
            (Arc::new(Field::new("stats", DataType::Utf8View, true)), views.clone()),
            (Arc::new(Field::new("more", DataType::Utf8View, true)), views),
        ]);
        let kept = conform(&given, &ADD_SCHEMA, &["more", "stats", "absent"]).unwrap();
        let cast = conform(&given, &ADD_SCHEMA, &[]).unwrap();
        let ty = |batch: &RecordBatch, name| batch.column_by_name(name).map(|c| c.data_type().clone());
        assert_eq!(kept.num_columns(), ADD_SCHEMA.fields().len() + 1);
        assert_eq!(ty(&kept, "stats"), Some(DataType::Utf8View));
        assert_eq!(ty(&cast, "stats"), Some(DataType::Utf8));
        for batch in [kept, cast] {
            let rows = FileRows::new(&batch);
            assert_eq!([rows.stats(0), rows.stats(1), rows.stats(2)], [Some("{}"), None, None]);
        }
    }
}
