//! Checks a file's logged statistics against exact ones (P160 to P163). A bound may be wide, and
//! strings may be truncated; each error names one of its columns.

use serde_json::{Map, Value};

/// Characters of a string bound that other writers keep.
const PREFIX: usize = 32;
/// Characters of a timestamp on which all writers agree: some truncate below a millisecond.
const MOMENT: usize = 19;

/// The first contradiction between logged and exact statistics, both as JSON text; missing
/// statistics never contradict.
pub fn stats_contradiction(logged: &str, exact: &str) -> Option<String> {
    let Ok(logged) = serde_json::from_str::<Map<String, Value>>(logged) else {
        return Some("the logged statistics aren't JSON".to_owned());
    };
    let exact: Map<String, Value> = serde_json::from_str(exact).ok()?;
    let tight = logged.get("tightBounds") != Some(&Value::Bool(false));
    let count = |name: &str, fields: &Map<String, Value>| fields.get(name).and_then(Value::as_i64);
    if let (Some(said), Some(counted)) = (count("numRecords", &logged), count("numRecords", &exact))
        && said != counted
    {
        return Some(format!("the log says {said} rows (numRecords), the file has {counted}"));
    }
    let both = |name: &str| Some((logged.get(name)?, exact.get(name)?));
    let nulls = both("nullCount").filter(|_| tight);
    let wrong_nulls = nulls.and_then(|(l, e)| differing(l, e, "", &|l, e| Some(l.as_i64()? != e.as_i64()?)));
    let above = both("minValues").and_then(|(l, e)| differing(l, e, "", &|l, e| less(e, l)));
    let below = both("maxValues").and_then(|(l, e)| differing(l, e, "", &|l, e| less(l, e)));
    wrong_nulls
        .map(|column| format!("the log says another number of nulls of the column `{column}`"))
        .or(above.map(|column| format!("the column `{column}` has a value below the minimum that the log says")))
        .or(below.map(|column| format!("the column `{column}` has a value above the maximum that the log says")))
}

/// The first leaf of both for which `differs` holds.
fn differing(
    logged: &Value,
    exact: &Value,
    parent: &str,
    differs: &dyn Fn(&Value, &Value) -> Option<bool>,
) -> Option<String> {
    match (logged, exact) {
        (Value::Object(l), Value::Object(e)) => l.iter().find_map(|(name, l)| {
            let path = if parent.is_empty() {
                name.clone()
            } else {
                format!("{parent}.{name}")
            };
            differing(l, e.get(name)?, &path, differs)
        }),
        _ => differs(logged, exact)?.then(|| parent.to_owned()),
    }
}

/// Whether one value certainly is below another; `None` for values that can't be compared.
fn less(value: &Value, other: &Value) -> Option<bool> {
    match (value, other) {
        (Value::Number(a), Value::Number(b)) => Some(match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a < b,
            // Rounding keeps the order.
            _ => a.as_f64()? < b.as_f64()?,
        }),
        (Value::String(a), Value::String(b)) => match (is_moment(a), is_moment(b)) {
            (false, false) => Some(cut(a, PREFIX) < cut(b, PREFIX)),
            _ if a.ends_with('Z') == b.ends_with('Z') && !has_offset(a) && !has_offset(b) => {
                Some(cut(a, MOMENT) < cut(b, MOMENT))
            }
            _ => None,
        },
        _ => None,
    }
}

fn cut(text: &str, length: usize) -> &str {
    text.char_indices()
        .nth(length)
        .map_or(text, |(end, _)| text.get(..end).unwrap_or(text))
}

fn is_moment(text: &str) -> bool {
    let byte = |byte_of: usize| text.as_bytes().get(byte_of).copied();
    matches!(
        (byte(4), byte(7), byte(10), byte(13)),
        (Some(b'-'), Some(b'-'), Some(b'T' | b' '), Some(b':'))
    )
}

fn has_offset(moment: &str) -> bool {
    moment.get(MOMENT..).is_some_and(|rest| rest.contains(['+', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_false_is_told_and_what_is_wide_is_not() {
        // P160 to P163
        let exact = r#"{"numRecords":3,"nullCount":{"a":1,"s":{"b":0}},"minValues":{"a":5,"s":{"b":"bcd"}},"maxValues":{"a":9.5,"s":{"b":"xyz"}}}"#;
        for sound in [
            exact,
            "{}",
            r#"{"numRecords":3,"minValues":{"a":-1},"maxValues":{"a":10,"s":{"b":"z"}}}"#,
            r#"{"numRecords":3,"nullCount":{"a":0},"tightBounds":false}"#,
            r#"{"minValues":{"a":"text","gone":1}}"#,
        ] {
            assert_eq!(stats_contradiction(sound, exact), None, "{sound}");
        }
        for (wrong, said) in [
            (r#"{"numRecords":4}"#, "4 rows"),
            (r#"{"nullCount":{"s":{"b":2}}}"#, "`s.b`"),
            (r#"{"minValues":{"a":5.5}}"#, "below the minimum"),
            (r#"{"maxValues":{"s":{"b":"xyy"}}}"#, "above the maximum"),
            ("[", "aren't JSON"),
        ] {
            let contradiction = stats_contradiction(wrong, exact).unwrap_or_default();
            assert!(contradiction.contains(said), "{wrong}: {contradiction}");
        }
    }

    #[test]
    fn text_and_moments_may_be_cut_off() {
        let bound = |value: &str| format!(r#"{{"maxValues":{{"a":"{value}"}}}}"#);
        for (logged, exact, wrong) in [
            ("2024-01-01T00:00:00.000Z", "2024-01-01T00:00:00.000999Z", false),
            ("2024-01-01T00:00:00.000Z", "2024-01-01T00:00:01.000Z", true),
            ("2024-01-01T01:00:00.000+01:00", "2024-01-01T00:30:00.000Z", false),
            ("2023-12-31", "2024-01-01", true),
        ] {
            assert_eq!(
                stats_contradiction(&bound(logged), &bound(exact)).is_some(),
                wrong,
                "{logged} {exact}"
            );
        }
        let long = "x".repeat(40);
        assert_eq!(
            stats_contradiction(&bound(&long), &bound(&format!("{}\u{FF}", "x".repeat(32)))),
            None
        );
    }
}
