//! What operations on a catalog's table ask the store and the catalog: opening costs one call to
//! the catalog and at most one listing, in two rounds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::counted::{self, Asked};
use deltaplane_log::committer::{Buffer, Committer, buffered};
use deltaplane_log::plan_write_after;
use deltaplane_store::finish_background;

use super::*;

/// A counted table in an object store that a catalog manages, and the plain store of its objects.
fn remote() -> (Store, Arc<MemoryCatalog>, Asked, Store) {
    remote_by(MemoryCatalog::default())
}

fn remote_by(catalog: MemoryCatalog) -> (Store, Arc<MemoryCatalog>, Asked, Store) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let (plain, _, asked) = counted::at(&format!("s3://managed-{number}/t"));
    let catalog = Arc::new(catalog);
    let store = managed(&plain, catalog.clone(), None).unwrap();
    (store, catalog, asked, plain)
}

fn settled(asked: &Asked, catalog: &MemoryCatalog) -> (Vec<String>, Vec<String>) {
    finish_background(Duration::from_secs(60));
    (asked.take(), catalog.calls())
}

#[test]
fn opening_asks_the_catalog_once_and_lists_once() {
    block_on(async {
        let (store, catalog, asked, plain) = remote();
        for path in ["a", "b", "c"] {
            append(&store, path).await;
        }
        settled(&asked, &catalog);
        Snapshot::open(&store, None).await.unwrap();
        let (requests, calls) = settled(&asked, &catalog);
        assert_eq!(calls, ["tail 0"]);
        let listings = requests.iter().filter(|r| r.starts_with("list")).count();
        assert_eq!(listings, 1, "{requests:?}");
        // Beside the catalog: the hint and the listing; after it the commits.
        let reads = requests.iter().filter(|r| r.contains(".json")).count();
        assert_eq!((reads, requests.len()), (3, 5), "{requests:?}");
        // The catalog's answer that named the table is the first one.
        let tail = LogTail {
            latest: Some(2),
            commits: catalog.held(),
            published: catalog.published_to(),
        };
        let named = managed(&plain, catalog.clone(), Some(tail)).unwrap();
        let opened = Snapshot::open(&named, None).await.unwrap();
        let (requests, calls) = settled(&asked, &catalog);
        assert_eq!((calls.len(), opened.version()), (0, 2));
        assert_eq!(requests.iter().filter(|r| r.starts_with("list")).count(), 1);
        // A refresh: one call, one listing.
        opened.update().await.unwrap();
        let (requests, calls) = settled(&asked, &catalog);
        assert_eq!(
            (requests, calls),
            (vec!["list _delta_log".to_owned()], vec!["tail 3".to_owned()])
        );
    });
}

#[test]
fn a_stream_s_next_batch_asks_the_catalog_once_and_lists_once() {
    for takes_turns in [false, true] {
        let catalog = MemoryCatalog {
            takes_turns,
            ..MemoryCatalog::default()
        };
        block_on(async {
            let (store, catalog, asked, _) = remote_by(catalog);
            append(&store, "a").await;
            let own = append(&store, "b").await.snapshot;
            settled(&asked, &catalog);
            let batch = request(json!({"mode": "append", "commit": {"txn": {"app_id": "stream", "version": 1}}}));
            plan_write_after(&store, Some(&own), schema(), batch).await.unwrap();
            let (requests, calls) = settled(&asked, &catalog);
            assert_eq!(
                (requests, calls),
                (vec!["list _delta_log".to_owned()], vec!["tail 2".to_owned()])
            );
        });
    }
}

#[test]
fn a_commit_is_one_staged_file_and_one_call() {
    block_on(async {
        let (store, catalog, asked, _) = remote();
        append(&store, "a").await;
        append(&store, "b").await;
        let plan = planned(&store, json!({"mode": "append"})).await;
        settled(&asked, &catalog);
        plan.commit(vec![add("c", None)]).await.unwrap();
        let (requests, calls) = settled(&asked, &catalog);
        assert_eq!(calls, ["propose 2"]);
        let puts: Vec<&String> = requests.iter().filter(|r| r.starts_with("put")).collect();
        let named = |part: &str| puts.iter().filter(|r| r.contains(part)).count();
        // The staged commit, the checksum, and the published commit.
        assert_eq!(
            (puts.len(), named("_staged_commits"), named(".crc")),
            (3, 1, 1),
            "{requests:?}"
        );
    });
}

#[test]
fn a_commit_that_waited_for_a_checkpoint_reads_none_of_the_commits_before_it() {
    let catalog = MemoryCatalog {
        takes_turns: true,
        permits: true,
        ..MemoryCatalog::default()
    };
    block_on(async {
        let (store, catalog, asked, _) = remote_by(catalog);
        let interval = json!({"mode": "append", "configuration": {"delta.checkpointInterval": "10"}});
        planned(&store, interval).await.commit(Vec::new()).await.unwrap();
        let early = planned(&store, json!({"mode": "append"})).await;
        for number in 0..40 {
            append(&store, &format!("f{number}")).await;
        }
        let (before, _) = settled(&asked, &catalog);
        assert!(before.iter().any(|r| r.contains("0030.checkpoint")), "{before:?}");
        let done = early.commit(vec![add("early", None)]).await.unwrap();
        let (requests, calls) = settled(&asked, &catalog);
        assert_eq!((done.version, files(&done.snapshot).await.len()), (41, 41));
        assert!(requests.iter().all(|r| r.contains("00041.")), "{requests:?}");
        assert_eq!(calls, ["propose 41"]);
    });
}

#[test]
fn other_tables_pay_nothing() {
    block_on(async {
        let (plain, _, asked) = counted::at("s3://unmanaged/t");
        append(&plain, "a").await;
        append(&plain, "b").await;
        finish_background(Duration::from_secs(60));
        asked.take();
        Snapshot::open(&plain, None).await.unwrap();
        assert_eq!(asked.take().len(), 4, "the hint, the listing and two commits");
    });
}

#[test]
fn publication_is_reported_without_another_proposal() {
    // P158
    let catalog = MemoryCatalog {
        inline_bytes: 1 << 20,
        report_delay: Some(Duration::ZERO),
        ..MemoryCatalog::default()
    };
    with_catalog(catalog, async |store, catalog, _| {
        append(&store, "a").await;
        catalog.calls();
        append(&store, "b").await;
        assert_eq!(catalog.published_to(), Some(1));
        assert_eq!(reports(&catalog.calls()), ["published 1"]);
        // The catalog knows it by now: neither the next reader nor the next proposal repeats it.
        newest(&store).await;
        assert!(reports(&catalog.calls()).is_empty());
        append(&store, "c").await;
        assert_eq!(reports(&catalog.calls()), ["published 2"]);
    });
}

fn reports(calls: &[String]) -> Vec<&str> {
    let calls = calls.iter().map(String::as_str);
    calls.filter(|call| call.starts_with("published")).collect()
}

#[test]
fn a_reader_reports_what_others_published() {
    // P158: in order, as far as the files have what the catalog ratified.
    let catalog = MemoryCatalog {
        report_delay: Some(Duration::ZERO),
        ..MemoryCatalog::default()
    };
    with_catalog(catalog, async |store, catalog, root| {
        append(&store, "a").await;
        for (version, path) in [(1, "b"), (2, "c"), (3, "d"), (4, "e")] {
            foreign(&catalog, root, version, path);
        }
        let publish = |version: u64, path: &str| {
            std::fs::write(
                root.join("_delta_log").join(commit_name(version)),
                text_of(path, version),
            )
            .unwrap();
        };
        publish(1, "b");
        publish(2, "c");
        publish(4, "e");
        catalog.calls();
        newest(&store).await;
        assert_eq!(reports(&catalog.calls()), ["published 2"]);
        publish(3, "wrong");
        newest(&store).await;
        assert!(reports(&catalog.calls()).is_empty());
        assert_eq!((catalog.published_to(), catalog.held().len()), (Some(2), 2));
    });
    let catalog = MemoryCatalog {
        report_delay: Some(Duration::ZERO),
        denies_reports: true,
        ..MemoryCatalog::default()
    };
    with_catalog(catalog, async |store, catalog, root| {
        append(&store, "a").await;
        let commit = foreign(&catalog, root, 1, "b");
        std::fs::write(
            root.join("_delta_log").join(commit_name(1)),
            text_of("b", commit.version),
        )
        .unwrap();
        catalog.calls();
        assert_eq!(newest(&store).await.0, 1);
        assert_eq!(newest(&store).await.0, 1);
        assert_eq!(
            reports(&catalog.calls()),
            ["published 1"],
            "a reader without the right asks once"
        );
    });
}

#[test]
fn a_transaction_s_table_is_freed_after_its_end() {
    run(async |plain, _| {
        let catalog = Arc::new(MemoryCatalog {
            inline_bytes: 1 << 20,
            ..MemoryCatalog::default()
        });
        let store = managed(&plain, catalog.clone(), None).unwrap();
        append(&store, "a").await;
        let tail = catalog.log_tail(0).await.unwrap();
        let buffer = Arc::new(Buffer::new("a transaction".to_owned(), tail, catalog.as_ref()).unwrap());
        let inside = buffered(&plain, Arc::clone(&buffer)).unwrap();
        Snapshot::open(&inside, None).await.unwrap().note_read(None);
        append(&inside, "b").await;
        assert!(buffer.has_reads() && buffer.has_commands());
        drop(inside);
        buffer.end();
        let freed = Arc::downgrade(&buffer);
        drop(buffer);
        assert!(freed.upgrade().is_none());
    });
}
