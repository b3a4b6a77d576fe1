//! Figures and paths of a version's live files.

use std::sync::Arc;

use arrow::array::RecordBatch;
use deltaplane_error::Result;
use deltaplane_log::{PlanColumns, Snapshot};
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_protocol::prune::Pruner;
use futures::TryStreamExt;

/// The number of files.
///
/// # Errors
/// Those of reading the log.
pub async fn num_files(snapshot: &Snapshot) -> Result<usize> {
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
    let plan = snapshot.plan(None, PlanColumns::Logged);
    plan.try_fold(Some(0), |sum, batch| async move { Ok(of_batch(sum, batch)) })
        .await
}

/// Calls a function with the decoded path of each file that a pruner keeps.
///
/// # Errors
/// Those of reading the log.
pub async fn for_each_path(snapshot: &Snapshot, pruner: Option<Arc<Pruner>>, mut take: impl FnMut(&str)) -> Result<()> {
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
    use crate::scan::bind;
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
    fn paths_are_those_of_the_files_that_the_pruner_keeps() {
        let table = Table::new();
        table.append(&[1, 2, 3]);
        table.append(&[11]);
        let snapshot = table.snapshot();
        let pruner = bind(&snapshot, Some(&above(5))).unwrap().map(|(_, pruner)| pruner);
        let (mut all, mut some) = (Vec::new(), Vec::new());
        block_on(for_each_path(&snapshot, None, |path| all.push(path.to_owned()))).unwrap();
        block_on(for_each_path(&snapshot, pruner, |path| some.push(path.to_owned()))).unwrap();
        assert_eq!((all.len(), some.len()), (2, 1));
        assert!(all.contains(&some[0]));
    }
}
