//! Figures and paths of a version's live files.

use std::sync::Arc;

use arrow::array::RecordBatch;
use deltaplane_error::Result;
use deltaplane_log::{PlanColumns, Snapshot};
use deltaplane_protocol::expr::Expr;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_protocol::prune::Pruner;
use deltaplane_store::Location;
use futures::TryStreamExt;

use crate::scan::pruner_of;
use crate::string_list::StringList;

/// The number of files.
///
/// # Errors
/// Those of reading the log.
pub async fn num_files(snapshot: &Snapshot) -> Result<usize> {
    snapshot.note_read(None);
    let plan = snapshot.plan(None, PlanColumns::Files);
    plan.try_fold(0, |n, batch| async move { Ok(n + batch.num_rows()) })
        .await
}

/// The number of rows, if every file's statistics tell: its physical rows without those that its
/// vector deletes (P166).
///
/// # Errors
/// Those of reading the log.
pub async fn num_records(snapshot: &Snapshot) -> Result<Option<i64>> {
    let of_batch = |sum: Option<i64>, batch: RecordBatch| {
        let rows = FileRows::new(&batch);
        (0..batch.num_rows()).try_fold(sum?, |sum: i64, row| sum.checked_add(rows.live_records(row)?))
    };
    snapshot.note_read(None);
    let plan = snapshot.plan(None, PlanColumns::Logged);
    plan.try_fold(Some(0), |sum, batch| async move { Ok(of_batch(sum, batch)) })
        .await
}

/// The decoded paths of the files that may hold a row which meets a condition.
///
/// # Errors
/// A condition that doesn't fit the table; those of reading the log.
pub async fn paths(snapshot: &Snapshot, predicate: Option<&Expr>) -> Result<StringList> {
    let mut list = StringList::default();
    let pruner = pruner_of(snapshot, predicate).await?;
    snapshot.note_read(pruner.as_ref());
    for_each_path(snapshot, pruner, |path| list.push(&[path])).await?;
    Ok(list)
}

/// The same below the table's location; paths that are absolute already stay as they are.
///
/// # Errors
/// As [`paths`].
pub async fn absolute_paths(snapshot: &Snapshot, predicate: Option<&Expr>) -> Result<StringList> {
    let mut list = StringList::default();
    let (root, pruner) = (
        snapshot.store().location().as_str(),
        pruner_of(snapshot, predicate).await?,
    );
    snapshot.note_read(pruner.as_ref());
    let absolute = |path: &str| match local(path) {
        Some(path) => list.push(&[path.as_str()]),
        None if path.starts_with('/') || path.contains("://") => list.push(&[path]),
        None => list.push(&[root, "/", path]),
    };
    for_each_path(snapshot, pruner, absolute).await?;
    Ok(list)
}

/// The local file that a decoded URI names, as in clones of local tables.
fn local(path: &str) -> Option<Location> {
    path.starts_with("file:/")
        .then(|| Location::from_decoded(path).ok())
        .flatten()
}

/// Calls a function with the decoded path of each file that a pruner keeps.
pub(crate) async fn for_each_path(
    snapshot: &Snapshot,
    pruner: Option<Arc<Pruner>>,
    mut take: impl FnMut(&str),
) -> Result<()> {
    let mut batches = snapshot.plan(pruner, PlanColumns::Files);
    while let Some(batch) = batches.try_next().await? {
        let rows = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            take(&paths::decoded(rows.path(row)?)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use deltaplane_store::block_on;

    use super::*;
    use crate::testing::{Table, above};

    #[test]
    fn files_and_rows_are_counted() {
        let table = Table::new();
        table.append(&[1, 2, 3]);
        table.append(&[11]);
        let snapshot = table.snapshot();
        assert_eq!(block_on(num_files(&snapshot)).unwrap(), 2);
        assert_eq!(block_on(num_records(&snapshot)).unwrap(), Some(4));
    }

    #[test]
    fn uris_of_local_files_become_paths() {
        for (uri, path) in [
            ("file:/a b%20/f", Some("/a b%20/f")),
            ("file:///a/f", Some("/a/f")),
            ("a/file:/f", None),
            ("s3://a/f", None),
        ] {
            assert_eq!(local(uri).as_ref().map(Location::as_str), path);
        }
    }

    #[test]
    fn paths_are_those_of_the_files_that_the_pruner_keeps() {
        let table = Table::new();
        table.append(&[1, 2, 3]);
        table.append(&[11]);
        let snapshot = table.snapshot();
        let texts = |list: StringList| list.iter().map(str::to_owned).collect::<Vec<_>>();
        let all = texts(block_on(paths(&snapshot, None)).unwrap());
        let some = texts(block_on(paths(&snapshot, Some(&above(5)))).unwrap());
        assert_eq!((all.len(), some.len()), (2, 1));
        assert!(all.contains(&some[0]));
        let absolute = texts(block_on(absolute_paths(&snapshot, Some(&above(5)))).unwrap());
        assert_eq!(
            absolute,
            [format!("{}/{}", snapshot.store().location().as_str(), some[0])]
        );
    }
}
