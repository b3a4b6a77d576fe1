//! Parses one writer's statistics by the shape of the previous text: such texts differ only in
//! their values, and finding those takes a fraction of the time of parsing. A text of another shape
//! is detected, never misread.

use std::collections::BTreeMap;

use super::json_scalar;

/// The meaning of a value in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    NumRecords,
    TightBounds,
    /// The minimum of a leaf, by its number.
    Min(usize),
    Max(usize),
    Nulls(usize),
    /// An unneeded value.
    Other,
}

/// A text without its values.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// The text before each value.
    values: Vec<(Words, Slot)>,
    /// The text after the last value.
    end: String,
}

impl Shape {
    /// The shape of a text, which is valid JSON, with these wanted values, which are slices of it.
    /// `None` if one of them isn't a scalar, or the text has escapes.
    pub(super) fn of<'a>(text: &'a str, wanted: impl Iterator<Item = (&'a str, Slot)>) -> Option<Shape> {
        let start = text.as_ptr().addr();
        let mut slots: BTreeMap<usize, Slot> = BTreeMap::new();
        for (value, slot) in wanted {
            slots.insert(value.as_ptr().addr().checked_sub(start)?, slot);
        }
        let (mut shape, mut before, mut offset) = (Shape::default(), 0, 0);
        while let Some(byte) = text.as_bytes().get(offset) {
            if !matches!(byte, b'"' | b'-' | b'0'..=b'9' | b'n' | b't' | b'f') {
                offset += 1;
                continue;
            }
            let end = json_scalar::end(text.as_bytes(), offset)?;
            if text.get(end..)?.trim_start().starts_with(':') {
                offset = end;
                continue;
            }
            let slot = slots.remove(&offset).unwrap_or(Slot::Other);
            shape.values.push((Words::of(text.get(before..offset)?), slot));
            offset = end;
            before = offset;
        }
        text.get(before..)?.clone_into(&mut shape.end);
        slots.is_empty().then_some(shape)
    }

    /// Passes each value of a text with this shape to a function. False if the shape differs; the
    /// values passed before are then invalid.
    pub(super) fn read<'a>(&self, text: &'a str, mut give: impl FnMut(Slot, &'a str)) -> bool {
        let (bytes, mut offset) = (text.as_bytes(), 0);
        for (before, slot) in &self.values {
            if !before.is_at(bytes, offset) {
                return false;
            }
            let from = offset + before.len();
            let Some(end) = json_scalar::end(bytes, from) else {
                return false;
            };
            if *slot != Slot::Other {
                let Some(value) = text.get(from..end) else {
                    return false;
                };
                give(*slot, value);
            }
            offset = end;
        }
        bytes.get(offset..) == Some(self.end.as_bytes())
    }
}

/// A text to compare with, eight bytes at a time: most are short, and a function call for each
/// would take longer than comparing.
#[derive(Debug)]
struct Words {
    text: Box<[u8]>,
    /// Its bytes, and a mask of those that count.
    words: Box<[(u64, u64)]>,
}

impl Words {
    fn of(text: &str) -> Self {
        let word = |some: &[u8]| {
            let padded = some.iter().copied().chain(std::iter::repeat(0)).take(8);
            let bits =
                |bytes: &mut dyn Iterator<Item = u8>| bytes.fold(0, |word, b| (word >> 8) | (u64::from(b) << 56));
            let meant = (0..8).map(|i| if i < some.len() { u8::MAX } else { 0 });
            (bits(&mut padded.into_iter()), bits(&mut meant.into_iter()))
        };
        Words {
            text: text.as_bytes().into(),
            words: text.as_bytes().chunks(8).map(word).collect(),
        }
    }

    fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether the text at `at` has this shape.
    fn is_at(&self, bytes: &[u8], offset: usize) -> bool {
        let mut from = offset;
        for (word, meant) in &self.words {
            match json_scalar::eight(bytes, from) {
                Some(word_here) if word_here & meant == *word => from += 8,
                Some(_) => return false,
                // Near the end there may be fewer than eight.
                None => return bytes.get(offset..).is_some_and(|rest| rest.starts_with(&self.text)),
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_text_of_another_shape_is_told_apart() {
        let text = r#"{"numRecords":3,"minValues":{"a":"x","more" : -1}}"#;
        let values = [
            (text.get(33..36).unwrap(), Slot::Min(0)),
            (text.get(14..15).unwrap(), Slot::NumRecords),
        ];
        let shape = Shape::of(text, values.into_iter()).unwrap();
        let read = |text| {
            let mut slots = Vec::new();
            shape
                .read(text, |slot, value| slots.push((slot, value)))
                .then_some(slots)
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
