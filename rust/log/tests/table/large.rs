//! Large tables under the policy `v2`: what opening, planning, appending and checkpoints ask the
//! store doesn't grow with the number of files.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use super::runs::pruner;
use super::*;
use crate::counted::{self, Asked};
use deltaplane_log::CheckpointReport;
use serde_json::Value;

/// How the names of the files begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// In a directory for each partition.
    ByDay,
    /// Alike in all of the table: only filters tell where a path is.
    Alike,
    /// As `ByDay`, and not as they are decoded.
    Encoded,
}

const A_DAY: u64 = 5_000;

/// A file of a table ordered by time. Its name says nothing of its place within the day.
fn file(names: Names, number: u64, generation: u64) -> Add {
    let day = format!("2026-{:02}-{:02}", 1 + number / A_DAY / 28, 1 + number / A_DAY % 28);
    let unique = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ generation;
    let path = match names {
        Names::ByDay => format!("day={day}/part-{unique:016x}.parquet"),
        Names::Alike => format!("part-{unique:016x}.parquet"),
        Names::Encoded => format!("day={day}/part%20{unique:016x}.parquet"),
    };
    let (low, high) = (number * 10, number * 10 + 9);
    Add {
        stats: Some(
            json!({"numRecords": 10, "minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}})
                .to_string(),
        ),
        ..add(&path, Some(&day))
    }
}

/// A table with a V2 checkpoint, in a counted store, and the report of that checkpoint.
async fn table(names: Names, files: u64) -> (Store, Asked, CheckpointReport) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let (store, _, asked) = counted::at(&format!("s3://large-{number}/t"));
    let configuration = json!({"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "1000000"});
    let r = json!({"mode": "error", "configuration": configuration, "partition_by": ["day"]});
    create_table(&store, schema(), request(r)).await.unwrap();
    let adds = (0..files).map(|n| file(names, n, 0)).collect();
    let done = planned(&store, json!({"mode": "append"})).await.commit(adds).await;
    let report = done.unwrap().snapshot.checkpoint().await.unwrap();
    settled(&asked);
    (store, asked, report)
}

fn settled(asked: &Asked) -> Vec<String> {
    deltaplane_store::finish_background(std::time::Duration::from_secs(60));
    asked.take()
}

/// A commit of another writer that replaces a file by one with the same rows.
async fn replace(store: &Store, version: u64, names: Names, number: u64) {
    let (old, new) = (file(names, number, 0), file(names, number, 1));
    let remove =
        json!({"remove": {"path": old.path, "deletionTimestamp": deltaplane_log::now_ms(), "dataChange": true}});
    let text = format!("{remove}\n{}\n", json!({ "add": new }));
    store
        .put(&format!("_delta_log/{version:020}.json"), Bytes::from(text))
        .await
        .unwrap();
}

fn sidecars_of(asked: &[String], kind: &str) -> BTreeSet<String> {
    let key = |text: &String| text.split(' ').nth(1).map(str::to_owned);
    let of_kind = asked
        .iter()
        .filter(|a| a.starts_with(kind) && a.contains("/_sidecars/"));
    of_kind.filter_map(key).collect()
}

fn by_id(number: u64) -> Value {
    json!({"op": "compare", "cmp": "=", "left": {"op": "column", "name": ["id"]},
           "right": {"op": "literal", "value": (number * 10 + 3).to_string(), "type": "long"}})
}

#[test]
fn requests_do_not_grow_with_the_files() {
    let mut seen = Vec::new();
    for files in [5_000, 30_000] {
        block_on(async {
            let (store, asked, report) = table(Names::ByDay, files).await;
            assert_eq!((report.adds, report.sidecars), (files, files.div_ceil(1_024)));
            let s = Snapshot::open(&store, None).await.unwrap();
            let open = settled(&asked);
            assert!(!open.iter().any(|a| a.contains("checkpoint.")), "{open:?}");
            let wanted = pruner(&s, &by_id(files / 2));
            let matches: Vec<_> = s.plan(Some(wanted), PlanColumns::Logged).try_collect().await.unwrap();
            assert_eq!(matches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
            let plan = settled(&asked);
            assert_eq!(sidecars_of(&plan, "").len(), 1, "{plan:?}");
            planned(&store, json!({"mode": "append"}))
                .await
                .commit(vec![file(Names::ByDay, files, 0)])
                .await
                .unwrap();
            let append = settled(&asked);
            assert!(!append.iter().any(|a| a.contains("checkpoint.")), "{append:?}");
            seen.push([open.len(), plan.len(), append.len()]);
        });
    }
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn a_checkpoint_reads_and_writes_the_sidecars_that_commits_touched() {
    // P062
    for (names, files) in [(Names::ByDay, 30_700), (Names::Alike, 20_400), (Names::Encoded, 12_200)] {
        block_on(async {
            let (store, asked, whole) = table(names, files).await;
            let touched = [1, files / 2, files - 1];
            for (version, number) in (2..).zip(touched) {
                replace(&store, version, names, number).await;
            }
            let s = Snapshot::open(&store, None).await.unwrap();
            settled(&asked);
            let again = s.checkpoint().await.unwrap();
            let asked = settled(&asked);
            let retained = whole.sidecars - 3;
            assert_eq!(
                (again.kept_sidecars, again.adds),
                (retained, 3 * 1_024 - rest(files)),
                "{names:?}"
            );
            let (read, filters) = (sidecars_of(&asked, "part"), sidecars_of(&asked, "read"));
            match names {
                // The new sidecars' footers are read back as well.
                Names::ByDay => assert!(read.len() == 3 && filters.len() < 24, "{filters:?}"),
                // A false answer is one in a thousand.
                Names::Alike => assert!(
                    read.len() <= 5 && filters.len() as u64 == whole.sidecars + 4,
                    "{read:?}"
                ),
                // Without filters, the paths of the touched days are read.
                Names::Encoded => assert!((3..24).contains(&read.len()), "{read:?}"),
            }
            // Three sidecars, the tombstones, and the names of all sidecars; less compressed than
            // the whole one, since the log is small without its large commit.
            let share = again.size_bytes as f64 / whole.size_bytes as f64;
            assert!(share < 12.0 / whole.sidecars as f64, "{names:?}: {share}");
            let s = Snapshot::open(&store, None).await.unwrap();
            assert_eq!(s.tail_length(), 0);
            let expected: BTreeSet<String> = (0..files)
                .map(|n| file(names, n, u64::from(touched.contains(&n))).path)
                .collect();
            assert!(crate::files(&s).await.into_iter().eq(expected), "{names:?}");
        });
    }
}

/// Files that the last sidecar lacks.
fn rest(files: u64) -> u64 {
    files.next_multiple_of(1_024) - files
}

#[test]
fn a_path_that_is_spelled_otherwise_is_found() {
    // P021: a sidecar with an encoded path has no filter; another one has, and a commit may encode
    // the same path.
    for (stored, removed) in [("part 1", "part%201"), ("part%201", "part 1"), ("day=1/a", "day%3D1/a")] {
        block_on(async {
            let (store, _, _) = table(Names::ByDay, 2_000).await;
            planned(&store, json!({"mode": "append"}))
                .await
                .commit(vec![add(stored, Some("2026-01-01"))])
                .await
                .unwrap();
            Snapshot::open(&store, None).await.unwrap().checkpoint().await.unwrap();
            let before = files(&Snapshot::open(&store, None).await.unwrap()).await.len();
            let remove =
                json!({"remove": {"path": removed, "deletionTimestamp": deltaplane_log::now_ms(), "dataChange": true}});
            let key = format!("_delta_log/{:020}.json", 3);
            store.put(&key, Bytes::from(remove.to_string())).await.unwrap();
            let s = Snapshot::open(&store, None).await.unwrap();
            s.checkpoint().await.unwrap();
            let after = Snapshot::open(&store, None).await.unwrap();
            assert_eq!(
                (after.tail_length(), files(&after).await.len()),
                (0, before - 1),
                "{stored}"
            );
        });
    }
}

#[test]
fn a_damaged_filter_or_manifest_costs_no_row() {
    // P057: zeros, and bits that are cleared, rule out paths that the file has.
    for cleared in [0xFF, 0x0F] {
        damage_filters(cleared);
    }
}

fn damage_filters(cleared: u8) {
    run(async |store, dir| {
        let configuration = json!({"delta.checkpointPolicy": "v2"});
        let r = json!({"mode": "error", "configuration": configuration, "partition_by": ["day"]});
        create_table(&store, schema(), request(r)).await.unwrap();
        let adds = (0..3_000).map(|n| file(Names::Alike, n, 0)).collect();
        let done = planned(&store, json!({"mode": "append"})).await.commit(adds).await;
        done.unwrap().snapshot.checkpoint().await.unwrap();
        replace(&store, 2, Names::Alike, 1_500).await;
        let sidecars = dir.path().join("_delta_log/_sidecars");
        for entry in std::fs::read_dir(&sidecars).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            let (start, length) = filter_of(&Bytes::from(bytes.clone()));
            bytes[start..start + length]
                .iter_mut()
                .for_each(|byte| *byte &= !cleared);
            std::fs::write(&path, bytes).unwrap();
        }
        let expected = files(&Snapshot::open(&store, None).await.unwrap()).await;
        let again = Snapshot::open(&store, None).await.unwrap().checkpoint().await.unwrap();
        assert_eq!(again.kept_sidecars, 2);
        let s = Snapshot::open(&store, None).await.unwrap();
        assert_eq!((s.tail_length(), files(&s).await), (0, expected.clone()));
        // The manifest is opened late; the checkpoint before it and its commits replace it.
        let log = dir.path().join("_delta_log");
        let newest = std::fs::read_dir(&log).unwrap().map(|e| e.unwrap().path());
        let newest = newest.filter(|p| p.to_str().unwrap().contains(&format!("{:020}.checkpoint.", 2)));
        for path in newest {
            std::fs::write(path, "damaged").unwrap();
        }
        let s = Snapshot::open(&store, None).await.unwrap();
        assert_eq!(files(&s).await, expected);
    });
}

fn filter_of(bytes: &Bytes) -> (usize, usize) {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let reader = SerializedFileReader::new(bytes.clone()).unwrap();
    let group = reader.metadata().row_group(0);
    let path = group.columns().iter().find(|c| c.column_path().string() == "add.path");
    let path = path.unwrap();
    (
        path.bloom_filter_offset().unwrap() as usize,
        path.bloom_filter_length().unwrap() as usize,
    )
}
