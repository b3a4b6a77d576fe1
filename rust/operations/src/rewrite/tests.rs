//! A command's states over tables in temporary directories: rows after the commit, and files in the
//! store.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema};
use deltaplane_error::Kind;
use deltaplane_log::{Environment, PlanColumns, RewriteRequest, Snapshot, with_environment};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::hidden_columns::{FILE, ROW};
use deltaplane_store::block_on;
use futures::TryStreamExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use uuid::Uuid;

use super::command::adds_of;
use super::tasks::{TaskSpec, take_out_rows, write_rows};
use super::{Rewrite, Selected, Staged};
use crate::optimize::Optimize;
use crate::scan::{Scan, ScanRequest};
use crate::testing::{Table, ids, rows};

const VECTORS: (&str, &str) = ("delta.enableDeletionVectors", "true");
const ROW_IDS: (&str, &str) = ("delta.enableRowTracking", "true");

/// A table of one file with these rows, and the file.
fn table(ids: &[i64], properties: &[(&str, &str)]) -> (Table, Add) {
    let table = Table::new();
    let add = table.append_with(ids, properties).remove(0);
    (table, add)
}

fn begin_on(snapshot: &Snapshot, request: Value) -> Rewrite {
    let request: RewriteRequest = serde_json::from_value(request).unwrap();
    Rewrite::begin(snapshot, request).unwrap()
}

fn begin(table: &Table, operation: &str) -> Rewrite {
    begin_on(&table.snapshot(), json!({"operation": operation}))
}

/// Names rows of a file by their positions.
fn positions(file: &Add, rows: &[i64]) -> RecordBatch {
    let paths = rows.iter().map(|_| file.path.as_str());
    RecordBatch::try_from_iter([
        (FILE, Arc::new(StringArray::from_iter_values(paths)) as ArrayRef),
        (ROW, Arc::new(Int64Array::from(rows.to_vec())) as ArrayRef),
    ])
    .unwrap()
}

/// A command that has selected these rows of a file.
fn select(rewrite: Rewrite, file: &Add, rows: &[i64]) -> Selected {
    let named = [Ok(positions(file, rows))].into_iter();
    let (selected, count) = rewrite.select_rows(named).unwrap();
    assert_eq!(count, rows.len() as u64);
    selected
}

/// A DELETE of these rows whose files are complete.
fn staged_delete(table: &Table, file: &Add, rows: &[i64]) -> Staged {
    let mut selected = select(begin(table, "DELETE"), file, rows);
    selected.copy_others().unwrap();
    selected.finish().unwrap()
}

fn commit(staged: Staged) -> deltaplane_error::Result<u64> {
    staged.commit(BTreeMap::new())
}

fn newest_ids(table: &Table) -> Vec<i64> {
    let scan = Scan::new(&table.snapshot(), ScanRequest::default()).unwrap();
    let mut read = ids(scan.stream());
    read.sort_unstable();
    read
}

/// How many data files and files of deletion vectors are in the store.
fn num_files(table: &Table) -> (usize, usize) {
    let listing = async { table.store.list_all("").await?.try_collect::<Vec<_>>().await };
    let keys = block_on(listing).unwrap().into_iter().map(|o| o.key);
    let keys: Vec<String> = keys.filter(|key| !key.starts_with("_delta_log/")).collect();
    let vectors = keys.iter().filter(|key| key.ends_with(".bin")).count();
    (keys.len() - vectors, vectors)
}

#[test]
fn delete_by_vector_keeps_the_file() {
    // P121
    let (table, file) = table(&[1, 2, 3, 4], &[VECTORS]);
    let selected = select(begin(&table, "DELETE"), &file, &[1, 3]);
    assert!(!selected.copies_rows());
    assert_eq!((selected.num_files(), selected.num_bytes()), (1, file.size));
    let staged = selected.finish().unwrap();
    let summary = staged.summary();
    assert_eq!((summary.num_deletion_vectors_added, summary.num_added_files), (1, 0));
    assert_eq!((summary.num_removed_files, summary.num_copied_rows), (0, 0));
    assert_eq!(commit(staged).unwrap(), 1);
    assert_eq!(newest_ids(&table), [1, 3]);
    assert_eq!(num_files(&table), (1, 1));
}

#[test]
fn delete_by_copy_writes_the_other_rows_to_a_new_file() {
    let (table, file) = table(&[1, 2, 3, 4], &[]);
    let mut selected = select(begin(&table, "DELETE"), &file, &[0, 2]);
    assert!(selected.copies_rows());
    selected.copy_others().unwrap();
    let staged = selected.finish().unwrap();
    let summary = serde_json::to_value(staged.summary()).unwrap();
    assert_eq!(summary["numRemovedFiles"], 1);
    assert_eq!(summary["numRemovedBytes"], file.size);
    assert_eq!(summary["numAddedFiles"], 1);
    assert_eq!(summary["numCopiedRows"], 2);
    assert_eq!(summary["numDeletionVectorsAdded"], 0);
    assert_eq!(commit(staged).unwrap(), 1);
    assert_eq!(newest_ids(&table), [2, 4]);
    assert_eq!(num_files(&table), (2, 0));
}

#[test]
fn whole_files_are_selected_by_a_command_without_a_condition() {
    let (table, _) = table(&[1, 2], &[VECTORS]);
    table.append(&[3]);
    let (selected, rows) = begin(&table, "DELETE").select_files().unwrap();
    assert_eq!((selected.num_files(), rows), (2, Some(3)));
    assert_eq!(commit(selected.finish().unwrap()).unwrap(), 2);
    assert_eq!(newest_ids(&table), [0_i64; 0]);
}

#[test]
fn update_writes_new_rows_in_place_of_the_selected_ones() {
    let (table, file) = table(&[1, 2, 3], &[VECTORS]);
    let mut selected = select(begin(&table, "UPDATE"), &file, &[0]);
    assert_eq!(ids(selected.rows().unwrap().stream()), [1]);
    selected
        .write([Ok(rows(&[10]))].into_iter(), Some("update_postimage"))
        .unwrap();
    assert_eq!(selected.written_rows(), 1);
    assert_eq!(commit(selected.finish().unwrap()).unwrap(), 1);
    assert_eq!(newest_ids(&table), [2, 3, 10]);
}

#[test]
fn patch_gives_one_column_new_values_and_keeps_the_other() {
    let (table, file) = table(&[1, 2, 3], &[]);
    let mut selected = select(begin(&table, "UPDATE"), &file, &[1]);
    let columns = vec!["name".to_owned()];
    assert_eq!(
        selected.patch_columns(&columns, file.size + 1).unwrap(),
        0,
        "the file is too small"
    );
    assert_eq!(selected.patch_columns(&columns, 0).unwrap(), 1);
    assert!(!selected.copies_rows());
    let old: Vec<RecordBatch> = block_on(selected.patched_rows(columns).unwrap().stream().try_collect()).unwrap();
    let values = old.into_iter().map(|batch| Ok(renamed(&batch)));
    let (patched, written) = selected.patches().unwrap().unwrap().write(values);
    written.unwrap();
    assert_eq!((patched.rows, patched.copied_rows, patched.adds.len()), (1, 2, 1));
    selected.adopt_patched(patched);
    assert_eq!(commit(selected.finish().unwrap()).unwrap(), 1);
    assert_eq!(newest_ids(&table), [1, 2, 3]);
    let scan = Scan::new(&table.snapshot(), ScanRequest::default()).unwrap();
    let read: Vec<RecordBatch> = block_on(scan.stream().try_collect()).unwrap();
    let names = read
        .iter()
        .flat_map(|b| b.column(1).as_string::<i32>().iter().flatten().map(str::to_owned));
    assert_eq!(names.collect::<Vec<_>>(), ["name 1", "patched", "name 3"]);
}

/// The batch with another name in each row.
fn renamed(batch: &RecordBatch) -> RecordBatch {
    let names: ArrayRef = Arc::new(StringArray::from(vec!["patched"; batch.num_rows()]));
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        let column = if field.name() == "name" { &names } else { column };
        column.clone()
    });
    RecordBatch::try_new(schema.clone(), columns.collect()).unwrap()
}

#[test]
fn a_lost_race_is_reapplied_on_the_vector_of_the_winner() {
    // P121, P124
    let (table, file) = table(&[1, 2, 3, 4], &[VECTORS]);
    let (first, second) = (
        staged_delete(&table, &file, &[0]),
        staged_delete(&table, &file, &[2, 3]),
    );
    assert_eq!(commit(first).unwrap(), 1);
    assert_eq!(commit(second).unwrap(), 2);
    assert_eq!(newest_ids(&table), [2]);
}

#[test]
fn a_row_that_the_winner_deleted_is_a_conflict_and_leaves_no_files() {
    let (table, file) = table(&[1, 2, 3, 4], &[VECTORS]);
    let (first, second) = (
        staged_delete(&table, &file, &[0, 1]),
        staged_delete(&table, &file, &[1, 2]),
    );
    assert_eq!(num_files(&table), (1, 2));
    assert_eq!(commit(first).unwrap(), 1);
    assert_eq!(commit(second).unwrap_err().kind(), Kind::ConcurrentDeleteDelete);
    assert_eq!(newest_ids(&table), [3, 4]);
    assert_eq!(num_files(&table), (1, 1));
}

#[test]
fn deleted_rows_are_found_by_id_in_files_to_which_the_winner_moved_them() {
    // P028, P142
    let (table, file) = table(&[1, 2, 3], &[VECTORS, ROW_IDS]);
    table.append(&[4, 5]);
    let staged = staged_delete(&table, &file, &[1]);
    optimize(&table);
    assert_eq!(commit(staged).unwrap(), 3);
    assert_eq!(newest_ids(&table), [1, 3, 4, 5]);
}

#[test]
fn a_row_that_winners_moved_and_deleted_is_a_conflict() {
    // P028, P142
    let (table, file) = table(&[1, 2, 3], &[VECTORS, ROW_IDS]);
    table.append(&[4, 5]);
    let staged = staged_delete(&table, &file, &[1, 2]);
    optimize(&table);
    let moved = live_files(&table).remove(0);
    let second = newest_position(&table, 2);
    assert_eq!(commit(staged_delete(&table, &moved, &[second])).unwrap(), 3);
    assert_eq!(commit(staged).unwrap_err().kind(), Kind::ConcurrentDeleteDelete);
    assert_eq!(newest_ids(&table), [1, 3, 4, 5]);
}

/// Moves all rows to one file.
fn optimize(table: &Table) {
    let rewrite = json!({"operation": "OPTIMIZE", "data_change": false});
    let request = serde_json::from_value(json!({"rewrite": rewrite, "most_deleted": 0.05})).unwrap();
    let optimize = Optimize::begin(&table.snapshot(), request).unwrap();
    optimize.start(1, 1 << 20).unwrap();
    assert!(optimize.step().unwrap().is_some());
    let moved = optimize.commit().unwrap();
    assert_eq!((moved.removed.len(), moved.added.len()), (2, 1));
}

/// The files of the newest version.
fn live_files(table: &Table) -> Vec<Add> {
    let batches = table.snapshot().plan(None, PlanColumns::Logged).try_collect::<Vec<_>>();
    let batches = block_on(batches).unwrap();
    batches.iter().flat_map(|batch| adds_of(batch).unwrap()).collect()
}

/// The position of the row with this `id` in the only file of the newest version.
fn newest_position(table: &Table, id: i64) -> i64 {
    let scan = Scan::new(&table.snapshot(), ScanRequest::default()).unwrap();
    let position = ids(scan.stream()).into_iter().position(|other| other == id);
    i64::try_from(position.unwrap()).unwrap()
}

#[test]
fn files_of_a_command_that_is_dropped_are_deleted() {
    let (table, file) = table(&[1, 2, 3, 4], &[VECTORS]);
    let staged = staged_delete(&table, &file, &[0]);
    assert_eq!(num_files(&table), (1, 1));
    drop(staged);
    assert_eq!(num_files(&table), (1, 0));
    let mut selected = select(begin(&table, "UPDATE"), &file, &[1]);
    selected.write([Ok(rows(&[20]))].into_iter(), None).unwrap();
    let staged = selected.finish().unwrap();
    assert_eq!(num_files(&table), (2, 1));
    drop(staged);
    assert_eq!(num_files(&table), (1, 0));
    let mut selected = select(begin(&table, "UPDATE"), &file, &[1]);
    selected.write([Ok(rows(&[20]))].into_iter(), None).unwrap();
    drop(selected);
    assert_eq!(num_files(&table), (1, 0));
    assert_eq!(newest_ids(&table), [1, 2, 3, 4]);
}

/// A clock that panics when it is read for the `left`-th time.
struct PanickingClock {
    left: Cell<usize>,
}

impl Environment for PanickingClock {
    fn now_ms(&self) -> i64 {
        assert!(self.left.get() > 1, "the clock is read once too often");
        self.left.set(self.left.get() - 1);
        1_700_000_000_000
    }
    fn random(&self) -> u128 {
        Uuid::new_v4().as_u128()
    }
    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

#[test]
fn files_of_a_commit_that_panicked_stay_since_it_may_have_happened() {
    let mut panicked_committed = 0;
    for left in 1.. {
        // A checkpoint after the commit reads the clock.
        let (table, file) = table(&[1, 2, 3, 4], &[VECTORS, ("delta.checkpointInterval", "1")]);
        let staged = staged_delete(&table, &file, &[0]);
        let ended = {
            let left = Cell::new(left);
            let _environment = with_environment(Rc::new(PanickingClock { left }));
            catch_unwind(AssertUnwindSafe(|| commit(staged)))
        };
        assert_eq!(num_files(&table), (1, 1), "the vector stays");
        let committed = table.snapshot().version() == 1;
        assert_eq!(newest_ids(&table), [1, 2, 3, 4][usize::from(committed)..]);
        if ended.is_ok() {
            break;
        }
        panicked_committed += usize::from(committed);
    }
    assert!(panicked_committed > 0, "no panic came after the commit");
}

#[test]
fn a_dry_run_writes_nothing_and_counts_what_it_would_write() {
    let (table, file) = table(&[1, 2, 3, 4], &[]);
    let request = json!({"operation": "DELETE", "dry_run": true});
    let mut selected = select(begin_on(&table.snapshot(), request), &file, &[0]);
    selected.copy_others().unwrap();
    let staged = selected.finish().unwrap();
    assert_eq!(staged.summary().num_copied_rows, 3);
    let planned = staged.dry_run(BTreeMap::new()).unwrap();
    assert_eq!(planned.files_written, 1);
    assert_eq!(num_files(&table), (1, 0));
    assert_eq!((table.snapshot().version(), newest_ids(&table)), (0, vec![1, 2, 3, 4]));
}

#[test]
fn rows_of_a_file_of_another_version_are_refused() {
    let (table, file) = table(&[1, 2], &[]);
    let (table_of_others, _) = self::table(&[1], &[]);
    let named = [Ok(positions(&file, &[0]))].into_iter();
    let refused = begin(&table_of_others, "DELETE").select_rows(named).err().unwrap();
    assert_eq!(refused.kind(), Kind::InvalidArgument);
    assert_eq!(refused.path(), Some(file.path.as_str()));
    let other_columns = [Ok(rows(&[1]))].into_iter();
    let refused = begin(&table, "DELETE").select_rows(other_columns).err().unwrap();
    assert_eq!(refused.kind(), Kind::InvalidArgument);
}

/// What a task gets to delete these rows of a file by the clause of this number.
fn task_rows(file: &Add, rows: &[i64], clause: i32) -> RecordBatch {
    let n = rows.len() + 1;
    let mut positions = rows.iter().copied().map(Some).collect::<Vec<_>>();
    positions.push(None);
    let mut clauses = vec![Some(clause); rows.len()];
    clauses.push(None);
    let mut adds = vec![None; rows.len()];
    adds.push(Some(serde_json::to_string(file).unwrap()));
    let columns: [(&str, ArrayRef); 4] = [
        ("file", Arc::new(StringArray::from(vec![file.path.as_str(); n]))),
        ("row", Arc::new(Int64Array::from(positions))),
        ("act", Arc::new(Int32Array::from(clauses))),
        ("add", Arc::new(StringArray::from(adds))),
    ];
    let fields = columns
        .iter()
        .map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, column)| column).collect()).unwrap()
}

#[test]
fn outcomes_of_tasks_are_adopted_and_follow_a_winner() {
    for properties in [&[VECTORS][..], &[]] {
        let (table, file) = table(&[1, 2, 3, 4], properties);
        let rewrite = begin(&table, "MERGE");
        let spec = rewrite.command().task_spec().unwrap();
        let spec: TaskSpec = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
        let store = spec.store(table.store.clone()).unwrap();
        let deleted = [Ok(task_rows(&file, &[0, 3], 7))].into_iter();
        let deleted = take_out_rows(&store, &spec, deleted, vec![7], true).unwrap();
        assert_eq!(deleted.taken_out, BTreeMap::from([(7, 2)]));
        let written = write_rows(&store, &spec, [Ok(rows(&[9]))].into_iter(), None, false, 1).unwrap();
        let mut selected = rewrite.select_nothing();
        for outcome in [deleted, written] {
            let text = serde_json::to_string(&outcome).unwrap();
            selected.adopt(serde_json::from_str(&text).unwrap());
        }
        assert_eq!(selected.written_rows(), 1);
        let staged = selected.finish().unwrap();
        if properties.is_empty() {
            assert_eq!(staged.summary().num_copied_rows, 2);
            assert_eq!(commit(staged).unwrap(), 1);
            assert_eq!(newest_ids(&table), [2, 3, 9]);
        } else {
            assert_eq!(commit(staged_delete(&table, &file, &[1])).unwrap(), 1);
            assert_eq!(commit(staged).unwrap(), 2);
            assert_eq!(newest_ids(&table), [3, 9]);
        }
    }
}

#[test]
fn a_row_that_two_source_rows_would_update_is_counted_and_nothing_is_done() {
    let (table, file) = table(&[1, 2], &[VECTORS]);
    let spec = begin(&table, "MERGE").command().task_spec().unwrap();
    let named = [Ok(task_rows(&file, &[1, 1], 3))].into_iter();
    let outcome = take_out_rows(&table.store, &spec, named, Vec::new(), true).unwrap();
    assert_eq!((outcome.twice, outcome.removes.len(), outcome.marked.len()), (1, 0, 0));
    assert_eq!(num_files(&table), (1, 0));
}
