//! How a sound text becomes one that nobody wrote: pieces cut out, doubled, put in, or members of
//! other types.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use proptest::prelude::*;
use serde_json::{Value, json};

/// What is put in: the ends of types, endings of texts, openings without ends.
const PIECES: &[&str] = &[
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "0",
    "-1",
    "1e999",
    "-1e999",
    "1e-999",
    "0.1",
    "NaN",
    "\"NaN\"",
    "Infinity",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551616",
    "2147483648",
    "99999999999999999999999999999999999999999",
    "\\u0000",
    "\\ud800",
    "\\",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\n",
    "\0",
    "é",
    "\u{10FFFF}",
    "%",
    "%00",
    "%2e%2e",
    "../",
    "//",
    "file:///",
    "s3://",
    "--",
    "9999-99-99",
    "+262143-01-01",
    "interval",
    "weeks",
    "decimal(39,0)",
    "decimal(0,0)",
    "decimal(1,-1)",
    "struct",
    "array",
    "map",
];

/// One change of a text.
#[derive(Debug, Clone)]
pub enum Change {
    Cut(prop::sample::Index, usize),
    Double(prop::sample::Index, usize),
    Put(prop::sample::Index, &'static str),
    Repeat(prop::sample::Index, &'static str, usize),
    Byte(prop::sample::Index, u8),
}

/// Any change.
pub fn change() -> impl Strategy<Value = Change> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (index(), 1_usize..40).prop_map(|(i, n)| Change::Cut(i, n)),
        (index(), 1_usize..200).prop_map(|(i, n)| Change::Double(i, n)),
        (index(), prop::sample::select(PIECES)).prop_map(|(i, piece)| Change::Put(i, piece)),
        (index(), prop::sample::select(PIECES), 2_usize..3000).prop_map(|(i, piece, n)| Change::Repeat(i, piece, n)),
        (index(), any::<u8>()).prop_map(|(i, byte)| Change::Byte(i, byte)),
    ]
}

/// The sample with these changes.
pub fn apply(sample: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut bytes = sample.to_vec();
    for change in changes {
        match change {
            Change::Cut(index, n) => {
                let index = index.index(bytes.len() + 1);
                bytes.drain(index..(index + n).min(bytes.len()));
            }
            Change::Double(index, n) => {
                let index = index.index(bytes.len() + 1);
                let piece = bytes[index..(index + n).min(bytes.len())].to_vec();
                bytes.splice(index..index, piece);
            }
            Change::Put(index, piece) => {
                let index = index.index(bytes.len() + 1);
                bytes.splice(index..index, piece.bytes());
            }
            Change::Repeat(index, piece, n) => {
                let index = index.index(bytes.len() + 1);
                bytes.splice(index..index, piece.repeat(*n).bytes());
            }
            Change::Byte(index, byte) => {
                if !bytes.is_empty() {
                    let index = index.index(bytes.len());
                    bytes[index] = *byte;
                }
            }
        }
    }
    bytes
}

/// A sample with a few changes.
pub fn changed(sample: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(change(), 0..5).prop_map(move |changes| apply(sample, &changes))
}

/// The same as text.
pub fn changed_text(sample: &'static str) -> impl Strategy<Value = String> {
    changed(sample.as_bytes()).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Lines of JSON in which one member or element, at any depth, is of another type.
pub fn retyped(sample: &'static str) -> impl Strategy<Value = String> {
    let line = prop::sample::select(sample.lines().collect::<Vec<_>>());
    (line, any::<prop::sample::Index>(), value()).prop_map(move |(line, index, new)| {
        let mut whole: Value = serde_json::from_str(line).unwrap();
        let places = count(&whole);
        put(&mut whole, &mut index.index(places), &new);
        sample.replace(line, &whole.to_string())
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|n| json!(n)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn inside(whole: &mut Value) -> Vec<&mut Value> {
    match whole {
        Value::Object(members) => members.values_mut().collect(),
        Value::Array(items) => items.iter_mut().collect(),
        _ => Vec::new(),
    }
}

fn count(whole: &Value) -> usize {
    1 + inside(&mut whole.clone()).into_iter().map(|v| count(v)).sum::<usize>()
}

/// Replaces the value at this place, counted depth first.
fn put(whole: &mut Value, place: &mut usize, new: &Value) {
    if *place == 0 {
        *whole = new.clone();
    }
    *place = place.wrapping_sub(1);
    for value in inside(whole) {
        if *place > usize::MAX / 2 {
            return;
        }
        put(value, place, new);
    }
}
