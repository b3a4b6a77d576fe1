//! The changed rows of a commit for the change data feed (P131, P134): which files have them, which
//! of their rows changed, and how.

use std::collections::BTreeMap;

use crate::actions::{Action, Add, AddCdcFile, CommitInfo, DeletionVector, PartitionValues, Remove};
use crate::expr::text::format_timestamp;
use crate::features::{View, type_widening};
use crate::mapping::Mapping;
use crate::schema::{DataType, Field, Primitive, StructType};
use crate::{Error, Result, paths};

/// The column with the kind of change.
pub const CHANGE_TYPE: &str = "_change_type";
/// The column with the version of the change.
pub const COMMIT_VERSION: &str = "_commit_version";
/// The column with the time of that version.
pub const COMMIT_TIMESTAMP: &str = "_commit_timestamp";

/// The kind of change of a file's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// They were added.
    Insert,
    /// They were removed.
    Delete,
    /// Each row has its own kind, in [`CHANGE_TYPE`].
    InFile,
}

/// Changed rows of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileChange {
    /// The kind of change.
    pub change: Change,
    /// Decoded path of the file.
    pub path: String,
    /// Its size, 0 if unknown.
    pub size: i64,
    /// Its partition values.
    pub partition_values: PartitionValues,
    /// Rows that didn't change.
    pub deletion_vector: Option<DeletionVector>,
    /// If set, only these rows changed, except those in `deletion_vector`.
    pub only: Option<DeletionVector>,
    /// Statistics of the file as JSON text.
    pub stats: Option<String>,
}

impl FileChange {
    /// The feed's own columns that are constant in the file, with their partition texts.
    pub fn constants(&self, version: u64, timestamp_ms: i64) -> Vec<(&'static str, String)> {
        let (seconds, micros) = format_timestamp(timestamp_ms.saturating_mul(1000), 'T');
        let mut columns = vec![
            (COMMIT_VERSION, version.to_string()),
            (COMMIT_TIMESTAMP, format!("{seconds}.{micros:06}Z")),
        ];
        match self.change {
            Change::Insert => columns.push((CHANGE_TYPE, "insert".to_owned())),
            Change::Delete => columns.push((CHANGE_TYPE, "delete".to_owned())),
            Change::InFile => {}
        }
        columns
    }
}

/// The columns of the feed: the table's, then its own three (P132).
///
/// # Errors
/// `InvalidArgument` for a table that has a column of one of their names (P133).
pub fn feed_schema(table: &StructType) -> Result<StructType> {
    let own = [
        Field::new(CHANGE_TYPE, Primitive::String, true),
        Field::new(COMMIT_VERSION, Primitive::Long, true),
        Field::new(COMMIT_TIMESTAMP, Primitive::Timestamp, true),
    ];
    if let Some(taken) = own.iter().find(|f| table.field_ignore_case(&f.name).is_some()) {
        return Err(Error::invalid_argument(format!(
            "the table has a column `{}`, a name that the change data feed needs for its own: rename the column first",
            taken.name
        )));
    }
    Ok(StructType::new(table.fields().iter().cloned().chain(own).collect()))
}

/// The changes that a commit's actions make.
///
/// # Errors
/// `CorruptLog` for a remove without partition values in a partitioned table: its rows can't be
/// shown (P029).
pub fn of_commit(actions: &[Action], partitioned: bool) -> Result<Vec<FileChange>> {
    let cdc: Vec<&AddCdcFile> = actions.iter().filter_map(as_cdc).collect();
    if !cdc.is_empty() {
        return cdc.into_iter().map(in_file).collect();
    }
    if actions
        .iter()
        .any(|a| matches!(a, Action::CommitInfo(i) if changed_nothing(i)))
    {
        return Ok(Vec::new());
    }
    let (mut adds, mut removes) = (BTreeMap::new(), BTreeMap::new());
    for action in actions {
        match action {
            Action::Add(a) if a.data_change => drop(adds.insert(paths::decode(&a.path)?, a)),
            Action::Remove(r) if r.data_change => drop(removes.insert(paths::decode(&r.path)?, r)),
            _ => {}
        }
    }
    let mut changes = Vec::with_capacity(adds.len() + removes.len());
    for (path, remove) in removes {
        match adds.remove(&path) {
            None => changes.push(removed(path, remove, partitioned)?),
            Some(add) => changes.extend(between(&path, remove.deletion_vector.as_ref(), add)),
        }
    }
    changes.extend(adds.into_iter().map(|(path, add)| added(path, add)));
    Ok(changes)
}

fn as_cdc(action: &Action) -> Option<&AddCdcFile> {
    match action {
        Action::Cdc(c) => Some(c),
        _ => None,
    }
}

fn in_file(c: &AddCdcFile) -> Result<FileChange> {
    Ok(FileChange {
        change: Change::InFile,
        path: paths::decode(&c.path)?,
        size: c.size,
        partition_values: c.partition_values.clone(),
        deletion_vector: None,
        only: None,
        stats: None,
    })
}

/// A merge that rewrote files and changed no row (P134).
fn changed_nothing(info: &CommitInfo) -> bool {
    let counts = ["numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"];
    let metric = |name: &str| info.get("operationMetrics")?.get(name)?.as_str().map(|n| n == "0");
    info.get("operation").and_then(|o| o.as_str()) == Some("MERGE") && counts.iter().all(|n| metric(n) == Some(true))
}

impl FileChange {
    /// All rows of an added file.
    ///
    /// # Errors
    /// `CorruptLog` for a path that can't be decoded.
    pub fn inserted(add: &Add) -> Result<Self> {
        Ok(added(paths::decode(&add.path)?, add))
    }
}

fn added(path: String, add: &Add) -> FileChange {
    FileChange {
        change: Change::Insert,
        path,
        size: add.size,
        partition_values: add.partition_values.clone(),
        deletion_vector: add.deletion_vector.clone(),
        only: None,
        stats: add.stats.clone(),
    }
}

fn removed(path: String, remove: &Remove, partitioned: bool) -> Result<FileChange> {
    if partitioned && remove.partition_values.is_none() {
        return Err(Error::corrupt_log(
            "the commit removes a file of a partitioned table without its partition values, so the change data feed can't show the removed rows: leave the version out of the range",
        )
        .with_path(path));
    }
    Ok(FileChange {
        change: Change::Delete,
        path,
        size: remove.size.unwrap_or(0),
        partition_values: remove.partition_values.clone().unwrap_or_default(),
        deletion_vector: remove.deletion_vector.clone(),
        only: None,
        stats: remove.stats.clone(),
    })
}

/// The rows that only one of a file's two vectors has.
fn between(path: &str, old: Option<&DeletionVector>, add: &Add) -> Vec<FileChange> {
    let new = add.deletion_vector.as_ref();
    if old == new {
        return Vec::new();
    }
    let part = |change, only: Option<&DeletionVector>, without: Option<&DeletionVector>| {
        only.map(|only| FileChange {
            change,
            only: Some(only.clone()),
            deletion_vector: without.cloned(),
            ..added(path.to_owned(), add)
        })
    };
    let deleted = part(Change::Delete, new, old);
    deleted.into_iter().chain(part(Change::Insert, old, new)).collect()
}

/// If a change of the metadata makes older files ambiguous, the reason: column mapping ended, and
/// names in older files may mean other columns now (P114).
pub fn names_ended(before: View<'_>, mapping: Mapping) -> Option<String> {
    let was = Mapping::of(&before.metadata.configuration).ok()?;
    if was == Mapping::None || mapping != Mapping::None {
        return None;
    }
    let renamed = before.find_field(&|f| was.physical_name(f) != f.name)?;
    Some(format!(
        "column mapping ended, and the column `{renamed}` has another name in older files"
    ))
}

/// If rows with the columns `old` can't be shown with the columns `new`, the reason (P132). Columns
/// are matched by their names in files.
pub fn incompatibility(old: &StructType, new: &StructType, mapping: Mapping) -> Option<String> {
    old.fields().iter().find_map(|was| {
        let name = mapping.physical_name(was);
        let Some(is) = new.fields().iter().find(|f| mapping.physical_name(f) == name) else {
            return Some(format!("the column `{}` is gone", was.name));
        };
        type_incompatibility(&was.data_type, &is.data_type, mapping)
            .or_else(|| (was.nullable && !is.nullable).then(|| "no longer takes nulls".to_owned()))
            .map(|why| format!("the column `{}` {why}", was.name))
    })
}

fn type_incompatibility(old: &DataType, new: &DataType, mapping: Mapping) -> Option<String> {
    match (old, new) {
        (DataType::Struct(a), DataType::Struct(b)) => {
            incompatibility(a, b, mapping).map(|why| format!("changed: in it {why}"))
        }
        (DataType::Array(a), DataType::Array(b)) => type_incompatibility(&a.element, &b.element, mapping),
        (DataType::Map(a), DataType::Map(b)) => {
            type_incompatibility(&a.key, &b.key, mapping).or_else(|| type_incompatibility(&a.value, &b.value, mapping))
        }
        (DataType::Primitive(a), DataType::Primitive(b)) if type_widening::is_change(*a, *b) => None,
        (a, b) => (a != b).then(|| format!("was of type {a} and is of type {b}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::actions::parse_commit;

    fn changes(lines: &[&str]) -> Vec<(Change, String, Option<String>, Option<String>)> {
        let id = |dv: Option<DeletionVector>| dv.map(|d| d.path_or_inline_dv);
        let file_changes = of_commit(&parse_commit(&lines.join("\n")).unwrap(), true).unwrap();
        file_changes
            .into_iter()
            .map(|c| (c.change, c.path, id(c.only), id(c.deletion_vector)))
            .collect()
    }

    fn add(path: &str, dv: &str, data_change: bool) -> String {
        format!(
            r#"{{"add":{{"path":"{path}","partitionValues":{{}},"size":1,"modificationTime":2,"dataChange":{data_change}{}}}}}"#,
            vector(dv)
        )
    }

    fn remove(path: &str, dv: &str) -> String {
        format!(
            r#"{{"remove":{{"path":"{path}","partitionValues":{{}},"dataChange":true{}}}}}"#,
            vector(dv)
        )
    }

    fn vector(dv: &str) -> String {
        match dv {
            "" => String::new(),
            dv => format!(
                r#","deletionVector":{{"storageType":"u","pathOrInlineDv":"{dv}","sizeInBytes":1,"cardinality":1}}"#
            ),
        }
    }

    #[test]
    fn change_files_say_all() {
        // P131
        let cdc = r#"{"cdc":{"path":"_change_data/a%20b","partitionValues":{},"size":1,"dataChange":false}}"#;
        let changed = changes(&[cdc, &add("x", "", true), &remove("y", "")]);
        assert_eq!(changed, [(Change::InFile, "_change_data/a b".to_owned(), None, None)]);
    }

    #[test]
    fn whole_files_and_differences_of_vectors() {
        // P131
        let some = |text: &str| Some(text.to_owned());
        let lines = [
            add("new", "", true),
            add("compacted", "", false),
            remove("old", "v0"),
            remove("a", ""),
            add("a", "v1", true),
            remove("b", "v1"),
            add("b", "", true),
            remove("c", "v1"),
            add("c", "v2", true),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let expected = [
            (Change::Delete, "a", some("v1"), None),
            (Change::Insert, "b", some("v1"), None),
            (Change::Delete, "c", some("v2"), some("v1")),
            (Change::Insert, "c", some("v1"), some("v2")),
            (Change::Delete, "old", None, some("v0")),
            (Change::Insert, "new", None, None),
        ];
        assert_eq!(
            changes(&lines),
            expected.map(|(c, p, only, dv)| (c, p.to_owned(), only, dv))
        );
    }

    #[test]
    fn a_merge_without_changes_has_none() {
        // P134
        let merge = |updated: &str| {
            format!(
                r#"{{"commitInfo":{{"operation":"MERGE","operationMetrics":{{"numTargetRowsInserted":"0","numTargetRowsUpdated":"{updated}","numTargetRowsDeleted":"0"}}}}}}"#
            )
        };
        assert_eq!(changes(&[&merge("0"), &add("x", "", true)]).len(), 0);
        assert_eq!(changes(&[&merge("1"), &add("x", "", true)]).len(), 1);
    }

    #[test]
    fn removes_must_name_their_partition() {
        // P029
        let actions = parse_commit(r#"{"remove":{"path":"x","dataChange":true}}"#).unwrap();
        assert_eq!(of_commit(&actions, true).unwrap_err().kind(), crate::Kind::CorruptLog);
        assert_eq!(of_commit(&actions, false).unwrap().len(), 1);
    }

    #[test]
    fn columns_may_come_but_not_go_or_change() {
        // P132
        let table = |fields: &[(&str, Primitive, bool)]| {
            StructType::new(fields.iter().map(|(n, t, null)| Field::new(*n, *t, *null)).collect())
        };
        let old = table(&[("a", Primitive::Long, true)]);
        let why = |fields: &[(&str, Primitive, bool)]| {
            incompatibility(&old, &table(fields), Mapping::None).unwrap_or_default()
        };
        assert_eq!(why(&[("b", Primitive::Long, true), ("a", Primitive::Long, true)]), "");
        assert!(why(&[("b", Primitive::Long, true)]).contains("`a` is gone"));
        assert!(why(&[("a", Primitive::String, true)]).contains("`a` was of type"));
        assert_eq!(
            why(&[(
                "a",
                Primitive::Decimal {
                    precision: 20,
                    scale: 0
                },
                true
            )]),
            "",
            "widened"
        );
        assert!(why(&[("a", Primitive::Long, false)]).contains("`a` no longer takes nulls"));
    }
}
