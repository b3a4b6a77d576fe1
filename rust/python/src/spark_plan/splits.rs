//! Scans cut into splits for readers on other machines: each is the JSON text of some files.
//! Knows no Python. Called by `spark_plan`; the texts come back to `files`.

use std::collections::BTreeMap;

use deltaplane_data::FileRead;
use deltaplane_error::{Error, Result};
use deltaplane_log::{PlanColumns, Snapshot};
use deltaplane_protocol::files::FileRows;
use deltaplane_protocol::paths;
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

use crate::scan::bind;

/// What opening a file costs a reader, in bytes it could have read instead: keeps splits of tiny files short.
const OPEN_COST: u64 = 4 << 20;

#[derive(Serialize, Deserialize)]
struct SplitFile {
    path: String,
    size: u64,
    values: BTreeMap<String, Option<String>>,
}

/// The files that can match, in splits of about so many bytes.
pub async fn splits(snapshot: &Snapshot, predicate: Option<&str>, target_bytes: u64) -> Result<Vec<String>> {
    let pruner = bind(snapshot, predicate)?.map(|(_, pruner)| pruner);
    let mut batches = snapshot.plan(pruner, PlanColumns::Logged);
    let (mut out, mut open, mut weight) = (Vec::new(), Vec::new(), 0);
    while let Some(batch) = batches.try_next().await? {
        let rows = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            let file = SplitFile {
                path: paths::decode(rows.path(row)?)?,
                size: rows.size(row).unsigned_abs(),
                values: rows.partition_values(row),
            };
            if weight > 0 && weight + file.size + OPEN_COST > target_bytes {
                out.push(text(&std::mem::take(&mut open))?);
                weight = 0;
            }
            weight += file.size + OPEN_COST;
            open.push(file);
        }
    }
    if !open.is_empty() {
        out.push(text(&open)?);
    }
    Ok(out)
}

fn text(files: &[SplitFile]) -> Result<String> {
    serde_json::to_string(files).map_err(|e| Error::internal(format!("writing a split: {e}")))
}

/// The files of a split.
pub fn files(split: &str) -> Result<Vec<FileRead>> {
    let files: Vec<SplitFile> =
        serde_json::from_str(split).map_err(|e| Error::invalid_argument(format!("this is no split of a scan: {e}")))?;
    let read = |f: SplitFile| FileRead {
        path: f.path,
        size_bytes: f.size,
        partition_values: f.values,
        ..FileRead::default()
    };
    Ok(files.into_iter().map(read).collect())
}
