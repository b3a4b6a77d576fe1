//! Filters a checkpoint's rows by the columns that a predicate needs before any other column is
//! decoded: rows that it rules out cost those columns alone.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{filter_record_batch, is_not_null};
use arrow::datatypes::{DataType, Fields, Schema};
use arrow::error::ArrowError;
use deltaplane_error::Error;
use deltaplane_protocol::prune::Pruner;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowPredicate, ArrowPredicateFn, ArrowReaderMetadata, RowFilter};
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};

use crate::scan_report::ScanCounters;

/// The columns of a file at or below these paths. Paths are lists, since column names of a table
/// may have dots.
pub(crate) fn mask(schema: &SchemaDescriptor, paths: &[Vec<String>]) -> ProjectionMask {
    let chosen = |column: &ColumnDescPtr| paths.iter().any(|p| column.path().parts().starts_with(p));
    let columns = schema.columns().iter().enumerate();
    ProjectionMask::leaves(schema, columns.filter(|(_, c)| chosen(c)).map(|(index, _)| index))
}

pub(crate) fn path(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A predicate, and counters of the files that it leaves out.
#[derive(Clone)]
pub(crate) struct Skipping {
    pub pruner: Arc<Pruner>,
    /// Only for `explain`.
    pub counters: Option<Arc<ScanCounters>>,
}

impl Skipping {
    /// The pruner's result for these files.
    pub(crate) fn keep(&self, files: &RecordBatch) -> Result<BooleanArray, Error> {
        match &self.counters {
            Some(counters) => counters.judge(&self.pruner, files),
            None => self.pruner.keep(files),
        }
    }
}

/// Finds the rows of a rare action by one of its primitive fields, so that its lists and maps
/// aren't decoded for all other rows. `None` if it has no such field.
pub(crate) fn rare(footer: &ArrowReaderMetadata, action: &str, fields: &Fields) -> Option<RowFilter> {
    let plain = fields.iter().find(|f| !f.data_type().is_nested())?;
    let mask = mask(footer.parquet_schema(), &[path(&[action, plain.name()])]);
    let there = |batch: RecordBatch| match batch.columns().first() {
        Some(column) => is_not_null(column),
        None => Ok(BooleanArray::from(vec![true; batch.num_rows()])),
    };
    Some(RowFilter::new(vec![Box::new(ArrowPredicateFn::new(mask, there))]))
}

/// Row filters on the column `add`, the cheaper first; `None` if the predicate needs none of its
/// columns.
pub(crate) fn filter(footer: &ArrowReaderMetadata, skipping: &Skipping) -> Option<RowFilter> {
    let add = footer.schema().field_with_name("add").ok()?;
    let DataType::Struct(children) = add.data_type() else {
        return None;
    };
    let stages = deciding(children, &skipping.pruner)
        .into_iter()
        .filter(|s| !s.is_empty());
    let predicates: Vec<Box<dyn ArrowPredicate>> = stages
        .map(|columns| {
            let mask = mask(footer.parquet_schema(), &columns);
            let skipping = skipping.clone();
            Box::new(ArrowPredicateFn::new(mask, move |batch| judge(&skipping, &batch))) as Box<dyn ArrowPredicate>
        })
        .collect();
    (!predicates.is_empty()).then(|| RowFilter::new(predicates))
}

/// Paths of the columns that the predicate needs: typed ones, then text, which is parsed only for
/// the remaining files.
fn deciding(children: &Fields, pruner: &Pruner) -> [Vec<Vec<String>>; 2] {
    let type_of = |name: &str| children.find(name).map(|(_, f)| f.data_type());
    let (mut typed, mut text) = (Vec::new(), Vec::new());
    let partitions = pruner.partition_columns_needed();
    if has_partition_structs(children, pruner) {
        let parsed = |column: &String| path(&["add", "partitionValues_parsed", column]);
        typed.extend(partitions.iter().map(parsed));
    } else if !partitions.is_empty() && matches!(type_of("partitionValues"), Some(DataType::Map(..))) {
        typed.push(path(&["add", "partitionValues"]));
    }
    match (pruner.stats_leaves_needed(), type_of("stats_parsed"), type_of("stats")) {
        ([], ..) => {}
        (leaves, Some(DataType::Struct(_)), _) => {
            typed.push(path(&["add", "stats_parsed", "numRecords"]));
            for leaf in leaves {
                let below = |section| [path(&["add", "stats_parsed", section]), leaf.clone()].concat();
                typed.extend(["minValues", "maxValues", "nullCount"].map(below));
            }
        }
        (_, _, Some(DataType::Utf8)) => text.push(path(&["add", "stats"])),
        _ => {}
    }
    [typed, text]
}

/// Whether the row filter uses everything that the columns can tell, so that they need not be
/// judged again. `is_own`: deltaplane wrote the file, so its structs agree with its maps and texts.
pub(crate) fn is_complete(footer: &ArrowReaderMetadata, pruner: &Pruner, is_own: bool) -> bool {
    let add = footer.schema().field_with_name("add").ok().map(|f| f.data_type());
    let Some(DataType::Struct(children)) = add else {
        return false;
    };
    let type_of = |name: &str| children.find(name).map(|(_, f)| f.data_type());
    let by_partitions = match type_of("partitionValues") {
        _ if pruner.partition_columns_needed().is_empty() => true,
        // In a foreign checkpoint the struct may be null where the map isn't.
        _ if has_partition_structs(children, pruner) => is_own,
        data_type => matches!(data_type, Some(DataType::Map(..))),
    };
    let leaf = |section: &str, path: &[String]| {
        let mut names = std::iter::once(section).chain(path.iter().map(String::as_str));
        names.try_fold(type_of("stats_parsed")?, |here, name| match here {
            DataType::Struct(inner) => inner.find(name).map(|(_, f)| f.data_type()),
            _ => None,
        })
    };
    let by_statistics = match (pruner.stats_leaves_needed(), type_of("stats_parsed"), type_of("stats")) {
        ([], ..) => true,
        (leaves, Some(DataType::Struct(_)), _) => leaves.iter().all(|path| {
            let sections = ["minValues", "maxValues", "nullCount"];
            is_own && sections.iter().all(|section| leaf(section, path).is_some())
        }),
        // There is only text, which is read in a second stage without the partition values.
        (_, _, data_type) => matches!(data_type, Some(DataType::Utf8)) && pruner.partition_columns_needed().is_empty(),
    };
    by_partitions && by_statistics
}

/// Whether the partition values that the predicate needs exist as a usable struct.
fn has_partition_structs(children: &Fields, pruner: &Pruner) -> bool {
    let parsed = children.find("partitionValues_parsed").map(|(_, f)| f.data_type());
    let needed = !pruner.partition_columns_needed().is_empty();
    needed && matches!(parsed, Some(DataType::Struct(inner)) if pruner.believes_partition_structs(inner))
}

/// Whether each row is an add that may match by these columns. Rows whose columns can't be read
/// pass; the reader of the whole row reports the error.
fn judge(skipping: &Skipping, batch: &RecordBatch) -> Result<BooleanArray, ArrowError> {
    let Some(adds) = batch.columns().first().and_then(|c| c.as_struct_opt()) else {
        return Ok(BooleanArray::from(vec![true; batch.num_rows()]));
    };
    let there = is_not_null(adds)?;
    let schema = Arc::new(Schema::new(adds.fields().clone()));
    let options = RecordBatchOptions::new().with_row_count(Some(adds.len()));
    let files = RecordBatch::try_new_with_options(schema, adds.columns().to_vec(), &options)?;
    let files = filter_record_batch(&files, &there)?;
    let keep = skipping.keep(&files);
    let mut verdicts = keep.iter().flat_map(|k| k.values().iter());
    Ok(there
        .values()
        .iter()
        .map(|t| Some(t && verdicts.next().unwrap_or(true)))
        .collect())
}
