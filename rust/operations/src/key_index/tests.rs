//! Plans of tables with indexes of keys, whether they are whole, behind, damaged or lost.
#![allow(clippy::unwrap_used)]
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use deltaplane_error::Result;
use deltaplane_index::{DIR, newest};
use deltaplane_log::Snapshot;
use deltaplane_protocol::expr::{Comparison, Expr};
use deltaplane_store::{Options, Store, block_on};
use futures::TryStreamExt;

use super::*;
use crate::scan::{Scan, ScanRequest, Sought, explain};
use crate::testing::{Table, ids};

const INDEXED: [(&str, &str); 1] = [("deltaplane.index.id", "keys")];

fn is(id: i64) -> Expr {
    Expr::Compare {
        cmp: Comparison::Eq,
        left: Box::new(Expr::Column {
            name: vec!["id".to_owned()],
        }),
        right: Box::new(Expr::Literal {
            value: Some(id.to_string()),
            type_name: "long".to_owned(),
        }),
    }
}

fn build(snapshot: &Snapshot, again: bool) -> Result<Vec<KeyIndex>> {
    IndexBuild::begin(snapshot, again, 1)?.run()
}

/// A table with an index that covers three files, of which all may have 50 by their bounds.
fn indexed() -> Table {
    let table = Table::new();
    for file in [[1, 60, 100], [2, 70, 99], [3, 60, 98]] {
        table.append_with(&file, &INDEXED);
    }
    build(&table.snapshot(), false).unwrap();
    table
}

/// The ids that a scan for an id shows, and how many files its plan has.
fn look_up(snapshot: &Snapshot, id: i64) -> (Vec<i64>, u64) {
    let request = ScanRequest {
        predicate: Some(is(id)),
        ..ScanRequest::default()
    };
    let shown = ids(Scan::new(snapshot, request).unwrap().stream());
    (shown, block_on(explain(snapshot, Some(&is(id)))).unwrap().selected)
}

#[test]
fn a_look_up_plans_the_files_of_the_key() {
    let table = indexed();
    let snapshot = table.snapshot();
    assert_eq!(look_up(&snapshot, 70), (vec![70], 1));
    assert_eq!(look_up(&snapshot, 60), (vec![60, 60], 2));
    assert_eq!(look_up(&snapshot, 50), (vec![], 0));
    let report = block_on(explain(&snapshot, Some(&is(70)))).unwrap();
    assert_eq!((report.skipped_by_statistics, report.skipped_by_index), (0, 2));
}

#[test]
fn a_file_that_no_segment_covers_is_planned() {
    let table = indexed();
    table.append(&[5, 95]);
    let snapshot = table.snapshot();
    assert_eq!(look_up(&snapshot, 50), (vec![], 1));
    let states = build(&snapshot, false).unwrap();
    let state = states.first().unwrap();
    assert_eq!((state.segments, state.covered_files, state.uncovered_files), (2, 4, 0));
    assert_eq!(look_up(&snapshot, 50), (vec![], 0));
    let states = build(&snapshot, true).unwrap();
    assert_eq!(states.first().map(|s| (s.segments, s.entries)), Some((1, 11)));
}

#[test]
fn rows_that_restore_brings_back_are_in_the_index() {
    let table = Table::new();
    let [file] = table
        .append_with(&[1, 60, 100], &[INDEXED[0], ("delta.enableDeletionVectors", "true")])
        .try_into()
        .unwrap();
    table.delete_first_row_of(&file.path);
    build(&table.snapshot(), false).unwrap();
    assert_eq!(look_up(&table.snapshot(), 60), (vec![60], 1));
    assert_eq!(look_up(&table.snapshot(), 50), (vec![], 0));
    let before = block_on(Snapshot::open(&table.store, Some(0))).unwrap();
    assert_eq!(look_up(&before, 1), (vec![1], 1));
}

#[test]
fn small_segments_become_one() {
    let table = indexed();
    for n in 1..8 {
        table.append(&[0, n, 101]);
        build(&table.snapshot(), false).unwrap();
    }
    let (_, manifest) = block_on(newest(&table.store, &table.snapshot().state().metadata().id)).unwrap();
    assert_eq!(manifest.segments.len(), 8);
    let path = &manifest.segments.last().unwrap().path;
    table.append(&[0, 8, 101]);
    let state = build(&table.snapshot(), false).unwrap();
    assert_eq!(state.first().map(|s| (s.segments, s.covered_files)), Some((2, 11)));
    assert!(
        block_on(table.store.read(path)).is_ok(),
        "readers may have the old manifest"
    );
    assert_eq!(look_up(&table.snapshot(), 8), (vec![8], 1));
    assert_eq!(look_up(&table.snapshot(), 60), (vec![60, 60], 2));
    assert_eq!(look_up(&table.snapshot(), 50), (vec![], 0));
}

#[test]
fn builders_at_the_same_time_lose_no_segment() {
    let table = indexed();
    table.append(&[5, 95]);
    let older = table.snapshot();
    table.append(&[6, 94]);
    let (older, newer) = (older, table.snapshot());
    // Both plan before one of them publishes.
    let both = [&older, &newer].map(|snapshot| IndexBuild::begin(snapshot, false, 1).unwrap());
    assert!(both.iter().all(|build| build.run().is_ok()));
    assert_eq!(look_up(&newer, 50), (vec![], 0));
}

#[test]
fn keys_of_a_join_leave_files_out() {
    let table = indexed();
    let snapshot = table.snapshot();
    let planned = |values: Vec<Option<i64>>, nulls: bool| {
        let values = RecordBatch::try_from_iter([("k", Arc::new(Int64Array::from(values)) as ArrayRef)]);
        let sought = Sought::of("id", [Ok(values.unwrap())].into_iter(), nulls).unwrap();
        let request = ScanRequest {
            sought,
            ..ScanRequest::default()
        };
        let scan = Scan::new(&snapshot, request).unwrap();
        // Each file has one row group.
        block_on(scan.row_groups(usize::MAX)).unwrap().all
    };
    assert_eq!(planned(vec![Some(70), Some(1 << 40), None], false), 1);
    assert_eq!(planned(vec![Some(2), Some(98)], false), 2);
    assert_eq!(planned(vec![Some(50)], false), 0);
    assert_eq!(planned(vec![Some(70)], true), 3, "a null is in no index");
}

/// The newest version for a reader that has nothing of its index in memory: its options differ from
/// those of all others.
fn fresh(table: &Table) -> Snapshot {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 30);
    let size = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
    let options = Options::new([("max_commit_bytes".to_owned(), size)]);
    let store = Store::open(table.store.location(), &options).unwrap();
    block_on(Snapshot::open(&store, None)).unwrap()
}

#[test]
fn damaged_and_missing_segments_leave_nothing_out() {
    let table = indexed();
    let snapshot = table.snapshot();
    let (_, manifest) = block_on(newest(&table.store, &snapshot.state().metadata().id)).unwrap();
    let path = &manifest.segments.first().unwrap().path;
    block_on(table.store.put(path, bytes::Bytes::from_static(b"damaged"))).unwrap();
    assert_eq!(look_up(&fresh(&table), 70), (vec![70], 3));
    let state = build(&fresh(&table), false).unwrap();
    assert_eq!(state.first().map(|s| (s.segments, s.covered_files)), Some((1, 3)));
    assert_eq!(look_up(&fresh(&table), 70), (vec![70], 1));
    let (number, manifest) = block_on(newest(&table.store, &snapshot.state().metadata().id)).unwrap();
    block_on(table.store.delete(&manifest.segments.first().unwrap().path)).unwrap();
    assert_eq!(look_up(&fresh(&table), 70), (vec![70], 3));
    let key = format!("{DIR}/{:020}.json", number + 1);
    block_on(table.store.put(&key, bytes::Bytes::from_static(b"{\"version\":7}"))).unwrap();
    assert_eq!(look_up(&fresh(&table), 70), (vec![70], 3));
}

#[test]
fn a_table_without_the_property_has_no_index() {
    let table = Table::new();
    table.append(&[1, 100]);
    let snapshot = table.snapshot();
    assert_eq!(build(&snapshot, false).unwrap(), []);
    assert_eq!(block_on(describe(&snapshot)).unwrap(), []);
    assert!(
        block_on(table.store.list_all(DIR))
            .map(|l| block_on(l.try_collect::<Vec<_>>()).unwrap().is_empty())
            .unwrap()
    );
    let only = |name: &str| [name.to_owned()];
    let (key, kind) = property_to_add(snapshot.state(), &only("ID")).unwrap();
    assert_eq!((key.as_str(), kind.as_str()), ("deltaplane.index.id", "keys"));
    assert!(property_to_add(snapshot.state(), &only("missing")).is_err());
    assert!(property_to_add(snapshot.state(), &["id".to_owned(), "ID".to_owned()]).is_err());
    assert!(property_to_drop(snapshot.state(), &only("id")).is_err());
    assert_eq!(
        property_to_drop(indexed().snapshot().state(), &only("id")).unwrap(),
        key
    );
}
