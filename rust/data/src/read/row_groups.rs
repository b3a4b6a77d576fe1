//! Cuts a file into units of work and leaves out row groups that can't hold a matching row, by the same
//! pruner that leaves out files: a row group is shown to it as if it were one.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, MapBuilder, RecordBatch, StringBuilder, StructArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType as ArrowType, Field as ArrowField, Fields, Schema};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::schema::DataType;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::basic::Type as Physical;
use parquet::file::metadata::RowGroupMetaData;

use super::FileRead;
use super::decode::Unit;
use super::plan::FilePlan;
use crate::convert::{Convert, Rules, find_name};
use crate::types::row_type;

/// Batches in a unit of a local file: enough to be worth a hand-over, few enough to bound memory.
const UNIT_BATCHES: usize = 4;

/// The file's work. A remote row group is one unit, because its bytes are fetched at once.
pub(super) fn units(plan: &FilePlan, file: &FileRead, remote: bool) -> Result<Vec<Unit>> {
    let groups = plan.metadata.metadata().row_groups();
    let keep = keep(plan, file)?;
    let mut units = Vec::new();
    for (row_group, group) in groups.iter().enumerate() {
        let rows = usize::try_from(group.num_rows()).map_err(|_| {
            Error::corrupt_file("a data file's row group has a negative number of rows: the file is damaged")
        })?;
        if rows == 0
            || keep
                .as_ref()
                .is_some_and(|k| k.len() > row_group && !k.value(row_group))
        {
            continue;
        }
        let most = if remote || plan.leaves.is_empty() {
            rows
        } else {
            plan.batch_rows.saturating_mul(UNIT_BATCHES)
        };
        if rows <= most + most / 2 {
            units.push(Unit {
                row_group,
                rows,
                selection: None,
            });
            continue;
        }
        for start in (0..rows).step_by(most) {
            let n = most.min(rows - start);
            let selection = RowSelection::from(vec![RowSelector::skip(start), RowSelector::select(n)]);
            units.push(Unit {
                row_group,
                rows: n,
                selection: Some(selection),
            });
        }
    }
    Ok(units)
}

/// Which row groups may hold a matching row; `None` if that can't be told.
fn keep(plan: &FilePlan, file: &FileRead) -> Result<Option<BooleanArray>> {
    let groups = plan.metadata.metadata().row_groups();
    let Some(pruner) = &plan.prepared.pruner else {
        return Ok(None);
    };
    if groups.is_empty() {
        return Ok(None);
    }
    let mut leaves = Vec::new();
    for path in pruner.stats_leaves_needed() {
        leaves.extend(leaf(plan, path, groups));
    }
    if leaves.is_empty() {
        return Ok(None);
    }
    let rows: Int64Array = groups.iter().map(|g| Some(g.num_rows())).collect();
    let part = |pick: &dyn Fn(&LeafStats) -> ArrayRef| {
        nest(
            &leaves.iter().map(|l| (l.path.as_slice(), pick(l))).collect::<Vec<_>>(),
            groups.len(),
        )
    };
    let stats = [
        ("numRecords", Arc::new(rows) as ArrayRef),
        ("minValues", part(&|l| l.min.clone())?),
        ("maxValues", part(&|l| l.max.clone())?),
        ("nullCount", part(&|l| l.nulls.clone())?),
    ];
    let stats = columns_to_struct(
        stats.into_iter().map(|(n, a)| (n.to_owned(), a)).collect(),
        groups.len(),
    )?;
    let values = partition_values(file, groups.len())?;
    let fields = vec![
        ArrowField::new("partitionValues", values.data_type().clone(), true),
        ArrowField::new("stats_parsed", stats.data_type().clone(), true),
    ];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![values, stats])
        .map_err(|e| Error::internal(format!("statistics of row groups: {e}")))?;
    pruner.keep(&batch).map(Some)
}

/// One leaf's statistics, a value for each row group.
struct LeafStats {
    path: Vec<String>,
    min: ArrayRef,
    max: ArrayRef,
    nulls: ArrayRef,
}

/// The statistics of a leaf, if the file has it and its bounds mean what the table's type means.
fn leaf(plan: &FilePlan, path: &[String], groups: &[RowGroupMetaData]) -> Option<LeafStats> {
    let (index, field) = find_leaf(plan.metadata.schema().fields(), path, 0)?;
    let table = plan.prepared.table.field_at(path)?;
    if !matches!(table.data_type, DataType::Primitive(_)) {
        return None;
    }
    let convert = Convert::new(field.data_type(), &table.data_type, Rules::File, "").ok()?;
    let distrusted = groups.iter().filter_map(|g| g.columns().get(index)).any(|c| {
        // The old bounds of bytes were compared as signed; INT96 has no order at all.
        let bytes = matches!(c.column_type(), Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY);
        c.column_type() == Physical::INT96 || (bytes && c.statistics().is_some_and(|s| s.is_min_max_deprecated()))
    });
    let schema = plan.metadata.parquet_schema();
    let converter = StatisticsConverter::from_column_index(index, &field, schema)
        .ok()?
        .with_missing_null_counts_as_zero(false);
    let nulls = converter.row_group_null_counts(groups).ok()?;
    let nulls = cast_with_options(&nulls, &ArrowType::Int64, &CastOptions::default()).ok()?;
    let target = row_type(&table.data_type);
    let none = || arrow::array::new_null_array(&target, groups.len());
    let (min, max) = if distrusted {
        (none(), none())
    } else {
        let min = converter
            .row_group_mins(groups)
            .ok()
            .and_then(|a| convert.apply(&a).ok());
        let max = converter
            .row_group_maxes(groups)
            .ok()
            .and_then(|a| convert.apply(&a).ok());
        (min.unwrap_or_else(none), max.unwrap_or_else(none))
    };
    Some(LeafStats {
        path: path.to_vec(),
        min,
        max,
        nulls,
    })
}

/// Leaf index and Arrow field of a path through structs.
fn find_leaf(fields: &Fields, path: &[String], first: usize) -> Option<(usize, ArrowField)> {
    let (name, rest) = path.split_first()?;
    let at = find_name(fields, name)?;
    let first = first
        + fields
            .iter()
            .take(at)
            .map(|f| super::plan::leaf_count(f.data_type()))
            .sum::<usize>();
    let field = fields.get(at)?;
    match (field.data_type(), rest) {
        (ArrowType::Struct(inner), [_, ..]) => find_leaf(inner, rest, first),
        (ArrowType::Struct(_) | ArrowType::List(_) | ArrowType::Map(..), []) | (_, [_, ..]) => None,
        (_, []) => Some((first, field.as_ref().clone())),
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
        .map_err(|e| Error::internal(format!("statistics of row groups: {e}")))
}

/// The file's partition values, once for each row group.
fn partition_values(file: &FileRead, rows: usize) -> Result<ArrayRef> {
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for _ in 0..rows {
        for (k, v) in &file.partition_values {
            map.keys().append_value(k);
            map.values().append_option(v.as_deref());
        }
        map.append(true)
            .map_err(|e| Error::internal(format!("partition values of row groups: {e}")))?;
    }
    Ok(Arc::new(map.finish()))
}
