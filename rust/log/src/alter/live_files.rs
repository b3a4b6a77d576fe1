//! What a change of the metadata asks of the files that are there (P155).

use deltaplane_error::{Error, Result};
use deltaplane_protocol::features::iceberg_compat::SwitchedOn;
use deltaplane_protocol::files::FileRows;
use futures::TryStreamExt;

use crate::{PlanColumns, Snapshot};

/// Refuses to switch a version of the compatibility with Iceberg on where a file doesn't meet it.
pub(super) async fn check_for_iceberg(base: &Snapshot, version: SwitchedOn) -> Result<()> {
    let mut batches = base.plan(None, PlanColumns::Logged);
    while let Some(batch) = batches.try_next().await? {
        let rows = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            if let Some(why) = unfit(&rows, row, version) {
                return Err(Error::unsupported_feature(format!(
                    "the table feature {} can't be switched on: the file `{}` {why}; write the rows to a new table",
                    version.feature,
                    rows.path(row)?
                )));
            }
        }
    }
    Ok(())
}

fn unfit(rows: &FileRows<'_>, row: usize, version: SwitchedOn) -> Option<&'static str> {
    if rows.deletion_vector(row).is_some() {
        return Some("has a deletion vector");
    }
    if rows.num_records(row).is_none() {
        return Some("has no number of rows in its statistics");
    }
    version
        .partition_columns_in_files
        .then_some("was written without the partition columns")
}
