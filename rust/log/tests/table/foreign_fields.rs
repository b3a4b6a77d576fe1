//! Actions with required fields only, as other writers may leave them (P020, P045, P076): they
//! count like others in a snapshot, in each kind of checkpoint and after log cleanup.

use super::*;
use std::time::{Duration, SystemTime};

/// The commits of a table with each optional field left out, then of a writer that sets null.
fn commits() -> Vec<String> {
    let fields = r#"{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"day\",\"type\":\"date\",\"nullable\":true,\"metadata\":{}}]}"#;
    let add = |path: &str| {
        format!(
            r#"{{"add":{{"path":"{path}","partitionValues":{{}},"size":10,"modificationTime":1,"dataChange":true}}}}"#
        )
    };
    let first = [
        r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#.to_owned(),
        format!(
            r#"{{"metaData":{{"id":"a","format":{{"provider":"parquet"}},"schemaString":"{fields}","partitionColumns":[]}}}}"#
        ),
        add("kept"),
        add("removed"),
        add("removed%20too"),
        r#"{"txn":{"appId":"plain","version":1}}"#.to_owned(),
        r#"{"txn":{"appId":"null","version":2,"lastUpdated":null}}"#.to_owned(),
        r#"{"txn":{"appId":"old","version":3,"lastUpdated":1}}"#.to_owned(),
    ];
    let second = [
        r#"{"remove":{"path":"removed","dataChange":true}}"#.to_owned(),
        r#"{"remove":{"path":"removed%20too","deletionTimestamp":null,"dataChange":false,"partitionValues":null,"size":null,"tags":null}}"#.to_owned(),
        add("late"),
        r#"{"txn":{"appId":"plain","version":7}}"#.to_owned(),
    ];
    vec![first.join("\n"), second.join("\n")]
}

async fn check(store: &Store, case: &str) {
    let s = Snapshot::open(store, None).await.unwrap();
    assert_eq!(files(&s).await, ["kept", "late"], "{case}");
    let now = deltaplane_log::now_ms();
    let mut files_by_age: Vec<(String, i64)> = s
        .transactions(now)
        .await
        .unwrap()
        .into_iter()
        .map(|t| (t.app_id, t.version))
        .collect();
    files_by_age.sort();
    let right = [("null", 2), ("old", 3), ("plain", 7)].map(|(id, version)| (id.to_owned(), version));
    assert_eq!(files_by_age, right, "{case}");
    for (id, version) in right {
        assert_eq!(
            s.transactions(now)
                .await
                .unwrap()
                .iter()
                .find(|t| t.app_id == id)
                .unwrap()
                .version,
            version
        );
    }
}

fn log_file(dir: &tempfile::TempDir, version: usize) -> std::path::PathBuf {
    dir.path().join(format!("_delta_log/{version:020}.json"))
}

#[test]
fn fields_that_are_left_out_lose_nothing() {
    for policy in ["classic", "v2"] {
        run(async |store, dir| {
            std::fs::create_dir(dir.path().join("_delta_log")).unwrap();
            for (version, text) in commits().into_iter().enumerate() {
                std::fs::write(log_file(dir, version), text).unwrap();
            }
            check(&store, "commits").await;
            if policy == "v2" {
                let asked = json!({"change": {"change": "set_properties", "properties": {"delta.checkpointPolicy": "v2"}}, "commit": {}});
                deltaplane_log::alter(&store, &serde_json::from_value(asked).unwrap())
                    .await
                    .unwrap();
            }
            Snapshot::open(&store, None)
                .await
                .unwrap()
                .compact_logs(0, 1)
                .await
                .unwrap();
            check(&store, "compaction").await;
            Snapshot::open(&store, None).await.unwrap().checkpoint().await.unwrap();
            check(&store, "checkpoint").await;
            // A second checkpoint is made of the first one.
            append(&store, "later").await;
            let newest = Snapshot::open(&store, None).await.unwrap();
            newest.checkpoint().await.unwrap();
            let removed = r#"{"remove":{"path":"later","dataChange":true}}"#;
            std::fs::write(log_file(dir, newest.version() as usize + 1), removed).unwrap();
            check(&store, "second checkpoint").await;
            let then = SystemTime::now() - Duration::from_secs(60 * 86_400);
            for version in 0..newest.version() as usize {
                std::fs::File::open(log_file(dir, version))
                    .unwrap()
                    .set_modified(then)
                    .unwrap();
            }
            Snapshot::open(&store, None)
                .await
                .unwrap()
                .cleanup_metadata()
                .await
                .unwrap();
            assert!(!log_file(dir, 0).exists());
            check(&store, "cleanup").await;
        });
    }
}

#[test]
fn retention_of_applications_expires_by_their_time_alone() {
    // P045: as in delta-spark, one without a time expires where a retention is set.
    run(async |store, dir| {
        std::fs::create_dir(dir.path().join("_delta_log")).unwrap();
        for (version, text) in commits().into_iter().enumerate() {
            let text = text.replace(
                r#""partitionColumns":[]"#,
                r#""partitionColumns":[],"configuration":{"delta.setTransactionRetentionDuration":"interval 1 days"}"#,
            );
            let now = deltaplane_log::now_ms();
            std::fs::write(
                log_file(dir, version),
                text.replace(r#""version":7"#, &format!(r#""version":7,"lastUpdated":{now}"#)),
            )
            .unwrap();
        }
        let s = Snapshot::open(&store, None).await.unwrap();
        let apps: Vec<String> = s
            .transactions(deltaplane_log::now_ms())
            .await
            .unwrap()
            .into_iter()
            .map(|t| t.app_id)
            .collect();
        assert_eq!(apps, ["plain"]);
    });
}
