//! What operations on an object store ask it, and what becomes of them if it fails: plans that are
//! made ahead of the newest version, the work that goes on after a commit returned, and followers
//! that ask for the next commit alone.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::counted::{self, Asked};
use deltaplane_log::{
    Environment, Tail, TailLimits, TailRequest, TailStart, now_ms, plan_append_ahead, plan_write_after, plan_write_on,
    with_environment,
};
use deltaplane_store::finish_background;
use futures::future::BoxFuture;
use serde_json::Value;

const APPEND: &str = r#"{"mode": "append"}"#;

/// A store as S3 is one for commits, the same objects as other writers see them, and what the first
/// one is asked.
fn stores() -> (Store, Store, Asked) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    counted::at(&format!("s3://asked-{number}/t"))
}

fn commit_key(version: u64) -> String {
    format!("_delta_log/{version:020}.json")
}

fn checksum_key(version: u64) -> String {
    format!("_delta_log/{version:020}.crc")
}

/// What was asked once nothing goes on in the background any more.
fn settled(asked: &Asked) -> Vec<String> {
    finish_background(Duration::from_secs(60));
    asked.take()
}

async fn ahead(own: &Snapshot, request_text: &str) -> Option<Box<PlannedWrite>> {
    let planned = plan_append_ahead(own, schema(), request(serde_json::from_str(request_text).unwrap())).await;
    planned.unwrap().map(go)
}

fn go(plan: WritePlan) -> Box<PlannedWrite> {
    match plan {
        WritePlan::Go(planned) => planned,
        WritePlan::Skip(why) => panic!("skipped: {why}"),
    }
}

async fn set(store: &Store, properties: Value) {
    let change = json!({"change": {"change": "set_properties", "properties": properties}, "commit": {}});
    let change = serde_json::from_value(change).unwrap();
    deltaplane_log::alter(store, &change).await.unwrap();
}

/// A clock that the test moves; it starts now.
struct Clock(Cell<i64>);

impl Environment for Clock {
    fn now_ms(&self) -> i64 {
        self.0.get()
    }
    fn random(&self) -> u128 {
        self.0.set(self.0.get() + 1);
        u128::from(self.0.get().unsigned_abs())
    }
    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[test]
fn a_plan_made_ahead_moves_to_the_newest_version_and_loses_no_race() {
    block_on(async {
        let (store, others, asked) = stores();
        append(&store, "a").await;
        let own = append(&store, "b").await.snapshot;
        settled(&asked);
        append(&others, "c").await;
        let planned = ahead(&own, APPEND).await.unwrap();
        assert_eq!(planned.version(), Some(1));
        assert_eq!(asked.take(), Vec::<String>::new(), "planned without a request");
        let newest = own.newest_after_own().await.unwrap().unwrap();
        // The listing, and the commit of the other writer.
        assert_eq!(
            asked.take(),
            ["list _delta_log".to_owned(), format!("read {}", commit_key(2))]
        );
        assert!(planned.move_to(newest.clone()));
        assert!(!planned.move_to(newest), "it was moved before");
        let done = planned.commit(vec![add("d", None)]).await.unwrap();
        assert_eq!((done.version, done.attempts), (3, 1));
        let puts = settled(&asked).into_iter().filter(|what| what.starts_with("put"));
        assert_eq!(
            puts.collect::<Vec<_>>(),
            [checksum_key(3), commit_key(3)].map(|key| format!("put {key}"))
        );
        let opened = Snapshot::open(&others, None).await.unwrap();
        assert_eq!(files(&opened).await, ["a", "b", "c", "d"]);
    });
}

#[test]
fn a_plan_made_ahead_does_not_move_to_another_state_of_the_table() {
    block_on(async {
        let (store, others, _) = stores();
        append(&store, "a").await;
        let own = append(&store, "b").await.snapshot;
        let planned = ahead(&own, APPEND).await.unwrap();
        set(&others, json!({"delta.appendOnly": "true"})).await;
        let newest = own.newest_after_own().await.unwrap().unwrap();
        assert_eq!(newest.version(), 2);
        assert!(!planned.move_to(newest), "properties were changed");
        // The same table at the same names, made again.
        let names: Vec<_> = others.list_all("").await.unwrap().try_collect().await.unwrap();
        let keys: Vec<String> = names.into_iter().map(|object| object.key).collect();
        others.delete_all(&keys).await.unwrap();
        append(&others, "a").await;
        append(&others, "b").await;
        assert!(
            own.newest_after_own().await.unwrap().is_none(),
            "the tag of the commit differs"
        );
    });
}

#[test]
fn only_plain_appends_on_a_fresh_version_are_planned_ahead() {
    block_on(async {
        let clock = Rc::new(Clock(Cell::new(now_ms())));
        let _environment = with_environment(clock.clone());
        let (store, _, _) = stores();
        append(&store, "a").await;
        let own = append(&store, "b").await.snapshot;
        assert!(ahead(&own, APPEND).await.is_some());
        for other in [
            r#"{"mode": "overwrite"}"#,
            r#"{"mode": "append", "read_version": 1}"#,
            r#"{"mode": "append", "commit": {"txn": {"app_id": "a", "version": 1}}}"#,
        ] {
            assert!(ahead(&own, other).await.is_none(), "{other}");
        }
        let on =
            async |snapshot: &Snapshot| plan_write_on(snapshot, schema(), request(json!({"mode": "append"}))).await;
        assert!(on(&own).await.unwrap().is_some());
        clock.0.set(clock.0.get() + 2 * 3_600_000);
        assert!(
            ahead(&own, APPEND).await.is_none(),
            "later commits may have been cleaned up"
        );
        assert!(on(&own).await.unwrap().is_none());
        assert!(own.newest_after_own().await.unwrap().is_none());
    });
    run(async |local, _| {
        let own = append(&local, "a").await.snapshot;
        assert!(
            ahead(&own, APPEND).await.is_none(),
            "a listing of a local disk takes no time"
        );
    });
}

#[test]
fn a_plan_on_an_earlier_answer_finds_an_application_version_that_others_committed_since() {
    block_on(async {
        let (store, others, _) = stores();
        let txn = |version: i64| json!({"mode": "append", "commit": {"txn": {"app_id": "feed", "version": version}}});
        append(&store, "a").await;
        let newest = append(&store, "b").await.snapshot;
        let plan = async |version| {
            plan_write_on(&newest, schema(), request(txn(version)))
                .await
                .unwrap()
                .unwrap()
        };
        let first = go(plan(1).await);
        let theirs = planned(&others, txn(1)).await;
        theirs.commit(vec![add("theirs", None)]).await.unwrap();
        let lost = first.commit(vec![add("ours", None)]).await.err().unwrap();
        assert_eq!(lost.kind(), Kind::ConcurrentTransaction);
        let opened = Snapshot::open(&others, None).await.unwrap();
        assert_eq!(files(&opened).await, ["a", "b", "theirs"]);
    });
}

#[test]
fn a_commit_returns_before_its_checksum_and_its_tag_are_asked_for() {
    block_on(async {
        let (store, others, asked) = stores();
        append(&store, "a").await;
        let base = append(&store, "b").await.snapshot;
        settled(&asked);
        let staged = Staged {
            adds: vec![add("c", None)],
            ..Staged::default()
        };
        let base = base.newest_after_own().await.unwrap().unwrap();
        settled(&asked);
        let done = deltaplane_log::commit(&store, Some(base), &staged).await.unwrap();
        assert_eq!(done.snapshot.version(), 2);
        let expected = [
            format!("head {}", commit_key(2)),
            format!("put {}", checksum_key(2)),
            format!("put {}", commit_key(2)),
        ];
        assert_eq!(settled(&asked), expected);
        let sum: Value = serde_json::from_slice(&others.read(&checksum_key(2)).await.unwrap()).unwrap();
        assert_eq!(sum["numFiles"], 3);
        // Once it is settled, the next write lists the log from this commit on, and reads nothing.
        let newest = done.snapshot.newest_after_own().await.unwrap().unwrap();
        assert_eq!(
            (newest.version(), asked.take()),
            (2, vec!["list _delta_log".to_owned()])
        );
        let stored = others.head(&commit_key(2)).await.unwrap();
        assert_eq!(newest.modified_ms(), Some(stored.modified_ms));
    });
}

#[test]
fn a_store_that_fails_after_a_commit_costs_a_checksum_and_no_row() {
    for fails in ["crc", "head"] {
        block_on(async {
            let (store, others, asked) = stores();
            append(&store, "a").await;
            let base = append(&store, "b").await.snapshot;
            let base = base.newest_after_own().await.unwrap().unwrap();
            settled(&asked);
            let staged = Staged {
                adds: vec![add("c", None)],
                ..Staged::default()
            };
            asked.fail(Some(fails));
            let done = deltaplane_log::commit(&store, Some(base), &staged).await.unwrap();
            settled(&asked);
            let newest = done.snapshot.newest_after_own().await.unwrap();
            // Without the tag of the own commit only opening the table can tell.
            assert_eq!(newest.is_none(), fails == "head", "{fails}");
            asked.fail(None);
            let next = plan_write_after(
                &store,
                Some(&done.snapshot),
                schema(),
                request(json!({"mode": "append"})),
            );
            let next = go(next.await.unwrap());
            assert_eq!(next.version(), Some(2));
            let next = next.commit(vec![add("d", None)]).await.unwrap();
            settled(&asked);
            assert_eq!(next.version, 3);
            let opened = Snapshot::open(&others, None).await.unwrap();
            assert_eq!(files(&opened).await, ["a", "b", "c", "d"]);
            let has_checksum = others.read(&checksum_key(2)).await.is_ok();
            assert_eq!(has_checksum, fails == "head", "{fails}");
            let sum: Value = serde_json::from_slice(&others.read(&checksum_key(3)).await.unwrap()).unwrap();
            assert_eq!(sum["numFiles"], 4, "{fails}");
        });
    }
}

#[test]
fn a_follower_asks_for_the_next_commit_alone_and_lists_what_is_new() {
    block_on(async {
        let clock = Rc::new(Clock(Cell::new(now_ms())));
        let _environment = with_environment(clock.clone());
        let (store, others, asked) = stores();
        append(&others, "a").await;
        let tail = Tail::open(&store, TailRequest::default()).await.unwrap();
        let probe = |version: u64| format!("read {} 0..1048576", commit_key(version));
        let listing = || "list _delta_log".to_owned();
        asked.take();
        for _ in 0..2 {
            assert_eq!(tail.newest().await.unwrap().version(), 0);
            assert_eq!(asked.take(), [probe(1)]);
        }
        append(&others, "b").await;
        append(&others, "c").await;
        let newest = tail.newest().await.unwrap();
        assert_eq!(files(&newest).await, ["a", "b", "c"]);
        // The next commit was read by its name; the one after it is read once it was listed.
        assert_eq!(asked.take(), [listing(), probe(1), format!("read {}", commit_key(2))]);
        // A probe that fails doesn't mean that there is no commit.
        append(&others, "d").await;
        asked.fail(Some(&probe(3)));
        assert_eq!(tail.newest().await.unwrap().version(), 3);
        assert!(asked.take().contains(&listing()));
        asked.fail(Some("list"));
        append(&others, "e").await;
        assert_eq!(tail.newest().await.err().unwrap().kind(), Kind::StoreUnavailable);
        asked.fail(None);
        assert_eq!(files(&tail.newest().await.unwrap()).await, ["a", "b", "c", "d", "e"]);
        asked.take();
        // After a long time a free name doesn't mean that nothing is new: the next commits may have
        // been cleaned up behind a checkpoint.
        append(&others, "f").await;
        Snapshot::open(&others, None).await.unwrap().checkpoint().await.unwrap();
        append(&others, "g").await;
        others.delete(&commit_key(5)).await.unwrap();
        clock.0.set(clock.0.get() + 2 * 3_600_000);
        let newest = tail.newest().await.unwrap();
        assert_eq!(newest.version(), 6);
        assert_eq!(files(&newest).await, ["a", "b", "c", "d", "e", "f", "g"]);
        assert!(asked.take().contains(&listing()));
    });
}

/// A follower that takes one version at a time, and lists its files as a reader does: what it asked
/// from version 1, which has no files, to the newest.
async fn asked_to_follow(tail: &Tail, asked: &Asked, changes: bool) -> (u64, Vec<String>) {
    let limits = TailLimits {
        versions: Some(1),
        ..TailLimits::default()
    };
    let mut offset = tail.start(TailStart::Version(1)).await.unwrap();
    asked.take();
    let mut batches = 0;
    loop {
        let end = tail.end(&offset, limits, None).await.unwrap();
        if end == offset {
            return (batches, asked.take());
        }
        for _ in 0..2 {
            let count = match changes {
                true => tail.changes(&offset, &end).await.unwrap().len(),
                false => tail.files(&offset, &end).await.unwrap().len(),
            };
            assert_eq!(count, usize::from(batches > 0));
        }
        offset = end;
        batches += 1;
    }
}

#[test]
fn a_follower_far_behind_lists_once_and_reads_each_commit_once() {
    block_on(async {
        for changes in [false, true] {
            let (store, others, asked) = stores();
            append(&others, "first").await;
            set(&others, json!({"delta.enableChangeDataFeed": "true"})).await;
            const COMMITS: u64 = 300;
            for n in 0..COMMITS {
                append(&others, &format!("f{n}")).await;
            }
            let request = TailRequest {
                changes,
                ..TailRequest::default()
            };
            let tail = Tail::open(&store, request).await.unwrap();
            let (batches, asked) = asked_to_follow(&tail, &asked, changes).await;
            assert_eq!(batches, COMMITS + 1);
            let reads = |version: u64| format!("read {}", commit_key(version));
            for version in 1..=COMMITS + 1 {
                let times = asked.iter().filter(|a| **a == reads(version)).count();
                assert!(times <= 1 + usize::from(changes), "version {version}: {times} times");
            }
            let listings = asked.iter().filter(|a| a.starts_with("list")).count();
            assert!(listings <= 1 + 2 * usize::from(changes), "{listings} listings");
        }
    });
}
