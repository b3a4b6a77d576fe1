//! The JSON text of statistics: dates, times, decimals, floats and shortened strings (P162, P163).
//! Pure formatting.

use chrono::{DateTime, NaiveDate};

/// A JSON string.
pub(super) fn string(s: &str) -> String {
    serde_json::Value::from(s).to_string()
}

/// Days since 1970-01-01; `None` outside the range of calendar dates.
pub(super) fn date(days: i64) -> Option<String> {
    let from_year_one = i32::try_from(days + 719_163).ok()?;
    let d = NaiveDate::from_num_days_from_ce_opt(from_year_one)?;
    Some(format!("\"{}\"", d.format("%Y-%m-%d")))
}

/// Microseconds, truncated to the millisecond before: readers add up to 1 ms to a maximum (P164).
pub(super) fn timestamp(micros: i64, zone: &str) -> Option<String> {
    let t = DateTime::from_timestamp_millis(micros.div_euclid(1000))?;
    Some(format!("\"{}{zone}\"", t.format("%Y-%m-%dT%H:%M:%S%.3f")))
}

/// Microseconds in delta-rs's form: as many digits of a second as the value needs, in threes.
pub(super) fn exact_time(micros: i64, separator: &str, zone: &str) -> Option<String> {
    let t = DateTime::from_timestamp_micros(micros)?;
    let (date, time) = (t.format("%Y-%m-%d"), t.format("%H:%M:%S%.f"));
    Some(format!("\"{date}{separator}{time}{zone}\""))
}

/// Exact digits with the scale's zeros, a JSON number.
pub(super) fn decimal(v: i128, scale: i8) -> String {
    let scale = usize::from(scale.unsigned_abs());
    let digits = format!("{:0width$}", v.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if v < 0 { "-" } else { "" };
    if fraction.is_empty() {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{fraction}")
    }
}

/// Shortest digits that read back as this double; infinities as strings.
pub(super) fn double(v: f64) -> String {
    serde_json::Number::from_f64(v).map_or_else(|| special(v), |n| n.to_string())
}

/// Shortest digits that read back as this float.
pub(super) fn float(v: f32) -> String {
    if v.is_finite() {
        serde_json::to_string(&v).unwrap_or_else(|_| special(f64::from(v)))
    } else {
        special(f64::from(v))
    }
}

fn special(v: f64) -> String {
    let name = if v.is_nan() {
        "NaN"
    } else if v > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    };
    string(name)
}

/// The first `length` characters: never above the string itself.
pub(super) fn lower_prefix(s: &str, length: usize) -> &str {
    s.char_indices()
        .nth(length)
        .and_then(|(end, _)| s.get(..end))
        .unwrap_or(s)
}

/// A string that is short and not below `s`; `None` if there is no short one (P162).
pub(super) fn upper_prefix(s: &str, length: usize) -> Option<String> {
    let prefix = lower_prefix(s, length);
    let rest = s.get(prefix.len()..).unwrap_or_default();
    let Some(first_cut) = rest.chars().next() else {
        return Some(s.to_owned());
    };
    let mut out = prefix.to_owned();
    if first_cut < '\u{7f}' {
        out.push('\u{7f}');
        return Some(out);
    }
    // No character is above U+10FFFF, so a run of it has to be kept.
    let run = rest.chars().take_while(|c| *c == char::MAX).count();
    if run > length {
        return None;
    }
    out.extend(std::iter::repeat_n(char::MAX, run));
    if out.len() < s.len() {
        out.push(char::MAX);
    }
    Some(out)
}
