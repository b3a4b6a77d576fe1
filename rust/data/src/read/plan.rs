//! Fits one data file to the table: which leaves to decode, how each becomes the table's type,
//! which columns are constant or missing (P182). Columns are found by the table's mapping (P113).
//! Pure after the footer was read.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::prep_null_mask_filter;
use arrow::datatypes::{DataType as ArrowType, Field as ArrowField, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::claimed_sum;
use deltaplane_protocol::expr::Predicate;
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::partition_values::partition_array;
use deltaplane_protocol::prune::Pruner;
use deltaplane_protocol::schema::{DataType, Field, Primitive, StructType};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Type as Physical;
use parquet::file::metadata::ParquetMetaData;

use super::hidden::{self, Hidden};
use super::lookups::FilterLookups;
use super::{FileRead, Members, ReadSpec};
use crate::convert::{Convert, Mismatch, Rules, field_id, find_column};
use crate::types::row_type;

/// The plan of a scan, computed once for all its files.
pub(super) struct Prepared {
    /// Columns to compute: the output, then those that only filters need.
    needed: Vec<Field>,
    /// For each needed column, whether filters use it.
    filters: Vec<bool>,
    /// Schema of the output.
    pub(super) output_schema: SchemaRef,
    pub(super) partition_columns: Vec<String>,
    pub(super) mapping: Mapping,
    predicate: Option<Predicate>,
    members: Option<Arc<Members>>,
    pub(super) pruner: Option<Pruner>,
    /// What is looked up in Bloom filters.
    pub(super) filter_lookups: Option<FilterLookups>,
    /// The table's schema.
    pub(super) table: Arc<StructType>,
    pub(super) batch_rows: usize,
    spec: ReadSpec,
}

impl Prepared {
    pub(super) fn new(spec: &ReadSpec) -> Result<Self> {
        let mut needed: Vec<Field> = spec.output_fields()?.into_iter().cloned().collect();
        let output_schema = hidden::schema(&needed, &spec.schema, spec.encoded_files);
        let (mut pruner, mut used) = (None, Vec::new());
        if let Some(members) = &spec.members {
            used.push(vec![members.column().to_owned()]);
        }
        if let Some(predicate) = &spec.predicate {
            used.extend(predicate.columns());
            pruner = Some(Pruner::new(
                predicate,
                &spec.schema,
                &spec.partition_columns,
                spec.mapping,
            )?);
        }
        add_predicate_columns(&mut needed, &used, &spec.schema)?;
        let uses = |f: &Field| used.iter().any(|path| path.first() == Some(&f.name));
        Ok(Prepared {
            filters: needed.iter().map(uses).collect(),
            needed,
            output_schema,
            partition_columns: spec.partition_columns.clone(),
            mapping: spec.mapping,
            predicate: spec.predicate.clone(),
            members: spec.members.clone(),
            pruner,
            filter_lookups: FilterLookups::new(spec, spec.predicate.as_ref(), spec.members.as_deref()),
            table: spec.schema.clone(),
            batch_rows: spec.batch_rows.max(1),
            spec: spec.clone(),
        })
    }

    /// Whether rows are filtered by their values.
    fn judges(&self) -> bool {
        self.predicate.is_some() || self.members.is_some()
    }

    /// Which rows of a batch of filter columns remain. Never null.
    pub(super) fn keep(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let met = self.predicate.as_ref().map(|p| p.evaluate(batch)).transpose()?;
        let met = met.map(|met| match met.null_count() {
            0 => met,
            _ => prep_null_mask_filter(&met),
        });
        let matches = self.members.as_ref().map(|m| m.evaluate(batch)).transpose()?;
        Ok(match (met, matches) {
            (Some(met), Some(matches)) => BooleanArray::new(met.values() & matches.values(), None),
            (Some(mask), None) | (None, Some(mask)) => mask,
            (None, None) => BooleanArray::from(vec![true; batch.num_rows()]),
        })
    }
}

/// Adds the predicate's columns that the output lacks, and of structs only the needed leaves.
fn add_predicate_columns(needed: &mut Vec<Field>, paths: &[Vec<String>], table: &StructType) -> Result<()> {
    let mut by_column: Vec<(&Field, Vec<&[String]>)> = Vec::new();
    for path in paths {
        let Some((top, rest)) = path.split_first() else {
            continue;
        };
        let field = table.field_ignore_case(top).ok_or_else(|| {
            Error::internal(format!(
                "a predicate uses the column `{top}`, which the table doesn't have"
            ))
        })?;
        match by_column.iter_mut().find(|(f, _)| f.name == field.name) {
            Some((_, rests)) => rests.push(rest),
            None => by_column.push((field, vec![rest])),
        }
    }
    for (field, rests) in by_column {
        if needed.iter().all(|f| f.name != field.name) {
            needed.push(only_leaves(field, &rests));
        }
    }
    Ok(())
}

fn only_leaves(field: &Field, rests: &[&[String]]) -> Field {
    let DataType::Struct(s) = &field.data_type else {
        return field.clone();
    };
    if rests.iter().any(|r| r.is_empty()) {
        return field.clone();
    }
    let children = s.fields().iter().filter_map(|child| {
        let below: Vec<&[String]> = rests
            .iter()
            .filter_map(|r| r.split_first())
            .filter(|(first, _)| first.to_lowercase() == child.name.to_lowercase())
            .map(|(_, rest)| rest)
            .collect();
        (!below.is_empty()).then(|| only_leaves(child, &below))
    });
    Field {
        data_type: DataType::Struct(StructType::new(children.collect())),
        ..field.clone()
    }
}

/// The source of a needed column.
pub(super) enum ColumnSource {
    /// The column at this position of the decoded batch.
    File(usize, Convert),
    /// The same value in every row: an array of one.
    Constant(ArrayRef),
    /// Null in every row.
    Missing(ArrowType),
    /// The column at this position of the decoded batch where it isn't null (`None`: not in the
    /// file), otherwise the computed values.
    Hidden(Option<(usize, Convert)>, Hidden),
}

/// Needed columns that are decoded together.
pub(super) struct Part {
    /// The leaves to decode.
    pub(super) mask: ProjectionMask,
    pub(super) leaves: Vec<usize>,
    pub(super) columns: Vec<ColumnSource>,
    /// Schema of `columns`.
    pub(super) schema: SchemaRef,
}

/// The plan for reading one file.
pub(super) struct FilePlan {
    pub(super) prepared: Arc<Prepared>,
    pub(super) metadata: ArrowReaderMetadata,
    /// Filter columns, decoded first; `None` without a filter.
    pub(super) filter: Option<Part>,
    /// The other columns, of which only matching rows are decoded.
    pub(super) rest: Part,
    /// The place of each output column: whether in `filter`, and its position there or in `rest`.
    pub(super) outputs: Vec<(bool, usize)>,
    /// Most rows in a batch of this file.
    pub(super) batch_rows: usize,
    /// About how many bytes a decoded row takes; at least 1.
    pub(super) row_bytes: usize,
    pub(super) path: String,
}

/// Target bytes of a decoded batch, so that very wide tables don't exhaust memory.
const BATCH_BYTES: usize = 64 << 20;
/// Most bytes of a decoded batch, about half of what the offsets of a string column reach.
const MAX_BATCH_BYTES: usize = 1 << 30;
/// Values above this length count with their full length, though a dictionary may hold one once for
/// many rows.
const LONG_VALUE: usize = 16 << 10;

impl FilePlan {
    pub(super) fn new(prepared: Arc<Prepared>, file: &FileRead, footer: Arc<ParquetMetaData>) -> Result<Self> {
        let metadata = arrow_metadata(footer)?;
        let fields = metadata.schema().fields().clone();
        let lookup = Lookup::new(&fields, prepared.mapping);
        let part = |of_filter: bool| Part::new(&prepared, file, &metadata, &lookup, of_filter);
        let filter = prepared.judges().then(|| part(true)).transpose()?;
        let rest = part(false)?;
        let mut next = (0, 0);
        let places = prepared.filters.iter().map(|of_filter| {
            let counter = if *of_filter { &mut next.0 } else { &mut next.1 };
            *counter += 1;
            (*of_filter, *counter - 1)
        });
        let outputs = places.take(prepared.output_schema.fields().len()).collect();
        let leaves: Vec<usize> = filter
            .iter()
            .flat_map(|p| &p.leaves)
            .chain(&rest.leaves)
            .copied()
            .collect();
        let row_bytes = row_bytes(&metadata, &leaves);
        Ok(FilePlan {
            batch_rows: prepared
                .batch_rows
                .min((BATCH_BYTES / row_bytes).max((MAX_BATCH_BYTES / row_bytes).clamp(1, 1024))),
            prepared,
            metadata,
            filter,
            rest,
            outputs,
            row_bytes,
            path: file.path.clone(),
        })
    }

    /// Whether the footer alone provides the rows.
    pub(super) fn decodes_nothing(&self) -> bool {
        self.parts().all(|p| p.leaves.is_empty())
    }

    /// Both parts, in the order in which they are decoded.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.filter.iter().chain(std::iter::once(&self.rest))
    }
}

impl Part {
    fn new(
        prepared: &Prepared,
        file: &FileRead,
        metadata: &ArrowReaderMetadata,
        lookup: &Lookup<'_>,
        of_filter: bool,
    ) -> Result<Part> {
        let needed: Vec<&Field> = prepared
            .needed
            .iter()
            .zip(&prepared.filters)
            .filter_map(|(field, filters)| (*filters == of_filter).then_some(field))
            .collect();
        let mut leaves = Vec::new();
        let mut roots: Vec<(usize, usize, ArrowType)> = Vec::new();
        let mut columns = Vec::with_capacity(needed.len());
        for (i, field) in needed.iter().enumerate() {
            let target = row_type(&field.data_type);
            let of_table = prepared.table.field_ignore_case(&field.name).is_some();
            let hidden = match of_table {
                true => None,
                false => hidden::source(&field.name, &prepared.spec, file)?,
            };
            let mut take = |root: usize, in_file: &FieldRef, mut next: usize| {
                let (from, to) = (in_file.data_type(), &field.data_type);
                roots.push((root, i, select(from, to, prepared.mapping, &mut next, &mut leaves)));
            };
            if let Some((stored, hidden)) = hidden {
                if let Some((root, in_file, first_leaf)) = stored.and_then(|name| lookup.find_by_name(name)) {
                    take(root, in_file, first_leaf);
                }
                columns.push(ColumnSource::Hidden(None, hidden));
            } else if let Some(name) = prepared
                .partition_columns
                .iter()
                .find(|p| p.to_lowercase() == field.name.to_lowercase())
            {
                let key = prepared.mapping.partition_key(&prepared.table, name);
                columns.push(ColumnSource::Constant(constant(file, key, field)?));
            } else if let Some((root, in_file, first_leaf)) = lookup.find(field)?.filter(|_| target != ArrowType::Null)
            {
                take(root, in_file, first_leaf);
                columns.push(ColumnSource::Missing(target));
            } else {
                columns.push(ColumnSource::Missing(target));
            }
        }
        // The decoder yields roots in the file's order.
        roots.sort_by_key(|(root, ..)| *root);
        for (place, (_, i, t)) in roots.iter().enumerate() {
            let Some(field) = needed.get(*i) else {
                continue;
            };
            let rules = Rules::File(prepared.mapping);
            let convert = Convert::new(t, &field.data_type, rules, &field.name).map_err(|m| refusal(&m))?;
            match columns.get_mut(*i) {
                Some(ColumnSource::Hidden(stored, _)) => *stored = Some((place, convert)),
                Some(slot) => *slot = ColumnSource::File(place, convert),
                None => {}
            }
        }
        leaves.sort_unstable();
        leaves.dedup();
        Ok(Part {
            mask: ProjectionMask::leaves(metadata.parquet_schema(), leaves.iter().copied()),
            leaves,
            columns,
            schema: hidden::schema(needed, &prepared.table, prepared.spec.encoded_files),
        })
    }
}

fn refusal(m: &Mismatch) -> Error {
    match m {
        Mismatch::Type {
            column,
            expected,
            actual,
        } => Error::corrupt_file(format!(
            "the column `{column}` is of type {expected} in the table, this data file has it as {actual}, which isn't one of its physical forms: the file was written against another schema; rewrite it or remove it from the table"
        )),
        Mismatch::Extra { column } | Mismatch::Ambiguous { column } => {
            Error::internal(format!("the column `{column}` of a data file was refused for its name"))
        }
    }
}

fn constant(file: &FileRead, key: &str, field: &Field) -> Result<ArrayRef> {
    let DataType::Primitive(p) = &field.data_type else {
        return Err(Error::corrupt_log(format!(
            "the partition column `{}` is of type {}, which can't partition a table",
            field.name, field.data_type
        )));
    };
    let value = file.partition_values.get(key).and_then(|v| v.as_deref());
    partition_array(std::iter::once(value), &field.name, *p)
}

/// Bytes of memory per row of these leaves.
fn row_bytes(metadata: &ArrowReaderMetadata, leaves: &[usize]) -> usize {
    let groups = metadata.metadata().row_groups();
    let rows = claimed_sum(groups.iter().map(|g| g.num_rows()));
    let bytes = claimed_sum(groups.iter().flat_map(|g| {
        let chunks = leaves.iter().filter_map(|l| g.columns().get(*l));
        chunks.map(|c| c.uncompressed_size())
    }));
    let per_row = |bytes: i64| usize::try_from(bytes / rows.max(1)).unwrap_or(0);
    let encoded = per_row(bytes);
    let plain = per_row(claimed_sum(groups.iter().flat_map(|g| {
        let chunks = leaves.iter().filter_map(|l| g.columns().get(*l));
        chunks.filter_map(|c| c.unencoded_byte_array_data_bytes())
    })));
    let encoded = if plain > LONG_VALUE {
        encoded.max(plain)
    } else {
        encoded
    };
    // An encoding can reduce a value to nothing; in memory it takes some bytes.
    encoded.max(leaves.len() * 4).max(1)
}

/// A file's columns, looked up by the mapping.
pub(super) struct Lookup<'a> {
    fields: &'a Fields,
    mapping: Mapping,
    /// First leaf of each column.
    first_leaf: Vec<usize>,
    exact: HashMap<&'a str, usize>,
    lower: HashMap<String, usize>,
    ids: HashMap<i32, usize>,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(fields: &'a Fields, mapping: Mapping) -> Self {
        let mut first_leaf = Vec::with_capacity(fields.len());
        let mut next = 0;
        let mut exact = HashMap::with_capacity(fields.len());
        let mut lower = HashMap::with_capacity(fields.len());
        let mut ids = HashMap::new();
        for (i, f) in fields.iter().enumerate() {
            first_leaf.push(next);
            next += leaf_count(f.data_type());
            exact.entry(f.name().as_str()).or_insert(i);
            lower.entry(f.name().to_lowercase()).or_insert(i);
            if let Some(id) = field_id(f) {
                ids.entry(id).or_insert(i);
            }
        }
        Lookup {
            fields,
            mapping,
            first_leaf,
            exact,
            lower,
            ids,
        }
    }

    /// Position, field and first leaf of a column.
    pub(super) fn find(&self, field: &Field) -> Result<Option<(usize, &'a FieldRef, usize)>> {
        // A column without an id isn't the table's own: those of the change data feed are found by
        // name.
        let Some(id) = self.mapping.id(field) else {
            return Ok(self.find_by_name(self.mapping.physical_name(field)));
        };
        if self.ids.is_empty() && !self.fields.is_empty() {
            return Err(no_ids(field));
        }
        Ok(self.ids.get(&id).and_then(|i| self.at(*i)))
    }

    fn find_by_name(&self, name: &str) -> Option<(usize, &'a FieldRef, usize)> {
        let place = self.exact.get(name).or_else(|| self.lower.get(&name.to_lowercase()));
        place.and_then(|i| self.at(*i))
    }

    fn at(&self, i: usize) -> Option<(usize, &'a FieldRef, usize)> {
        Some((i, self.fields.get(i)?, self.first_leaf.get(i).copied()?))
    }
}

fn no_ids(field: &Field) -> Error {
    Error::corrupt_file(format!(
        "the table finds the column `{}` by its id (column mapping mode id), but this data file gives its columns no ids (P113): it was added by a program that doesn't know column mapping; write its rows again, or remove it from the table",
        field.name
    ))
}

pub(super) fn leaf_count(t: &ArrowType) -> usize {
    match t {
        ArrowType::Struct(fields) => fields.iter().map(|f| leaf_count(f.data_type())).sum(),
        ArrowType::List(f) | ArrowType::LargeList(f) | ArrowType::FixedSizeList(f, _) | ArrowType::Map(f, _) => {
            leaf_count(f.data_type())
        }
        _ => 1,
    }
}

/// Selects the leaves of a file's column that the table's type has; returns the type to decode.
fn select(from: &ArrowType, to: &DataType, mapping: Mapping, next: &mut usize, leaves: &mut Vec<usize>) -> ArrowType {
    match (from, to) {
        (ArrowType::Struct(fields), DataType::Struct(s)) => {
            let start = *next;
            let before = leaves.len();
            let mut selected_fields: Vec<FieldRef> = Vec::new();
            let wanted: HashMap<usize, &DataType> = s
                .fields()
                .iter()
                .filter(|f| f.data_type != DataType::Primitive(Primitive::Void))
                .filter_map(|f| find_column(fields, f, mapping).map(|i| (i, &f.data_type)))
                .collect();
            for (i, f) in fields.iter().enumerate() {
                match wanted.get(&i) {
                    Some(t) => {
                        let t = select(f.data_type(), t, mapping, next, leaves);
                        selected_fields.push(Arc::new(f.as_ref().clone().with_data_type(t)));
                    }
                    None => *next += leaf_count(f.data_type()),
                }
            }
            if leaves.len() > before {
                return ArrowType::Struct(selected_fields.into());
            }
            // The first leaf is decoded to tell which structs are null.
            leaves.push(start);
            first_leaf_only(from)
        }
        (ArrowType::List(e), DataType::Array(a)) => {
            let t = select(e.data_type(), &a.element, mapping, next, leaves);
            ArrowType::List(Arc::new(e.as_ref().clone().with_data_type(t)))
        }
        _ => {
            let n = leaf_count(from);
            leaves.extend(*next..*next + n);
            *next += n;
            from.clone()
        }
    }
}

fn first_leaf_only(t: &ArrowType) -> ArrowType {
    let retyped = |f: &FieldRef| Arc::new(f.as_ref().clone().with_data_type(first_leaf_only(f.data_type())));
    match t {
        ArrowType::Struct(fields) => ArrowType::Struct(fields.iter().take(1).map(retyped).collect()),
        ArrowType::List(f) => ArrowType::List(retyped(f)),
        other => other.clone(),
    }
}

/// The footer with Arrow types derived from Parquet's types alone: an embedded Arrow schema
/// describes the writer's memory, not the values. INT96 is read in microseconds: in nanoseconds,
/// years like 1 and 9999 overflow.
pub(super) fn arrow_metadata(footer: Arc<ParquetMetaData>) -> Result<ArrowReaderMetadata> {
    let wrap = |e| {
        Error::corrupt_file(format!(
            "a data file's Parquet schema can't be read ({e}): the file is damaged, or of a kind that isn't supported"
        ))
    };
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let plain = ArrowReaderMetadata::try_new(footer.clone(), options.clone()).map_err(wrap)?;
    let int96: Vec<bool> = plain
        .parquet_schema()
        .columns()
        .iter()
        .map(|c| c.physical_type() == Physical::INT96)
        .collect();
    if !int96.contains(&true) {
        return Ok(plain);
    }
    let mut leaf = int96.into_iter();
    let fields: Fields = plain
        .schema()
        .fields()
        .iter()
        .map(|f| in_micros(f, &mut leaf))
        .collect();
    let hint = Arc::new(Schema::new_with_metadata(fields, plain.schema().metadata().clone()));
    ArrowReaderMetadata::try_new(footer, options.with_schema(hint)).map_err(wrap)
}

fn in_micros(f: &FieldRef, leaf: &mut impl Iterator<Item = bool>) -> FieldRef {
    let t = match f.data_type() {
        ArrowType::Struct(fields) => ArrowType::Struct(fields.iter().map(|f| in_micros(f, leaf)).collect()),
        ArrowType::List(e) => ArrowType::List(in_micros(e, leaf)),
        ArrowType::Map(e, sorted) => ArrowType::Map(in_micros(e, leaf), *sorted),
        other => match leaf.next() {
            Some(true) => ArrowType::Timestamp(TimeUnit::Microsecond, None),
            _ => other.clone(),
        },
    };
    let field: ArrowField = f.as_ref().clone().with_data_type(t);
    Arc::new(field)
}
