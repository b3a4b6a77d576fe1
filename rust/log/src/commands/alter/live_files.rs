//! Checks existing files before a change of the metadata (P155): their actions, and their footers
//! where files may store row ids.

use deltaplane_error::{Error, Result};
use deltaplane_protocol::features::iceberg_compat::SwitchedOn;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_store::Store;
use futures::{StreamExt, TryStreamExt, stream};
use parquet::file::metadata::ParquetMetaData;

use crate::checkpoint::parquet_file::ParquetFile;
use crate::{PlanColumns, Snapshot};

/// Footers that are read concurrently.
const FOOTERS_AT_ONCE: usize = 16;
/// The problem of a file whose row ids Iceberg readers wouldn't find.
const STORED: &str = "holds ids of its rows in columns that Iceberg readers don't know, as rows were rewritten before";

/// Refuses to enable a version of the Iceberg compatibility if a file doesn't conform to it.
pub(super) async fn check_for_iceberg(base: &Snapshot, version: &SwitchedOn) -> Result<()> {
    let mut batches = base.plan(None, PlanColumns::Logged);
    while let Some(batch) = batches.try_next().await? {
        let rows = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            if let Some(why) = unfit(&rows, row, version) {
                return Err(refused(version, rows.path(row)?, why));
            }
        }
        if !version.stored_ids.is_empty() {
            check_stored_ids(base, &rows, batch.num_rows(), version).await?;
        }
    }
    Ok(())
}

fn refused(version: &SwitchedOn, path: &str, why: &str) -> Error {
    Error::unsupported_feature(format!(
        "the table feature {} can't be switched on: the file `{path}` {why}; write the rows to a new table",
        version.feature
    ))
}

/// Checks each file for row id columns that Iceberg readers wouldn't recognise; files that were
/// never rewritten have none.
async fn check_stored_ids(base: &Snapshot, rows: &FileRows<'_>, count: usize, version: &SwitchedOn) -> Result<()> {
    let mut looks = Vec::with_capacity(count);
    for row in 0..count {
        let path = rows.path(row)?.to_owned();
        let (store, key) = base.store().resolve(&paths::decode(&path)?)?;
        looks.push(check_footer(store, key, path, version.clone()));
    }
    stream::iter(looks)
        .buffer_unordered(FOOTERS_AT_ONCE)
        .try_collect()
        .await
}

async fn check_footer(store: Store, key: String, path: String, version: SwitchedOn) -> Result<()> {
    let footer = ParquetFile::open(&store, key).await?.footer().await?;
    match lacks_id(footer.metadata(), &version.stored_ids) {
        true => Err(refused(&version, &path, STORED)),
        false => Ok(()),
    }
}

/// Whether one of these columns exists without its field id.
fn lacks_id(file: &ParquetMetaData, columns: &[(String, i32)]) -> bool {
    let fields = file.file_metadata().schema().get_fields();
    columns.iter().any(|(name, id)| {
        let field_info = fields.iter().map(|f| f.get_basic_info()).find(|f| f.name() == name);
        field_info.is_some_and(|f| !f.has_id() || f.id() != *id)
    })
}

fn unfit(rows: &FileRows<'_>, row: usize, version: &SwitchedOn) -> Option<&'static str> {
    if rows.deletion_vector(row).is_some() && !version.deletion_vectors {
        return Some("has a deletion vector");
    }
    if rows.num_records(row).is_none() {
        return Some("has no number of rows in its statistics");
    }
    version
        .partition_columns_in_files
        .then_some("was written without the partition columns")
}
