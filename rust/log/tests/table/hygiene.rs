//! What follows commits and keeps the log short: checksums, V2 checkpoints, compactions, clean-up.

use super::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

fn log(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("_delta_log")
}

fn names(dir: &Path, ending: &str) -> BTreeSet<String> {
    let listed = std::fs::read_dir(dir).map(|d| d.map(|e| e.unwrap().file_name().into_string().unwrap()).collect());
    let all: Vec<String> = listed.unwrap_or_default();
    all.into_iter()
        .filter(|n| n.ends_with(ending) && !n.starts_with('.'))
        .collect()
}

fn age(path: &Path, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * 86_400);
    std::fs::File::open(path).unwrap().set_modified(then).unwrap();
}

fn sum(dir: &tempfile::TempDir, version: u64) -> Option<Value> {
    let text = std::fs::read(log(dir).join(format!("{version:020}.crc"))).ok()?;
    Some(serde_json::from_slice(&text).unwrap())
}

async fn create(store: &Store, configuration: Value) -> Snapshot {
    let r = json!({"mode": "error", "configuration": configuration});
    create_table(store, schema(), request(r)).await.unwrap()
}

#[test]
fn each_commit_gets_a_checksum_from_the_one_before() {
    // P018
    run(async |store, dir| {
        create(
            &store,
            json!({"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}),
        )
        .await;
        append(&store, "a").await;
        let txn = json!({"mode": "append", "commit": {"txn": {"app_id": "feed", "version": 7}}});
        planned(&store, txn)
            .await
            .commit(vec![add("b", None), add("c", None)])
            .await
            .unwrap();
        let checksum = sum(dir, 2).unwrap();
        assert_eq!(
            (&checksum["numFiles"], &checksum["tableSizeBytes"]),
            (&json!(3), &json!(30))
        );
        assert_eq!(checksum["setTransactions"][0]["appId"], "feed");
        assert_eq!(checksum["domainMetadata"][0]["domain"], "delta.rowTracking");
        assert!(checksum["inCommitTimestampOpt"].as_i64().unwrap() > 1_000_000);
        planned(&store, json!({"mode": "overwrite"}))
            .await
            .commit(vec![add("d", None)])
            .await
            .unwrap();
        let over = sum(dir, 3).unwrap();
        assert_eq!((&over["numFiles"], &over["tableSizeBytes"]), (&json!(1), &json!(10)));
        // A missing checksum is written again if that reads no checkpoint.
        std::fs::remove_file(log(dir).join(format!("{:020}.crc", 3))).unwrap();
        append(&store, "e").await;
        let again = sum(dir, 4).unwrap();
        assert_eq!(
            (&again["numFiles"], again["setTransactions"].as_array().unwrap().len()),
            (&json!(2), 1)
        );
        for v in 5..=9 {
            append(&store, &format!("f{v}")).await;
        }
        std::fs::remove_file(log(dir).join(format!("{:020}.crc", 9))).unwrap();
        append(&store, "at the checkpoint").await;
        assert_eq!(sum(dir, 10).unwrap()["numFiles"], 8);
        std::fs::remove_file(log(dir).join(format!("{:020}.crc", 10))).unwrap();
        append(&store, "after it").await;
        assert_eq!(sum(dir, 11), None);
    });
}

#[test]
fn v2_checkpoints_name_untouched_sidecars_again() {
    // P016, P056-P058, P062
    run(async |store, dir| {
        create(
            &store,
            json!({"delta.checkpointPolicy": "v2", "delta.enableRowTracking": "true"}),
        )
        .await;
        let many = |n: usize| {
            (0..n)
                .map(move |i| add(&format!("n{n}-{i:06}"), None))
                .collect::<Vec<_>>()
        };
        planned(&store, json!({"mode": "append"}))
            .await
            .commit(many(80_000))
            .await
            .unwrap();
        let s = Snapshot::open(&store, None).await.unwrap();
        let first = s.checkpoint().await.unwrap();
        assert_eq!(
            (first.kind, first.adds, first.sidecars, first.kept_sidecars),
            ("v2", 80_000, 79, 0)
        );
        let hint = std::fs::read_to_string(log(dir).join("_last_checkpoint")).unwrap();
        assert!(hint.contains("\"checksum\":\""), "{hint}");
        let sidecars = log(dir).join("_sidecars");
        assert_eq!(names(&sidecars, ".parquet").len(), 79);
        append(&store, "tail").await;
        let s = Snapshot::open(&store, None).await.unwrap();
        assert_eq!(s.tail_length(), 1);
        let second = s.checkpoint().await.unwrap();
        assert_eq!((second.adds, second.sidecars, second.kept_sidecars), (1, 80, 79));
        assert_eq!(
            second.actions,
            80_001 + 1 + 1 + 1 + 1 + 80,
            "files, state, domain, sidecars"
        );
        for v in 0..=1 {
            std::fs::remove_file(log(dir).join(format!("{v:020}.json"))).unwrap();
        }
        let s = Snapshot::open(&store, None).await.unwrap();
        assert_eq!((s.tail_length(), files(&s).await.len()), (0, 80_001));
        assert_eq!(s.domains().await.unwrap().len(), 1);
        // An overwrite touches every sidecar; the new ones hold the tombstones.
        let over = planned(&store, json!({"mode": "overwrite"})).await;
        let over = over.commit(vec![add("only", None)]).await.unwrap().snapshot;
        let third = over.checkpoint().await.unwrap();
        assert_eq!((third.adds, third.kept_sidecars), (1, 0));
        assert_eq!(files(&Snapshot::open(&store, None).await.unwrap()).await, ["only"]);
        // A missing sidecar makes the checkpoint useless: the one before and its commits do (P057).
        let newest = names(&sidecars, ".parquet")
            .into_iter()
            .max_by_key(|n| std::fs::metadata(sidecars.join(n)).unwrap().modified().unwrap());
        std::fs::remove_file(sidecars.join(newest.unwrap())).unwrap();
        assert_eq!(files(&Snapshot::open(&store, None).await.unwrap()).await, ["only"]);
    });
}

#[test]
fn compactions_hold_the_newest_word() {
    // P011, P012
    run(async |store, dir| {
        create(&store, json!({"delta.enableRowTracking": "true"})).await;
        append(&store, "a").await;
        append(&store, "b").await;
        let txn = json!({"mode": "overwrite", "commit": {"txn": {"app_id": "feed", "version": 7}}});
        planned(&store, txn).await.commit(vec![add("c", None)]).await.unwrap();
        append(&store, "d").await;
        let s = Snapshot::open(&store, None).await.unwrap();
        for (from, to) in [(2, 2), (3, 1), (1, 9)] {
            assert_eq!(
                s.compact_logs(from, to).await.err().unwrap().kind(),
                Kind::InvalidArgument
            );
        }
        s.compact_logs(1, 3).await.unwrap();
        let text = std::fs::read_to_string(log(dir).join(format!("{:020}.{:020}.compacted.json", 1, 3))).unwrap();
        let mut kinds: Vec<&str> = text.lines().map(|l| l.split('"').nth(1).unwrap()).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, ["add", "domainMetadata", "remove", "remove", "txn"]);
        std::fs::write(log(dir).join(format!("{:020}.json", 2)), "damaged").unwrap();
        let s = Snapshot::open(&store, None).await.unwrap();
        assert_eq!(files(&s).await, ["c", "d"]);
        assert_eq!(s.transactions(0).await.unwrap()[0].version, 7);
        assert_eq!(s.checkpoint().await.unwrap().actions, 2 + 1 + 1 + 2 + 2);
        assert_eq!(s.compact_logs(1, 4).await.err().unwrap().kind(), Kind::CorruptLog);
    });
}

#[test]
fn cleanup_deletes_what_is_past_its_time_and_no_more() {
    // P059, P063, P064, P065
    run(async |store, dir| {
        let s = create(
            &store,
            json!({"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "3", "delta.enableExpiredLogCleanup": "false",
                   "delta.logRetentionDuration": "interval 5 days",
                   "delta.deletedFileRetentionDuration": "interval 5 days"}),
        )
        .await;
        for i in 1..=8 {
            append(&store, &format!("f{i}")).await;
        }
        assert_eq!(s.cleanup_metadata().await.unwrap().log_files, 0);
        let commit = |v: u64| log(dir).join(format!("{v:020}.json"));
        for v in 0..=8 {
            age(&commit(v), 20 - v);
        }
        let sidecars = log(dir).join("_sidecars");
        let orphan = sidecars.join("00000000-0000-0000-0000-000000000000.parquet");
        std::fs::write(&orphan, "left by a writer that stopped").unwrap();
        let young = sidecars.join("10000000-0000-0000-0000-000000000000.parquet");
        std::fs::write(&young, "being written").unwrap();
        for n in names(&sidecars, ".parquet") {
            if !young.ends_with(&n) {
                age(&sidecars.join(&n), 3);
            }
        }
        // All is old enough for version 6's checkpoint, but that one is damaged: version 3's is
        // kept.
        let bad = names(&log(dir), ".parquet")
            .into_iter()
            .find(|n| n.starts_with(&format!("{:020}", 6)))
            .unwrap();
        let sound = std::fs::read(log(dir).join(&bad)).unwrap();
        std::fs::write(log(dir).join(&bad), b"PAR1 damaged PAR1").unwrap();
        let s = Snapshot::open(&store, None).await.unwrap();
        let e = s.cleanup_metadata().await.unwrap_err();
        assert_eq!(
            e.kind(),
            Kind::CorruptFile,
            "sidecars of a damaged checkpoint are unknown: they stay"
        );
        assert!(orphan.exists() && !commit(2).exists() && commit(3).exists());
        assert_eq!(files(&Snapshot::open(&store, Some(5)).await.unwrap()).await.len(), 5);
        std::fs::write(log(dir).join(&bad), sound).unwrap();
        let report = s.cleanup_metadata().await.unwrap();
        assert_eq!(report.kept_from, Some(6));
        assert!(report.sidecars >= 1 && !orphan.exists() && young.exists());
        assert_eq!(names(&log(dir), ".json").len(), 3);
        assert!(
            log(dir).join(format!("{:020}.checkpoint.parquet", 6)).exists(),
            "for old clients (P059)"
        );
        assert_eq!(files(&Snapshot::open(&store, None).await.unwrap()).await.len(), 8);
        assert_eq!(files(&Snapshot::open(&store, Some(6)).await.unwrap()).await.len(), 6);
        assert_eq!(s.cleanup_metadata().await.unwrap().log_files, 0);
    });
}

#[test]
fn a_checkpoint_cleans_up_unless_it_is_protected() {
    // P065, P157
    run(async |store, dir| {
        create(&store, json!({"delta.checkpointInterval": "3"})).await;
        for i in 1..=5 {
            append(&store, &format!("f{i}")).await;
        }
        let commit = |v: u64| log(dir).join(format!("{v:020}.json"));
        for v in 0..=4 {
            age(&commit(v), 50 - v);
        }
        let text = std::fs::read_to_string(commit(5)).unwrap();
        let first = std::fs::read_to_string(commit(0)).unwrap();
        let mut metadata: Value =
            serde_json::from_str(first.lines().find(|l| l.starts_with("{\"metaData\"")).unwrap()).unwrap();
        metadata["metaData"]["configuration"]["delta.requireCheckpointProtectionBeforeVersion"] = json!("5");
        std::fs::write(commit(5), format!("{text}{metadata}\n")).unwrap();
        std::fs::remove_file(log(dir).join(format!("{:020}.crc", 5))).unwrap();
        append(&store, "f6").await;
        assert!(commit(0).exists(), "version 3 is before the protected version 5");
        for v in 5..=7 {
            append(&store, &format!("f{}", v + 2)).await;
            age(&commit(v), 50 - v);
        }
        append(&store, "f10").await;
        assert_eq!(Snapshot::open(&store, None).await.unwrap().version(), 10);
        assert!(
            !commit(5).exists() && commit(6).exists(),
            "version 6 is past the protected ones"
        );
        assert_eq!(files(&Snapshot::open(&store, Some(6)).await.unwrap()).await.len(), 6);
        assert_eq!(files(&Snapshot::open(&store, None).await.unwrap()).await.len(), 10);
    });
}

#[test]
fn cleanup_may_stop_after_any_file() {
    // P063, P157: commits go before the checkpoints that they lead to
    use deltaplane_protocol::segment::{LogName, obsolete};
    run(async |store, dir| {
        create(&store, json!({"delta.checkpointInterval": "3"})).await;
        for i in 1..=7 {
            append(&store, &format!("f{i}")).await;
        }
        Snapshot::open(&store, None)
            .await
            .unwrap()
            .compact_logs(4, 7)
            .await
            .unwrap();
        let listed: Vec<LogName> = names(&log(dir), "")
            .iter()
            .filter_map(|n| LogName::parse(n, 1, 0))
            .collect();
        let gone = obsolete(&listed, 6);
        assert_eq!(
            gone.len(),
            6 + 1 + 6 + 1,
            "commits, a checkpoint, checksums, a compaction"
        );
        for name in gone {
            std::fs::remove_file(log(dir).join(&*name.name)).unwrap();
            for v in [6, 7] {
                let s = Snapshot::open(&store, Some(v)).await.unwrap();
                assert_eq!(files(&s).await.len() as u64, v, "without {}", name.name);
            }
            let newest = Snapshot::open(&store, None).await.unwrap();
            assert_eq!(newest.version(), 7);
        }
        append(&store, "f8").await;
    });
}

/// Names that a commit with everything after it leaves in the log, in the order in which they come
/// about.
const AFTER_A_COMMIT: [&str; 3] = ["crc", "checkpoint.parquet", "_last_checkpoint"];

#[test]
fn a_crash_after_the_commit_takes_nothing_away() {
    // P007, P018, P019: the commit stays, readers read it, the next writer goes on
    for left in 0..=AFTER_A_COMMIT.len() {
        run(async |store, dir| {
            let r = json!({"mode": "error", "configuration": {"delta.checkpointInterval": "1"}});
            create_table(&store, schema(), request(r)).await.unwrap();
            append(&store, "a").await;
            let log = dir.path().join("_delta_log");
            let file = |name: &str| match name {
                "_last_checkpoint" => log.join(name),
                end => log.join(format!("{:020}.{end}", 1)),
            };
            for gone in &AFTER_A_COMMIT[left..] {
                std::fs::remove_file(file(gone)).unwrap();
            }
            if AFTER_A_COMMIT[left..].contains(&"checkpoint.parquet") {
                // A writer that died in the middle leaves a temporary file, or none, but no torn
                // checkpoint.
                std::fs::write(log.join(".00000000000000000001.checkpoint.parquet.tmp"), b"PAR1").unwrap();
            }
            let s = Snapshot::open(&store, None).await.unwrap();
            assert_eq!((s.version(), files(&s).await), (1, vec!["a".to_owned()]), "{left}");
            append(&store, "b").await;
            for name in ["crc", "checkpoint.parquet"] {
                assert!(log.join(format!("{:020}.{name}", 2)).is_file(), "{left} {name}");
            }
            let sum: serde_json::Value =
                serde_json::from_slice(&std::fs::read(log.join(format!("{:020}.crc", 2))).unwrap()).unwrap();
            assert_eq!(
                (&sum["numFiles"], &sum["tableSizeBytes"]),
                (&json!(2), &json!(20)),
                "{left}"
            );
            assert_eq!(files(&Snapshot::open(&store, None).await.unwrap()).await, ["a", "b"]);
        });
    }
}

#[test]
fn what_can_not_be_written_after_a_commit_does_not_fail_it() {
    // P007: folders have the names that the checksum and the checkpoint would get
    run(async |store, dir| {
        let r = json!({"mode": "error", "configuration": {"delta.checkpointInterval": "1"}});
        create_table(&store, schema(), request(r)).await.unwrap();
        for end in ["crc", "checkpoint.parquet"] {
            std::fs::create_dir_all(dir.path().join(format!("_delta_log/{:020}.{end}/x", 1))).unwrap();
        }
        assert_eq!(append(&store, "a").await.version, 1);
        assert_eq!(append(&store, "b").await.version, 2);
        let s = Snapshot::open(&store, None).await.unwrap();
        assert_eq!(files(&s).await, ["a", "b"]);
    });
}
