//! Logged statistics as typed columns for display: unchanged, not widened as `bounds` must.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StructArray, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::cmp;
use arrow::compute::kernels::zip::zip;
use arrow::compute::{cast, is_not_null, is_null, nullif};
use arrow::datatypes::{DataType as ArrowType, Field as ArrowField, Fields, Int64Type};

use super::bounds::{Leaf, leaf_in_section, without_nan};
use super::json_stats::{self, Column, WholeFiles};
use super::{certain, failed};
use crate::Result;
use crate::arrow_types::primitive_to_arrow;
use crate::expr::child;
use crate::expr::scalar::{Scalar, exact_range};
use crate::expr::text::{Fit, Number};
use crate::files::rows::FileRows;
use crate::mapping::Mapping;
use crate::schema::{DataType, Field, Primitive, StructType};
use crate::stats_columns::{Chosen, StatsColumns};

/// Selects the statistics of a table's files to show.
#[derive(Debug, Clone)]
pub struct LoggedStats {
    mapping: Mapping,
    /// Whether columns have their names in files instead of the table's.
    stored: bool,
    leaves: Vec<Leaf>,
    columns: Vec<(String, Node)>,
}

/// A column, by logical name, over the leaves with statistics.
#[derive(Debug, Clone)]
enum Node {
    Leaf(usize),
    Struct(Vec<(String, Node)>),
}

/// One of the three structs of statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    NullCount,
    Min,
    Max,
}

/// The sections in the order of display, with deltalake's names.
const SECTIONS: [(&str, Section); 3] = [
    ("null_count", Section::NullCount),
    ("min", Section::Min),
    ("max", Section::Max),
];

/// The sections with the names in checkpoints.
const PARSED: [(&str, Section); 3] = [
    ("minValues", Section::Min),
    ("maxValues", Section::Max),
    ("nullCount", Section::NullCount),
];

/// The values of a section for each leaf.
struct Values {
    min: Option<ArrayRef>,
    max: Option<ArrayRef>,
    nulls: ArrayRef,
}

impl Values {
    /// Without invalid bounds: NaN, and a minimum above its maximum. The least and greatest of many
    /// files' bounds are then bounds as well.
    fn sound(self) -> Result<Values> {
        let (Some(min), Some(max)) = (&self.min, &self.max) else {
            return Ok(self);
        };
        let numbers = |bound: &ArrayRef| -> Result<ArrayRef> {
            if !bound.data_type().is_floating() {
                return Ok(bound.clone());
            }
            let not = is_null(&without_nan(bound.clone())?).map_err(failed)?;
            nullif(bound, &not).map_err(failed)
        };
        let (min, max) = (numbers(min)?, numbers(max)?);
        let wrong = certain(&cmp::gt(&min, &max).map_err(failed)?);
        if wrong.true_count() == 0 {
            return Ok(Values {
                min: Some(min),
                max: Some(max),
                nulls: self.nulls,
            });
        }
        Ok(Values {
            min: Some(nullif(&min, &wrong).map_err(failed)?),
            max: Some(nullif(&max, &wrong).map_err(failed)?),
            nulls: self.nulls,
        })
    }
}

impl LoggedStats {
    /// The statistics of such a table's files; partition columns have none.
    pub fn new(schema: &StructType, partition_columns: &[String], mapping: Mapping, chosen: &StatsColumns) -> Self {
        Self::named(schema, partition_columns, mapping, chosen, false)
    }

    /// The same with the column names of checkpoints (P053).
    pub fn stored(schema: &StructType, partition_columns: &[String], mapping: Mapping, chosen: &StatsColumns) -> Self {
        Self::named(schema, partition_columns, mapping, chosen, true)
    }

    fn named(
        schema: &StructType,
        partition_columns: &[String],
        mapping: Mapping,
        chosen: &StatsColumns,
        stored: bool,
    ) -> Self {
        let mut view = LoggedStats {
            mapping,
            stored,
            leaves: Vec::new(),
            columns: Vec::new(),
        };
        let mut chosen = Chosen::new(chosen);
        let is_partition = |f: &Field| {
            partition_columns
                .iter()
                .any(|p| p.to_lowercase() == f.name.to_lowercase())
        };
        view.columns = schema
            .fields()
            .iter()
            .filter(|f| !is_partition(f))
            .filter_map(|f| Some((view.name_of(f), view.node(f, &mut Path::default(), &mut chosen)?)))
            .collect();
        view
    }

    fn name_of(&self, f: &Field) -> String {
        match self.stored {
            true => self.mapping.physical_name(f).to_owned(),
            false => f.name.clone(),
        }
    }

    fn node(&mut self, f: &Field, path: &mut Path, chosen: &mut Chosen) -> Option<Node> {
        path.logical.push(f.name.to_lowercase());
        path.physical.push(self.mapping.physical_name(f).to_owned());
        let node = match &f.data_type {
            DataType::Struct(s) => {
                let children: Vec<_> = s
                    .fields()
                    .iter()
                    .filter_map(|c| Some((self.name_of(c), self.node(c, path, chosen)?)))
                    .collect();
                (!children.is_empty()).then_some(Node::Struct(children))
            }
            other => chosen.takes(&path.logical).then(|| {
                let ty = match other {
                    DataType::Primitive(p) if has_bounds(*p) => Some(*p),
                    _ => None,
                };
                self.leaves.push(Leaf {
                    path: path.physical.clone(),
                    ty,
                    // Shown as logged.
                    was_float: false,
                });
                Node::Leaf(self.leaves.len() - 1)
            }),
        };
        path.logical.pop();
        path.physical.pop();
        node
    }

    /// The columns `null_count`, `min` and `max`, each a struct; one without any leaf is left out.
    pub fn fields(&self) -> Vec<ArrowField> {
        SECTIONS
            .iter()
            .filter_map(|(name, section)| {
                let fields = self.fields_of(&self.columns, *section);
                (!fields.is_empty()).then(|| ArrowField::new(*name, ArrowType::Struct(fields), false))
            })
            .collect()
    }

    fn fields_of(&self, nodes: &[(String, Node)], section: Section) -> Fields {
        let fields = nodes.iter().filter_map(|(name, node)| {
            let ty = match node {
                Node::Leaf(i) => self.type_of(*i, section)?,
                Node::Struct(children) => {
                    let fields = self.fields_of(children, section);
                    (!fields.is_empty()).then_some(ArrowType::Struct(fields))?
                }
            };
            Some(ArrowField::new(name, ty, true))
        });
        fields.collect()
    }

    fn type_of(&self, leaf: usize, section: Section) -> Option<ArrowType> {
        match section {
            Section::NullCount => Some(ArrowType::Int64),
            _ => self.leaves.get(leaf)?.ty.map(primitive_to_arrow),
        }
    }

    /// Numbers of rows and the columns of [`LoggedStats::fields`] for a batch of adds. Missing
    /// statistics are null, and so are values of another type and invalid bounds (NaN, a minimum
    /// above its maximum).
    ///
    /// # Errors
    /// `Internal` if arrays of one file list have different lengths.
    pub fn columns(&self, files: &RecordBatch) -> Result<(Int64Array, Vec<ArrayRef>)> {
        let (mut values, whole) = self.sound_values(files)?;
        share_counts(&mut values);
        let columns = SECTIONS
            .iter()
            .map(|(_, section)| (self.fields_of(&self.columns, *section), *section))
            .filter(|(fields, _)| !fields.is_empty())
            .map(|(fields, section)| structs(&self.columns, &fields, section, &values, files.num_rows()))
            .collect::<Result<_>>()?;
        let counts = whole.num_records.iter().map(|n| n.filter(|n| *n >= 0));
        Ok((counts.collect(), columns))
    }

    /// The fields of a checkpoint's `stats_parsed` (P051, P053).
    pub fn parsed_fields(&self) -> Fields {
        let own = [
            ArrowField::new("numRecords", ArrowType::Int64, true),
            ArrowField::new("tightBounds", ArrowType::Boolean, true),
        ];
        let sections = PARSED.iter().filter_map(|(name, section)| {
            let fields = self.fields_of(&self.columns, *section);
            (!fields.is_empty()).then(|| ArrowField::new(*name, ArrowType::Struct(fields), true))
        });
        own.into_iter().chain(sections).collect()
    }

    /// The rows of [`LoggedStats::parsed_fields`] for a batch of adds; null for a file without
    /// statistics. Invalid bounds (NaN, a minimum above its maximum) are left out.
    ///
    /// # Errors
    /// `Internal` if arrays of one file list have different lengths.
    pub fn parsed(&self, files: &RecordBatch) -> Result<StructArray> {
        let (rows, n) = (FileRows::new(files), files.num_rows());
        let parsed_stats = files.column_by_name("stats_parsed").and_then(|c| c.as_struct_opt());
        let (values, whole) = self.sound_values(files)?;
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(whole.num_records), Arc::new(whole.tight_bounds)];
        for (_, section) in PARSED {
            let fields = self.fields_of(&self.columns, section);
            if !fields.is_empty() {
                arrays.push(structs(&self.columns, &fields, section, &values, n)?);
            }
        }
        let known = (0..n).map(|r| rows.stats(r).is_some() || parsed_stats.is_some_and(|s| s.is_valid(r)));
        StructArray::try_new(self.parsed_fields(), arrays, Some(NullBuffer::from_iter(known))).map_err(failed)
    }

    fn sound_values(&self, files: &RecordBatch) -> Result<(Vec<Values>, OfFiles)> {
        let parsed = files.column_by_name("stats_parsed");
        let texts = files
            .column_by_name("stats")
            .filter(|texts| texts.null_count() < texts.len());
        let (values, whole) = match texts {
            Some(texts) => self.logged_values(texts, parsed)?,
            None => (
                self.parsed_values(parsed, files.num_rows())?,
                OfFiles::parsed(parsed, files.num_rows())?,
            ),
        };
        Ok((values.into_iter().map(Values::sound).collect::<Result<_>>()?, whole))
    }

    /// The values from structs alone.
    fn parsed_values(&self, parsed: Option<&ArrayRef>, rows: usize) -> Result<Vec<Values>> {
        let values_of = |leaf: &Leaf| {
            let typed_of = |section: &str, to: &ArrowType| -> Result<ArrayRef> {
                let typed_of = parsed
                    .map(|stats| leaf_in_section(stats, section, &leaf.path))
                    .transpose()?
                    .flatten();
                Ok(typed(typed_of, to, rows))
            };
            let bound = |section: &str| leaf.ty.map(|ty| typed_of(section, &primitive_to_arrow(ty))).transpose();
            Ok(Values {
                min: bound("minValues")?,
                max: bound("maxValues")?,
                nulls: typed_of("nullCount", &ArrowType::Int64)?,
            })
        };
        self.leaves.iter().map(values_of).collect()
    }

    /// The values from JSON, and from structs where there is none.
    fn logged_values(&self, texts: &ArrayRef, parsed: Option<&ArrayRef>) -> Result<(Vec<Values>, OfFiles)> {
        let rows = texts.len();
        let (columns, whole) = json_stats::columns(&self.leaves, texts, logged)?;
        let in_json = is_not_null(texts).map_err(failed)?;
        let pairs = self.leaves.iter().zip(columns);
        let values = pairs
            .map(|(leaf, column)| {
                let Column { min, max, nulls } = column;
                // A checkpoint may have only the structs.
                let or_parsed = |json: ArrayRef, section: &str| -> Result<ArrayRef> {
                    let in_structs = match parsed {
                        Some(stats) => leaf_in_section(stats, section, &leaf.path)?,
                        None => None,
                    };
                    match in_structs {
                        Some(array) if in_json.true_count() < rows => {
                            zip(&in_json, &json, &typed(Some(array), json.data_type(), rows)).map_err(failed)
                        }
                        _ => Ok(json),
                    }
                };
                Ok(Values {
                    min: min.map(|a| or_parsed(a, "minValues")).transpose()?,
                    max: max.map(|a| or_parsed(a, "maxValues")).transpose()?,
                    nulls: or_parsed(Arc::new(nulls), "nullCount")?,
                })
            })
            .collect::<Result<_>>()?;
        Ok((values, OfFiles::parsed(parsed, rows)?.after(&whole)))
    }
}

/// Statistics of whole files.
struct OfFiles {
    num_records: Int64Array,
    tight_bounds: BooleanArray,
}

impl OfFiles {
    fn parsed(stats: Option<&ArrayRef>, rows: usize) -> Result<Self> {
        let column_of = |name: &str, to: &ArrowType| -> Result<ArrayRef> {
            let column = stats.map(|stats| child(stats, name)).transpose()?.flatten();
            Ok(typed(column, to, rows))
        };
        Ok(OfFiles {
            num_records: column_of("numRecords", &ArrowType::Int64)?
                .as_primitive::<Int64Type>()
                .clone(),
            tight_bounds: column_of("tightBounds", &ArrowType::Boolean)?.as_boolean().clone(),
        })
    }

    /// The same, replaced by values from JSON where these exist.
    fn after(self, json: &WholeFiles) -> Self {
        let num_records = json
            .num_records
            .iter()
            .zip(&self.num_records)
            .map(|(json, other)| json.or(other));
        let tight = json
            .tight_bounds
            .iter()
            .zip(&self.tight_bounds)
            .map(|(json, other)| json.or(other));
        OfFiles {
            num_records: num_records.collect(),
            tight_bounds: tight.collect(),
        }
    }
}

/// Another writer's array in this type; null if it is missing or of an incompatible type.
fn typed(input: Option<ArrayRef>, to: &ArrowType, rows: usize) -> ArrayRef {
    let input = input.and_then(|array| match array.data_type() == to {
        true => Some(array),
        false => cast(&array, to).ok(),
    });
    input.unwrap_or_else(|| new_null_array(to, rows))
}

/// Shared zeros for null counts.
static ZEROS: LazyLock<ArrayRef> = LazyLock::new(|| Arc::new(Int64Array::from(vec![0; 8192])));

/// Null counts that are all zero, as most are, share one buffer; others share that of the previous
/// column if they are equal.
fn share_counts(values: &mut [Values]) {
    let mut last: Option<ArrayRef> = None;
    for counts in values.iter_mut().map(|v| &mut v.nulls) {
        let numbers = counts.as_primitive_opt::<Int64Type>().filter(|n| n.null_count() == 0);
        let is_zero = numbers.is_some_and(|n| n.len() <= ZEROS.len() && n.values().iter().all(|n| *n == 0));
        match &last {
            _ if is_zero => *counts = ZEROS.slice(0, counts.len()),
            Some(other) if other.as_ref() == counts.as_ref() => *counts = other.clone(),
            _ => last = Some(counts.clone()),
        }
    }
}

/// The path of a field, by both of its names.
#[derive(Default)]
struct Path {
    logical: Vec<String>,
    physical: Vec<String>,
}

fn structs(
    nodes: &[(String, Node)],
    fields: &Fields,
    section: Section,
    values: &[Values],
    rows: usize,
) -> Result<ArrayRef> {
    let mut arrays = Vec::with_capacity(fields.len());
    for field in fields {
        let node = nodes.iter().find(|(name, _)| name == field.name()).map(|(_, n)| n);
        arrays.push(match (node, field.data_type()) {
            (Some(Node::Struct(children)), ArrowType::Struct(inner)) => {
                structs(children, inner, section, values, rows)?
            }
            (Some(Node::Leaf(i)), ty) => {
                let part = values.get(*i).and_then(|v| match section {
                    Section::NullCount => Some(v.nulls.clone()),
                    Section::Min => v.min.clone(),
                    Section::Max => v.max.clone(),
                });
                part.unwrap_or_else(|| new_null_array(ty, rows))
            }
            (_, ty) => new_null_array(ty, rows),
        });
    }
    let made = StructArray::try_new(fields.clone(), arrays, None).map_err(failed)?;
    Ok(Arc::new(made))
}

/// Whether writers log a minimum and a maximum of this type.
fn has_bounds(ty: Primitive) -> bool {
    !matches!(ty, Primitive::Binary | Primitive::Void | Primitive::Variant)
}

/// A bound from its JSON text in the log.
pub(super) fn logged(raw: &str, ty: Primitive, _up: bool) -> Option<Scalar> {
    let text = raw.trim_matches('"');
    match ty {
        Primitive::Boolean => text.parse().ok().map(Scalar::Boolean),
        Primitive::Decimal { .. } => {
            let (scale, low, high) = exact_range(ty)?;
            match Number::parse(text)?.fit(scale, low, high) {
                Fit::Exact(v) => Some(Scalar::Decimal(v)),
                _ => None,
            }
        }
        _ => json_stats::bound(raw, ty, false),
    }
}

#[cfg(test)]
mod tests {
    // A test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

    use arrow::array::{AsArray, BooleanArray, Decimal128Array, StringArray, TimestampMicrosecondArray};
    use arrow::datatypes::{Decimal128Type, Int64Type, Schema, TimestampMicrosecondType};

    use super::*;

    const SCHEMA: &str = r#"{"type":"struct","fields":[
        {"name":"p","type":"string","nullable":true,"metadata":{}},
        {"name":"x","type":"long","nullable":true,"metadata":{}},
        {"name":"d","type":"decimal(38,2)","nullable":true,"metadata":{}},
        {"name":"s","type":{"type":"struct","fields":[
            {"name":"t","type":"timestamp","nullable":true,"metadata":{}},
            {"name":"a","type":{"type":"array","elementType":"long","containsNull":true},"nullable":true,"metadata":{}}
        ]},"nullable":true,"metadata":{}},
        {"name":"b","type":"boolean","nullable":true,"metadata":{}},
        {"name":"bin","type":"binary","nullable":true,"metadata":{}}]}"#;

    fn view(chosen: StatsColumns) -> LoggedStats {
        LoggedStats::new(
            &StructType::from_json(SCHEMA).unwrap(),
            &["P".to_owned()],
            Mapping::Name,
            &chosen,
        )
    }

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
    }

    fn names(fields: &Fields) -> Vec<&str> {
        fields.iter().map(|f| f.name().as_str()).collect()
    }

    #[test]
    fn values_are_shown_as_they_were_logged() {
        // P160, P164: neither timestamps nor decimals are moved, as they are for skipping
        let stats = r#"{"numRecords":3,"minValues":{"x":-1,"d":123456789012345678901234567890123456.78,"s":{"t":"2024-02-29T12:30:15.123Z"},"b":false},
            "maxValues":{"x":7,"s":{"t":"2024-02-29T12:30:15.123Z"},"b":true},"nullCount":{"x":1,"s":{"t":2,"a":3},"bin":0}}"#;
        let files = batch(vec![(
            "stats",
            Arc::new(StringArray::from(vec![Some(stats), None, Some("{")])),
        )]);
        let view = view(StatsColumns::FirstLeaves(32));
        let (counts, columns) = view.columns(&files).unwrap();
        assert_eq!(counts, Int64Array::from(vec![Some(3), None, None]));
        let schema = Schema::new(view.fields());
        assert_eq!(names(schema.fields()), ["null_count", "min", "max"]);
        let [nulls, min, max] = columns.iter().map(|c| c.as_struct()).collect::<Vec<_>>()[..] else {
            panic!("three sections")
        };
        assert_eq!(names(nulls.fields()), ["x", "d", "s", "b", "bin"]);
        assert_eq!(names(min.fields()), ["x", "d", "s", "b"]);
        assert_eq!(
            min.column(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(),
            [Some(-1), None, None]
        );
        let exact: &Decimal128Array = min.column(1).as_primitive::<Decimal128Type>();
        assert_eq!(exact.value(0), 12_345_678_901_234_567_890_123_456_789_012_345_678);
        let instant = |a: &StructArray| -> TimestampMicrosecondArray {
            a.column(2)
                .as_struct()
                .column(0)
                .as_primitive::<TimestampMicrosecondType>()
                .clone()
        };
        assert_eq!(instant(min).value(0), 1_709_209_815_123_000);
        assert_eq!(instant(max).value(0), 1_709_209_815_123_000);
        assert_eq!(
            max.column(3).as_boolean(),
            &BooleanArray::from(vec![Some(true), None, None])
        );
        let inner = nulls.column(2).as_struct();
        assert_eq!(names(inner.fields()), ["t", "a"]);
        assert_eq!(
            inner.column(1).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(),
            [Some(3), None, None]
        );
        assert_eq!(nulls.column(4).as_primitive::<Int64Type>().value(0), 0);
    }

    #[test]
    fn structs_of_a_checkpoint_stand_in_for_json() {
        let mins: ArrayRef = Arc::new(Int64Array::from(vec![5, 6]));
        let struct_of = |name: &str, x: ArrayRef| {
            let fields = Fields::from(vec![ArrowField::new("x", x.data_type().clone(), true)]);
            let section: ArrayRef = Arc::new(StructArray::new(fields, vec![x], None));
            (ArrowField::new(name, section.data_type().clone(), true), section)
        };
        let (fields, sections): (Vec<_>, Vec<_>) = [
            struct_of("minValues", mins.clone()),
            struct_of("maxValues", mins.clone()),
            struct_of("nullCount", mins),
        ]
        .into_iter()
        .unzip();
        let parsed: ArrayRef = Arc::new(StructArray::new(Fields::from(fields), sections, None));
        let json: ArrayRef = Arc::new(StringArray::from(vec![None, Some(r#"{"minValues":{"x":1}}"#)]));
        let files = batch(vec![("stats", json), ("stats_parsed", parsed)]);
        let (_, columns) = view(StatsColumns::FirstLeaves(1)).columns(&files).unwrap();
        let x = |i: usize| -> Vec<Option<i64>> {
            columns[i]
                .as_struct()
                .column(0)
                .as_primitive::<Int64Type>()
                .iter()
                .collect()
        };
        assert_eq!(
            (x(0), x(1), x(2)),
            (vec![Some(5), None], vec![Some(5), Some(1)], vec![Some(5), None])
        );
    }

    #[test]
    fn only_measured_columns_are_shown() {
        let view = view(StatsColumns::Columns(vec!["S.a".to_owned()]));
        let schema = Schema::new(view.fields());
        assert_eq!(names(schema.fields()), ["null_count"]);
        assert!(self::view(StatsColumns::FirstLeaves(0)).fields().is_empty());
    }
}
