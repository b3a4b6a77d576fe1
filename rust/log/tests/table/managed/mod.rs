//! Tables of a catalog: what readers see, how a proposal ends, publishing (P158).

mod gates;
mod memory_catalog;
mod rounds;

use std::path::Path;
use std::sync::Arc;

use deltaplane_log::committer::{Content, LogTail, Ratified, StagedFile, managed};
use memory_catalog::{MemoryCatalog, Next};

use super::*;

/// A table on a local disk that this catalog manages.
fn with_catalog<T>(catalog: MemoryCatalog, test: impl AsyncFnOnce(Store, Arc<MemoryCatalog>, &Path) -> T) -> T {
    run(async |plain, dir| {
        let catalog = Arc::new(catalog);
        let store = managed(&plain, catalog.clone(), None).unwrap();
        test(store, catalog, dir.path()).await
    })
}

/// The names in a folder of the log, `""` for the log itself, sorted.
fn names(root: &Path, folder: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root.join("_delta_log").join(folder)) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn commits_there(root: &Path) -> Vec<String> {
    names(root, "").into_iter().filter(|n| n.ends_with(".json")).collect()
}

fn commit_name(version: u64) -> String {
    format!("{version:020}.json")
}

fn text_of(path: &str, version: u64) -> String {
    let info = json!({"commitInfo": {
        "timestamp": 1, "operation": "WRITE", "inCommitTimestamp": 4_000_000_000_000u64 + version,
        "txnId": format!("foreign-{version}"), "isBlindAppend": true, "engineInfo": "another engine",
    }});
    let add = json!({"add": {
        "path": path, "partitionValues": {"day": null}, "size": 10, "modificationTime": 1, "dataChange": true,
    }});
    format!("{info}\n{add}\n")
}

/// A foreign client's commit, staged and ratified, not published.
fn foreign(catalog: &MemoryCatalog, root: &Path, version: u64, path: &str) -> Ratified {
    let text = text_of(path, version);
    let name = format!("{version:020}.0d1cbc6c-e164-4b51-b2d4-3f7b1e0c51a3.json");
    let folder = root.join("_delta_log/_staged_commits");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(&name), &text).unwrap();
    let file = StagedFile {
        name,
        size_bytes: text.len() as u64,
        modified_ms: 1,
    };
    let commit = Ratified {
        version,
        content: Content::Staged(file),
        timestamp_ms: 4_000_000_000_000 + i64::try_from(version).unwrap(),
    };
    catalog.ratify(commit.clone());
    commit
}

async fn newest(store: &Store) -> (u64, Vec<String>) {
    let snapshot = Snapshot::open(store, None).await.unwrap();
    (snapshot.version(), files(&snapshot).await)
}

#[test]
fn a_table_is_created_written_and_read_through_its_catalog() {
    // P158
    with_catalog(MemoryCatalog::default(), async |store, catalog, root| {
        append(&store, "a").await;
        let done = append(&store, "b").await;
        assert_eq!((done.version, done.attempts), (1, 1));
        assert_eq!(newest(&store).await, (1, vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(files(&Snapshot::open(&store, Some(0)).await.unwrap()).await, ["a"]);
        let proposals = catalog.proposals();
        let (first, second) = (&proposals[0], &proposals[1]);
        assert!(matches!(first.content, Content::Published(_)));
        let protocol = first.protocol.as_ref().unwrap();
        let features = protocol.writer_features.as_ref().unwrap();
        for needed in ["catalogManaged", "inCommitTimestamp", "vacuumProtocolCheck"] {
            assert!(features.iter().any(|f| f == needed), "{needed}");
        }
        let configuration = &first.metadata.as_ref().unwrap().configuration;
        assert_eq!(configuration["delta.enableInCommitTimestamps"], "true");
        // The staged commit's name, and what its commit info says.
        let Content::Staged(file) = &second.content else {
            panic!("{second:?}")
        };
        assert!(
            file.name.starts_with(&format!("{:020}.", 1)) && file.name.len() == 20 + 1 + 36 + 5,
            "{}",
            file.name
        );
        let staged = std::fs::read_to_string(root.join("_delta_log/_staged_commits").join(&file.name)).unwrap();
        assert_eq!(staged.len() as u64, file.size_bytes);
        let info: serde_json::Value = serde_json::from_str(staged.lines().next().unwrap()).unwrap();
        assert_eq!(info["commitInfo"]["inCommitTimestamp"], second.timestamp_ms);
        assert_eq!(info["commitInfo"]["txnId"], second.txn_id.as_str());
        assert!(second.timestamp_ms > first.timestamp_ms && second.txn_id != first.txn_id);
        assert!(second.protocol.is_none() && second.metadata.is_none());
    });
}

#[test]
fn readers_see_what_the_catalog_ratified() {
    // P158: nothing above its newest version; its commit wins over a published file of the version;
    // other staged files mean nothing (P014).
    with_catalog(MemoryCatalog::default(), async |store, catalog, root| {
        append(&store, "a").await;
        foreign(&catalog, root, 1, "b");
        foreign(&catalog, root, 2, "c");
        let log = root.join("_delta_log");
        std::fs::write(log.join(commit_name(2)), text_of("wrong", 2)).unwrap();
        std::fs::write(log.join(commit_name(3)), text_of("above", 3)).unwrap();
        std::fs::write(log.join(format!("{:020}.crc", 3)), "{}").unwrap();
        let rejected = "_staged_commits/00000000000000000002.7d17ac10-5cc3-401b-bd1a-9c82dd2ea032.json";
        std::fs::write(log.join(rejected), text_of("rejected", 2)).unwrap();
        assert_eq!(newest(&store).await, (2, ["a", "b", "c"].map(str::to_owned).to_vec()));
        let above = Snapshot::open(&store, Some(3)).await.err().unwrap();
        assert_eq!(above.kind(), Kind::VersionNotFound);
        let first = Snapshot::open(&store, Some(1)).await.unwrap();
        assert_eq!(first.update().await.unwrap().version(), 2);
        let history = first.update().await.unwrap().history(None).await.unwrap();
        assert_eq!(history.iter().map(|e| e.version).collect::<Vec<_>>(), [2, 1, 0]);
        assert_eq!(history[0].timestamp_ms, 4_000_000_000_002);
        assert_eq!(
            deltaplane_log::log_history(&store, Some(1)).await.unwrap()[0].version,
            2
        );
    });
}

#[test]
fn inline_commits_are_read_before_they_are_published() {
    // P158
    let catalog = MemoryCatalog {
        inline_bytes: 1 << 20,
        ..MemoryCatalog::default()
    };
    with_catalog(catalog, async |store, catalog, root| {
        append(&store, "a").await;
        append(&store, "b").await;
        assert!(names(root, "_staged_commits").is_empty());
        let text = Bytes::from(text_of("c", 2));
        catalog.ratify(Ratified {
            version: 2,
            content: Content::Inline(text),
            timestamp_ms: 4_000_000_000_002,
        });
        assert_eq!(newest(&store).await, (2, ["a", "b", "c"].map(str::to_owned).to_vec()));
        assert!(!commits_there(root).contains(&commit_name(2)));
        assert_eq!(append(&store, "d").await.version, 3);
        assert_eq!(commits_there(root), [0, 1, 2, 3].map(commit_name), "published in order");
        let published = std::fs::read_to_string(root.join("_delta_log").join(commit_name(2))).unwrap();
        assert_eq!(published, text_of("c", 2));
    });
}

#[test]
fn a_lost_race_is_rebased_on_what_the_catalog_ratified() {
    with_catalog(MemoryCatalog::default(), async |store, catalog, root| {
        append(&store, "a").await;
        let behind = planned(&store, json!({"mode": "append"})).await;
        foreign(&catalog, root, 1, "b");
        foreign(&catalog, root, 2, "c");
        let done = behind.commit(vec![add("d", None)]).await.unwrap();
        assert_eq!((done.version, done.attempts), (3, 2));
        let overwrite = planned(&store, json!({"mode": "overwrite"})).await;
        foreign(&catalog, root, 4, "e");
        let lost = overwrite.commit(vec![add("f", None)]).await.err().unwrap();
        assert_eq!(lost.kind(), Kind::ConcurrentAppend);
        assert_eq!(newest(&store).await.0, 4);
        // Each proposed version follows the one that was ratified before.
        let versions: Vec<u64> = catalog.proposals().iter().map(|p| p.version).collect();
        assert_eq!(versions, [0, 1, 3, 4]);
    });
}

#[test]
fn an_unknown_outcome_is_looked_up() {
    // P072, P158
    with_catalog(MemoryCatalog::default(), async |store, catalog, _| {
        append(&store, "a").await;
        for (version, next) in [(1, Next::LostAfter), (2, Next::LostBefore)] {
            catalog.fail(&[next]);
            catalog.calls();
            let done = append(&store, &format!("f{version}")).await;
            assert_eq!((done.version, done.attempts), (version, 1), "{next:?}");
            let calls = catalog.calls();
            let proposed = calls.iter().filter(|c| c.starts_with("propose")).count();
            assert_eq!(proposed, if next == Next::LostAfter { 1 } else { 2 }, "{calls:?}");
            assert!(calls.contains(&format!("tail {version}")), "looked up: {calls:?}");
        }
        // A repetition proposes the same file: it can't be ratified beside the first one.
        let proposals = catalog.proposals();
        let same: Vec<_> = proposals
            .iter()
            .filter(|p| p.version == 2)
            .map(|p| &p.content)
            .collect();
        assert_eq!(same[0], same[1]);
        catalog.fail(&[Next::LostBefore; 100]);
        let open = planned(&store, json!({"mode": "append"}))
            .await
            .commit(vec![add("g", None)])
            .await;
        let open = open.err().unwrap();
        assert_eq!((open.kind(), open.version()), (Kind::StoreUnavailable, Some(3)));
        assert!(
            !open.kind().rules_out_commit() && open.message().contains("isn't known"),
            "{open}"
        );
        catalog.fail(&[Next::Refused]);
        let refused = planned(&store, json!({"mode": "append"}))
            .await
            .commit(vec![add("h", None)])
            .await;
        let refused = refused.err().unwrap();
        assert_eq!(refused.kind(), Kind::StoreDenied);
        assert!(refused.message().contains("the catalog of this test"), "{refused}");
        assert_eq!(newest(&store).await.0, 2);
    });
}

#[test]
fn publishing_is_in_order_by_anybody_and_idempotent() {
    // P158
    with_catalog(MemoryCatalog::default(), async |store, catalog, root| {
        append(&store, "a").await;
        for (version, path) in [(1, "b"), (2, "c"), (3, "d")] {
            foreign(&catalog, root, version, path);
        }
        assert_eq!(commits_there(root), [commit_name(0)]);
        let snapshot = Snapshot::open(&store, Some(2)).await.unwrap();
        assert_eq!(snapshot.publish().await.unwrap(), 2);
        assert_eq!(commits_there(root), [0, 1, 2].map(commit_name));
        assert_eq!((catalog.published_to(), catalog.held().len()), (Some(2), 1));
        assert_eq!(snapshot.publish().await.unwrap(), 2);
        let newest_version = Snapshot::open(&store, None).await.unwrap();
        assert_eq!(files(&newest_version).await, ["a", "b", "c", "d"]);
        assert_eq!(newest_version.publish().await.unwrap(), 3);
        // Versions that a catalog no longer holds are read from their files.
        assert!(catalog.held().is_empty());
        assert_eq!(newest(&store).await.0, 3);
        // Another program wrote a file without the catalog.
        foreign(&catalog, root, 4, "e");
        std::fs::write(root.join("_delta_log").join(commit_name(4)), text_of("wrong", 4)).unwrap();
        let wrong = Snapshot::open(&store, None)
            .await
            .unwrap()
            .publish()
            .await
            .err()
            .unwrap();
        assert_eq!((wrong.kind(), wrong.version()), (Kind::CorruptLog, Some(4)));
        assert_eq!(catalog.published_to(), Some(3));
    });
}

#[test]
fn a_full_catalog_is_published_first() {
    let catalog = MemoryCatalog {
        most_unpublished: Some(2),
        ..MemoryCatalog::default()
    };
    with_catalog(catalog, async |store, catalog, root| {
        append(&store, "a").await;
        foreign(&catalog, root, 1, "b");
        foreign(&catalog, root, 2, "c");
        let done = append(&store, "d").await;
        assert_eq!((done.version, done.attempts), (3, 1));
        assert_eq!(commits_there(root), [0, 1, 2, 3].map(commit_name));
        let calls = catalog.calls();
        assert!(calls.contains(&"published 2".to_owned()), "{calls:?}");
    });
}

#[test]
fn a_catalog_that_lies_is_refused() {
    with_catalog(MemoryCatalog::default(), async |store, catalog, root| {
        append(&store, "a").await;
        append(&store, "b").await;
        let open = async || Snapshot::open(&store, None).await.err().unwrap();
        let lie = |latest, commits| LogTail {
            latest,
            commits,
            published: None,
        };
        let outside = Ratified {
            version: 2,
            content: Content::Staged(StagedFile {
                name: "../../../etc/passwd".to_owned(),
                size_bytes: 1,
                modified_ms: 1,
            }),
            timestamp_ms: 1,
        };
        // A version that is nowhere, one before the newest known one, a name outside of the folder.
        for tail in [
            lie(Some(7), Vec::new()),
            lie(Some(0), Vec::new()),
            lie(None, Vec::new()),
            lie(Some(2), vec![outside]),
        ] {
            catalog.lie(tail.clone());
            let refused = open().await;
            assert_eq!(refused.kind(), Kind::CorruptLog, "{tail:?}: {refused}");
            assert!(refused.message().contains("the catalog of this test"), "{refused}");
        }
        assert_eq!(commits_there(root).len(), 2);
    });
}
