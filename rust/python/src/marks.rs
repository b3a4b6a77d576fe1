//! Deleting rows by marking them: the vectors are the data crate's, the commit is the log's. Boundary.

use std::collections::HashMap;

use deltaplane_data::{Marked, mark_rows};
use deltaplane_error::{Error, Result};
use deltaplane_log::{Operation, PlanColumns, Snapshot as Inner, Staged, commit, now_ms};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::conflict::ReadSet;
use deltaplane_protocol::deletion_vectors::Positions;
use deltaplane_protocol::features::deletion_vectors::check_may_mark;
use deltaplane_protocol::files::FileRows;
use deltaplane_protocol::paths;
use deltaplane_store::block_on;
use futures::TryStreamExt;
use pyo3::prelude::*;
use serde_json::json;

use crate::errors::run;
use crate::snapshot::Snapshot;

/// Deletes rows, given as positions by decoded path of their file, in one commit; returns its version.
#[pyfunction]
pub(crate) fn mark_deleted(py: Python<'_>, snapshot: &Snapshot, rows: HashMap<String, Vec<u64>>) -> PyResult<u64> {
    run(py, || block_on(mark(&snapshot.inner, rows)))
}

async fn mark(snapshot: &Inner, rows: HashMap<String, Vec<u64>>) -> Result<u64> {
    let (store, state) = (snapshot.store(), snapshot.state());
    state.check_write()?;
    check_may_mark(state.protocol(), state.metadata())?;
    let marked = mark_rows(store, files(snapshot, rows).await?, now_ms()).await?;
    let vector_file = marked.vector_file.clone();
    let done = commit(store, Some(snapshot.clone()), &staged(marked)).await;
    if let (Err(_), Some(file)) = (&done, vector_file) {
        store.delete(&file).await?;
    }
    Ok(done?.version)
}

/// The live files of these paths with the rows to delete.
async fn files(snapshot: &Inner, mut rows: HashMap<String, Vec<u64>>) -> Result<Vec<(Add, Positions)>> {
    let mut found = Vec::with_capacity(rows.len());
    let mut batches = snapshot.plan(None, PlanColumns::Logged);
    while let Some(batch) = batches.try_next().await? {
        let adds = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            if let Some(positions) = rows.remove(&paths::decode(adds.path(row)?)?) {
                found.push((adds.add(row)?, positions.into_iter().collect()));
            }
        }
    }
    match rows.into_keys().next() {
        None => Ok(found),
        Some(path) => {
            Err(Error::invalid_argument("rows can be deleted only from files of the version").with_path(path))
        }
    }
}

fn staged(marked: Marked) -> Staged {
    let metrics = [
        ("numDeletedRows", marked.deleted_rows.to_string()),
        ("numDeletionVectorsAdded", marked.adds.len().to_string()),
        (
            "numRemovedFiles",
            (marked.removes.len() - marked.adds.len()).to_string(),
        ),
    ];
    Staged {
        adds: marked.adds,
        removes: marked.removes,
        read: ReadSet::Table,
        operation: Operation {
            name: "DELETE".to_owned(),
            metrics: metrics.into_iter().map(|(k, v)| (k.to_owned(), json!(v))).collect(),
            ..Operation::default()
        },
        engine_info: concat!("deltaplane/", env!("CARGO_PKG_VERSION")).to_owned(),
        ..Staged::default()
    }
}
