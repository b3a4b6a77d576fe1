//! Minimum, maximum and null count of leaves, one array each, as far as they can be trusted
//! (P164-P168, Q3, Q4). Owns the trust in every writer's statistics; knows nothing of predicates.
//! Reads `stats_parsed`; `json_stats` uses it as well.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, PrimitiveArray, new_null_array};
use arrow::compute::kernels::cmp;
use arrow::compute::{and, cast, is_not_null, not, nullif, or};
use arrow::datatypes::{
    DataType as ArrowType, Decimal128Type, Float32Type, Float64Type, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};

use super::{certain, failed, int64};
use crate::Result;
use crate::arrow_types::primitive_to_arrow;
use crate::expr::scalar::is_integer;
use crate::expr::{child, normalise_floats};
use crate::schema::Primitive;

/// A leaf column whose statistics are needed, by physical path.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leaf {
    pub(super) path: Vec<String>,
    /// `None` if only the null count is needed.
    pub(super) ty: Option<Primitive>,
    /// The column is a double now, but was a float when some of the files were written (P153).
    pub(super) was_float: bool,
}

/// Statistics of a leaf, one value per file; null is unknown.
#[derive(Debug, Clone)]
pub(super) struct LeafBounds {
    pub(super) min: ArrayRef,
    pub(super) max: ArrayRef,
    /// True if certainly no row has a value.
    pub(super) all_null: BooleanArray,
    /// True if certainly no row is null.
    pub(super) no_null: BooleanArray,
}

/// Statistics of every leaf.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    pub(super) leaves: Vec<LeafBounds>,
}

/// Precision to which writers truncate timestamps.
const MILLISECOND_US: i64 = 1_000;

/// Relative error allowed for decimals that may have passed through a double and 16 printed digits.
const DOUBLE_ERROR: i128 = 1_000_000_000_000_000;

/// Whether statistics of this type have a minimum and a maximum.
pub(super) fn is_ordered(ty: Primitive) -> bool {
    !matches!(
        ty,
        Primitive::Boolean | Primitive::Binary | Primitive::Void | Primitive::Variant
    )
}

impl Bounds {
    /// All unknown.
    pub(super) fn unknown(leaves: &[Leaf], rows: usize) -> Result<Bounds> {
        let none = Int64Array::new_null(rows);
        let leaves = leaves.iter().map(|l| LeafBounds::new(l, None, None, &none, &none));
        Ok(Bounds {
            leaves: leaves.collect::<Result<_>>()?,
        })
    }
}

impl LeafBounds {
    /// Whether a file has both bounds, or certainly no value.
    pub(super) fn is_known(&self, file: usize) -> bool {
        (self.min.is_valid(file) && self.max.is_valid(file)) || self.all_null.value(file)
    }

    /// Makes bounds safe for comparisons: `min` and `max` have the leaf's type, and decimals are
    /// widened already.
    pub(super) fn new(
        leaf: &Leaf,
        min: Option<ArrayRef>,
        max: Option<ArrayRef>,
        null_count: &Int64Array,
        num_records: &Int64Array,
    ) -> Result<LeafBounds> {
        let rows = null_count.len();
        let ty = leaf.ty.filter(|t| is_ordered(*t)).unwrap_or(Primitive::Void);
        let unknown = || new_null_array(&primitive_to_arrow(ty), rows);
        let (mut min, mut max) = (min.unwrap_or_else(unknown), max.unwrap_or_else(unknown));
        let is_there = |bound: &ArrayRef| is_not_null(bound).map_err(failed);
        let bounded = or(&is_there(&min)?, &is_there(&max)?).map_err(failed)?;
        if ty != Primitive::Void {
            (min, max) = (without_nan(min)?, without_nan(max)?);
            if leaf.was_float {
                (min, max) = (to_float(&min, f64::min), to_float(&max, f64::max));
            }
            max = later(max);
            // If a minimum is above its maximum, one of them is wrong.
            let wrong = certain(&cmp::gt(&min, &max).map_err(failed)?);
            (min, max) = (
                nullif(&min, &wrong).map_err(failed)?,
                nullif(&max, &wrong).map_err(failed)?,
            );
        }
        // P166: of wide bounds only 0 and "all" are true counts, and no more is asked here.
        let zero = Int64Array::new_scalar(0);
        let sane = certain(&cmp::lt_eq(null_count, num_records).map_err(failed)?);
        let none = certain(&cmp::eq(null_count, &zero).map_err(failed)?);
        let all = certain(&cmp::eq(null_count, num_records).map_err(failed)?);
        // If a null count is negative, or bounds exist where it says that all rows are null, one of
        // them is wrong.
        let possible = certain(&cmp::gt_eq(null_count, &zero).map_err(failed)?);
        let consistent = and(&possible, &not(&bounded).map_err(failed)?).map_err(failed)?;
        let counts_unknown = certain(&arrow::compute::is_null(num_records).map_err(failed)?);
        let trusted = or(&sane, &counts_unknown).map_err(failed)?;
        Ok(LeafBounds {
            min,
            max,
            all_null: and(&all, &consistent).map_err(failed)?,
            no_null: and(&none, &trusted).map_err(failed)?,
        })
    }
}

/// Bounds that are NaN are dropped: writers differ in how they order NaN (P168, Q4).
pub(super) fn without_nan(array: ArrayRef) -> Result<ArrayRef> {
    let array = normalise_floats(array);
    let nan: BooleanArray = if let Some(a) = array.as_primitive_opt::<Float64Type>() {
        a.iter().map(|v| Some(v.is_some_and(f64::is_nan))).collect()
    } else if let Some(a) = array.as_primitive_opt::<Float32Type>() {
        a.iter().map(|v| Some(v.is_some_and(f32::is_nan))).collect()
    } else {
        return Ok(array);
    };
    nullif(&array, &nan).map_err(failed)
}

/// The shortest digits of a float, read as a double, differ from the float itself: the bound
/// becomes the outer of both.
fn to_float(bound: &ArrayRef, outer: fn(f64, f64) -> f64) -> ArrayRef {
    #[allow(clippy::cast_possible_truncation)]
    let moved = |v: f64| outer(v, f64::from(v as f32));
    match bound.as_primitive_opt::<Float64Type>() {
        Some(doubles) => Arc::new(doubles.unary::<_, Float64Type>(moved)),
        None => Arc::clone(bound),
    }
}

/// P164: a maximum was cut to milliseconds.
fn later(max: ArrayRef) -> ArrayRef {
    let ArrowType::Timestamp(TimeUnit::Microsecond, zone) = max.data_type() else {
        return max;
    };
    let zone = zone.clone();
    let moved: PrimitiveArray<TimestampMicrosecondType> = max
        .as_primitive::<TimestampMicrosecondType>()
        .unary(|v| v.saturating_add(MILLISECOND_US));
    Arc::new(moved.with_timezone_opt(zone))
}

/// A decimal bound moved outwards by the error of a double (Q3).
pub(super) fn widen_decimal(v: i128, up: bool) -> i128 {
    let error = v.abs() / DOUBLE_ERROR + 1;
    if up {
        v.saturating_add(error)
    } else {
        v.saturating_sub(error)
    }
}

/// Whether a struct of parsed statistics has columns for this leaf.
pub(super) fn has_leaf(leaf: &Leaf, stats: &ArrayRef) -> bool {
    let has = |section| leaf_in_section(stats, section, &leaf.path).ok().flatten().is_some();
    let ordered = leaf.ty.is_some_and(is_ordered);
    has("nullCount") && (!ordered || (has("minValues") && has("maxValues")))
}

pub(super) fn leaf_in_section(stats: &ArrayRef, section: &str, path: &[String]) -> Result<Option<ArrayRef>> {
    let mut here = child(stats, section)?;
    for name in path {
        here = match here {
            Some(array) => child(&array, name)?,
            None => return Ok(None),
        };
    }
    Ok(here)
}

/// The bounds in `stats_parsed`.
pub(super) fn from_structs(leaves: &[Leaf], stats: &ArrayRef) -> Result<Bounds> {
    let rows = stats.len();
    let counts = |array: Option<ArrayRef>| match array {
        Some(a) if a.data_type().is_integer() => int64(&a),
        _ => Ok(Int64Array::new_null(rows)),
    };
    let num_records = counts(child(stats, "numRecords")?)?;
    let mut bounds = Vec::with_capacity(leaves.len());
    for leaf in leaves {
        let bound = |section, up| match (leaf_in_section(stats, section, &leaf.path)?, leaf.ty) {
            (Some(array), Some(ty)) if is_ordered(ty) => convert(&array, ty, up),
            _ => Ok(None),
        };
        let null_count = counts(leaf_in_section(stats, "nullCount", &leaf.path)?)?;
        bounds.push(LeafBounds::new(
            leaf,
            bound("minValues", false)?,
            bound("maxValues", true)?,
            &null_count,
            &num_records,
        )?);
    }
    Ok(Bounds { leaves: bounds })
}

/// A bound of a parsed struct in the leaf's type; `None` unless the conversion certainly yields a
/// bound.
pub(super) fn convert(array: &ArrayRef, ty: Primitive, up: bool) -> Result<Option<ArrayRef>> {
    let target = primitive_to_arrow(ty);
    if let Primitive::Decimal { precision, scale } = ty {
        return decimals(array, precision, scale, up);
    }
    Ok(match (array.data_type(), &target) {
        (from, to) if from == to => Some(Arc::clone(array)),
        // A value that doesn't fit becomes null: unknown.
        (from, _) if from.is_integer() && is_integer(ty) => Some(cast(array, &target).map_err(failed)?),
        (ArrowType::Utf8View | ArrowType::LargeUtf8, ArrowType::Utf8)
        | (ArrowType::Float32 | ArrowType::Int8 | ArrowType::Int16 | ArrowType::Int32, ArrowType::Float64)
        | (ArrowType::Date32, ArrowType::Timestamp(TimeUnit::Microsecond, None)) => {
            Some(cast(array, &target).map_err(failed)?)
        }
        (ArrowType::Timestamp(unit, from), ArrowType::Timestamp(_, to)) if from.is_some() == to.is_some() => {
            Some(micros(array, *unit, up, to.clone()))
        }
        _ => None,
    })
}

fn micros(array: &ArrayRef, unit: TimeUnit, up: bool, zone: Option<Arc<str>>) -> ArrayRef {
    let out: PrimitiveArray<TimestampMicrosecondType> = match unit {
        TimeUnit::Second => array
            .as_primitive::<TimestampSecondType>()
            .unary(|v| v.saturating_mul(1_000_000)),
        TimeUnit::Millisecond => array
            .as_primitive::<TimestampMillisecondType>()
            .unary(|v| v.saturating_mul(1_000)),
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().unary(|v| v),
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().unary(|v| {
            v.div_euclid(1_000)
                .saturating_add(i64::from(up && v.rem_euclid(1_000) > 0))
        }),
    };
    Arc::new(out.with_timezone_opt(zone))
}

fn decimals(array: &ArrayRef, precision: u8, scale: i8, up: bool) -> Result<Option<ArrayRef>> {
    let exact = match array.data_type() {
        ArrowType::Decimal128(_, from) if *from == scale => Arc::clone(array),
        ArrowType::Decimal128(_, from) if *from < scale => {
            cast(array, &ArrowType::Decimal128(38, scale)).map_err(failed)?
        }
        t if t.is_integer() => cast(array, &ArrowType::Decimal128(38, scale)).map_err(failed)?,
        _ => return Ok(None),
    };
    let widened = exact.as_primitive::<Decimal128Type>().unary::<_, Decimal128Type>(|v| {
        if v.unsigned_abs() < DOUBLE_ERROR.unsigned_abs() {
            v
        } else {
            widen_decimal(v, up)
        }
    });
    // Widening may exceed the precision by a digit: comparisons still work, but the type must be
    // the leaf's.
    Ok(Some(Arc::new(
        widened.with_precision_and_scale(precision, scale).map_err(failed)?,
    )))
}
