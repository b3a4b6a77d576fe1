//! The actions of a commit that deletes rows of a live file by a vector (P121–P123): whether a
//! vector is needed, and the remove and add that replace the file's old vector.

use serde_json::{Map, Value};

use super::Positions;
use crate::actions::{Add, DeletionVector, Remove};
use crate::{Error, Result};

/// How to delete rows of a file.
#[derive(Debug, PartialEq)]
pub enum Marking {
    /// No action: they were deleted already.
    Nothing,
    /// Remove the file with its last rows, this many (P123).
    RemoveFile(u64),
    /// A new vector with these rows.
    Vector(Positions),
}

/// How to delete these rows of a live file, whose current vector has the rows `old`.
///
/// # Errors
/// `InvalidArgument` for a file without an exact number of rows in its statistics (P121) and for a
/// row that it doesn't have.
pub fn mark(add: &Add, old: Option<&Positions>, deleted: &Positions) -> Result<Marking> {
    let rows = num_records(add)?;
    if let Some(last) = deleted.max().filter(|last| *last >= rows) {
        return Err(Error::invalid_argument(format!(
            "row {last} can't be deleted from a data file that has {rows} rows"
        ))
        .with_path(add.path.clone()));
    }
    let mut all = old.cloned().unwrap_or_default();
    let before = all.len();
    all.union(deleted);
    Ok(match all.len() {
        after if after == before => Marking::Nothing,
        after if after == rows => Marking::RemoveFile(rows - before),
        _ => Marking::Vector(all),
    })
}

/// The file's number of physical rows, which its statistics must state before it can have a vector
/// (P121).
///
/// # Errors
/// `InvalidArgument` if they don't.
pub fn num_records(add: &Add) -> Result<u64> {
    let records = stats(add).and_then(|s| s.get("numRecords")?.as_u64());
    records.ok_or_else(|| {
        Error::invalid_argument(
            "a deletion vector needs the number of rows in its file's statistics (numRecords), which are missing: rewrite the file",
        )
        .with_path(add.path.clone())
    })
}

fn stats(add: &Add) -> Option<Map<String, Value>> {
    serde_json::from_str(add.stats.as_deref()?).ok()
}

/// The actions that replace the file's vector: its statistics, which describe the physical rows,
/// are wide from now on (P122, P167).
pub fn replace(add: &Add, vector: DeletionVector, now_ms: i64) -> (Remove, Add) {
    let wide = stats(add).map(|mut s| {
        s.insert("tightBounds".to_owned(), Value::Bool(false));
        Value::Object(s).to_string()
    });
    let marked = Add {
        data_change: true,
        stats: wide.or_else(|| add.stats.clone()),
        deletion_vector: Some(vector),
        ..add.clone()
    };
    (add.to_remove(now_ms, true), marked)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn file() -> Add {
        Add {
            path: "f".into(),
            size: 7,
            modification_time: 5,
            base_row_id: Some(40),
            default_row_commit_version: Some(3),
            stats: Some(r#"{"numRecords":3,"minValues":{"d":1.50},"tightBounds":true}"#.into()),
            ..Add::default()
        }
    }

    fn of(rows: &[u64]) -> Positions {
        rows.iter().copied().collect()
    }

    #[test]
    fn a_vector_grows_until_the_file_goes() {
        // P122, P123
        let old = of(&[0]);
        assert_eq!(mark(&file(), None, &of(&[1])).unwrap(), Marking::Vector(of(&[1])));
        assert_eq!(
            mark(&file(), Some(&old), &of(&[1])).unwrap(),
            Marking::Vector(of(&[0, 1]))
        );
        assert_eq!(mark(&file(), Some(&old), &of(&[0])).unwrap(), Marking::Nothing);
        assert_eq!(mark(&file(), Some(&old), &of(&[1, 2])).unwrap(), Marking::RemoveFile(2));
        assert!(mark(&file(), None, &of(&[3])).unwrap_err().message().contains("row 3"));
    }

    #[test]
    fn rows_must_have_been_counted() {
        // P121
        for stats in [None, Some("{}".to_owned()), Some("no json".to_owned())] {
            let uncounted = Add { stats, ..file() };
            assert!(
                mark(&uncounted, None, &of(&[1]))
                    .unwrap_err()
                    .message()
                    .contains("numRecords")
            );
        }
    }

    #[test]
    fn the_pair_keeps_what_the_file_is() {
        // P122, P167
        let vector = DeletionVector {
            storage_type: "u".into(),
            cardinality: 1,
            ..DeletionVector::default()
        };
        let (remove, add) = replace(&file(), vector.clone(), 99);
        assert_eq!(
            (remove.path.as_str(), remove.deletion_vector, remove.base_row_id),
            ("f", None, Some(40))
        );
        assert_eq!(
            add.stats.as_deref(),
            Some(r#"{"minValues":{"d":1.50},"numRecords":3,"tightBounds":false}"#)
        );
        assert_eq!(
            Add {
                stats: file().stats,
                deletion_vector: None,
                data_change: false,
                ..add.clone()
            },
            file()
        );
        assert_eq!(add.deletion_vector, Some(vector));
    }
}
