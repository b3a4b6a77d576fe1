//! What a near store spares: writes that begin from what their process committed last, losers that
//! keep their text, and logs whose history is told without opening the table.

use super::attempts::actions;
use super::*;
use deltaplane_log::{Environment, log_history, now_ms, plan_write_after, with_environment};
use deltaplane_protocol::actions::Action;
use futures::future::BoxFuture;
use serde_json::Value;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

async fn after(store: &Store, own: &Committed, mode: Value) -> Box<PlannedWrite> {
    let planned = plan_write_after(store, Some(&own.snapshot), schema(), request(mode)).await;
    match planned.unwrap() {
        WritePlan::Go(p) => p,
        WritePlan::Skip(why) => panic!("skipped: {why}"),
    }
}

async fn create(store: &Store, configuration: Value) {
    let r = json!({"mode": "error", "configuration": configuration});
    create_table(store, schema(), request(r)).await.unwrap();
}

async fn set(store: &Store, properties: Value) {
    let request = json!({"change": {"change": "set_properties", "properties": properties}, "commit": {}});
    let request = serde_json::from_value(request).unwrap();
    deltaplane_log::alter(store, &request).await.unwrap();
}

fn info(dir: &tempfile::TempDir, version: u64) -> Value {
    match actions(dir, version).remove(0) {
        Action::CommitInfo(info) => Value::Object(info),
        other => panic!("provenance comes first, not {other:?}"),
    }
}

#[test]
fn a_write_goes_on_from_what_its_process_committed() {
    run(async |store, dir| {
        create(&store, json!({})).await;
        let own = append(&store, "a").await;
        let same = after(&store, &own, json!({"mode": "append"})).await;
        assert_eq!(same.version(), Some(1));
        // Others went on meanwhile, and changed the table.
        append(&store, "b").await;
        set(&store, json!({"delta.appendOnly": "true"})).await;
        let next = after(&store, &own, json!({"mode": "append"})).await;
        assert_eq!(next.version(), Some(3));
        assert_eq!(next.target().properties.checkpoint_interval, None);
        let done = next.commit(vec![add("c", None)]).await.unwrap();
        assert_eq!((done.version, done.attempts), (4, 1));
        assert_eq!(files(&done.snapshot).await, ["a", "b", "c"]);
        let opened = Snapshot::open(&store, None).await.unwrap();
        assert_eq!(opened.state().metadata(), done.snapshot.state().metadata());
        let over = plan_write_after(
            &store,
            Some(&own.snapshot),
            schema(),
            request(json!({"mode": "overwrite"})),
        )
        .await;
        assert!(over.err().unwrap().message().contains("append-only"));
        // Nothing is written without a checksum: it is made of those before.
        let sums = dir.path().join("_delta_log").join(format!("{:020}.crc", 4));
        let sum: Value = serde_json::from_slice(&std::fs::read(sums).unwrap()).unwrap();
        assert_eq!(sum["numFiles"], 3);
    });
}

#[test]
fn another_table_under_the_same_names_is_opened_anew() {
    run(async |store, dir| {
        create(&store, json!({})).await;
        let own = append(&store, "a").await;
        std::fs::remove_dir_all(dir.path().join("_delta_log")).unwrap();
        let gone = plan_write_after(
            &store,
            Some(&own.snapshot),
            schema(),
            request(json!({"mode": "append"})),
        )
        .await;
        let WritePlan::Go(new) = gone.unwrap() else { panic!() };
        assert_eq!(new.version(), None);
        create(&store, json!({"delta.appendOnly": "true"})).await;
        append(&store, "b").await;
        append(&store, "c").await;
        let other = after(&store, &own, json!({"mode": "append"})).await;
        assert_eq!(other.version(), Some(2));
        let done = other.commit(vec![add("d", None)]).await.unwrap();
        assert_eq!(files(&done.snapshot).await, ["b", "c", "d"]);
        // Nor does a shorter log under it go unnoticed.
        std::fs::remove_file(dir.path().join("_delta_log").join(format!("{:020}.json", 3))).unwrap();
        let shorter = after(&store, &done, json!({"mode": "append"})).await;
        assert_eq!(shorter.version(), Some(2));
    });
}

#[test]
fn a_loser_keeps_its_text_where_the_winners_change_nothing_of_it() {
    // P073
    run(async |store, dir| {
        create(&store, json!({})).await;
        let late = planned(&store, json!({"mode": "append"})).await;
        append(&store, "a").await;
        append(&store, "b").await;
        let done = late.commit(vec![add("c", None)]).await.unwrap();
        assert_eq!((done.version, done.attempts), (3, 2));
        assert_eq!(info(dir, 3)["readVersion"], 0);
        assert_eq!(files(&done.snapshot).await, ["a", "b", "c"]);
        let names = std::fs::read_dir(dir.path().join("_delta_log")).unwrap();
        let hidden = names.filter(|n| n.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
        assert_eq!(hidden.count(), 0, "no draft is left");
    });
    // The commit states the table's metadata again where it changed.
    run(async |store, dir| {
        create(&store, json!({})).await;
        let late = planned(&store, json!({"mode": "append"})).await;
        set(&store, json!({"delta.enableDeletionVectors": "true"})).await;
        let done = late.commit(vec![add("c", None)]).await.unwrap();
        assert_eq!((done.version, info(dir, 2)["readVersion"].as_u64()), (2, Some(1)));
    });
}

#[test]
fn a_log_tells_its_history_without_the_table() {
    run(async |store, dir| {
        let shown = async |limit| -> Vec<(u64, i64, Value)> {
            let all = log_history(&store, limit).await.unwrap();
            all.into_iter()
                .map(|e| (e.version, e.timestamp_ms, Value::Object(e.info)))
                .collect()
        };
        let opened = async |limit| -> Vec<(u64, i64, Value)> {
            let all = Snapshot::open(&store, None)
                .await
                .unwrap()
                .history(limit)
                .await
                .unwrap();
            all.into_iter()
                .map(|e| (e.version, e.timestamp_ms, Value::Object(e.info)))
                .collect()
        };
        let missing = log_history(&store, Some(3)).await.unwrap_err();
        assert_eq!(missing.kind(), Kind::TableNotFound);
        create(&store, json!({})).await;
        for n in 0..12 {
            append(&store, &format!("f{n}")).await;
        }
        for limit in [None, Some(1), Some(4), Some(100)] {
            assert_eq!(shown(limit).await, opened(limit).await, "{limit:?}");
        }
        // A hint that leads nowhere.
        let log = dir.path().join("_delta_log");
        std::fs::write(log.join("_last_checkpoint"), r#"{"version":900,"size":1}"#).unwrap();
        assert_eq!(shown(Some(2)).await, opened(Some(2)).await);
        // Own times hold from where the metadata says, and not once it says no more (P082).
        for on in ["true", "false"] {
            set(&store, json!({"delta.enableInCommitTimestamps": on})).await;
            append(&store, on).await;
            for limit in [None, Some(1), Some(3)] {
                assert_eq!(shown(limit).await, opened(limit).await, "{on} {limit:?}");
            }
        }
        // A gap is one for both.
        std::fs::remove_file(log.join("_last_checkpoint")).unwrap();
        std::fs::remove_file(log.join(format!("{:020}.json", 14))).unwrap();
        let both = [
            log_history(&store, None).await.err().unwrap(),
            Snapshot::open(&store, None).await.err().unwrap(),
        ];
        assert_eq!(both.map(|e| (e.kind(), e.version())), [(Kind::CorruptLog, Some(14)); 2]);
    });
}

#[test]
fn checkpoints_that_cost_much_wait_for_more_commits() {
    run(async |store, dir| {
        create(&store, json!({})).await;
        let name = |n: u64| {
            format!(
                "{:016x}{:016x}",
                n.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                n.wrapping_pow(7)
            )
        };
        let many: Vec<Add> = (1..=20_000).map(|n| add(&name(n), None)).collect();
        planned(&store, json!({"mode": "append"}))
            .await
            .commit(many)
            .await
            .unwrap();
        let written = || -> Vec<u64> {
            let names = std::fs::read_dir(dir.path().join("_delta_log")).unwrap();
            let names = names.map(|n| n.unwrap().file_name().into_string().unwrap());
            let mut versions: Vec<u64> = names
                .filter(|n| n.ends_with(".checkpoint.parquet"))
                .map(|n| n[..20].parse().unwrap())
                .collect();
            versions.sort_unstable();
            versions
        };
        let mut done = append(&store, "0").await;
        while done.version < 60 {
            done = append(&store, &format!("more {}", done.version)).await;
        }
        let versions = written();
        // The first one comes as ever, since a table without is read commit by commit.
        assert_eq!(versions[0], 10);
        let interval = Snapshot::open(&store, None)
            .await
            .unwrap()
            .log_size()
            .checkpoint_interval;
        assert!((20..60).contains(&interval), "{interval}");
        assert!(
            versions.windows(2).all(|w| w[1] - w[0] >= interval.min(20)),
            "{versions:?}"
        );
        // A writer whose snapshot is older than another one's checkpoint doesn't write the next.
        let own = append(&store, "own").await;
        let newest = append(&store, "other").await;
        newest.snapshot.checkpoint().await.unwrap();
        let before = written();
        let mut version = newest.version;
        let mut last = own;
        while version % 10 != 0 {
            let next = after(&store, &last, json!({"mode": "append"})).await;
            last = next.commit(vec![add(&format!("on {version}"), None)]).await.unwrap();
            version = last.version;
        }
        assert_eq!(written(), before);
        // Where the table says, it is as it says.
        set(&store, json!({"delta.checkpointInterval": "2"})).await;
        let said = append(&store, "said").await;
        let even = match said.version % 2 {
            0 => said.version,
            _ => append(&store, "said too").await.version,
        };
        assert_eq!(written().last(), Some(&even));
    });
}

#[test]
fn a_long_tail_is_left_for_the_checkpoint_that_the_hint_names() {
    run(async |store, dir| {
        create(&store, json!({"delta.checkpointInterval": "1000"})).await;
        let mut own = append(&store, "0").await;
        for n in 1..70 {
            let next = after(&store, &own, json!({"mode": "append"})).await;
            own = next.commit(vec![add(&n.to_string(), None)]).await.unwrap();
        }
        let newest = Snapshot::open(&store, None).await.unwrap();
        assert_eq!((own.version, newest.tail_length()), (70, 71));
        newest.checkpoint().await.unwrap();
        append(&store, "others").await;
        let next = after(&store, &own, json!({"mode": "append"})).await;
        let done = next.commit(vec![add("own", None)]).await.unwrap();
        assert_eq!((done.version, done.snapshot.tail_length()), (72, 2));
        assert_eq!(files(&done.snapshot).await.len(), 72);
        // One that can't be used is passed over when its files are asked for: what is committed
        // doesn't depend on it.
        let broken = dir
            .path()
            .join("_delta_log")
            .join(format!("{:020}.checkpoint.parquet", 70));
        std::fs::write(broken, "no Parquet").unwrap();
        let next = after(&store, &own, json!({"mode": "append"})).await;
        let done = next.commit(vec![add("again", None)]).await.unwrap();
        assert_eq!((done.version, done.snapshot.tail_length()), (73, 3));
        assert_eq!(files(&done.snapshot).await.len(), 73);
    });
}

/// A clock that tells what it is set to.
struct Clock {
    now_ms: Cell<i64>,
    ids: Cell<u128>,
}

impl Environment for Clock {
    fn now_ms(&self) -> i64 {
        self.now_ms.get()
    }
    fn random(&self) -> u128 {
        self.ids.set(self.ids.get() + 1);
        self.ids.get()
    }
    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[test]
fn among_many_writers_commits_have_no_checksum_and_fewer_checkpoints() {
    run(async |store, dir| {
        let clock = Rc::new(Clock {
            now_ms: Cell::new(now_ms()),
            ids: Cell::new(0),
        });
        let _environment = with_environment(clock.clone());
        let there = |version: u64, end: &str| dir.path().join("_delta_log").join(format!("{version:020}.{end}"));
        create(&store, json!({})).await;
        let own = append(&store, "own").await;
        for n in 2..=9 {
            append(&store, &format!("others {n}")).await;
        }
        let next = after(&store, &own, json!({"mode": "append"})).await;
        let done = next.commit(vec![add("next", None)]).await.unwrap();
        assert_eq!(done.version, 10);
        assert!(!there(10, "crc").exists() && !there(10, "checkpoint.parquet").exists());
        for n in 11..=19 {
            append(&store, &format!("others {n}")).await;
        }
        // As many commits, but not at once.
        clock.now_ms.set(clock.now_ms.get() + 1000);
        let next = after(&store, &done, json!({"mode": "append"})).await;
        assert_eq!(next.commit(vec![add("last", None)]).await.unwrap().version, 20);
        assert!(there(20, "crc").exists() && there(20, "checkpoint.parquet").exists());
    });
}
