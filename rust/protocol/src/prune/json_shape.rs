//! Reads the statistics' texts of one writer by the shape of the one before: they differ in their values alone, and finding
//! those takes a fraction of what parsing takes. A text of another shape is told apart, never misread.

use std::collections::BTreeMap;

/// What a value in a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    NumRecords,
    TightBounds,
    /// Of a leaf, by its number.
    Min(usize),
    Max(usize),
    Nulls(usize),
    /// Nothing that is wanted.
    Other,
}

/// A text without its values.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// What stands before each value.
    values: Vec<(String, Slot)>,
    /// What stands behind the last one.
    end: String,
}

impl Shape {
    /// The shape of a text, which was found to be JSON, with these wanted values, which are parts of it. `None` where one of
    /// them is no scalar, or the text has escapes.
    pub(super) fn of<'a>(text: &'a str, wanted: impl Iterator<Item = (&'a str, Slot)>) -> Option<Shape> {
        let start = text.as_ptr().addr();
        let mut slots: BTreeMap<usize, Slot> = BTreeMap::new();
        for (value, slot) in wanted {
            slots.insert(value.as_ptr().addr().checked_sub(start)?, slot);
        }
        let (mut shape, mut before, mut at) = (Shape::default(), 0, 0);
        while let Some(byte) = text.as_bytes().get(at) {
            if !matches!(byte, b'"' | b'-' | b'0'..=b'9' | b'n' | b't' | b'f') {
                at += 1;
                continue;
            }
            let length = value_length(text.get(at..)?)?;
            if text.get(at + length..)?.trim_start().starts_with(':') {
                at += length;
                continue;
            }
            let slot = slots.remove(&at).unwrap_or(Slot::Other);
            shape.values.push((text.get(before..at)?.to_owned(), slot));
            at += length;
            before = at;
        }
        text.get(before..)?.clone_into(&mut shape.end);
        slots.is_empty().then_some(shape)
    }

    /// Gives each value of a text of this shape. False where it is of another one: what was given by then means nothing.
    pub(super) fn read<'a>(&self, text: &'a str, mut give: impl FnMut(Slot, &'a str)) -> bool {
        let mut rest = text;
        for (before, slot) in &self.values {
            let Some(after) = rest.strip_prefix(before.as_str()) else {
                return false;
            };
            let Some((value, after)) = value_length(after).and_then(|n| after.split_at_checked(n)) else {
                return false;
            };
            if *slot != Slot::Other {
                give(*slot, value);
            }
            rest = after;
        }
        rest == self.end
    }
}

/// The length of the scalar that a text begins with; `None` for other values and for texts with escapes.
fn value_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    match bytes.first()? {
        b'"' => {
            let inside = bytes.iter().skip(1);
            let length = inside
                .take_while(|b| **b != b'"' && **b != b'\\' && **b >= b' ')
                .count();
            (bytes.get(length + 1) == Some(&b'"')).then_some(length + 2)
        }
        b'n' | b't' | b'f' => {
            let words = ["null", "true", "false"];
            words.iter().find(|w| text.starts_with(**w)).map(|w| w.len())
        }
        _ => number_length(bytes),
    }
}

fn number_length(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        let some = bytes.get(from..).unwrap_or_default();
        some.iter().take_while(|b| b.is_ascii_digit()).count()
    };
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    let whole = digits(at);
    if whole == 0 || (whole > 1 && bytes.get(at) == Some(&b'0')) {
        return None;
    }
    at += whole;
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        (fraction > 0).then_some(())?;
        at += 1 + fraction;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at);
        (exponent > 0).then_some(())?;
        at += exponent;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn scalars_end_where_json_says() {
        for whole in [
            "0", "-1.5e+7", "12E3", "\"a, b\"", "\"ü\"", "null", "true", "false", "\"\"",
        ] {
            assert_eq!(value_length(whole), Some(whole.len()), "{whole}");
            assert_eq!(value_length(&format!("{whole},1")), Some(whole.len()), "{whole}");
        }
        for other in [
            "", "[1]", "{}", "01", "-", "1.", ".5", "1e", "\"a\\n\"", "\"a\nb\"", "\"open", "nul", "+1",
        ] {
            assert_eq!(value_length(other), None, "{other}");
        }
    }

    #[test]
    fn a_text_of_another_shape_is_told_apart() {
        let text = r#"{"numRecords":3,"minValues":{"a":"x","more" : -1}}"#;
        let values = [
            (text.get(33..36).unwrap(), Slot::Min(0)),
            (text.get(14..15).unwrap(), Slot::NumRecords),
        ];
        let shape = Shape::of(text, values.into_iter()).unwrap();
        let read = |text| {
            let mut found = Vec::new();
            shape
                .read(text, |slot, value| found.push((slot, value)))
                .then_some(found)
        };
        assert_eq!(
            read(r#"{"numRecords":77,"minValues":{"a":null,"more" : "z"}}"#).unwrap(),
            [(Slot::NumRecords, "77"), (Slot::Min(0), "null")]
        );
        for other in [
            r#"{"numRecords":77,"minValues":{"b":1,"more" : 1}}"#,
            r#"{"numRecords":77,"minValues":{"a":[1],"more" : 1}}"#,
            r#"{"numRecords":07,"minValues":{"a":1,"more" : 1}}"#,
            r#"{"numRecords":77,"minValues":{"a":"\u0061","more" : 1}}"#,
            r#"{"numRecords":77,"minValues":{"a":1,"more" : 1}} "#,
            r#"{"numRecords":77,"minValues":{"a":1,"more" : [1]}}"#,
            "",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
        assert!(
            Shape::of("[1]", [("[1]", Slot::NumRecords)].into_iter()).is_none(),
            "no scalar"
        );
        assert!(Shape::of(r#"{"a\"":1}"#, std::iter::empty()).is_none(), "escapes");
    }
}
