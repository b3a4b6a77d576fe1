//! Powers and logarithms with the results of Java's `StrictMath`, which Apache Spark calls: those
//! of fdlibm to the last bit, on every machine, while a machine's own library may round others.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Float64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, SchemaRef};
use deltaplane_error::{Error, Result};

const TWO_54: f64 = 18_014_398_509_481_984.0;
const LN2_HI: f64 = 6.931_471_803_691_238e-1;
const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
const LOG10_2_HI: f64 = 3.010_299_956_636_117_7e-1;
const LOG10_2_LO: f64 = 3.694_239_077_158_931e-13;
const INVERSE_LN10: f64 = std::f64::consts::LOG10_E;
/// The coefficients of the polynomial of `log`.
const LG: [f64; 7] = [
    6.666_666_666_666_735e-1,
    3.999_999_999_940_942e-1,
    2.857_142_874_366_239e-1,
    2.222_219_843_214_978_3e-1,
    1.818_357_216_161_805e-1,
    1.531_383_769_920_937_3e-1,
    1.479_819_860_511_658_5e-1,
];

/// A function of one or two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// e to the power of a number.
    Exp,
    /// The natural logarithm.
    Log,
    /// The decimal logarithm.
    Log10,
    /// The logarithm of the second number to the base of the first one, as a quotient.
    LogOf,
    /// The first number to the power of the second one.
    Power,
}

impl Function {
    /// The function of a name: `exp`, `log`, `log10`, `log_of` or `power`.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "exp" => Some(Function::Exp),
            "log" => Some(Function::Log),
            "log10" => Some(Function::Log10),
            "log_of" => Some(Function::LogOf),
            "power" => Some(Function::Power),
            _ => None,
        }
    }

    fn value(self, first: f64, second: Option<f64>) -> Option<f64> {
        Some(match self {
            Function::Exp => libm::exp(first),
            Function::Log => log(first),
            Function::Log10 => log10(first),
            Function::LogOf => log(second?) / log(first),
            Function::Power => power(first, second?),
        })
    }
}

/// The function's values for rows of one or two columns of doubles, as the only column of each
/// batch, and their schema. A value is null where an argument is.
///
/// # Errors
/// `InvalidArgument` for other columns.
pub fn math_results<R: Iterator<Item = Result<RecordBatch>>>(
    rows: R,
    function: Function,
) -> (SchemaRef, impl Iterator<Item = Result<RecordBatch>> + use<R>) {
    let schema = Arc::new(Schema::new(vec![Field::new("value", DataType::Float64, true)]));
    let result_schema = schema.clone();
    let batches = rows.map(move |batch| {
        let values = results(function, &batch?)?;
        RecordBatch::try_new(result_schema.clone(), vec![Arc::new(values)])
            .map_err(|e| Error::invalid_argument(e.to_string()))
    });
    (schema, batches)
}

fn results(function: Function, batch: &RecordBatch) -> Result<Float64Array> {
    let columns = batch.columns();
    if columns.iter().any(|column| *column.data_type() != DataType::Float64) {
        return Err(Error::invalid_argument("a mathematical function takes doubles"));
    }
    let columns: Vec<&Float64Array> = columns
        .iter()
        .map(|column| column.as_primitive::<Float64Type>())
        .collect();
    match columns.as_slice() {
        [first] => Ok(first.iter().map(|x| function.value(x?, None)).collect()),
        [first, second] => Ok(first
            .iter()
            .zip(*second)
            .map(|(x, y)| function.value(x?, Some(y?)))
            .collect()),
        _ => Err(Error::invalid_argument(
            "a mathematical function takes one or two columns",
        )),
    }
}

/// Java's power: not a number where the exponent isn't one, or is infinite over a base of 1 or -1.
fn power(base: f64, exponent: f64) -> f64 {
    if exponent != 0.0 && (exponent.is_nan() || (exponent.is_infinite() && base.abs() == 1.0)) {
        return f64::NAN;
    }
    libm::pow(base, exponent)
}

/// The upper 32 bits.
fn high(x: f64) -> i32 {
    (x.to_bits() >> 32) as i32
}

fn with_high(x: f64, high: i32) -> f64 {
    f64::from_bits((x.to_bits() & 0xffff_ffff) | (u64::from(high as u32) << 32))
}

// The crate `libm` computes `exp` and `pow` as fdlibm does, but not the logarithms. These follow
// `e_log.c` and `e_log10.c` of fdlibm 5.3 (<https://www.netlib.org/fdlibm/>), with this notice:
// Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved. Developed at SunSoft, a Sun
// Microsystems, Inc. business. Permission to use, copy, modify, and distribute this software is
// freely granted, provided that this notice is preserved.

/// The logarithm of a number that isn't positive and finite.
fn special(number: f64) -> Option<f64> {
    if number == 0.0 {
        return Some(f64::NEG_INFINITY);
    }
    let hx = high(number);
    if hx < 0 {
        return Some(f64::NAN);
    }
    (hx >= 0x7ff0_0000).then_some(number + number)
}

/// A positive number with its binary exponent; a subnormal one is made normal.
fn with_exponent(number: f64) -> (f64, i32) {
    let (x, shift) = match high(number) < 0x0010_0000 {
        true => (number * TWO_54, -54),
        false => (number, 0),
    };
    (x, shift + (high(x) >> 20) - 1023)
}

/// The natural logarithm, as `__ieee754_log`.
fn log(number: f64) -> f64 {
    if let Some(value) = special(number) {
        return value;
    }
    let (x, mut k) = with_exponent(number);
    let hx = high(x) & 0x000f_ffff;
    let half = (hx + 0x95f64) & 0x0010_0000;
    let f = with_high(x, hx | (half ^ 0x3ff0_0000)) - 1.0;
    k += half >> 20;
    let dk = f64::from(k);
    if (0x000f_ffff & (2 + hx)) < 3 {
        // The rest is below 2^-20.
        if f == 0.0 {
            return if k == 0 { 0.0 } else { dk * LN2_HI + dk * LN2_LO };
        }
        let r = f * f * (0.5 - 0.333_333_333_333_333_3 * f);
        return if k == 0 {
            f - r
        } else {
            dk * LN2_HI - ((r - dk * LN2_LO) - f)
        };
    }
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let [lg1, lg2, lg3, lg4, lg5, lg6, lg7] = LG;
    let t1 = w * (lg2 + w * (lg4 + w * lg6));
    let t2 = z * (lg1 + w * (lg3 + w * (lg5 + w * lg7)));
    let r = t2 + t1;
    if ((hx - 0x6147a) | (0x6b851 - hx)) > 0 {
        let half_square = 0.5 * f * f;
        return if k == 0 {
            f - (half_square - s * (half_square + r))
        } else {
            dk * LN2_HI - ((half_square - (s * (half_square + r) + dk * LN2_LO)) - f)
        };
    }
    if k == 0 {
        f - s * (f - r)
    } else {
        dk * LN2_HI - ((s * (f - r) - dk * LN2_LO) - f)
    }
}

/// The decimal logarithm, as `__ieee754_log10`.
fn log10(number: f64) -> f64 {
    if let Some(value) = special(number) {
        return value;
    }
    let (x, k) = with_exponent(number);
    let below_one = i32::from(k < 0);
    let hx = (high(x) & 0x000f_ffff) | ((0x3ff - below_one) << 20);
    let y = f64::from(k + below_one);
    let z = y * LOG10_2_LO + INVERSE_LN10 * log(with_high(x, hx));
    z + y * LOG10_2_HI
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Bits that Java's `StrictMath` gives.
    #[test]
    fn results_are_those_of_java() {
        let cases = [
            (Function::Exp, 1.1, None, 3.004_166_023_946_433_4),
            (Function::Log, 3.3, None, 1.193_922_468_472_434_6),
            (Function::Log10, 7.7, None, 0.886_490_725_172_481_8),
            (Function::LogOf, 2.0, Some(10.5), 3.392_317_422_778_760_2),
            (Function::Power, 1.1, Some(2.2), 1.233_286_300_554_662_8),
            (Function::Power, 2.0, Some(10.0), 1024.0),
        ];
        for (function, first, second, expected) in cases {
            assert_eq!(function.value(first, second), Some(expected), "{function:?}");
        }
    }

    #[test]
    fn special_numbers_have_javas_results() {
        let nan = |function: Function, a: f64, b: f64| function.value(a, Some(b)).unwrap().is_nan();
        assert!(nan(Function::Power, 1.0, f64::NAN));
        assert!(nan(Function::Power, -1.0, f64::INFINITY));
        assert_eq!(Function::Power.value(f64::NAN, Some(0.0)), Some(1.0));
        assert_eq!(Function::Log.value(0.0, None), Some(f64::NEG_INFINITY));
        assert_eq!(Function::Log.value(f64::INFINITY, None), Some(f64::INFINITY));
        assert!(nan(Function::Log, -1.0, 0.0));
        assert!(nan(Function::Log10, f64::NAN, 0.0));
        assert_eq!(Function::Log10.value(1e-320, None), Some(-320.000_004_834_948));
    }

    #[test]
    fn columns_are_doubles_and_nulls_stay() {
        let first: Float64Array = vec![Some(1.0), None, Some(4.0)].into();
        let second: Float64Array = vec![Some(2.0), Some(3.0), None].into();
        let schema = Schema::new(vec![
            Field::new("a", DataType::Float64, true),
            Field::new("b", DataType::Float64, true),
        ]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(first), Arc::new(second)]).unwrap();
        let (_, mut made) = math_results([Ok(batch)].into_iter(), Function::Power);
        let values = made.next().unwrap().unwrap();
        let expected: Float64Array = vec![Some(1.0), None, None].into();
        assert_eq!(values.column(0).as_primitive::<Float64Type>(), &expected);
    }
}
