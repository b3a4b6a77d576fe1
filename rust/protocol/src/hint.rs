//! The checksum of the hint `_last_checkpoint` (P016, P017): MD5 of a canonical text of its
//! members.

use md5::{Digest, Md5};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// Characters that stay unescaped in names and texts.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The hint's checksum, from its members other than `checksum`.
pub fn checksum(hint: &Value) -> String {
    let mut leaves = Vec::new();
    if let Value::Object(members) = hint {
        for (k, v) in members.iter().filter(|(k, _)| *k != "checksum") {
            flatten(v, quoted(k), &mut leaves);
        }
    }
    leaves.sort();
    let digest = Md5::digest(leaves.join(",").as_bytes());
    digest.iter().map(|b| format!("{b:02x}")).collect()
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", utf8_percent_encode(text, ESCAPED))
}

fn flatten(value: &Value, path: String, leaves: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (k, v) in members {
                flatten(v, format!("{path}+{}", quoted(k)), leaves);
            }
        }
        Value::Array(items) => {
            for (i, v) in items.iter().enumerate() {
                flatten(v, format!("{path}+{i}"), leaves);
            }
        }
        Value::String(text) => leaves.push(format!("{path}={}", quoted(text))),
        other => leaves.push(format!("{path}={other}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_sample_of_the_checklist() {
        // P016
        let text = r#"{"k0":"'v 0'","checksum":"x","k1":{"k2":2,"k3":["v3",[1,2],{"k4":"v4","k5":["v5","v6","v7"]}]}}"#;
        let value = serde_json::from_str(text).unwrap();
        assert_eq!(checksum(&value), "6a92d155a59bf2eecbd4b4ec7fd1f875");
    }
}
