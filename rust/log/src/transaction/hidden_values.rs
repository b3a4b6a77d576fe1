//! Conditions in the history without the values in them (`deltaplane.hideValuesInHistory`): the
//! condition of a DELETE names the person whose rows it deletes, for as long as the log is kept.

use deltaplane_protocol::actions::{CommitInfo, Metadata};
use deltaplane_protocol::properties::HIDE_VALUES_IN_HISTORY;
use serde_json::Value;

/// Replaces a value, and a whole condition that can't be taken apart with certainty.
const HIDDEN: &str = "?";

/// Whether a table's history has conditions without values.
pub(crate) fn hides_values(metadata: &Metadata) -> bool {
    let property = metadata.configuration.get(HIDE_VALUES_IN_HISTORY);
    property.is_some_and(|v| v.trim().eq_ignore_ascii_case("true"))
}

/// Replaces each value in the conditions among an operation's parameters.
pub(crate) fn hide_values(info: &mut CommitInfo) {
    let Some(Value::Object(parameters)) = info.get_mut("operationParameters") else {
        return;
    };
    for (name, value) in parameters {
        if is_condition(name) {
            hide(value);
        }
    }
}

/// `predicate`, `matchedPredicates`, `mergePredicate`, `earlyFilter`, …
fn is_condition(name: &str) -> bool {
    let lower = name.to_lowercase();
    lower.contains("predicate") || lower.contains("filter")
}

/// A condition is a text; several are a list in JSON, whose objects have other entries too.
fn hide(value: &mut Value) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(_) => *value = HIDDEN.into(),
        Value::String(text) => {
            *text = match serde_json::from_str::<Value>(text) {
                Ok(mut nested @ (Value::Array(_) | Value::Object(_))) => {
                    hide(&mut nested);
                    nested.to_string()
                }
                _ => without_values(text),
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Object(entries) => entries
            .iter_mut()
            .filter(|(name, _)| is_condition(name))
            .for_each(|(_, value)| hide(value)),
    }
}

/// An SQL text with `?` instead of each text, number and truth value.
///
/// Where a text ends differs between dialects if it has a backslash, and a comment can have half a
/// quote: such a condition is hidden as a whole.
fn without_values(sql: &str) -> String {
    if is_constant(sql) {
        return sql.to_owned();
    }
    if ["\\", "--", "/*"].iter().any(|mark| sql.contains(mark)) {
        return HIDDEN.to_owned();
    }
    let mut out = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' | '"' | '`' => match quoted_length(rest, first) {
                Some(length) => length,
                None => return HIDDEN.to_owned(),
            },
            c if is_of_word(c) || starts_number(rest) => word_length(rest),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        let is_value = matches!(first, '\'' | '"') || first.is_numeric() || starts_number(token) || is_constant(token);
        out.push_str(if is_value { HIDDEN } else { token });
        rest = after;
    }
    out
}

/// A condition that is nothing but `true` or `false` says that there was none.
fn is_constant(text: &str) -> bool {
    text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")
}

/// The bytes of a quoted token with its quotes, of which doubled ones are part; `None` without an
/// end.
fn quoted_length(text: &str, quote: char) -> Option<usize> {
    let mut from = 1;
    loop {
        let end = from + text.get(from..)?.find(quote)? + 1;
        if !text.get(end..)?.starts_with(quote) {
            return Some(end);
        }
        from = end + 1;
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A digit, or a point before a digit.
fn starts_number(text: &str) -> bool {
    let digits = text.strip_prefix('.').unwrap_or(text);
    digits.starts_with(|c: char| c.is_numeric())
}

/// The bytes of a name or a number; that of a number has points, and a sign in its exponent.
fn word_length(text: &str) -> usize {
    let is_number = starts_number(text);
    let mut before = ' ';
    for (offset, c) in text.char_indices() {
        let of_number = is_number && (c == '.' || (matches!(c, '+' | '-') && matches!(before, 'e' | 'E')));
        if !is_of_word(c) && !of_number {
            return offset;
        }
        before = c;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_hidden_and_names_are_kept() {
        for (sql, hidden) in [
            ("true", "true"),
            ("id = 7 AND name <> 'it''s Ada'", "id = ? AND name <> ?"),
            (
                "(c1#12 >= -1.5e-3) OR `a 1` IN (1, 2L, .5, X'AB')",
                "(c1#? >= -?) OR `a 1` IN (?, ?, ?, X?)",
            ),
            (
                "day = DATE '2026-01-01' AND is_ill = TRUE",
                "day = DATE ? AND is_ill = ?",
            ),
            ("s.x_1 = \"Ada\" AND t2.größe = 1.0BD", "s.x_1 = ? AND t2.größe = ?"),
            (r"mail = 'a\' AND name = 'Ada'", "?"),
            ("mail = 'a' -- it's Ada", "?"),
            ("mail = 'Ada", "?"),
            ("x = ١٢", "x = ?"),
        ] {
            assert_eq!(without_values(sql), hidden, "{sql}");
        }
    }

    #[test]
    fn each_form_of_a_condition_is_hidden() {
        let mut info = CommitInfo::default();
        let parameters = json!({
            "predicate": "[\"mail = 'ada'\"]",
            "matchedPredicates": "[{\"actionType\":\"update\",\"predicate\":\"s.a = 5\"}]",
            "earlyFilter": "a = 5",
            "readPredicates": ["a = 5"],
            "mode": "Append",
            "partitionBy": "[\"day1\"]",
        });
        info.insert("operationParameters".into(), parameters);
        hide_values(&mut info);
        let expected = json!({
            "predicate": "[\"mail = ?\"]",
            "matchedPredicates": "[{\"actionType\":\"update\",\"predicate\":\"s.a = ?\"}]",
            "earlyFilter": "a = ?",
            "readPredicates": ["a = ?"],
            "mode": "Append",
            "partitionBy": "[\"day1\"]",
        });
        assert_eq!(info.get("operationParameters").unwrap(), &expected);
    }
}
