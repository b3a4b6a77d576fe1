//! Files that something else than the log lists: the rows of an inventory, and Parquet files that
//! become a table.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use deltaplane_data::footer_schema;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::schema::StructType;
use deltaplane_protocol::schema_changes::merge;
use deltaplane_store::{ObjectInfo, Store};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

/// Footers that are read at once: enough to hide a store's latency.
const FOOTERS_AT_ONCE: usize = 32;

/// The columns of these Parquet files together: each has one type in all files that have it.
///
/// # Errors
/// `SchemaMismatch`, which names the file, for a column of two types; errors of reading a footer.
pub async fn common_schema(store: &Store, files: Vec<String>) -> Result<StructType> {
    let schemas = stream::iter(files).map(|key| {
        let store = store.clone();
        async move { Ok::<_, Error>((footer_schema(&store, &key).await?, key)) }
    });
    let merged = schemas
        .buffered(FOOTERS_AT_ONCE)
        .try_fold(None, |so_far, (schema, key)| async move {
            let Some(so_far) = so_far else { return Ok(Some(schema)) };
            let merged = merge::merge_equal(&so_far, &schema).map_err(|e| e.with_path(key))?;
            Ok(Some(merged))
        });
    Ok(merged.await?.unwrap_or_default())
}

/// The files of an inventory, whose batches have the columns `path`, `length` and
/// `modificationTime`, in this order. The stream fails with `InvalidArgument` for other batches.
pub fn inventory<I>(batches: I) -> BoxStream<'static, Result<ObjectInfo>>
where
    I: Iterator<Item = Result<RecordBatch>> + Send + 'static,
{
    stream::iter(batches)
        .map(|batch| Ok(stream::iter(infos(&batch?)?).map(Ok)))
        .try_flatten()
        .boxed()
}

fn infos(batch: &RecordBatch) -> Result<Vec<ObjectInfo>> {
    let wrong = || Error::invalid_argument("an inventory has the columns path, length and modificationTime");
    let [path, length, time] = batch.columns() else {
        return Err(wrong());
    };
    let path = path.as_string_opt::<i32>().ok_or_else(wrong)?;
    let length = length.as_primitive_opt::<Int64Type>().ok_or_else(wrong)?;
    let time = time.as_primitive_opt::<Int64Type>().ok_or_else(wrong)?;
    if path.null_count() + time.null_count() > 0 {
        return Err(Error::invalid_argument(
            "an inventory says of every file where it is and when it was written",
        ));
    }
    let info = |row| ObjectInfo {
        key: path.value(row).to_owned(),
        size_bytes: u64::try_from(length.value(row)).unwrap_or(0),
        modified_ms: time.value(row),
        etag: None,
    };
    Ok((0..batch.num_rows()).map(info).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use deltaplane_error::Kind;
    use deltaplane_store::block_on;

    use super::*;
    use crate::file_list::for_each_path;
    use crate::testing::Table;

    fn listed(paths: Vec<Option<&str>>, times: Vec<i64>) -> Result<Vec<ObjectInfo>> {
        let lengths = Int64Array::from(vec![-1; times.len()]);
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("path", Arc::new(StringArray::from(paths)) as ArrayRef, true),
            ("length", Arc::new(lengths) as ArrayRef, true),
            ("modificationTime", Arc::new(Int64Array::from(times)) as ArrayRef, true),
        ]);
        block_on(inventory([Ok(batch.unwrap())].into_iter()).try_collect())
    }

    #[test]
    fn rows_of_an_inventory_are_files() {
        let files = listed(vec![Some("a"), Some("p=1/b")], vec![5, 6]).unwrap();
        let files: Vec<_> = files
            .iter()
            .map(|f| (f.key.as_str(), f.size_bytes, f.modified_ms))
            .collect();
        assert_eq!(files, [("a", 0, 5), ("p=1/b", 0, 6)]);
    }

    #[test]
    fn an_inventory_without_paths_or_with_other_columns_is_refused() {
        let e = listed(vec![None], vec![5]).unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidArgument);
        let other = RecordBatch::try_from_iter([("path", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]);
        let result: Result<Vec<ObjectInfo>> = block_on(inventory([Ok(other.unwrap())].into_iter()).try_collect());
        assert_eq!(result.unwrap_err().kind(), Kind::InvalidArgument);
    }

    #[test]
    fn files_have_the_columns_of_all_of_them() {
        let table = Table::new();
        table.append(&[1]);
        table.append(&[2]);
        let mut files = Vec::new();
        block_on(for_each_path(&table.snapshot(), None, |path| {
            files.push(path.to_owned())
        }))
        .unwrap();
        let schema = block_on(common_schema(&table.store, files)).unwrap();
        let names: Vec<_> = schema.fields().iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["id", "name"]);
        assert!(
            block_on(common_schema(&table.store, Vec::new()))
                .unwrap()
                .fields()
                .is_empty()
        );
    }
}
