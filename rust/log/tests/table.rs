//! Tables through the log crate alone: files are actions, no rows are written.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use arrow::array::RecordBatch;
use bytes::Bytes;
use deltaplane_error::Kind;
use deltaplane_log::{
    Committed, PlanColumns, PlannedWrite, Snapshot, Staged, WritePlan, WriteRequest, create_table, plan_write,
};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::schema::{Field, Primitive, StructType};
use deltaplane_store::{Location, Options, Store, block_on};
use futures::TryStreamExt;
use serde_json::json;

#[path = "table/attempts.rs"]
mod attempts;
#[path = "table/backfill.rs"]
mod backfill;
#[path = "table/cached.rs"]
mod cached;
#[allow(dead_code)]
#[path = "../../protocol/tests/hostile/changes.rs"]
mod changes;
#[path = "table/checkpoint_content.rs"]
mod checkpoint_content;
#[path = "../../store/tests/contract/counted.rs"]
mod counted;
#[path = "table/cut_bodies.rs"]
mod cut_bodies;
#[path = "table/damaged.rs"]
mod damaged;
#[path = "table/drop_feature.rs"]
mod drop_feature;
#[path = "table/faulty_store.rs"]
mod faulty_store;
#[path = "table/foreign_fields.rs"]
mod foreign_fields;
#[path = "table/hygiene.rs"]
mod hygiene;
#[path = "table/large.rs"]
mod large;
#[path = "table/log_files.rs"]
mod log_files;
#[path = "table/made_of_rows.rs"]
mod made_of_rows;
#[path = "table/managed/mod.rs"]
mod managed;
#[path = "table/object_store.rs"]
mod object_store;
#[path = "table/own_commits.rs"]
mod own_commits;
#[path = "table/parts.rs"]
mod parts;
#[path = "table/probe.rs"]
mod probe;
#[path = "table/retained_files.rs"]
mod retained_files;
#[path = "table/reused_row_groups.rs"]
mod reused_row_groups;
#[path = "table/runs.rs"]
mod runs;
#[path = "table/unclear_puts.rs"]
mod unclear_puts;
#[path = "table/vacuum.rs"]
mod vacuum;

fn schema() -> StructType {
    StructType::new(vec![
        Field::new("id", Primitive::Long, true),
        Field::new("day", Primitive::Date, true),
    ])
}

fn request(value: serde_json::Value) -> WriteRequest {
    serde_json::from_value(value).unwrap()
}

fn open_store(dir: &tempfile::TempDir) -> Store {
    let location = Location::parse(dir.path().to_str().unwrap()).unwrap();
    Store::open(&location, &Options::default()).unwrap()
}

fn add(path: &str, day: Option<&str>) -> Add {
    let values = day.map(|d| ("day".to_owned(), Some(d.to_owned())));
    Add {
        path: path.to_owned(),
        partition_values: values.into_iter().collect(),
        size: 10,
        modification_time: 1,
        data_change: true,
        stats: Some(r#"{"numRecords":2}"#.to_owned()),
        ..Add::default()
    }
}

async fn planned(store: &Store, r: serde_json::Value) -> Box<PlannedWrite> {
    match plan_write(store, schema(), request(r)).await.unwrap() {
        WritePlan::Go(p) => p,
        WritePlan::Skip(why) => panic!("skipped: {why}"),
    }
}

async fn append(store: &Store, path: &str) -> Committed {
    planned(store, json!({"mode": "append"}))
        .await
        .commit(vec![add(path, None)])
        .await
        .unwrap()
}

async fn files(s: &Snapshot) -> Vec<String> {
    let batches: Vec<_> = s.plan(None, PlanColumns::Logged).try_collect().await.unwrap();
    let mut out: Vec<String> = batches
        .iter()
        .flat_map(|b| {
            (0..b.num_rows())
                .map(|r| FileRows::new(b).path(r).unwrap().to_owned())
                .collect::<Vec<_>>()
        })
        .collect();
    out.sort();
    out
}

fn run<T>(test: impl AsyncFnOnce(Store, &tempfile::TempDir) -> T) -> T {
    let dir = tempfile::tempdir().unwrap();
    let store = open_store(&dir);
    block_on(test(store, &dir))
}

#[test]
fn create_append_overwrite_and_travel() {
    run(async |store, _| {
        let missing = Snapshot::open(&store, None).await.err().unwrap();
        assert_eq!(missing.kind(), Kind::TableNotFound);
        append(&store, "a").await;
        append(&store, "b").await;
        let p = planned(&store, json!({"mode": "overwrite"})).await;
        let done = p.commit(vec![add("c", None)]).await.unwrap();
        assert_eq!((done.version, files(&done.snapshot).await), (2, vec!["c".to_owned()]));
        assert_eq!(done.metrics["numRemovedFiles"], "2");
        assert_eq!(files(&Snapshot::open(&store, Some(1)).await.unwrap()).await, ["a", "b"]);
        let e = Snapshot::open(&store, Some(9)).await.err().unwrap();
        assert_eq!((e.kind(), e.version()), (Kind::VersionNotFound, Some(9)));
        assert!(e.table().is_some());
    });
}

#[test]
fn modes_on_an_existing_table() {
    run(async |store, _| {
        append(&store, "a").await;
        let e = plan_write(&store, schema(), request(json!({"mode": "error"})))
            .await
            .err()
            .unwrap();
        assert_eq!(e.kind(), Kind::TableAlreadyExists);
        let skip = plan_write(&store, schema(), request(json!({"mode": "ignore"})))
            .await
            .unwrap();
        assert!(matches!(skip, WritePlan::Skip("exists")));
    });
}

#[test]
fn an_application_version_is_written_once() {
    // P076
    run(async |store, _| {
        let txn = |v: i64| json!({"mode": "append", "commit": {"txn": {"app_id": "feed", "version": v}}});
        planned(&store, txn(5))
            .await
            .commit(vec![add("a", None)])
            .await
            .unwrap();
        for old in [5, 4] {
            let again = plan_write(&store, schema(), request(txn(old))).await.unwrap();
            assert!(matches!(again, WritePlan::Skip("txn")));
        }
        // Two that planned before either committed: the loser is told (P077).
        let (first, second) = (planned(&store, txn(6)).await, planned(&store, txn(6)).await);
        first.commit(vec![add("b", None)]).await.unwrap();
        let e = second.commit(vec![add("c", None)]).await.err().unwrap();
        assert_eq!(e.kind(), Kind::ConcurrentTransaction);
    });
}

#[test]
fn blind_appends_follow_each_other_and_overwrites_conflict() {
    run(async |store, _| {
        append(&store, "a").await;
        let append_plan = planned(&store, json!({"mode": "append"})).await;
        let overwrite = planned(&store, json!({"mode": "overwrite"})).await;
        append(&store, "b").await;
        let done = append_plan.commit(vec![add("c", None)]).await.unwrap();
        assert_eq!((done.version, done.attempts), (2, 2));
        let e = overwrite.commit(vec![add("d", None)]).await.err().unwrap();
        assert_eq!(e.kind(), Kind::ConcurrentAppend);
        assert!(e.message().contains("WRITE"), "{e}");
        assert_eq!(
            files(&Snapshot::open(&store, None).await.unwrap()).await,
            ["a", "b", "c"]
        );
    });
}

#[test]
fn a_schema_change_of_another_writer_is_a_conflict() {
    run(async |store, _| {
        append(&store, "a").await;
        let late = planned(&store, json!({"mode": "append"})).await;
        let wider = StructType::new(vec![
            Field::new("id", Primitive::Long, true),
            Field::new("new", Primitive::String, false),
        ]);
        let WritePlan::Go(p) = plan_write(
            &store,
            wider,
            request(json!({"mode": "append", "schema_mode": "merge"})),
        )
        .await
        .unwrap() else {
            panic!()
        };
        let merged = p.commit(vec![add("b", None)]).await.unwrap().snapshot;
        assert_eq!(merged.schema().to_string(), "struct<id:long,day:date,new:string>");
        assert_eq!(
            late.commit(vec![add("c", None)]).await.err().unwrap().kind(),
            Kind::MetadataChanged
        );
    });
}

#[test]
fn racing_writers_all_get_in_once() {
    run(async |store, _| {
        append(&store, "start").await;
        let tasks: Vec<_> = (0..8)
            .map(|w| {
                let store = store.clone();
                tokio::spawn(async move {
                    for i in 0..5 {
                        append(&store, &format!("{w}-{i}")).await;
                    }
                })
            })
            .collect();
        for t in tasks {
            t.await.unwrap();
        }
        let s = Snapshot::open(&store, None).await.unwrap();
        assert_eq!((s.version(), files(&s).await.len()), (40, 41));
    });
}

#[test]
fn checkpoints_replace_the_commits_before_them() {
    run(async |store, dir| {
        let create = json!({"mode": "error", "configuration": {"delta.checkpointInterval": "3", "delta.enableDeletionVectors": "true"}});
        create_table(&store, schema(), request(create)).await.unwrap();
        append(&store, "a%20b").await;
        let txn = json!({"mode": "append", "commit": {"txn": {"app_id": "feed", "version": 7}}});
        planned(&store, txn).await.commit(vec![add("b", None)]).await.unwrap();
        planned(&store, json!({"mode": "overwrite"}))
            .await
            .commit(vec![add("c", None)])
            .await
            .unwrap();
        append(&store, "d").await;
        let before = Snapshot::open(&store, None).await.unwrap();
        assert_eq!(before.tail_length(), 1);
        let log = dir.path().join("_delta_log");
        for v in 0..=3 {
            std::fs::remove_file(log.join(format!("{v:020}.json"))).unwrap();
        }
        let s = Snapshot::open(&store, None).await.unwrap();
        assert_eq!(files(&s).await, ["c", "d"]);
        assert_eq!(s.state().protocol().min_reader_version, 3);
        assert_eq!(s.schema(), before.schema());
        assert_eq!(s.transactions(0).await.unwrap()[0].version, 7);
        // A second checkpoint carries the first one's files and tombstones on.
        let r = s.checkpoint().await.unwrap();
        assert_eq!((r.version, r.adds), (4, 2));
        assert_eq!(r.actions, 2 + 1 + 2 + 2, "protocol, metaData, txn, adds, tombstones");
        std::fs::remove_file(log.join(format!("{:020}.json", 4))).unwrap();
        assert_eq!(files(&Snapshot::open(&store, None).await.unwrap()).await, ["c", "d"]);
    });
}

#[test]
fn a_damaged_checkpoint_or_hint_falls_back() {
    // P010, P057
    run(async |store, dir| {
        for i in 0..=10 {
            append(&store, &format!("f{i:02}")).await;
        }
        let log = dir.path().join("_delta_log");
        let checkpoint = log.join(format!("{:020}.checkpoint.parquet", 10));
        assert!(checkpoint.exists());
        for damage in [&b"PAR1 this is no Parquet file"[..], b""] {
            std::fs::write(&checkpoint, damage).unwrap();
            assert_eq!(files(&Snapshot::open(&store, None).await.unwrap()).await.len(), 11);
        }
        for hint in ["{", r#"{"version":99,"size":1}"#, r#"{"version":-1}"#] {
            std::fs::write(log.join("_last_checkpoint"), hint).unwrap();
            assert_eq!(
                files(&Snapshot::open(&store, None).await.unwrap()).await.len(),
                11,
                "{hint}"
            );
        }
    });
}

#[test]
fn damaged_logs_are_told_apart() {
    run(async |store, dir| {
        for i in 0..4 {
            append(&store, &format!("f{i}")).await;
        }
        let log = dir.path().join("_delta_log");
        let commit = |v: u64| log.join(format!("{v:020}.json"));
        let good = std::fs::read(commit(2)).unwrap();
        for (damage, word) in [(&good[..good.len() - 9], "valid action"), (b"\xff\xfe", "UTF-8")] {
            std::fs::write(commit(2), damage).unwrap();
            let s = Snapshot::open(&store, None).await;
            let e = match s {
                Ok(s) => s
                    .plan(None, PlanColumns::Logged)
                    .try_collect::<Vec<_>>()
                    .await
                    .unwrap_err(),
                Err(e) => e,
            };
            assert_eq!((e.kind(), e.version()), (Kind::CorruptLog, Some(2)));
            assert!(e.message().contains(word), "{e}");
            assert!(e.path().unwrap().ends_with("00000000000000000002.json"), "{e}");
        }
        std::fs::remove_file(commit(2)).unwrap();
        let e = Snapshot::open(&store, None).await.err().unwrap();
        assert!(e.kind() == Kind::CorruptLog && e.message().contains("gap"), "{e}");
        std::fs::remove_file(commit(0)).unwrap();
        let e = Snapshot::open(&store, Some(1)).await.err().unwrap();
        assert!(e.message().contains("truncated"), "{e}");
    });
}

#[test]
fn updates_read_only_what_is_new() {
    run(async |store, dir| {
        append(&store, "a").await;
        let old = Snapshot::open(&store, None).await.unwrap();
        assert_eq!(old.update().await.unwrap().version(), 0);
        append(&store, "b").await;
        // The old commit isn't read again: damage to it goes unnoticed.
        let first = dir.path().join("_delta_log").join(format!("{:020}.json", 0));
        std::fs::write(&first, "{").unwrap();
        let new = old.update().await.unwrap();
        assert_eq!(files(&new).await, ["a", "b"]);
        assert_eq!(files(&old).await, ["a"]);
    });
}

#[test]
fn partitions_are_replaced_by_predicate() {
    run(async |store, _| {
        let r = json!({"mode": "error", "partition_by": ["DAY"]});
        let p = planned(&store, r).await;
        assert_eq!(p.target().partition_columns, ["day"]);
        p.commit(vec![
            add("day=2024-01-01/a", Some("2024-01-01")),
            add("day=2024-01-02/b", Some("2024-01-02")),
        ])
        .await
        .unwrap();
        let e = plan_write(
            &store,
            schema(),
            request(json!({"mode": "append", "partition_by": ["id"]})),
        )
        .await
        .err()
        .unwrap();
        assert_eq!(e.kind(), Kind::InvalidArgument);
    });
}

#[test]
fn what_a_commit_says() {
    // P071 and section 12
    run(async |store, dir| {
        append(&store, "a").await;
        let p = planned(
            &store,
            json!({"mode": "append", "commit": {"user_metadata": "hello", "commit_info": {"job": 7}}}),
        )
        .await;
        p.commit(vec![add("b", None)]).await.unwrap();
        let text = std::fs::read_to_string(dir.path().join("_delta_log").join(format!("{:020}.json", 1))).unwrap();
        assert!(text.starts_with(r#"{"commitInfo":"#), "{text}");
        let history = Snapshot::open(&store, None).await.unwrap().history(None).await.unwrap();
        assert_eq!(history.iter().map(|h| h.version).collect::<Vec<_>>(), [1, 0]);
        let info = &history[0].info;
        assert_eq!(info["operation"], "WRITE");
        assert_eq!(info["operationParameters"]["mode"], "Append");
        assert_eq!(info["operationMetrics"]["numOutputRows"], "2");
        assert_eq!((&info["userMetadata"], &info["job"]), (&json!("hello"), &json!(7)));
        assert_eq!(
            (&info["readVersion"], &info["isBlindAppend"]),
            (&json!(0), &json!(true))
        );
    });
}

#[test]
fn times_lead_to_versions() {
    // P081, P086
    run(async |store, dir| {
        for i in 0..3 {
            append(&store, &format!("f{i}")).await;
            let f = std::fs::File::open(dir.path().join("_delta_log").join(format!("{i:020}.json"))).unwrap();
            let modified = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000 * (i + 1));
            f.set_modified(modified).unwrap();
        }
        for (ms, version) in [(1_000_000, 0), (1_999_999, 0), (2_000_000, 1), (9_000_000, 2)] {
            assert_eq!(Snapshot::open_at(&store, ms).await.unwrap().version(), version, "{ms}");
        }
        let e = Snapshot::open_at(&store, 999_999).await.err().unwrap();
        assert_eq!(e.kind(), Kind::VersionNotFound);
    });
}

#[test]
fn bad_requests_write_nothing() {
    run(async |store, dir| {
        let bad = [
            (json!({"mode": "append", "partition_by": ["nope"]}), schema()),
            (json!({"mode": "append", "partition_by": ["id", "day"]}), schema()),
            (json!({"mode": "append", "partition_by": ["id", "ID"]}), schema()),
            (
                json!({"mode": "append", "configuration": {"delta.apendOnly": "true"}}),
                schema(),
            ),
            (
                json!({"mode": "append", "configuration": {"delta.checkpointInterval": "soon"}}),
                schema(),
            ),
            (json!({"mode": "append"}), StructType::new(vec![])),
            (
                json!({"mode": "append"}),
                StructType::new(vec![Field::new("a b", Primitive::Long, true)]),
            ),
            (
                json!({"mode": "append"}),
                StructType::new(vec![Field::new("a", Primitive::Void, true)]),
            ),
        ];
        for (r, s) in bad {
            let e = plan_write(&store, s, request(r.clone())).await.err().unwrap();
            assert_eq!(e.kind(), Kind::InvalidArgument, "{r}");
        }
        let catalog = json!({"mode": "append", "configuration": {"delta.feature.catalogManaged": "supported"}});
        let e = plan_write(&store, schema(), request(catalog)).await.err().unwrap();
        assert!(
            e.kind() == Kind::UnsupportedFeature && e.message().contains("catalogManaged"),
            "{e}"
        );
        assert!(!dir.path().join("_delta_log").exists());
        // An append-only table refuses to be overwritten (P100).
        create_table(
            &store,
            schema(),
            request(json!({"mode": "error", "configuration": {"delta.appendOnly": "true"}})),
        )
        .await
        .unwrap();
        let e = plan_write(&store, schema(), request(json!({"mode": "overwrite"})))
            .await
            .err()
            .unwrap();
        assert!(e.message().contains("append-only"), "{e}");
    });
}

#[test]
fn an_unclear_put_is_settled_by_reading_back() {
    // P072: the name is taken by this very transaction's commit only if the id in it is ours.
    run(async |store, _| {
        append(&store, "a").await;
        let p = planned(&store, json!({"mode": "append"})).await;
        store
            .put_if_absent(
                "_delta_log/00000000000000000001.json",
                Bytes::from_static(b"{\"commitInfo\":{\"txnId\":\"other\"}}\n"),
            )
            .await
            .unwrap();
        let done = p.commit(vec![add("b", None)]).await.unwrap();
        assert_eq!((done.version, done.attempts), (2, 2));
    });
}
