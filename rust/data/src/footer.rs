//! Statistics of a Parquet file that someone else wrote, such as Spark's executors: its measured columns are
//! read once and go through the same statistics as our own files, so they are exact and equal in form.

use std::sync::Arc;

use deltaplane_error::Result;
use deltaplane_protocol::schema::StructType;
use deltaplane_store::Store;
use futures::TryStreamExt;

use crate::read::{FileRead, ReadSpec, read_file};
use crate::stats;
use crate::types::without_void;
use crate::write::WriteSpec;

/// Rows and the text of `add.stats` of the Parquet file at this key.
///
/// # Errors
/// `FileMissing`, `CorruptFile` for a file that isn't readable with the table's schema; the store's errors.
pub async fn footer_stats(store: &Store, key: &str, spec: &WriteSpec) -> Result<(u64, String)> {
    let stored = spec
        .schema
        .fields()
        .iter()
        .filter(|f| {
            !spec
                .partition_columns
                .iter()
                .any(|p| p.to_lowercase() == f.name.to_lowercase())
        })
        .cloned()
        .collect();
    let stored = Arc::new(without_void(&StructType::new(stored)));
    let mut columns = stats::new_columns(&stored, &[], spec.mapping, &spec.stats);
    let measured = stored.fields().iter().zip(&columns).filter(|(_, c)| c.is_some());
    let names = measured.map(|(f, _)| f.name.clone()).collect();
    let read = ReadSpec {
        columns: Some(names),
        mapping: spec.mapping,
        ..ReadSpec::new(stored, Vec::new())
    };
    let file = FileRead {
        path: key.to_owned(),
        ..FileRead::default()
    };
    let mut batches = read_file(store, &file, &Arc::new(read)).await?;
    let mut rows = 0;
    while let Some(batch) = batches.try_next().await? {
        rows += u64::try_from(batch.num_rows()).unwrap_or(0);
        for (column, array) in columns.iter_mut().flatten().zip(batch.columns()) {
            column.update(array)?;
        }
    }
    Ok((rows, stats::to_json(rows, &columns)))
}
