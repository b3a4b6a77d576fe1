//! The log's other files: compactions, checksums, checkpoints that turn out damaged, commits' own
//! times.

use super::*;
use std::path::PathBuf;

fn log(dir: &tempfile::TempDir, name: &str) -> PathBuf {
    dir.path().join("_delta_log").join(name)
}

fn commit_file(dir: &tempfile::TempDir, version: u64) -> PathBuf {
    log(dir, &format!("{version:020}.json"))
}

fn change<T: AsRef<[u8]>>(path: PathBuf, with: impl FnOnce(&str) -> T) {
    let old = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, with(&old)).unwrap();
}

#[test]
fn a_compaction_is_read_instead_of_its_commits() {
    // P011
    run(async |store, dir| {
        for f in ["a", "b", "c", "d"] {
            append(&store, f).await;
        }
        let merged: String = (1..=2)
            .map(|v| std::fs::read_to_string(commit_file(dir, v)).unwrap())
            .flat_map(|t| {
                t.lines()
                    .filter(|l| l.starts_with("{\"add\""))
                    .map(|l| format!("{l}\n"))
                    .collect::<Vec<_>>()
            })
            .collect();
        let compaction = log(dir, &format!("{:020}.{:020}.compacted.json", 1, 2));
        std::fs::write(&compaction, &merged).unwrap();
        let sound = std::fs::read(commit_file(dir, 2)).unwrap();
        std::fs::write(commit_file(dir, 2), "damaged").unwrap();
        let s = Snapshot::open(&store, None).await.unwrap();
        assert_eq!(files(&s).await, ["a", "b", "c", "d"]);
        assert_eq!(s.tail_length(), 4);
        // A version inside of it needs its commits.
        assert_eq!(files(&Snapshot::open(&store, Some(1)).await.unwrap()).await, ["a", "b"]);
        assert_eq!(Snapshot::open(&store, Some(2)).await.unwrap().version(), 2);
        std::fs::write(commit_file(dir, 2), sound).unwrap();
        for damaged in ["damaged", "{\"add\":{}}"] {
            std::fs::write(&compaction, damaged).unwrap();
            assert_eq!(files(&Snapshot::open(&store, None).await.unwrap()).await.len(), 4);
        }
    });
}

#[test]
fn winners_that_a_compaction_covers_are_still_checked() {
    run(async |store, dir| {
        append(&store, "a").await;
        let overwrite = planned(&store, json!({"mode": "overwrite"})).await;
        let blind = planned(&store, json!({"mode": "append"})).await;
        append(&store, "b").await;
        append(&store, "c").await;
        std::fs::write(log(dir, &format!("{:020}.{:020}.compacted.json", 1, 2)), "damaged").unwrap();
        assert_eq!(blind.commit(vec![add("d", None)]).await.unwrap().version, 3);
        let e = overwrite.commit(vec![add("e", None)]).await.err().unwrap();
        assert_eq!(e.kind(), Kind::ConcurrentAppend);
    });
}

#[test]
fn a_checksum_gives_the_state_unless_the_log_says_otherwise() {
    // P018, P019
    run(async |store, dir| {
        for i in 0..=10 {
            append(&store, &format!("f{i:02}")).await;
        }
        let first = std::fs::read_to_string(commit_file(dir, 0)).unwrap();
        let part = |name: &str| -> serde_json::Value {
            let line = first.lines().find(|l| l.starts_with(&format!("{{\"{name}\""))).unwrap();
            serde_json::from_str::<serde_json::Value>(line).unwrap()[name].clone()
        };
        let mut metadata = part("metaData");
        metadata["name"] = json!("told by the checksum");
        let sum = |metadata| {
            json!({"tableSizeBytes": 110, "numFiles": 11, "numMetadata": 1, "numProtocol": 1, "metadata": metadata,
                   "protocol": part("protocol")})
            .to_string()
        };
        let crc = log(dir, &format!("{:020}.crc", 10));
        std::fs::write(&crc, sum(metadata.clone())).unwrap();
        let name = async |v| {
            let s = Snapshot::open(&store, v).await.unwrap();
            s.state().metadata().name.clone()
        };
        assert_eq!(name(None).await.as_deref(), Some("told by the checksum"));
        for bad in ["", "{", r#"{"numFiles":3}"#] {
            std::fs::write(&crc, bad).unwrap();
            assert_eq!(name(None).await, None, "{bad}");
        }
        // One whose schema is damaged.
        let mut spoilt = metadata.clone();
        spoilt["schemaString"] = json!("{");
        std::fs::write(&crc, sum(spoilt)).unwrap();
        assert_eq!(name(None).await, None);
        // One that contradicts a commit which it covers.
        append(&store, "last").await;
        std::fs::write(&crc, "{").unwrap();
        std::fs::write(log(dir, &format!("{:020}.crc", 11)), sum(metadata)).unwrap();
        change(commit_file(dir, 11), |old| {
            let mut m = part("metaData");
            m["name"] = json!("told by the log");
            format!("{old}{}\n", json!({ "metaData": m }))
        });
        assert_eq!(name(Some(11)).await.as_deref(), Some("told by the log"));
    });
}

#[test]
fn a_checkpoint_whose_damage_shows_while_it_is_read() {
    // P019's neighbour: the footer is sound, a page isn't. What was sent is not sent again.
    run(async |store, dir| {
        const FILES: usize = 40_000;
        let many = (0..FILES).map(|i| add(&format!("f{i:05}"), None)).collect();
        planned(&store, json!({"mode": "append"}))
            .await
            .commit(many)
            .await
            .unwrap();
        append(&store, "removed").await;
        let s = Snapshot::open(&store, None).await.unwrap();
        s.checkpoint().await.unwrap();
        append(&store, "tail").await;
        let key = log(dir, &format!("{:020}.checkpoint.parquet", 1));
        let sound = std::fs::read(&key).unwrap();
        let file = std::fs::File::open(&key).unwrap();
        let footer = parquet::file::metadata::ParquetMetaDataReader::new()
            .parse_and_finish(&file)
            .unwrap();
        let mut chunks = footer.row_groups().iter().flat_map(|g| g.columns());
        let (start, length) = chunks
            .rfind(|c| c.column_path().string() == "add.path")
            .unwrap()
            .byte_range();
        let end = usize::try_from(start + length).unwrap();
        let mut bytes = sound.clone();
        bytes[end - 300..end].fill(0);
        std::fs::write(&key, &bytes).unwrap();
        let s = Snapshot::open(&store, None).await.unwrap();
        assert_eq!((s.tail_length(), files(&s).await.len()), (1, FILES + 2));
        // Without the older commits there is nothing to fall back on: the file is named.
        std::fs::remove_file(commit_file(dir, 0)).unwrap();
        let e = s
            .plan(None, PlanColumns::Logged)
            .try_collect::<Vec<_>>()
            .await
            .unwrap_err();
        assert_eq!(e.kind(), Kind::CorruptFile);
        assert!(e.path().unwrap().contains("checkpoint"), "{e}");
        std::fs::write(&key, sound).unwrap();
        assert_eq!(files(&s).await.len(), FILES + 2);
    });
}

#[test]
fn a_checkpoint_that_another_writer_replaces_is_never_mixed_with_it() {
    // P050: footer and pages are read one by one.
    run(async |store, dir| {
        for f in ["a", "b", "c"] {
            append(&store, f).await;
        }
        let key = log(dir, &format!("{:020}.checkpoint.parquet", 2));
        Snapshot::open(&store, None).await.unwrap().checkpoint().await.unwrap();
        let snapshot = Snapshot::open(&store, None).await.unwrap();
        assert_eq!(snapshot.tail_length(), 0);
        let mut other = std::fs::read(&key).unwrap();
        // Of the same length, and valid for a reader that trusts the offsets of the old footer.
        let end = other.len() - 4;
        other[4..end].fill(0);
        std::fs::write(&key, other).unwrap();
        assert_eq!(files(&snapshot).await, ["a", "b", "c"], "from the commits");
    });
}

#[test]
fn a_sound_checkpoint_is_left_alone_and_a_damaged_one_written_anew() {
    // P061
    run(async |store, dir| {
        append(&store, "a").await;
        let s = append(&store, "b").await.snapshot;
        let key = log(dir, &format!("{:020}.checkpoint.parquet", 1));
        let first = s.checkpoint().await.unwrap();
        let written = || std::fs::metadata(&key).unwrap().modified().unwrap();
        let (bytes, then) = (std::fs::read(&key).unwrap(), written());
        assert_eq!(s.checkpoint().await.unwrap(), first);
        assert_eq!(written(), then);
        std::fs::write(&key, &bytes[..bytes.len() / 2]).unwrap();
        assert_eq!(s.checkpoint().await.unwrap(), first);
        let mended = Snapshot::open(&store, None).await.unwrap();
        assert_eq!((mended.tail_length(), files(&mended).await.len()), (0, 2));
    });
}

#[test]
fn a_newer_checkpoint_stands_in_for_one_that_was_cleaned_up() {
    // P063: the older snapshot's checkpoint and the commits before the newer one are gone when it
    // is updated and read.
    run(async |store, dir| {
        for f in ["a", "b", "c", "d"] {
            append(&store, f).await;
        }
        let second = Snapshot::open(&store, Some(1)).await.unwrap();
        second.checkpoint().await.unwrap();
        let snapshot = Snapshot::open(&store, Some(1)).await.unwrap();
        let newest = Snapshot::open(&store, None).await.unwrap();
        newest.checkpoint().await.unwrap();
        let updated = snapshot.update().await.unwrap();
        for version in 0..=2 {
            std::fs::remove_file(commit_file(dir, version)).unwrap();
        }
        std::fs::remove_file(log(dir, &format!("{:020}.checkpoint.parquet", 1))).unwrap();
        assert_eq!((updated.version(), files(&updated).await), (3, files(&newest).await));
    });
}

#[test]
fn commits_own_times_lead_to_versions() {
    // P082, P085, P086: enabled at version 2, whose time is before the files' times
    run(async |store, dir| {
        for i in 0..5u64 {
            append(&store, &format!("f{i}")).await;
            let file = std::fs::File::open(commit_file(dir, i)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(10 * (i + 1)))
                .unwrap();
        }
        let stamp = |dir: &tempfile::TempDir, v: u64, ms: u64| {
            change(commit_file(dir, v), |old| {
                old.replacen(
                    "{\"commitInfo\":{",
                    &format!("{{\"commitInfo\":{{\"inCommitTimestamp\":{ms},"),
                    1,
                )
            });
        };
        let first = std::fs::read_to_string(commit_file(dir, 0)).unwrap();
        let line = first.lines().find(|l| l.starts_with("{\"metaData\"")).unwrap();
        let mut metadata: serde_json::Value = serde_json::from_str(line).unwrap();
        metadata["metaData"]["configuration"] = json!({"delta.enableInCommitTimestamps": "true",
            "delta.inCommitTimestampEnablementVersion": "2", "delta.inCommitTimestampEnablementTimestamp": "25000"});
        for (v, ms) in [(2, 25_000), (3, 26_000), (4, 90_000)] {
            stamp(dir, v, ms);
        }
        change(commit_file(dir, 2), |old| format!("{old}{metadata}\n"));
        for (ms, version) in [
            (10_000, 0),
            (24_999, 1),
            (25_000, 2),
            (26_500, 3),
            (89_999, 3),
            (90_000, 4),
        ] {
            assert_eq!(Snapshot::open_at(&store, ms).await.unwrap().version(), version, "{ms}");
        }
        let s = Snapshot::open(&store, None).await.unwrap();
        assert_eq!(s.timestamp_ms().await.unwrap(), Some(90_000));
        let times: Vec<i64> = s.history(None).await.unwrap().iter().map(|h| h.timestamp_ms).collect();
        assert_eq!(times, [90_000, 26_000, 25_000, 20_000, 10_000]);
        change(commit_file(dir, 3), |old| {
            old.replace("\"inCommitTimestamp\":26000,", "")
        });
        let s = Snapshot::open(&store, None).await.unwrap();
        for e in [
            s.history(None).await.err(),
            Snapshot::open_at(&store, 25_500).await.err(),
        ] {
            let e = e.unwrap();
            assert_eq!((e.kind(), e.version()), (Kind::CorruptLog, Some(3)));
        }
    });
}

#[test]
fn the_newest_commits_have_the_times_that_the_whole_history_tells() {
    // P082: commit 40 is out of order, so that all later ones follow it a millisecond apart.
    run(async |store, dir| {
        let began = std::time::SystemTime::now() - std::time::Duration::from_secs(7_200);
        for i in 0..130u64 {
            append(&store, &format!("f{i}")).await;
            let file = std::fs::File::open(commit_file(dir, i)).unwrap();
            let seconds = if i == 40 { 3_600 } else { i };
            file.set_modified(began + std::time::Duration::from_secs(seconds))
                .unwrap();
        }
        let s = Snapshot::open(&store, None).await.unwrap();
        let all = s.history(None).await.unwrap();
        assert_eq!((all.len(), all[0].timestamp_ms - all[89].timestamp_ms), (130, 89));
        assert_eq!(all[90].timestamp_ms - all[129].timestamp_ms, 39_000);
        for limit in [0, 1, 10, 30, 130, 1_000] {
            let newest = s.history(Some(limit)).await.unwrap();
            let shown = |entries: &[deltaplane_log::HistoryEntry]| {
                entries.iter().map(|e| (e.version, e.timestamp_ms)).collect::<Vec<_>>()
            };
            assert_eq!(shown(&newest), shown(&all[..limit.min(130)]), "{limit}");
        }
    });
}
