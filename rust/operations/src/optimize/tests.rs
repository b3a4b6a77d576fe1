//! OPTIMIZE over tables in temporary directories, beside a DELETE by vectors.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use deltaplane_protocol::hidden_columns::FILE;
use deltaplane_store::block_on;
use futures::TryStreamExt;
use serde_json::json;

use super::Optimize;
use super::groups::move_group;
use crate::scan::{Scan, ScanRequest};
use crate::testing::{Table, ids};

const VECTORS: (&str, &str) = ("delta.enableDeletionVectors", "true");

/// A table of two small files.
fn table() -> Table {
    let table = Table::new();
    table.append_with(&[1, 2, 3], &[VECTORS]);
    table.append(&[4, 5]);
    table
}

/// OPTIMIZE of all files, with rows ordered by these columns.
fn begin(table: &Table, columns: &[&str]) -> Optimize {
    let rewrite = json!({"operation": "OPTIMIZE", "data_change": false});
    let request = json!({"rewrite": rewrite, "columns": columns, "most_deleted": 0.05});
    Optimize::begin(&table.snapshot(), serde_json::from_value(request).unwrap()).unwrap()
}

fn newest_ids(table: &Table) -> Vec<i64> {
    let mut read = ids(Scan::new(&table.snapshot(), ScanRequest::default()).unwrap().stream());
    read.sort_unstable();
    read
}

fn num_data_files(table: &Table) -> usize {
    let listing = async { table.store.list_all("").await?.try_collect::<Vec<_>>().await };
    let keys = block_on(listing).unwrap().into_iter().map(|o| o.key);
    keys.filter(|key| key.ends_with(".parquet") && !key.starts_with("_delta_log/"))
        .count()
}

#[test]
fn groups_are_moved_and_committed() {
    let table = table();
    let optimize = begin(&table, &[]);
    let summary = optimize.summary();
    assert_eq!(
        (summary.groups, summary.files, summary.strategy),
        (1, 2, "preserveLocality")
    );
    let files = optimize.read_after(None).unwrap();
    assert_eq!(files, (1, summary.bytes));
    optimize.start(1, 1 << 20).unwrap();
    assert_eq!(optimize.step().unwrap(), Some(summary.bytes));
    assert_eq!(optimize.step().unwrap(), None);
    let done = optimize.commit().unwrap();
    assert_eq!((done.version, done.removed.len(), done.added.len()), (2, 2, 1));
    assert_eq!(newest_ids(&table), [1, 2, 3, 4, 5]);
}

#[test]
fn rows_that_others_delete_meanwhile_are_deleted_in_the_new_files() {
    // P124
    let table = Table::new();
    let first = table.append_with(&[1, 2, 3], &[VECTORS]).remove(0);
    table.append(&[4, 5]);
    for columns in [&[][..], &["id"]] {
        let ordered = !columns.is_empty();
        if ordered {
            table.append(&[6, 7]);
        }
        let optimize = begin(&table, columns);
        optimize.start(1, 1 << 20).unwrap();
        while optimize.step().unwrap().is_some() {}
        let path = match ordered {
            false => first.path.clone(),
            true => newest_file_of(&table),
        };
        table.delete_first_row_of(&path);
        let before = newest_ids(&table);
        optimize.commit().unwrap();
        assert_eq!(newest_ids(&table), before);
    }
}

/// The path of the file of the newest append.
fn newest_file_of(table: &Table) -> String {
    let columns = Some(vec![FILE.to_owned(), "id".to_owned()]);
    let scan = Scan::new(
        &table.snapshot(),
        ScanRequest {
            columns,
            ..ScanRequest::default()
        },
    );
    let batches: Vec<RecordBatch> = block_on(scan.unwrap().stream().try_collect()).unwrap();
    let path_in = |batch: &RecordBatch| {
        let ids = batch.column(1).as_primitive::<Int64Type>();
        ids.values()
            .contains(&7)
            .then(|| batch.column(0).as_string::<i32>().value(0).to_owned())
    };
    batches.iter().find_map(path_in).unwrap()
}

#[test]
fn a_group_that_a_task_moved_is_adopted() {
    let table = table();
    let optimize = begin(&table, &[]);
    let spec = serde_json::to_string(&optimize.task_spec().unwrap()).unwrap();
    let group = serde_json::to_string(optimize.groups().first().unwrap()).unwrap();
    let moved = move_group(
        table.store.clone(),
        &serde_json::from_str(&spec).unwrap(),
        &serde_json::from_str(&group).unwrap(),
        1 << 20,
    );
    let moved = serde_json::to_string(&moved.unwrap()).unwrap();
    assert_eq!(
        optimize.adopt(serde_json::from_str(&moved).unwrap()).unwrap(),
        optimize.summary().bytes
    );
    assert_eq!(optimize.commit().unwrap().version, 2);
    assert_eq!(newest_ids(&table), [1, 2, 3, 4, 5]);
}

#[test]
fn an_aborted_run_leaves_no_files() {
    let table = table();
    let optimize = begin(&table, &[]);
    optimize.start(1, 1 << 20).unwrap();
    while optimize.step().unwrap().is_some() {}
    assert_eq!(num_data_files(&table), 3);
    optimize.abort(false).unwrap();
    assert_eq!(num_data_files(&table), 2);
    assert_eq!(table.snapshot().version(), 1);
}
