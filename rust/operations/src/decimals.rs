//! Arithmetic of decimals by Spark's rules, where a result has more digits than 38 before it is
//! rounded.
//!
//! Results are rounded once, half up, to the scale of their type, as Apache Spark 4 does.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, Field, Schema, SchemaRef, i256};
use deltaplane_error::{Error, Result};

/// Digits that a division is continued by at a time: a remainder has 38 at most, and 76 fit.
const DIGITS_AT_ONCE: i32 = 37;

/// An operator of two decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
}

impl Operator {
    /// The operator of a name: `add`, `subtract`, `multiply` or `divide`.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "add" => Some(Operator::Add),
            "subtract" => Some(Operator::Subtract),
            "multiply" => Some(Operator::Multiply),
            "divide" => Some(Operator::Divide),
            _ => None,
        }
    }
}

/// The results for rows of two decimals, as the only column of each batch, and their schema.
/// A result is null if an operand is null, if it doesn't fit `precision` digits, or for a divisor
/// of zero.
///
/// # Errors
/// `InvalidArgument` for columns that aren't two decimals, or for an invalid type of the result.
pub fn decimal_results<R: Iterator<Item = Result<RecordBatch>>>(
    rows: R,
    operator: Operator,
    precision: u8,
    scale: i8,
) -> Result<(SchemaRef, impl Iterator<Item = Result<RecordBatch>> + use<R>)> {
    let data_type = DataType::Decimal128(precision, scale);
    let schema = Arc::new(Schema::new(vec![Field::new("value", data_type, true)]));
    Decimal128Array::new_null(0)
        .with_precision_and_scale(precision, scale)
        .map_err(|e| Error::invalid_argument(format!("not a decimal's type: {e}")))?;
    let result_schema = schema.clone();
    let batches = rows.map(move |batch| {
        let batch = batch?;
        let [left, right] = batch.columns() else {
            return Err(Error::invalid_argument("an operator of decimals takes two columns"));
        };
        let values = results(operator, left, right, precision, scale)?;
        RecordBatch::try_new(result_schema.clone(), vec![Arc::new(values)])
            .map_err(|e| Error::invalid_argument(e.to_string()))
    });
    Ok((schema, batches))
}

fn results(operator: Operator, left: &ArrayRef, right: &ArrayRef, precision: u8, scale: i8) -> Result<Decimal128Array> {
    let (left_scale, right_scale) = (scale_of(left)?, scale_of(right)?);
    let (left, right) = (
        left.as_primitive::<Decimal128Type>(),
        right.as_primitive::<Decimal128Type>(),
    );
    let (limit, to) = (power(i32::from(precision)), i32::from(scale));
    let values = left.iter().zip(right.iter()).map(|pair| {
        let (left, right) = (i256::from_i128(pair.0?), i256::from_i128(pair.1?));
        let exact = match operator {
            Operator::Add => sum(left, left_scale, right, right_scale),
            Operator::Subtract => sum(left, left_scale, right.wrapping_neg(), right_scale),
            Operator::Multiply => left.checked_mul(right).map(|v| (v, left_scale + right_scale)),
            Operator::Divide => quotient(left, right, to - left_scale + right_scale).map(|v| (v, to)),
        };
        let (value, from) = exact?;
        let value = rescaled(value, from, to)?;
        (value.wrapping_abs() < limit?).then(|| value.to_i128()).flatten()
    });
    let values: Decimal128Array = values.collect();
    values
        .with_precision_and_scale(precision, scale)
        .map_err(|e| Error::invalid_argument(e.to_string()))
}

fn scale_of(values: &ArrayRef) -> Result<i32> {
    match values.data_type() {
        DataType::Decimal128(_, scale) => Ok(i32::from(*scale)),
        other => Err(Error::invalid_argument(format!(
            "an operator of decimals takes no {other}"
        ))),
    }
}

/// A power of ten, if 256 bits hold it.
fn power(exponent: i32) -> Option<i256> {
    i256::from_i128(10).checked_pow(u32::try_from(exponent).ok()?)
}

fn sum(left: i256, left_scale: i32, right: i256, right_scale: i32) -> Option<(i256, i32)> {
    let scale = left_scale.max(right_scale);
    let left = left.checked_mul(power(scale - left_scale)?)?;
    let right = right.checked_mul(power(scale - right_scale)?)?;
    Some((left.checked_add(right)?, scale))
}

/// `left * 10^digits / right`, rounded half up: away from zero; none for a divisor of zero, or if
/// 256 bits don't hold it.
fn quotient(left: i256, right: i256, digits: i32) -> Option<i256> {
    let negative = left.is_negative() != right.is_negative();
    let (left, right) = (left.wrapping_abs(), right.wrapping_abs());
    let right = right.checked_mul(power((-digits).max(0))?)?;
    let (mut value, mut remainder) = (left.checked_div(right)?, left.checked_rem(right)?);
    let mut rest = digits;
    while rest > 0 {
        let next = rest.min(DIGITS_AT_ONCE);
        let (factor, dividend) = (power(next)?, remainder.checked_mul(power(next)?)?);
        value = value.checked_mul(factor)?.checked_add(dividend.checked_div(right)?)?;
        remainder = dividend.checked_rem(right)?;
        rest -= next;
    }
    if remainder.checked_add(remainder)? >= right {
        value = value.checked_add(i256::ONE)?;
    }
    Some(if negative { value.wrapping_neg() } else { value })
}

/// A value of another scale, rounded half up: away from zero.
fn rescaled(value: i256, from: i32, to: i32) -> Option<i256> {
    if from <= to {
        return value.checked_mul(power(to - from)?);
    }
    let unit = power(from - to)?;
    let (whole, rest) = (value.checked_div(unit)?, value.checked_rem(unit)?.wrapping_abs());
    if rest.checked_add(rest)? < unit {
        return Some(whole);
    }
    let away = if value.is_negative() {
        i256::MINUS_ONE
    } else {
        i256::ONE
    };
    whole.checked_add(away)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimals(values: Vec<Option<i128>>, precision: u8, scale: i8) -> ArrayRef {
        let values = Decimal128Array::from(values);
        Arc::new(values.with_precision_and_scale(precision, scale).unwrap())
    }

    fn one(operator: Operator, left: (i128, i8), right: (i128, i8), scale: i8) -> Option<i128> {
        let (left, right) = (
            decimals(vec![Some(left.0)], 38, left.1),
            decimals(vec![Some(right.0)], 38, right.1),
        );
        let values = results(operator, &left, &right, 38, scale).unwrap();
        values.iter().next().flatten()
    }

    #[test]
    fn products_are_rounded_once() {
        // SPARK-45786: -14120025096157587712113961295153.858047 * -0.4652
        let left = -14_120_025_096_157_587_712_113_961_295_153_858_047;
        let value = one(Operator::Multiply, (left, 6), (-4652, 4), 6);
        assert_eq!(value, Some(6_568_635_674_732_509_803_675_414_794_505_574_763));
    }

    #[test]
    fn products_beyond_the_precision_are_null() {
        let most = 10_i128.pow(38) - 1;
        assert_eq!(one(Operator::Multiply, (most, 0), (10, 0), 0), None);
        assert_eq!(one(Operator::Multiply, (most, 0), (1, 1), 0), Some(10_i128.pow(37)));
        assert_eq!(one(Operator::Multiply, (most, 38), (-most, 38), 6), Some(-1_000_000));
    }

    #[test]
    fn quotients_are_rounded_half_up_away_from_zero() {
        assert_eq!(one(Operator::Divide, (1, 0), (8, 0), 2), Some(13));
        assert_eq!(one(Operator::Divide, (-1, 0), (8, 0), 2), Some(-13));
        assert_eq!(one(Operator::Divide, (1, 0), (-3, 0), 6), Some(-333_333));
        assert_eq!(one(Operator::Divide, (2, 0), (3, 0), 6), Some(666_667));
        assert_eq!(one(Operator::Divide, (15, 38), (1, 0), 37), Some(2));
        assert_eq!(one(Operator::Divide, (149, 38), (10, 0), 37), Some(1));
        assert_eq!(one(Operator::Divide, (1, 0), (0, 0), 6), None);
        assert_eq!(one(Operator::Divide, (10_i128.pow(37), 0), (1, 38), 6), None);
    }

    #[test]
    fn quotients_of_many_digits_are_exact() {
        let (left, right) = (12_345_678_901_234_567_890_123_456_789_012_345_678, 7);
        assert_eq!(one(Operator::Divide, (left, 0), (right, 0), 0), Some(left / right));
        let divisor = 10_i128.pow(38) - 1;
        assert_eq!(
            one(Operator::Divide, (divisor - 1, 38), (divisor, 38), 37),
            Some(10_i128.pow(37))
        );
    }

    #[test]
    fn sums_of_other_scales_are_exact() {
        let most = 10_i128.pow(38) - 1;
        assert_eq!(one(Operator::Add, (1, 0), (1, 38), 9), Some(1_000_000_000));
        assert_eq!(
            one(Operator::Subtract, (10_i128.pow(32), 0), (5, 1), 6),
            Some(10_i128.pow(38) - 500_000)
        );
        assert_eq!(one(Operator::Add, (most, 0), (1, 0), 0), None);
        assert_eq!(one(Operator::Subtract, (5, 1), (0, 0), 0), Some(1));
    }

    #[test]
    fn nulls_stay_null_and_other_columns_are_refused() {
        let (left, right) = (decimals(vec![None, Some(1)], 5, 2), decimals(vec![Some(1), None], 5, 2));
        let values = results(Operator::Add, &left, &right, 6, 2).unwrap();
        assert_eq!(values.null_count(), 2);
        let texts: ArrayRef = Arc::new(arrow::array::StringArray::from(vec!["a", "b"]));
        assert!(results(Operator::Add, &left, &texts, 6, 2).is_err());
    }
}
