//! The rows of a batch of file actions, and of its maps, one by one.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, MapArray, RecordBatch, StringArray, StringViewArray,
    StructArray,
};
use arrow::datatypes::{Int32Type, Int64Type};

use crate::actions::{Add, DeletionVector, PartitionValues};
use crate::{Error, Result};

/// Typed access to the rows of a batch of file actions. Absent columns read as null.
pub struct FileRows<'a> {
    batch: &'a RecordBatch,
    // Looked up once, since plans read it for each of millions of rows.
    paths: Option<Texts<'a>>,
    sizes: Option<&'a Int64Array>,
    stats: Option<Texts<'a>>,
    vectors: Option<&'a StructArray>,
}

impl<'a> FileRows<'a> {
    /// Looks at this batch.
    pub fn new(batch: &'a RecordBatch) -> Self {
        let texts = |name| Texts::of(batch.column_by_name(name)?);
        let vectors = batch
            .column_by_name("deletionVector")
            .and_then(|column| column.as_struct_opt())
            // Most batches have none: testing each row for one would take longer than reading its
            // path.
            .filter(|vectors| vectors.null_count() < vectors.len());
        FileRows {
            batch,
            paths: texts("path"),
            sizes: batch.column_by_name("size").and_then(|c| c.as_primitive_opt()),
            stats: texts("stats"),
            vectors,
        }
    }

    fn long(&self, column: &str, row: usize) -> Option<i64> {
        long_at(self.batch.column_by_name(column)?.as_primitive_opt()?, row)
    }

    fn flag(&self, column: &str, row: usize) -> Option<bool> {
        let flags: &BooleanArray = self.batch.column_by_name(column)?.as_boolean_opt()?;
        (row < flags.len() && flags.is_valid(row)).then(|| flags.value(row))
    }

    fn map(&self, column: &str, row: usize) -> Option<PartitionValues> {
        map_at(self.batch.column_by_name(column)?.as_map_opt()?, row)
    }

    /// The raw path of a row.
    pub fn path(&self, row: usize) -> Result<&'a str> {
        self.paths.and_then(|paths| paths.at(row)).ok_or_else(|| {
            Error::corrupt_log("a file action without a path: the log was damaged or written by a faulty program")
        })
    }

    /// Size of the file of a row in bytes.
    pub fn size(&self, row: usize) -> i64 {
        self.sizes.and_then(|sizes| long_at(sizes, row)).unwrap_or(0)
    }

    /// Whether the action changes the table's rows; true if it doesn't say.
    pub fn data_change(&self, row: usize) -> bool {
        self.flag("dataChange", row).unwrap_or(true)
    }

    /// Creation time of the file of a row, ms.
    pub fn modification_time(&self, row: usize) -> i64 {
        self.long("modificationTime", row).unwrap_or(0)
    }

    /// Number of rows of the file from its statistics; a negative number is ignored.
    pub fn num_records(&self, row: usize) -> Option<i64> {
        num_records(self.stats(row)?)
    }

    /// Number of the file's rows without deleted ones, from its statistics (P166).
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
        self.stats.and_then(|stats| stats.at(row))
    }

    /// The partition values of a row.
    pub fn partition_values(&self, row: usize) -> PartitionValues {
        self.map("partitionValues", row).unwrap_or_default()
    }

    /// The deletion vector of a row.
    pub fn deletion_vector(&self, row: usize) -> Option<DeletionVector> {
        let s = self
            .vectors
            .filter(|vectors| row < vectors.len() && vectors.is_valid(row))?;
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

    /// The version that added the file's rows, if rows don't store their own (P143).
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
            clustering_provider: self
                .batch
                .column_by_name("clusteringProvider")
                .and_then(|column| text_at(column, row))
                .map(str::to_owned),
        })
    }

    fn tags(&self, row: usize) -> Option<PartitionValues> {
        self.map("tags", row)
    }
}

/// Number of rows from statistics as text; a negative number is ignored.
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

/// A column of texts.
#[derive(Clone, Copy)]
enum Texts<'a> {
    Whole(&'a StringArray),
    /// Statistics for readers that use them once are views.
    Views(&'a StringViewArray),
}

impl<'a> Texts<'a> {
    fn of(column: &'a ArrayRef) -> Option<Self> {
        let views = || column.as_string_view_opt().map(Texts::Views);
        column.as_string_opt().map(Texts::Whole).or_else(views)
    }

    fn at(self, row: usize) -> Option<&'a str> {
        match self {
            Texts::Whole(texts) => (row < texts.len() && texts.is_valid(row)).then(|| texts.value(row)),
            Texts::Views(texts) => (row < texts.len() && texts.is_valid(row)).then(|| texts.value(row)),
        }
    }
}

fn text_at(column: &ArrayRef, row: usize) -> Option<&str> {
    Texts::of(column)?.at(row)
}

fn long_at(longs: &Int64Array, row: usize) -> Option<i64> {
    (row < longs.len() && longs.is_valid(row)).then(|| longs.value(row))
}

/// The value of a key in one row of a map column with string keys and values; of a repeated key the
/// last one.
pub fn map_value<'a>(maps: &'a MapArray, row: usize, key: &str) -> Option<&'a str> {
    if row >= maps.len() || maps.is_null(row) {
        return None;
    }
    let offset = |place: usize| usize::try_from(*maps.offsets().get(place)?).ok();
    let entries = offset(row)?..offset(row + 1)?;
    let position = entries.rev().find(|entry| text_at(maps.keys(), *entry) == Some(key))?;
    text_at(maps.values(), position)
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
        let position = entries.rev().find(|entry| keys.value(*entry) == key)?;
        values.is_valid(position).then(|| values.value(position))
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
    use super::*;
    use crate::files::adds_to_batch;

    #[test]
    fn a_value_is_found_without_its_map() {
        let values = [("p".to_owned(), Some("1".to_owned())), ("q".to_owned(), None)];
        let with = Add {
            partition_values: values.into(),
            ..Add::default()
        };
        let batch = adds_to_batch([&Add::default(), &with]).unwrap();
        let maps = batch.column_by_name("partitionValues").unwrap().as_map();
        let value_of = |row, key| map_value(maps, row, key);
        assert_eq!(
            [
                value_of(1, "p"),
                value_of(1, "q"),
                value_of(1, "r"),
                value_of(0, "p"),
                value_of(2, "p")
            ],
            [Some("1"), None, None, None, None]
        );
        let second = maps.slice(1, 1);
        assert_eq!(map_value(&second, 0, "p"), Some("1"));
        for (maps, key) in [(maps, "p"), (maps, "q"), (maps, "r"), (&second, "p")] {
            let each: Vec<_> = (0..maps.len()).map(|row| map_value(maps, row, key)).collect();
            assert_eq!(map_values(maps, key).collect::<Vec<_>>(), each);
        }
    }
}
