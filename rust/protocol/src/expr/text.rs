//! Text to values with Spark's rules: dates, timestamps, exact numbers; and back for partition
//! values. Pure functions on strings, `None` for text that isn't a value.

/// Microseconds of a day.
pub(crate) const DAY_US: i64 = 86_400_000_000;

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is the last of its year.
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// As `days_from_civil`, for a date that may be invalid.
fn days_of_date(year: i64, month: i64, day: i64) -> Option<i64> {
    let legal = (1..=12).contains(&month) && day >= 1 && day <= days_in_month(year, month);
    legal.then(|| days_from_civil(year, month, day))
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970-01-01 of `yyyy-mm-dd`, the usual form; `None` for any other text.
pub(crate) fn plain_date(text: &[u8]) -> Option<i64> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *text else {
        return None;
    };
    let year = two_digits(y1, y2)? * 100 + two_digits(y3, y4)?;
    days_of_date(year, two_digits(m1, m2)?, two_digits(d1, d2)?)
}

/// Microseconds of `yyyy-mm-ddThh:mm:ss.fff` in its own time zone; `None` for any other text.
pub(crate) fn plain_clock(text: &[u8]) -> Option<i64> {
    let (date, time) = text.split_at_checked(10)?;
    let [b'T', h1, h2, b':', m1, m2, b':', s1, s2, b'.', f1, f2, f3] = *time else {
        return None;
    };
    let (hour, minute, second) = (two_digits(h1, h2)?, two_digits(m1, m2)?, two_digits(s1, s2)?);
    let millis = two_digits(b'0', f1)? * 100 + two_digits(f2, f3)?;
    let in_day = (((hour * 60 + minute) * 60 + second) * 1000 + millis) * 1000;
    let is_time = hour < 24 && minute < 60 && second < 60;
    is_time.then_some(plain_date(date)? * DAY_US + in_day)
}

fn two_digits(tens: u8, ones: u8) -> Option<i64> {
    let both = tens.is_ascii_digit() && ones.is_ascii_digit();
    both.then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
}

/// Takes `min..=max` leading digits.
fn digits(text: &str, min: usize, max: usize) -> Option<(i64, &str)> {
    let (mut n, mut value) = (0, 0i64);
    for byte in text.bytes().take(max).take_while(u8::is_ascii_digit) {
        value = value.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
        n += 1;
    }
    Some((value, text.get(n..)?)).filter(|_| n >= min)
}

/// Takes `[+-]yyyy[-m[m][-d[d]]]`, giving the days, whether the day was written, and the rest.
fn date_part(text: &str) -> Option<(i64, bool, &str)> {
    let (negative, t) = match text.strip_prefix('-') {
        Some(t) => (true, t),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (year, mut rest) = digits(t, 4, 7)?;
    let year = if negative { -year } else { year };
    let (mut month, mut day, mut complete) = (1, 1, false);
    if let Some(t) = rest.strip_prefix('-') {
        (month, rest) = digits(t, 1, 2)?;
        if let Some(t) = rest.strip_prefix('-') {
            (day, rest) = digits(t, 1, 2)?;
            complete = true;
        }
    }
    Some((days_of_date(year, month, day)?, complete, rest))
}

/// A date as Spark's cast reads it: `yyyy`, `yyyy-MM`, `yyyy-MM-dd`, the last also before `T…` or
/// ` …`.
pub(crate) fn parse_date(text: &str) -> Option<i32> {
    if let Some(days) = plain_date(text.as_bytes()) {
        return i32::try_from(days).ok();
    }
    let (days, complete, rest) = date_part(text.trim())?;
    let ended = rest.is_empty() || (complete && rest.starts_with([' ', 'T']));
    ended.then(|| i32::try_from(days).ok()).flatten()
}

/// A time of day in microseconds, and the rest.
fn time_part(text: &str) -> Option<(i64, &str)> {
    let (hour, rest) = digits(text, 1, 2)?;
    let (minute, mut rest) = digits(rest.strip_prefix(':')?, 1, 2)?;
    let (mut second, mut micros) = (0, 0);
    if let Some(t) = rest.strip_prefix(':') {
        (second, rest) = digits(t, 1, 2)?;
        if let Some(t) = rest.strip_prefix('.') {
            let fraction = t.bytes().take_while(u8::is_ascii_digit);
            rest = t.get(fraction.clone().count()..)?;
            let padded = fraction.chain(std::iter::repeat(b'0')).take(6);
            micros = padded.fold(0, |n, digit| 10 * n + i64::from(digit - b'0'));
        }
    }
    let legal = hour < 24 && minute < 60 && second < 60;
    legal.then_some((((hour * 60 + minute) * 60 + second) * 1_000_000 + micros, rest))
}

/// Seconds east of UTC of `Z`, `UTC`, `+01:00`, `-04:56:02`, `GMT+1`, `+0100`. Regions need a
/// database: `None`.
pub(crate) fn parse_offset(text: &str) -> Option<i64> {
    let t = text.trim();
    if t == "Z" {
        return Some(0);
    }
    let upper = t.to_ascii_uppercase();
    let t = ["UTC", "GMT", "UT"]
        .iter()
        .find_map(|p| upper.strip_prefix(p))
        .unwrap_or(&upper);
    if t.is_empty() || t == "Z" || t == "0" {
        return Some(0);
    }
    let (sign, t) = match t.strip_prefix('-') {
        Some(t) => (-1, t),
        None => (1, t.strip_prefix('+')?),
    };
    let (hours, rest) = digits(t, 1, 2)?;
    let part = |rest: &'_ str| -> Option<(i64, String)> {
        if rest.is_empty() {
            return Some((0, String::new()));
        }
        let (n, after) = digits(rest.strip_prefix(':').unwrap_or(rest), 1, 2)?;
        (n < 60).then(|| (n, after.to_owned()))
    };
    let (minutes, rest) = part(rest)?;
    let (seconds, rest) = part(&rest)?;
    (rest.is_empty() && hours <= 18).then_some(sign * ((hours * 60 + minutes) * 60 + seconds))
}

/// A timestamp by Spark's cast: its local clock in microseconds, and the offset in seconds if the
/// text has one.
pub(crate) fn parse_timestamp(text: &str) -> Option<(i64, Option<i64>)> {
    let (days, complete, rest) = date_part(text.trim())?;
    // The midnight before the least timestamp is out of range.
    let midnight = i128::from(days) * i128::from(DAY_US);
    if rest.is_empty() {
        return Some((i64::try_from(midnight).ok()?, None));
    }
    let time = rest.strip_prefix([' ', 'T']).filter(|_| complete)?;
    let (micros, zone) = time_part(time)?;
    let offset = if zone.is_empty() {
        None
    } else {
        Some(parse_offset(zone)?)
    };
    Some((i64::try_from(midnight + i128::from(micros)).ok()?, offset))
}

/// Whether a timestamp text has digits below the microsecond, which no value of a column has.
pub(crate) fn has_nanoseconds(text: &str) -> bool {
    text.split_once('.').is_some_and(|(_, fraction)| {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit);
        digits.skip(6).any(|digit| digit != b'0')
    })
}

/// The instant of a timestamp text; without an offset it is UTC.
pub(crate) fn parse_instant(text: &str) -> Option<i64> {
    let (local, offset) = parse_timestamp(text)?;
    local.checked_sub(offset.unwrap_or(0).checked_mul(1_000_000)?)
}

/// `yyyy-MM-dd`.
pub(crate) fn format_date(days: i64) -> String {
    let (year, month, day) = civil_from_days(days);
    match year {
        10_000.. => format!("+{year}-{month:02}-{day:02}"),
        0.. => format!("{year:04}-{month:02}-{day:02}"),
        _ => format!("-{:04}-{month:02}-{day:02}", -year),
    }
}

/// Date and time of day with the separator given, seconds as the last part, and the microseconds
/// left over.
pub(crate) fn format_timestamp(micros: i64, separator: char) -> (String, i64) {
    let (days, time) = (micros.div_euclid(DAY_US), micros.rem_euclid(DAY_US));
    let seconds = time / 1_000_000;
    let text = format!(
        "{}{separator}{:02}:{:02}:{:02}",
        format_date(days),
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    (text, time % 1_000_000)
}

/// An exact number: `unscaled / 10^scale`, with facts about its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number {
    /// All digits.
    pub(crate) unscaled: i128,
    /// How many digits follow the point; negative for omitted trailing zeros.
    pub(crate) scale: i32,
    /// Digits written from the first that isn't 0.
    pub(crate) significant: usize,
    /// Whether an exponent was written.
    pub(crate) exponent: bool,
}

impl Number {
    /// A whole number.
    pub(crate) fn whole(v: i64) -> Number {
        Number {
            unscaled: i128::from(v),
            scale: 0,
            significant: v.unsigned_abs().to_string().len(),
            exponent: false,
        }
    }

    /// `[+-]digits[.digits][e[+-]digits]` with at most 38 significant digits.
    pub(crate) fn parse(text: &str) -> Option<Number> {
        let t = text.trim();
        let (mantissa, exponent) = match t.split_once(['e', 'E']) {
            Some((m, e)) => (m, Some(e.parse::<i32>().ok()?)),
            None => (t, None),
        };
        let (negative, m) = match mantissa.strip_prefix('-') {
            Some(m) => (true, m),
            None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
        };
        let (whole, fraction) = m.split_once('.').unwrap_or((m, ""));
        let all = || whole.bytes().chain(fraction.bytes());
        if all().count() == 0 || !all().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let significant = all().skip_while(|b| *b == b'0').count();
        if significant > 38 {
            return None;
        }
        // Eighteen digits fit into the narrower type, whose arithmetic is cheap.
        let magnitude = match significant {
            ..=18 => i128::from(all().fold(0i64, |n, b| 10 * n + i64::from(b - b'0'))),
            _ => all().try_fold(0i128, |n, b| n.checked_mul(10)?.checked_add(i128::from(b - b'0')))?,
        };
        Some(Number {
            unscaled: if negative { -magnitude } else { magnitude },
            scale: i32::try_from(fraction.len()).ok()?.checked_sub(exponent.unwrap_or(0))?,
            significant,
            exponent: exponent.is_some(),
        })
    }

    /// This number at another scale, within `low..=high` (both at that scale).
    pub(crate) fn fit(self, scale: i32, low: i128, high: i128) -> Fit {
        let beyond = if self.unscaled < 0 { Fit::Below } else { Fit::Above };
        let shift = i64::from(scale) - i64::from(self.scale);
        let power = |n: i64| u32::try_from(n).ok().and_then(|n| 10i128.checked_pow(n));
        let (floor, exact) = if self.unscaled == 0 || shift == 0 {
            (self.unscaled, true)
        } else if shift >= 0 {
            match power(shift).and_then(|p| self.unscaled.checked_mul(p)) {
                Some(v) => (v, true),
                None => return beyond,
            }
        } else {
            match power(-shift) {
                Some(p) => (self.unscaled.div_euclid(p), self.unscaled.rem_euclid(p) == 0),
                None => (if self.unscaled < 0 { -1 } else { 0 }, false),
            }
        };
        if floor > high || (floor == high && !exact) {
            Fit::Above
        } else if floor < low {
            Fit::Below
        } else if exact {
            Fit::Exact(floor)
        } else {
            Fit::After(floor)
        }
    }

    /// The nearest double.
    pub(crate) fn to_f64(self) -> Option<f64> {
        format!("{}e{}", self.unscaled, -i64::from(self.scale)).parse().ok()
    }
}

/// The position of a number among the values of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It is this value.
    Exact(i128),
    /// It lies between this value and the next.
    After(i128),
    /// It is greater than every value.
    Above,
    /// It is less than every value.
    Below,
}

/// A float as Java prints it: `1.0`, `1.0E20`, `1.0E-5`, `NaN`, `-Infinity`. `shortest` is Rust's
/// `{:e}` text.
fn java_float(value: f64, shortest: &str, plain: String) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let size = value.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        return plain;
    }
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((shortest, "0"));
    let point = if mantissa.contains('.') { "" } else { ".0" };
    format!("{mantissa}{point}E{exponent}")
}

/// A double as Java prints it.
pub(crate) fn format_f64(v: f64) -> String {
    java_float(v, &format!("{v:e}"), format!("{v:?}"))
}

/// A float as Java prints it.
pub(crate) fn format_f32(v: f32) -> String {
    java_float(f64::from(v), &format!("{v:e}"), format!("{v:?}"))
}

/// A decimal with all digits of its scale.
pub(crate) fn format_decimal(unscaled: i128, scale: i8) -> String {
    let digits = unscaled.unsigned_abs().to_string();
    let scale = usize::from(scale.unsigned_abs());
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at_checked(padded.len() - scale).unwrap_or((&padded, ""));
    let sign = if unscaled < 0 { "-" } else { "" };
    if scale == 0 {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{fraction}")
    }
}

/// The bytes of `\u00FF` escapes; other characters become their UTF-8 bytes, as delta-spark writes
/// them.
pub(crate) fn unescape_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let escaped = rest.strip_prefix("\\u").and_then(|t| t.split_at_checked(4));
        let byte = escaped.and_then(|(hex, after)| {
            let digits = hex.bytes().all(|b| b.is_ascii_hexdigit());
            Some((
                u8::try_from(u16::from_str_radix(hex, 16).ok().filter(|_| digits)?).ok()?,
                after,
            ))
        });
        if let Some((b, after)) = byte {
            bytes.push(b);
            rest = after;
        } else {
            let (head, after) = rest.split_at_checked(c.len_utf8()).unwrap_or((rest, ""));
            bytes.extend_from_slice(head.as_bytes());
            rest = after;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn dates_round_trip() {
        for days in [
            -719_528,
            -1,
            0,
            58,
            59,
            60,
            11_016,
            20_000,
            2_932_896,
            i32::MIN as i64,
            i32::MAX as i64,
        ] {
            assert_eq!(parse_date(&format_date(days)).map(i64::from), Some(days), "{days}");
        }
        assert_eq!(format_date(0), "1970-01-01");
        assert_eq!(parse_date("2024-2-9 12:00"), parse_date("2024-02-09"));
        assert_eq!(parse_date("2024"), parse_date("2024-01-01"));
        for bad in [
            "",
            "24-01-01",
            "2023-02-29",
            "2024-13-01",
            "2024-01-01x",
            "2024-01T",
            "now",
        ] {
            assert_eq!(parse_date(bad), None, "{bad}");
        }
    }

    #[test]
    fn timestamps_of_every_legal_shape() {
        // P164
        let moment = parse_instant("2020-01-01T05:00:00.123456Z").unwrap();
        for same in [
            "2020-01-01 05:00:00.123456",
            "2020-01-01T06:00:00.1234569+01:00",
            "2020-01-01T00:03:58.123456-04:56:02",
            "2020-01-01 5:0:0.123456 UTC",
            "2020-01-01 07:00:00.123456 GMT+2",
            "2020-01-01T06:00:00.123456+0100",
        ] {
            assert_eq!(parse_instant(same), Some(moment), "{same}");
        }
        for bad in [
            "2020-01-01 25:00:00",
            "2020-01-01 05:00:00 Mars/X",
            "2020-01 05:00",
            "12:00:00",
            "2020-01-01 05",
        ] {
            assert_eq!(parse_instant(bad), None, "{bad}");
        }
        for micros in [i64::MIN, i64::MIN + 1, i64::MAX, -62_135_596_800_000_001] {
            let (text, left) = format_timestamp(micros, ' ');
            assert_eq!(parse_instant(&format!("{text}.{left:06}")), Some(micros), "{text}");
        }
        let (text, left) = format_timestamp(-1, 'T');
        assert_eq!((text.as_str(), left), ("1969-12-31T23:59:59", 999_999));
    }

    #[test]
    fn numbers_fit_or_say_where_they_lie() {
        let fit = |t: &str, scale| Number::parse(t).unwrap().fit(scale, -999, 999);
        assert_eq!(fit("1.50", 2), Fit::Exact(150));
        assert_eq!(fit("1.505", 2), Fit::After(150));
        assert_eq!(fit("-1.505", 2), Fit::After(-151));
        assert_eq!(fit("9.995", 2), Fit::Above);
        assert_eq!(fit("-9.995", 2), Fit::Below);
        assert_eq!(fit("1e40", 2), Fit::Above);
        assert_eq!(fit("-1e400", 2), Fit::Below);
        assert_eq!(fit("1e-400", 2), Fit::After(0));
        assert_eq!(fit("-1e-400", 2), Fit::After(-1));
        assert_eq!(fit("0e999", 2), Fit::Exact(0));
        for bad in ["", ".", "-", "1x", "1e", "NaN", "1.2.3", "+-1"] {
            assert!(Number::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn floats_print_as_in_java() {
        for (v, t) in [
            (1.0, "1.0"),
            (1e20, "1.0E20"),
            (1.5e-7, "1.5E-7"),
            (-0.0, "-0.0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
            (0.001, "0.001"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
        ] {
            assert_eq!(format_f64(v), t);
        }
        assert_eq!(format_f32(0.1), "0.1");
        assert_eq!(format_decimal(-5, 2), "-0.05");
        assert_eq!(format_decimal(150, 0), "150");
    }
}
