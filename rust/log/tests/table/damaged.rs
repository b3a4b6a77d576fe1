//! Every file of a log, changed as nobody wrote it: commits, compactions, checksums, hints,
//! checkpoints (one file, JSON and Parquet manifests, sidecars). Opening and planning ends in files
//! or in a typed error, in bounded time. PROPTEST_CASES sets the number of cases (64 unless told).

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::changes::{apply, change};

/// Far longer than any of these tables takes, on a machine that does other things too.
const LONGEST: Duration = Duration::from_secs(20);
const CASES: u32 = 64;

pub(super) type Files = Vec<(String, Vec<u8>)>;

/// A table of each layout of the log.
pub(super) static TABLES: LazyLock<Vec<Files>> = LazyLock::new(|| {
    let classic = made(json!({}), true);
    let v2 = made(json!({"delta.checkpointPolicy": "v2"}), true);
    vec![made(json!({}), false), classic, with_json_manifest(&v2), v2]
});

/// A few commits and, if wanted, a checkpoint, after which one more comes.
fn made(configuration: Value, checkpoint: bool) -> Files {
    run(async |store, dir| {
        let r = json!({"mode": "error", "configuration": configuration, "partition_by": ["day"]});
        create_table(&store, schema(), request(r)).await.unwrap();
        for n in 0..3 {
            let files = vec![add(&format!("f{n}"), Some("2024-01-01"))];
            planned(&store, json!({"mode": "append"}))
                .await
                .commit(files)
                .await
                .unwrap();
        }
        let s = Snapshot::open(&store, None).await.unwrap();
        if checkpoint {
            s.checkpoint().await.unwrap();
            append_day(&store).await;
            // Without the commits before the checkpoint, only the checkpoint has their actions.
            for version in 0..3 {
                std::fs::remove_file(dir.path().join(format!("_delta_log/{version:020}.json"))).unwrap();
            }
        } else {
            s.compact_logs(1, 3).await.unwrap();
        }
        let mut files: Files = Vec::new();
        let mut objects = store.list_all("_delta_log").await.unwrap();
        while let Some(object) = objects.try_next().await.unwrap() {
            files.push((object.key.clone(), store.read(&object.key).await.unwrap().to_vec()));
        }
        files.sort();
        files
    })
}

async fn append_day(store: &Store) {
    let files = vec![add("late", Some("2024-01-02"))];
    planned(store, json!({"mode": "append"}))
        .await
        .commit(files)
        .await
        .unwrap();
}

/// The same table with a V2 checkpoint whose top file is JSON, as other writers make it.
fn with_json_manifest(v2: &Files) -> Files {
    let first = made(json!({"delta.checkpointPolicy": "v2"}), false);
    let state = first
        .iter()
        .find(|(key, _)| key.ends_with(&format!("{:020}.json", 0)))
        .unwrap();
    let state = String::from_utf8(state.1.clone()).unwrap();
    let mut lines: Vec<String> = vec![json!({"checkpointMetadata": {"version": 3}}).to_string()];
    lines.extend(
        state
            .lines()
            .filter(|l| l.contains("\"metaData\"") || l.contains("\"protocol\""))
            .map(str::to_owned),
    );
    for (key, bytes) in v2.iter().filter(|(key, _)| key.contains("_sidecars/")) {
        let name = key.rsplit('/').next().unwrap();
        let sidecar = json!({"path": name, "sizeInBytes": bytes.len(), "modificationTime": 1});
        lines.push(json!({"sidecar": sidecar}).to_string());
    }
    let top = |key: &str| key.contains(".checkpoint.") && key.ends_with(".parquet") && !key.contains("_sidecars");
    let mut files: Files = v2.iter().filter(|(key, _)| !top(key)).cloned().collect();
    let name = format!(
        "_delta_log/{:020}.checkpoint.2cd9a5f2-7e4b-4b0a-9a35-6fbb2a7b3b0e.json",
        3
    );
    files.push((name, lines.join("\n").into_bytes()));
    files
}

/// Puts the files into a place of their own.
pub(super) async fn placed(files: &Files) -> Store {
    static PLACES: AtomicUsize = AtomicUsize::new(0);
    let n = PLACES.fetch_add(1, Ordering::Relaxed);
    let location = Location::parse(&format!("memory://damaged-{n}/t")).unwrap();
    let store = Store::open(&location, &Options::default()).unwrap();
    for (key, bytes) in files {
        store.put(key, Bytes::from(bytes.clone())).await.unwrap();
    }
    store
}

/// All that a reader asks of a table: its files, or the error that it got.
pub(super) async fn read(store: &Store) -> deltaplane_error::Result<Vec<String>> {
    let s = Snapshot::open(store, None).await?;
    s.domains().await?;
    s.transactions(0).await?;
    let batches: Vec<_> = s.plan(None, PlanColumns::Logged).try_collect().await?;
    let mut paths = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            paths.push(FileRows::new(batch).path(row)?.to_owned());
        }
    }
    paths.sort();
    Ok(paths)
}

#[test]
fn the_samples_are_sound() {
    let after_a_checkpoint = ["f0", "f1", "f2", "late"];
    for (files, expected) in TABLES.iter().zip([
        &after_a_checkpoint[..3],
        &after_a_checkpoint,
        &after_a_checkpoint,
        &after_a_checkpoint,
    ]) {
        let counts = block_on(async { read(&placed(files).await).await.unwrap() });
        assert_eq!(
            counts,
            expected,
            "{:?}",
            files.iter().map(|(key, _)| key).collect::<Vec<_>>()
        );
    }
    let kinds = [
        "_last_checkpoint",
        ".crc",
        ".compacted.json",
        ".checkpoint.parquet",
        "_sidecars/",
        "3b0e.json",
    ];
    for kind in kinds {
        assert!(TABLES.iter().flatten().any(|(key, _)| key.contains(kind)), "{kind}");
    }
}

#[test]
fn a_commit_beyond_the_limit_is_neither_read_nor_written() {
    run(async |store, dir| {
        append(&store, "a").await;
        let limited = [("max_commit_bytes".to_owned(), "2 KiB".to_owned())];
        let location = Location::parse(dir.path().to_str().unwrap()).unwrap();
        let limited = Store::open(&location, &Options::new(limited)).unwrap();
        append(&limited, "b").await;
        let many = (0..20).map(|n| add(&format!("c{n}"), None)).collect::<Vec<_>>();
        let refused = planned(&limited, json!({"mode": "append"}))
            .await
            .commit(many.clone())
            .await;
        let e = refused.err().unwrap();
        assert_eq!(e.kind(), Kind::InvalidArgument);
        assert!(e.to_string().contains("max_commit_bytes"), "{e}");
        planned(&store, json!({"mode": "append"}))
            .await
            .commit(many)
            .await
            .unwrap();
        let e = Snapshot::open(&limited, None).await.err().unwrap();
        assert_eq!((e.kind(), e.version()), (Kind::CorruptLog, Some(2)));
        assert!(e.to_string().contains("max_commit_bytes"), "{e}");
        assert!(e.path().unwrap().ends_with("00000000000000000002.json"), "{e}");
        assert_eq!(
            files(&Snapshot::open(&limited, Some(1)).await.unwrap()).await,
            ["a", "b"]
        );
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_file_of_the_log_is_read_or_refused(
        table in any::<prop::sample::Index>(),
        file in any::<prop::sample::Index>(),
        changes in prop::collection::vec(change(), 1..4),
    ) {
        judged(table, file, |bytes| apply(bytes, &changes));
    }

    #[test]
    fn a_cut_file_of_the_log_is_read_or_refused(
        table in any::<prop::sample::Index>(),
        file in any::<prop::sample::Index>(),
        position in any::<prop::sample::Index>(),
    ) {
        judged(table, file, |bytes| bytes[..position.index(bytes.len() + 1)].to_vec());
    }
}

fn judged(table: prop::sample::Index, file: prop::sample::Index, change: impl Fn(&[u8]) -> Vec<u8>) {
    let mut files = TABLES[table.index(TABLES.len())].clone();
    let chosen = file.index(files.len());
    files[chosen].1 = change(&files[chosen].1);
    let began = Instant::now();
    let done = block_on(async { read(&placed(&files).await).await });
    assert!(
        began.elapsed() < LONGEST,
        "{}: took {:?}",
        files[chosen].0,
        began.elapsed()
    );
    if let Err(e) = done {
        assert_ne!(e.kind(), Kind::Internal, "{}: {e}", files[chosen].0);
    }
}
