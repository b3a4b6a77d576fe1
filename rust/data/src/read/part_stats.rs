//! Statistics of parts of a file (row groups, pages) in the format of the log's, so that the pruner
//! of files also skips parts of one. Pure after the footer was read.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Int64Array, MapBuilder, RecordBatch, StringBuilder, StructArray, UInt64Array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType as ArrowType, Field as ArrowField, Fields, Schema};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::prune::Pruner;
use deltaplane_protocol::schema::{DataType, Field, StructType};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::Type as Physical;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::page_index::PageIndexProvider;

use super::FileRead;
use super::plan::{FilePlan, leaf_count};
use crate::convert::{Convert, Rules, find_column};
use crate::types::row_type;

/// A leaf column of the file whose bounds are valid for the table's type.
pub(super) struct Leaf {
    /// Its position among the file's leaves.
    pub(super) index: usize,
    path: Vec<String>,
    field: ArrowField,
    convert: Convert,
    target: ArrowType,
}

/// One leaf's statistics, a value per part.
pub(super) struct LeafStats {
    pub(super) path: Vec<String>,
    pub(super) min: ArrayRef,
    pub(super) max: ArrayRef,
    pub(super) nulls: ArrayRef,
}

impl Leaf {
    /// The leaf at a physical path of the table, if the file has it.
    pub(super) fn find(plan: &FilePlan, path: &[String]) -> Option<Leaf> {
        let (prepared, fields) = (&plan.prepared, plan.metadata.schema().fields());
        let (index, field, table) = find_leaf(fields, &prepared.table, prepared.mapping, path, 0)?;
        if !matches!(table.data_type, DataType::Primitive(_)) {
            return None;
        }
        let convert = Convert::new(field.data_type(), &table.data_type, Rules::File(prepared.mapping), "").ok()?;
        Some(Leaf {
            index,
            path: path.to_vec(),
            field,
            convert,
            target: row_type(&table.data_type),
        })
    }

    /// Its type in the file.
    pub(super) fn stored_type(&self) -> &ArrowType {
        self.field.data_type()
    }

    fn converter<'a>(&'a self, plan: &'a FilePlan) -> Option<StatisticsConverter<'a>> {
        let stats = StatisticsConverter::from_column_index(self.index, &self.field, plan.metadata.parquet_schema());
        Some(stats.ok()?.with_missing_null_counts_as_zero(false))
    }

    /// INT96 has no order.
    fn is_ordered(&self, plan: &FilePlan) -> bool {
        plan.metadata.parquet_schema().column(self.index).physical_type() != Physical::INT96
    }

    /// One value per row group.
    pub(super) fn of_groups(&self, plan: &FilePlan) -> Option<LeafStats> {
        let groups = plan.metadata.metadata().row_groups();
        // The old bounds of bytes were compared as signed.
        let signed = groups.iter().filter_map(|g| g.columns().get(self.index)).any(|c| {
            matches!(c.column_type(), Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY)
                // Without the new bounds the library returns the old ones.
                && c.statistics()
                    .is_some_and(|s| s.is_min_max_deprecated() && (s.min_bytes_opt().is_some() || s.max_bytes_opt().is_some()))
        });
        let converter = self.converter(plan)?;
        let (min, max) = (converter.row_group_mins(groups), converter.row_group_maxes(groups));
        let nulls = converter.row_group_null_counts(groups);
        self.stats(min, max, nulls, self.is_ordered(plan) && !signed)
    }

    /// One value per page of a row group.
    pub(super) fn of_pages(
        &self,
        plan: &FilePlan,
        index: &dyn PageIndexProvider,
        row_group: usize,
    ) -> Option<LeafStats> {
        let (converter, group) = (self.converter(plan)?, [row_group]);
        let (min, max) = (
            converter.data_page_mins(index, &group),
            converter.data_page_maxes(index, &group),
        );
        let nulls = converter.data_page_null_counts(index, &group);
        self.stats(min, max, nulls, self.is_ordered(plan))
    }

    fn stats(
        &self,
        min: ParquetResult<ArrayRef>,
        max: ParquetResult<ArrayRef>,
        nulls: ParquetResult<UInt64Array>,
        trusted: bool,
    ) -> Option<LeafStats> {
        let nulls = cast_with_options(&nulls.ok()?, &ArrowType::Int64, &CastOptions::default()).ok()?;
        let bound = |array: ParquetResult<ArrayRef>| {
            let known = array.ok().filter(|_| trusted).and_then(|a| self.convert.apply(&a).ok());
            known.unwrap_or_else(|| arrow::array::new_null_array(&self.target, nulls.len()))
        };
        Some(LeafStats {
            path: self.path.clone(),
            min: bound(min),
            max: bound(max),
            nulls,
        })
    }
}

/// Which parts, with these numbers of rows, may have a matching row.
pub(super) fn judge(pruner: &Pruner, file: &FileRead, rows: Int64Array, leaves: &[LeafStats]) -> Result<BooleanArray> {
    let parts = rows.len();
    let nested = |pick: &dyn Fn(&LeafStats) -> ArrayRef| {
        let values: Vec<_> = leaves.iter().map(|l| (l.path.as_slice(), pick(l))).collect();
        nest(&values, parts)
    };
    let stats = [
        ("numRecords", Arc::new(rows) as ArrayRef),
        ("minValues", nested(&|l| l.min.clone())?),
        ("maxValues", nested(&|l| l.max.clone())?),
        ("nullCount", nested(&|l| l.nulls.clone())?),
    ];
    let stats = columns_to_struct(stats.into_iter().map(|(n, a)| (n.to_owned(), a)).collect(), parts)?;
    let values = partition_values(file, parts)?;
    let fields = vec![
        ArrowField::new("partitionValues", values.data_type().clone(), true),
        ArrowField::new("stats_parsed", stats.data_type().clone(), true),
    ];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![values, stats])
        .map_err(|e| Error::internal(format!("statistics of parts of a file: {e}")))?;
    pruner.keep(&batch)
}

/// Leaf index, Arrow field and table's field of a physical path through structs.
fn find_leaf<'t>(
    fields: &Fields,
    table: &'t StructType,
    mapping: Mapping,
    path: &[String],
    first: usize,
) -> Option<(usize, ArrowField, &'t Field)> {
    let (name, rest) = path.split_first()?;
    let own = table.fields().iter().find(|f| mapping.physical_name(f) == name)?;
    let place = find_column(fields, own, mapping)?;
    let first = first
        + fields
            .iter()
            .take(place)
            .map(|f| leaf_count(f.data_type()))
            .sum::<usize>();
    let field = fields.get(place)?;
    match (field.data_type(), &own.data_type, rest) {
        (ArrowType::Struct(inner), DataType::Struct(below), [_, ..]) => find_leaf(inner, below, mapping, rest, first),
        (ArrowType::Struct(_) | ArrowType::List(_) | ArrowType::Map(..), _, []) | (_, _, [_, ..]) => None,
        (_, _, []) => Some((first, field.as_ref().clone(), own)),
    }
}

/// Values at paths as one struct array, nested as the paths are.
fn nest(values: &[(&[String], ArrayRef)], rows: usize) -> Result<ArrayRef> {
    let mut names: Vec<&String> = Vec::new();
    for (path, _) in values {
        if let Some(first) = path.first()
            && !names.contains(&first)
        {
            names.push(first);
        }
    }
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let below: Vec<(&[String], ArrayRef)> = values
            .iter()
            .filter_map(|(path, a)| {
                path.split_first()
                    .filter(|(first, _)| *first == name)
                    .map(|(_, rest)| (rest, a.clone()))
            })
            .collect();
        let array = match below.as_slice() {
            [([], leaf)] => leaf.clone(),
            nested => nest(nested, rows)?,
        };
        columns.push((name.clone(), array));
    }
    columns_to_struct(columns, rows)
}

fn columns_to_struct(columns: Vec<(String, ArrayRef)>, rows: usize) -> Result<ArrayRef> {
    let fields: Fields = columns
        .iter()
        .map(|(n, a)| ArrowField::new(n, a.data_type().clone(), true))
        .collect();
    let arrays = columns.into_iter().map(|(_, a)| a).collect();
    StructArray::try_new_with_length(fields, arrays, None, rows)
        .map(|s| Arc::new(s) as ArrayRef)
        .map_err(|e| Error::internal(format!("statistics of parts of a file: {e}")))
}

/// The file's partition values, once for each part.
fn partition_values(file: &FileRead, rows: usize) -> Result<ArrayRef> {
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for _ in 0..rows {
        for (k, v) in &file.partition_values {
            map.keys().append_value(k);
            map.values().append_option(v.as_deref());
        }
        map.append(true)
            .map_err(|e| Error::internal(format!("partition values of parts of a file: {e}")))?;
    }
    Ok(Arc::new(map.finish()))
}
