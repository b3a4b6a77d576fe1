//! Scalars of JSON, eight bytes or more at a time: finds their ends, and parses simple ones. Leaves
//! all others to the general parser and conversions.

use crate::expr::text::{plain_clock, plain_date};

/// A byte repeated eight times.
const fn each(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

const HIGHEST: u64 = each(0x80);

/// A byte repeated sixteen times: strings are longer than numbers.
const fn each_text(byte: u8) -> u128 {
    u128::from_ne_bytes([byte; 16])
}

/// Powers of ten, as far as 64 bits hold them.
const POWERS: [i64; 19] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
    10_000_000_000,
    100_000_000_000,
    1_000_000_000_000,
    10_000_000_000_000,
    100_000_000_000_000,
    1_000_000_000_000_000,
    10_000_000_000_000_000,
    100_000_000_000_000_000,
    1_000_000_000_000_000_000,
];

/// Powers of ten for numbers with few digits, all of which a double represents exactly.
const TENS: [f64; 16] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
];

/// Digits that a double represents exactly, so that a decimal with as many is trusted even if it
/// went through one (Q3).
const SURE_DIGITS: usize = 15;
/// Digits that fit into 64 bits.
const MOST_DIGITS: usize = 18;

/// The eight bytes from an offset on, the first one lowest.
pub(super) fn eight(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// The index of the first byte whose highest bit is set.
fn first(marked: u64) -> usize {
    marked.trailing_zeros() as usize / 8
}

/// Marks the first byte that isn't a digit, after the text of the digit 0 was subtracted from all;
/// later marks are undefined.
fn no_digits(values: u64) -> u64 {
    (values.wrapping_add(each(0x7f - 9)) | values) & HIGHEST
}

/// Marks the first byte that ends a simple string or isn't part of one; later marks are undefined.
fn no_plain_text(sixteen: u128) -> u128 {
    let zero = |v: u128| v.wrapping_sub(each_text(1)) & !v;
    let control = sixteen.wrapping_sub(each_text(b' ')) & !sixteen;
    (zero(sixteen ^ each_text(b'"')) | zero(sixteen ^ each_text(b'\\')) | control) & each_text(0x80)
}

/// The end of the scalar that starts at `at`; `None` for other values and for strings with escapes.
#[inline]
pub(super) fn end(bytes: &[u8], offset: usize) -> Option<usize> {
    match bytes.get(offset)? {
        // Most null counts.
        b'0'..=b'9' if matches!(bytes.get(offset + 1), Some(b',' | b'}')) => Some(offset + 1),
        b'"' => string_end(bytes, offset + 1),
        b'n' | b't' | b'f' => {
            let words: [&[u8]; 3] = [b"null", b"true", b"false"];
            let rest = bytes.get(offset..)?;
            words.iter().find(|w| rest.starts_with(w)).map(|w| offset + w.len())
        }
        _ => number_end(bytes, offset),
    }
}

#[inline]
fn string_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut offset = from;
    let rest = |offset| bytes.get(offset..).unwrap_or_default();
    while let Some(sixteen) = rest(offset).first_chunk() {
        match no_plain_text(u128::from_le_bytes(*sixteen)) {
            0 => offset += 16,
            marked => {
                let end = offset + marked.trailing_zeros() as usize / 8;
                return (bytes.get(end) == Some(&b'"')).then_some(end + 1);
            }
        }
    }
    let is_inside = |b: &&u8| **b != b'"' && **b != b'\\' && **b >= b' ';
    offset += rest(offset).iter().take_while(is_inside).count();
    (bytes.get(offset) == Some(&b'"')).then_some(offset + 1)
}

#[inline]
fn number_end(bytes: &[u8], from: usize) -> Option<usize> {
    let start = from + usize::from(bytes.get(from) == Some(&b'-'));
    let mut offset = digits_end(bytes, start);
    if offset == start || (offset > start + 1 && bytes.get(start) == Some(&b'0')) {
        return None;
    }
    if bytes.get(offset) == Some(&b'.') {
        let fraction = offset + 1;
        offset = digits_end(bytes, fraction);
        (offset > fraction).then_some(())?;
    }
    if matches!(bytes.get(offset), Some(b'e' | b'E')) {
        let exponent = offset + 1 + usize::from(matches!(bytes.get(offset + 1), Some(b'+' | b'-')));
        offset = digits_end(bytes, exponent);
        (offset > exponent).then_some(())?;
    }
    Some(offset)
}

#[inline]
fn digits_end(bytes: &[u8], from: usize) -> usize {
    let mut offset = from;
    while let Some(eight) = eight(bytes, offset) {
        match no_digits(eight ^ each(b'0')) {
            0 => offset += 8,
            marked => return offset + first(marked),
        }
    }
    let rest = bytes.get(offset..).unwrap_or_default();
    offset + rest.iter().take_while(|b| b.is_ascii_digit()).count()
}

/// The number with these digits, of which there are few enough; `None` if one isn't a digit.
fn digits(text: &[u8]) -> Option<i64> {
    let mut value = 0;
    let mut rest = text;
    while let Some((eight, after)) = rest.split_first_chunk() {
        let values = u64::from_le_bytes(*eight) ^ each(b'0');
        if no_digits(values) != 0 {
            return None;
        }
        value = value * 100_000_000 + of_eight(values);
        rest = after;
    }
    for byte in rest {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(byte - b'0');
    }
    Some(value)
}

/// Combines eight digits, the first one lowest, to one number: first pairs, then pairs of pairs,
/// then both halves.
fn of_eight(values: u64) -> i64 {
    let pairs = values.wrapping_mul(10).wrapping_add(values >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let high = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    i64::from(u32::try_from(low.wrapping_add(high) >> 32).unwrap_or(0))
}

/// A number without an exponent.
struct Plain {
    /// Its digits as one number.
    size: i64,
    is_negative: bool,
    /// The number of digits, and how many of them follow the point.
    digits: usize,
    scale: usize,
}

impl Plain {
    fn of(raw: &str) -> Option<Plain> {
        let (is_negative, text) = match raw.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            text => (false, text),
        };
        let (before, after) = match text.split_at_checked(digits_end(text, 0))? {
            (before, [b'.', after @ ..]) if !after.is_empty() => (before, after),
            (before, []) => (before, &[][..]),
            _ => return None,
        };
        let count = before.len() + after.len();
        if before.is_empty() || count > MOST_DIGITS {
            return None;
        }
        let size = match after.len() {
            0 => digits(before)?,
            n => digits(before)? * POWERS.get(n)? + digits(after)?,
        };
        Some(Plain {
            size,
            is_negative,
            digits: count,
            scale: after.len(),
        })
    }

    fn signed(&self) -> i64 {
        if self.is_negative { -self.size } else { self.size }
    }
}

/// A whole number.
pub(super) fn whole(raw: &str) -> Option<i64> {
    match raw.as_bytes() {
        // Most null counts.
        [digit @ b'0'..=b'9'] => Some(i64::from(digit - b'0')),
        _ => long(raw).or_else(|| raw.parse().ok()),
    }
}

// The following functions agree with the general conversions on simple scalars, and return `None`
// for all others, which those may still accept.

/// An integer with few digits.
pub(super) fn long(raw: &str) -> Option<i64> {
    Plain::of(raw).filter(|n| n.scale == 0).map(|n| n.signed())
}

/// The quotient of two exact doubles is rounded once, as parsing the text would be.
pub(super) fn double(raw: &str) -> Option<f64> {
    let n = Plain::of(raw).filter(|n| n.digits <= SURE_DIGITS && n.size != 0)?;
    #[allow(clippy::cast_precision_loss)]
    Some(n.signed() as f64 / TENS.get(n.scale)?)
}

/// The unscaled value of a decimal, if its text certainly didn't go through a double (Q3).
pub(super) fn decimal(raw: &str, precision: usize, scale: usize) -> Option<i128> {
    let n = Plain::of(raw).filter(|n| n.digits <= SURE_DIGITS)?;
    let missing = scale.checked_sub(n.scale)?;
    let is_sure = precision <= SURE_DIGITS || missing == 0;
    let fits = n.digits + missing <= precision;
    let power = POWERS.get(missing).filter(|_| is_sure && fits)?;
    Some(i128::from(n.signed()) * i128::from(*power))
}

/// Days since 1970 of a date in the usual format.
pub(super) fn date(raw: &str) -> Option<i64> {
    // Patterns, since `strip_prefix` would call a comparison function for one byte.
    match raw.as_bytes() {
        [b'"', day @ .., b'"'] => plain_date(day),
        _ => None,
    }
}

/// Microseconds since 1970 of an instant in UTC.
pub(super) fn instant(raw: &str) -> Option<i64> {
    match raw.as_bytes() {
        [b'"', time @ .., b'Z', b'"'] => plain_clock(time),
        _ => None,
    }
}

/// As `instant`, for a time without time zone.
pub(super) fn local_time(raw: &str) -> Option<i64> {
    match raw.as_bytes() {
        [b'"', time @ .., b'"'] => plain_clock(time),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::super::json_stats::bound;
    use super::super::logged::logged;
    use super::*;
    use crate::expr::scalar::Scalar;
    use crate::schema::Primitive;

    /// The parsed scalar of this type.
    fn value(raw: &str, ty: Primitive) -> Option<Scalar> {
        match ty {
            Primitive::Long => long(raw).map(Scalar::Integer),
            Primitive::Double => double(raw).map(Scalar::Double),
            Primitive::Decimal { precision, scale } => {
                decimal(raw, precision.into(), usize::try_from(scale).unwrap()).map(Scalar::Decimal)
            }
            Primitive::Date => date(raw).map(|days| Scalar::Date(i32::try_from(days).unwrap())),
            Primitive::Timestamp => instant(raw).map(Scalar::Timestamp),
            Primitive::TimestampNtz => local_time(raw).map(Scalar::Timestamp),
            _ => None,
        }
    }

    #[test]
    fn scalars_end_where_json_says() {
        for whole in [
            "0",
            "-1.5e+7",
            "12E3",
            "\"a, b\"",
            "\"ü\"",
            "null",
            "true",
            "false",
            "\"\"",
            "123456789.123456789",
            "\"a string of more than eight bytes\"",
            "\"seven\u{7f}€\"",
        ] {
            for behind in ["", ",1", ",\"of more than eight bytes\\", "}}", "\u{80}"] {
                let text = format!("{whole}{behind}");
                assert_eq!(end(text.as_bytes(), 0), Some(whole.len()), "{text}");
                let text = format!("{{\"x\":{text}");
                assert_eq!(end(text.as_bytes(), 5), Some(5 + whole.len()), "{text}");
            }
        }
        for other in [
            "",
            "[1]",
            "{}",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "\"a\\n\"",
            "\"a\nb\"",
            "\"open",
            "nul",
            "+1",
            "\"more than eight \n bytes\"",
            "\"more than eight \\n bytes\"",
            "-x",
            "0123456789.5",
        ] {
            assert_eq!(end(other.as_bytes(), 0), None, "{other}");
        }
    }

    #[test]
    fn marks_begin_at_the_first_byte_that_is_meant() {
        for byte in 0..=u8::MAX {
            for offset in 0..8 {
                let with = |other: u8| {
                    let mut bytes = [other; 8];
                    bytes[offset..].fill(byte);
                    u64::from_le_bytes(bytes)
                };
                let marked = no_digits(with(b'7') ^ each(b'0'));
                assert_eq!(marked == 0, byte.is_ascii_digit(), "{byte}");
                assert!(marked == 0 || first(marked) == offset, "{byte} at {offset}");
            }
            for offset in 0..16 {
                let mut bytes = [0xe4; 16];
                bytes[offset..].fill(byte);
                let marked = no_plain_text(u128::from_le_bytes(bytes));
                assert_eq!(marked == 0, byte >= b' ' && byte != b'"' && byte != b'\\', "{byte}");
                assert!(
                    marked == 0 || marked.trailing_zeros() as usize / 8 == offset,
                    "{byte} at {offset}"
                );
            }
        }
    }

    fn types() -> Vec<Primitive> {
        let decimal = |precision, scale| Primitive::Decimal { precision, scale };
        vec![
            Primitive::Long,
            Primitive::Double,
            decimal(5, 2),
            decimal(12, 2),
            decimal(15, 0),
            decimal(18, 3),
            decimal(38, 20),
            Primitive::Date,
            Primitive::Timestamp,
            Primitive::TimestampNtz,
        ]
    }

    fn scalar() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => "-?[0-9]{1,20}",
            4 => "-?[0-9]{1,12}\\.[0-9]{1,12}",
            1 => "-?[0-9.eE+-]{1,6}",
            2 => "\"[0-9]{4}-[01][0-9]-[0-3][0-9]\"",
            3 => "\"[0-9]{4}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-6][0-9]:[0-6][0-9]\\.[0-9]{2,7}Z?\"",
            1 => "\"?[0-9TZ:. -]{0,26}\"?",
            1 => ".{0,8}",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_plain_means_what_the_general_conversions_say(raw in scalar()) {
            for ty in types() {
                let Some(plain) = value(&raw, ty) else { continue };
                for up in [false, true] {
                    prop_assert_eq!(Some(plain.clone()), bound(&raw, ty, up), "{} up {}", ty, up);
                }
                prop_assert_eq!(Some(plain.clone()), logged(&raw, ty, false), "{}", ty);
            }
            prop_assert_eq!(whole(&raw), raw.parse::<i64>().ok());
        }
    }

    #[test]
    fn what_writers_write_is_plain() {
        for (raw, ty) in [
            ("-12345", Primitive::Long),
            ("12345678.5", Primitive::Double),
            (
                "1234.56",
                Primitive::Decimal {
                    precision: 12,
                    scale: 2,
                },
            ),
            (
                "1234",
                Primitive::Decimal {
                    precision: 12,
                    scale: 2,
                },
            ),
            ("\"2024-02-29\"", Primitive::Date),
            ("\"2024-02-29T12:30:15.123Z\"", Primitive::Timestamp),
            ("\"2024-02-29T12:30:15.123\"", Primitive::TimestampNtz),
        ] {
            assert!(value(raw, ty).is_some(), "{raw}");
        }
    }
}
