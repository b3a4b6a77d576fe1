//! Evaluation of bound predicates on Arrow batches, column by column, with Spark's meaning:
//! three-valued, NaN equal to itself and above everything, -0.0 equal to 0.0.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, PrimitiveArray, RecordBatch,
    Scalar as ArrowScalar, StringArray, TimestampMicrosecondArray, UInt32Array, make_array, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::{cmp, numeric};
use arrow::compute::{and_kleene, cast, is_not_null, is_null, not, or_kleene, take};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow::error::ArrowError;

use super::Sign;
use super::node::{Column, Node, Op, Term};
use super::scalar::{Scalar, is_integer};
use super::text::{DAY_US, Number};
use crate::arrow_types::primitive_to_arrow;
use crate::schema::Primitive;
use crate::{Error, Result};

/// Up to this many values a comparison each is faster than a hash set.
const FEW_VALUES: usize = 4;

/// Each row's truth.
pub(crate) fn evaluate(node: &Node, batch: &RecordBatch) -> Result<BooleanArray> {
    let rows = batch.num_rows();
    match node {
        Node::Const(v) => Ok(std::iter::repeat_n(*v, rows).collect()),
        Node::Known(t, v) => {
            let array = term(t, batch)?;
            Ok(BooleanArray::new(constant(*v, rows), array.logical_nulls()))
        }
        Node::Compare(t, op, v) => {
            let ty = type_of(t)?;
            if let (Term::Column(c), Scalar::Double(bound)) = (t, v)
                && let Some(truth) = compare_doubles(&stored_column(c, batch)?, *op, *bound)
            {
                return Ok(truth);
            }
            compare(
                &term(t, batch)?,
                *op,
                &ArrowScalar::new(normalise_floats(v.to_array(ty)?)),
            )
        }
        Node::CompareTerms(l, op, r) => compare(&term(l, batch)?, *op, &term(r, batch)?),
        Node::IsNull(t) => is_null(&term(t, batch)?).map_err(failed),
        Node::IsNotNull(t) => is_not_null(&term(t, batch)?).map_err(failed),
        Node::In(t, values) => is_in(&term(t, batch)?, values, type_of(t)?),
        Node::Like(t, pattern) => {
            let array = term(t, batch)?;
            let texts = array
                .as_string_opt::<i32>()
                .ok_or_else(|| Error::internal("LIKE on an array that isn't Utf8"))?;
            Ok(texts.iter().map(|v| v.map(|v| pattern.matches(v))).collect())
        }
        Node::Not(n) => not(&evaluate(n, batch)?).map_err(failed),
        Node::And(list) => combine(list, true, batch, and_kleene),
        Node::Or(list) => combine(list, false, batch, or_kleene),
    }
}

fn constant(v: bool, rows: usize) -> arrow::buffer::BooleanBuffer {
    if v {
        arrow::buffer::BooleanBuffer::new_set(rows)
    } else {
        arrow::buffer::BooleanBuffer::new_unset(rows)
    }
}

fn combine(
    list: &[Node],
    empty: bool,
    batch: &RecordBatch,
    join: impl Fn(&BooleanArray, &BooleanArray) -> Result<BooleanArray, ArrowError>,
) -> Result<BooleanArray> {
    let mut result: Option<BooleanArray> = None;
    for n in list {
        let next = evaluate(n, batch)?;
        result = Some(match result {
            None => next,
            Some(before) => join(&before, &next).map_err(failed)?,
        });
    }
    Ok(result.unwrap_or_else(|| BooleanArray::new(constant(empty, batch.num_rows()), None)))
}

fn failed(e: ArrowError) -> Error {
    match e {
        ArrowError::ArithmeticOverflow(_) => Error::invalid_argument(
            "arithmetic in the predicate overflows for a row, which Spark answers with ARITHMETIC_OVERFLOW: write it with a wider type or without arithmetic",
        ),
        e => Error::internal(format!("a predicate can't be evaluated: {e}")).with_source(e),
    }
}

fn type_of(t: &Term) -> Result<Primitive> {
    t.ty().ok_or_else(|| Error::internal("a nested column in a comparison"))
}

fn compare(left: &ArrayRef, op: Op, right: &dyn arrow::array::Datum) -> Result<BooleanArray> {
    match op {
        Op::Eq => cmp::eq(left, right),
        Op::Ne => cmp::neq(left, right),
        Op::Lt => cmp::lt(left, right),
        Op::Le => cmp::lt_eq(left, right),
        Op::Gt => cmp::gt(left, right),
        Op::Ge => cmp::gt_eq(left, right),
    }
    .map_err(failed)
}

/// Compares doubles with a number in one pass, without a copy: IEEE's order equals Spark's except
/// for NaN, which is above all numbers.
fn compare_doubles(left: &ArrayRef, op: Op, right: f64) -> Option<BooleanArray> {
    let doubles = left.as_primitive_opt::<Float64Type>().filter(|_| !right.is_nan())?;
    Some(match op {
        Op::Eq => BooleanArray::from_unary(doubles, |v| v == right),
        Op::Ne => BooleanArray::from_unary(doubles, |v| v != right),
        Op::Lt => BooleanArray::from_unary(doubles, |v| v < right),
        Op::Le => BooleanArray::from_unary(doubles, |v| v <= right),
        Op::Gt => BooleanArray::from_unary(doubles, |v| (v > right) | v.is_nan()),
        Op::Ge => BooleanArray::from_unary(doubles, |v| (v >= right) | v.is_nan()),
    })
}

fn term(t: &Term, batch: &RecordBatch) -> Result<ArrayRef> {
    match t {
        Term::Column(c) => column(c, batch),
        Term::Literal(v, ty) => {
            let index = UInt32Array::from(vec![0; batch.num_rows()]);
            take(&normalise_floats(v.to_array(*ty)?), &index, None).map_err(failed)
        }
        Term::Widen(inner, ty) => widen(&term(inner, batch)?, *ty),
        Term::Arithmetic(sign, l, r, ty) => {
            let (l, r) = (term(l, batch)?, term(r, batch)?);
            // Floats never overflow; the kernels without a check are IEEE's.
            let array = match (sign, is_integer(*ty)) {
                (Sign::Plus, true) => numeric::add(&l, &r),
                (Sign::Minus, true) => numeric::sub(&l, &r),
                (Sign::Times, true) => numeric::mul(&l, &r),
                (Sign::Plus, false) => numeric::add_wrapping(&l, &r),
                (Sign::Minus, false) => numeric::sub_wrapping(&l, &r),
                (Sign::Times, false) => numeric::mul_wrapping(&l, &r),
            };
            Ok(normalise_floats(array.map_err(failed)?))
        }
    }
}

fn column(c: &Column, batch: &RecordBatch) -> Result<ArrayRef> {
    Ok(match c.ty {
        Some(_) => normalise_floats(stored_column(c, batch)?),
        None => stored_column(c, batch)?,
    })
}

/// The column as it is in the rows.
fn stored_column(c: &Column, batch: &RecordBatch) -> Result<ArrayRef> {
    let missing = || {
        Error::internal(format!(
            "the column `{}` of the predicate wasn't read",
            c.path.join(".")
        ))
    };
    let (first, rest) = c.path.split_first().ok_or_else(missing)?;
    let mut array = Arc::clone(batch.column_by_name(first).ok_or_else(missing)?);
    for name in rest {
        array = child(&array, name)?.ok_or_else(missing)?;
    }
    let Some(ty) = c.ty else { return Ok(array) };
    let expected = primitive_to_arrow(ty);
    if *array.data_type() != expected && ty != Primitive::Variant {
        array = cast(&array, &expected).map_err(failed)?;
    }
    Ok(array)
}

/// A field of a struct array, null where the struct is; `None` if there is no such field.
pub(crate) fn child(array: &ArrayRef, name: &str) -> Result<Option<ArrayRef>> {
    let Some(parent) = array.as_struct_opt() else {
        return Ok(None);
    };
    let Some(field) = parent.column_by_name(name) else {
        return Ok(None);
    };
    let Some(nulls) = parent.nulls().filter(|n| n.null_count() > 0) else {
        return Ok(Some(Arc::clone(field)));
    };
    if *field.data_type() == ArrowType::Null {
        return Ok(Some(Arc::clone(field)));
    }
    let nulls = NullBuffer::union(Some(nulls), field.nulls());
    let data = field.to_data().into_builder().nulls(nulls).build().map_err(failed)?;
    Ok(Some(make_array(data)))
}

/// Floats in the form in which Spark compares them: one NaN, one zero. Other arrays, and most
/// floats, are returned without a copy.
pub(crate) fn normalise_floats(array: ArrayRef) -> ArrayRef {
    if let Some(a) = array.as_primitive_opt::<Float64Type>() {
        let is_odd = |v: &f64| v.is_nan() | (v.to_bits() == (-0.0_f64).to_bits());
        // Without an early end, so that the loop is vectorised.
        if !a.values().iter().fold(false, |odd, v| odd | is_odd(v)) {
            return array;
        }
        let fixed: Float64Array = a.unary(|v| if v.is_nan() { f64::NAN } else { v + 0.0 });
        return Arc::new(fixed);
    }
    if let Some(a) = array.as_primitive_opt::<Float32Type>() {
        let is_odd = |v: &f32| v.is_nan() | (v.to_bits() == (-0.0_f32).to_bits());
        if !a.values().iter().fold(false, |odd, v| odd | is_odd(v)) {
            return array;
        }
        let fixed: Float32Array = a.unary(|v| if v.is_nan() { f32::NAN } else { v + 0.0 });
        return Arc::new(fixed);
    }
    array
}

/// An array in a wider type; keeps order and nulls.
pub(crate) fn widen(array: &ArrayRef, to: Primitive) -> Result<ArrayRef> {
    let target = primitive_to_arrow(to);
    let wide: ArrayRef = match (array.data_type(), to) {
        (from, _) if *from == target => Arc::clone(array),
        (ArrowType::Decimal128(_, scale), Primitive::Double) => {
            let scale = i32::from(*scale);
            let decimals: &Decimal128Array = array.as_primitive::<Decimal128Type>();
            Arc::new(decimals.unary::<_, Float64Type>(|v| decimal_to_double(v, scale)))
        }
        (ArrowType::Date32, Primitive::Timestamp | Primitive::TimestampNtz) => {
            let days = array.as_primitive::<Date32Type>();
            let us: TimestampMicrosecondArray =
                days.unary::<_, TimestampMicrosecondType>(|d| i64::from(d).saturating_mul(DAY_US));
            if to == Primitive::Timestamp {
                Arc::new(us.with_timezone("UTC"))
            } else {
                Arc::new(us)
            }
        }
        (ArrowType::Timestamp(..), Primitive::Timestamp) => Arc::new(
            array
                .as_primitive::<TimestampMicrosecondType>()
                .clone()
                .with_timezone("UTC"),
        ),
        _ => cast(array, &target).map_err(failed)?,
    };
    Ok(normalise_floats(wide))
}

fn decimal_to_double(v: i128, scale: i32) -> f64 {
    // Both parts exact: one correctly rounded division.
    if v.unsigned_abs() < 1 << 53 && (0..=22).contains(&scale) {
        return v as f64 / 10f64.powi(scale);
    }
    let n = Number {
        unscaled: v,
        scale,
        significant: 0,
        exponent: false,
    };
    n.to_f64().unwrap_or(f64::NAN)
}

fn is_in(array: &ArrayRef, values: &[Scalar], ty: Primitive) -> Result<BooleanArray> {
    let list = normalise_floats(super::scalar::to_array(values.iter().map(Some), ty)?);
    if values.len() <= FEW_VALUES || ty == Primitive::Boolean {
        let mut result = BooleanArray::new(constant(false, array.len()), array.logical_nulls());
        for i in 0..list.len() {
            let item = ArrowScalar::new(list.slice(i, 1));
            result = or_kleene(&result, &cmp::eq(array, &item).map_err(failed)?).map_err(failed)?;
        }
        return Ok(result);
    }
    Ok(match ty {
        Primitive::String => in_texts(array, &list),
        Primitive::Binary => {
            let set: HashSet<&[u8]> = list.as_binary::<i32>().iter().flatten().collect();
            array
                .as_binary::<i32>()
                .iter()
                .map(|v| v.map(|v| set.contains(v)))
                .collect()
        }
        Primitive::Decimal { .. } => in_set::<Decimal128Type, _>(array, &list, |v| v),
        Primitive::Double => in_set::<Float64Type, _>(array, &list, f64::to_bits),
        Primitive::Float => in_set::<Float32Type, _>(array, &list, f32::to_bits),
        Primitive::Timestamp | Primitive::TimestampNtz => in_set::<TimestampMicrosecondType, _>(array, &list, |v| v),
        Primitive::Void | Primitive::Variant => new_null_array(&ArrowType::Boolean, array.len()).as_boolean().clone(),
        Primitive::Boolean
        | Primitive::Byte
        | Primitive::Short
        | Primitive::Integer
        | Primitive::Long
        | Primitive::Date => {
            let long = |a: &ArrayRef| {
                let days = if ty == Primitive::Date {
                    cast(a, &ArrowType::Int32)
                } else {
                    Ok(Arc::clone(a))
                };
                days.and_then(|a| cast(&a, &ArrowType::Int64)).map_err(failed)
            };
            in_set::<Int64Type, _>(&long(array)?, &long(&list)?, |v| v)
        }
    })
}

fn in_texts(array: &ArrayRef, list: &ArrayRef) -> BooleanArray {
    let texts: &StringArray = list.as_string();
    let set: HashSet<&str> = texts.iter().flatten().collect();
    array
        .as_string::<i32>()
        .iter()
        .map(|v| v.map(|v| set.contains(v)))
        .collect()
}

fn in_set<T: ArrowPrimitiveType, K: Eq + Hash>(
    array: &ArrayRef,
    list: &ArrayRef,
    key: impl Fn(T::Native) -> K,
) -> BooleanArray {
    let list: &PrimitiveArray<T> = list.as_primitive();
    let set: HashSet<K> = list.iter().flatten().map(&key).collect();
    array
        .as_primitive::<T>()
        .iter()
        .map(|v| v.map(|v| set.contains(&key(v))))
        .collect()
}
