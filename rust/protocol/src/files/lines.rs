//! The file actions of a commit's lines, borrowed from its text where it needs no unescaping:
//! replay converts them to columns without an owned struct per file. [`crate::actions`] has the
//! owned form.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::Result;
use crate::actions::{Add, DeletionVector, LineAction, PartitionValues, Remove, null_as_default, parse};

/// A line of a commit with a borrowed file action.
pub type FileLine<'a> = LineAction<AddLine<'a>, RemoveLine<'a>, &'a RawValue>;

/// An [`Add`].
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddLine<'a> {
    #[serde(borrow)]
    pub(crate) path: Text<'a>,
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub(crate) partition_values: Pairs<'a>,
    /// Size of the file in bytes.
    pub size: i64,
    pub(crate) modification_time: i64,
    /// Whether the file changes the table's rows.
    pub data_change: bool,
    #[serde(borrow, default)]
    pub(crate) stats: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) tags: Option<Pairs<'a>>,
    #[serde(default)]
    pub(crate) deletion_vector: Option<Cow<'a, DeletionVector>>,
    #[serde(default)]
    pub(crate) base_row_id: Option<i64>,
    #[serde(default)]
    pub(crate) default_row_commit_version: Option<i64>,
    #[serde(borrow, default)]
    pub(crate) clustering_provider: Option<Text<'a>>,
}

/// A [`Remove`], without fields that no column has.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoveLine<'a> {
    #[serde(borrow)]
    pub(crate) path: Text<'a>,
    #[serde(default)]
    pub(crate) deletion_timestamp: Option<i64>,
    /// Whether the removal changes the table's rows.
    pub data_change: bool,
    #[serde(default)]
    pub(crate) extended_file_metadata: Option<bool>,
    #[serde(borrow, default)]
    pub(crate) partition_values: Option<Pairs<'a>>,
    /// Size of the removed file in bytes.
    #[serde(default)]
    pub size: Option<i64>,
    #[serde(default)]
    pub(crate) deletion_vector: Option<Cow<'a, DeletionVector>>,
    #[serde(default)]
    pub(crate) base_row_id: Option<i64>,
    #[serde(default)]
    pub(crate) default_row_commit_version: Option<i64>,
}

/// Parses one line of a commit as [`crate::actions::parse_line`] does.
///
/// # Errors
/// `CorruptLog` for what is no action, and for more than one.
pub fn parse_file_line(line: &str) -> Result<Option<FileLine<'_>>> {
    parse(line)
}

impl<'a> From<&'a Add> for AddLine<'a> {
    fn from(add: &'a Add) -> Self {
        AddLine {
            path: Text::from(&add.path),
            partition_values: Pairs::from(&add.partition_values),
            size: add.size,
            modification_time: add.modification_time,
            data_change: add.data_change,
            stats: add.stats.as_ref().map(Text::from),
            tags: add.tags.as_ref().map(Pairs::from),
            deletion_vector: add.deletion_vector.as_ref().map(Cow::Borrowed),
            base_row_id: add.base_row_id,
            default_row_commit_version: add.default_row_commit_version,
            clustering_provider: add.clustering_provider.as_ref().map(Text::from),
        }
    }
}

impl<'a> From<&'a Remove> for RemoveLine<'a> {
    fn from(remove: &'a Remove) -> Self {
        RemoveLine {
            path: Text::from(&remove.path),
            deletion_timestamp: remove.deletion_timestamp,
            data_change: remove.data_change,
            extended_file_metadata: remove.extended_file_metadata,
            partition_values: remove.partition_values.as_ref().map(Pairs::from),
            size: remove.size,
            deletion_vector: remove.deletion_vector.as_ref().map(Cow::Borrowed),
            base_row_id: remove.base_row_id,
            default_row_commit_version: remove.default_row_commit_version,
        }
    }
}

/// A text that is copied only if it has JSON escapes. A plain `Cow` inside an `Option` would always
/// be copied.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Text<'a>(Cow<'a, str>);

impl<'a> From<&'a String> for Text<'a> {
    fn from(text: &'a String) -> Self {
        Text(Cow::Borrowed(text))
    }
}

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Borrowing;

        impl<'de> Visitor<'de> for Borrowing {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> std::result::Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> std::result::Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        from.deserialize_str(Borrowing)
    }
}

/// Keys and values of a map: sorted by key, without duplicates.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pairs<'a>(Vec<(Text<'a>, Option<Text<'a>>)>);

impl Pairs<'_> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|(k, v)| (k.as_ref(), v.as_ref().map(AsRef::as_ref)))
    }
}

impl<'a> From<&'a PartitionValues> for Pairs<'a> {
    fn from(map: &'a PartitionValues) -> Self {
        Pairs(
            map.iter()
                .map(|(k, v)| (k.into(), v.as_ref().map(Text::from)))
                .collect(),
        )
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Collecting;

        impl<'de> Visitor<'de> for Collecting {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> std::result::Result<Pairs<'de>, M::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(in_order(pairs))
            }
        }

        from.deserialize_map(Collecting)
    }
}

/// Sorts pairs by key; of a repeated key the last value counts.
fn in_order<'a>(mut pairs: Vec<(Text<'a>, Option<Text<'a>>)>) -> Pairs<'a> {
    let keys = pairs.iter().map(|(key, _)| key);
    if !keys.clone().zip(keys.skip(1)).all(|(previous, next)| previous < next) {
        pairs.sort_by(|(previous, _), (other, _)| previous.cmp(other));
        pairs.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                std::mem::swap(later, earlier);
            }
            is_same
        });
    }
    Pairs(pairs)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::actions::{Action, parse_line};

    fn borrowed(line: &str) -> Option<FileLine<'_>> {
        parse_file_line(line).unwrap()
    }

    #[test]
    fn only_escaped_texts_are_copied() {
        let line = r#"{"add":{"path":"a%20b","partitionValues":{"p":"1"},"size":1,"modificationTime":2,"dataChange":true,"stats":"{\"numRecords\":1}","clusteringProvider":"x"}}"#;
        let Some(LineAction::Add(add)) = borrowed(line) else {
            panic!("no add")
        };
        let is_copied = |text: &Text<'_>| matches!(text.0, Cow::Owned(_));
        assert!(!is_copied(&add.path) && !is_copied(add.clustering_provider.as_ref().unwrap()));
        assert!(
            add.partition_values
                .0
                .iter()
                .all(|(k, v)| !is_copied(k) && !v.as_ref().is_some_and(is_copied))
        );
        assert_eq!(add.stats.unwrap().as_ref(), r#"{"numRecords":1}"#);
    }

    #[test]
    fn maps_are_those_that_actions_have() {
        // P020: of a repeated key the last value counts, and pairs are sorted by key.
        let maps = [
            r#"{"b":"1","a":null,"b":"2","c":"\u0041"}"#,
            "{}",
            "null",
            r#"{"a":"1","a":"2","a":"3"}"#,
        ];
        for map in maps {
            let line = format!(
                r#"{{"add":{{"path":"x","partitionValues":{map},"size":1,"modificationTime":2,"dataChange":true,"tags":{map}}}}}"#
            );
            let (Some(LineAction::Add(action)), Some(Action::Add(other))) =
                (borrowed(&line), parse_line(&line).unwrap())
            else {
                panic!("no add")
            };
            assert_eq!(action.partition_values, Pairs::from(&other.partition_values), "{map}");
            assert_eq!(action.tags, other.tags.as_ref().map(Pairs::from), "{map}");
        }
    }

    #[test]
    fn what_is_no_action_is_none_here_either() {
        let lines = [
            r#"{"add":{"path":"a"}}"#,
            r#"{"add":{"path":1,"partitionValues":{},"size":1,"modificationTime":2,"dataChange":true}}"#,
            r#"{"remove":{"path":"a","dataChange":true},"txn":{"appId":"x","version":1}}"#,
            r#"{"add":"#,
            r#"{"remove":{"dataChange":true}}"#,
        ];
        for line in lines {
            let (error, other) = (parse_file_line(line).unwrap_err(), parse_line(line).unwrap_err());
            assert_eq!(error.message(), other.message(), "{line}");
        }
        assert!(borrowed(r#"{"futureAction":{"x":1}}"#).is_none() && borrowed(" ").is_none());
    }
}
