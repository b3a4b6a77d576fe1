//! Features that go again (P098): what is prepared, protected, waited for and refused.

use super::attempts::{actions, row_ids};
use super::*;
use deltaplane_log::{AlterRequest, Altered, RewriteFirst, alter};
use deltaplane_protocol::actions::{Action, DeletionVector};
use deltaplane_protocol::deletion_vectors::name_file;
use deltaplane_protocol::features::supported;

async fn change(store: &Store, request: serde_json::Value) -> deltaplane_log::Result<Altered> {
    let request = json!({"change": request, "commit": {}});
    alter(store, &serde_json::from_value::<AlterRequest>(request).unwrap()).await
}

async fn set(store: &Store, key: &str, value: &str) {
    let properties = json!({"change": "set_properties", "properties": {key: value}});
    change(store, properties).await.unwrap();
}

async fn drop_it(store: &Store, feature: &str, truncate: bool) -> deltaplane_log::Result<Altered> {
    let request = json!({"change": "drop_feature", "feature": feature, "truncate_history": truncate});
    change(store, request).await
}

fn logged(dir: &tempfile::TempDir) -> Vec<String> {
    let names = std::fs::read_dir(dir.path().join("_delta_log")).unwrap();
    let mut names: Vec<_> = names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Makes every file of the log this much older.
fn age(dir: &tempfile::TempDir, hours: u64) {
    for name in logged(dir) {
        let file = std::fs::File::options()
            .write(true)
            .open(dir.path().join("_delta_log").join(name));
        let Ok(file) = file else { continue };
        let before = file.metadata().unwrap().modified().unwrap();
        file.set_modified(before - std::time::Duration::from_secs(hours * 3600))
            .unwrap();
    }
}

async fn newest(store: &Store) -> Snapshot {
    Snapshot::open(store, None).await.unwrap()
}

fn has(s: &Snapshot, feature: &str) -> bool {
    supported(s.state().protocol()).contains(feature)
}

const BEFORE: &str = "delta.requireCheckpointProtectionBeforeVersion";

#[test]
fn old_versions_are_protected_by_checkpoints() {
    // P098, P157: the property goes, three checkpoints without it, then the feature, then a
    // checkpoint
    run(async |store, dir| {
        append(&store, "a").await;
        set(&store, "delta.checkpointPolicy", "v2").await;
        append(&store, "b").await;
        newest(&store).await.checkpoint().await.unwrap();
        let done = drop_it(&store, "v2checkpoint", false).await.unwrap();
        assert_eq!(done.version, Some(7));
        let s = newest(&store).await;
        assert!(!has(&s, "v2Checkpoint") && has(&s, "checkpointProtection"));
        let configuration = &s.state().metadata().configuration;
        assert_eq!(
            configuration.iter().collect::<Vec<_>>(),
            [(&BEFORE.to_owned(), &"7".to_owned())]
        );
        let classic: Vec<String> = logged(dir)
            .into_iter()
            .filter(|n| n.ends_with(".checkpoint.parquet"))
            .collect();
        let expected: Vec<String> = [4, 5, 6, 7]
            .iter()
            .map(|v| format!("{v:020}.checkpoint.parquet"))
            .collect();
        assert_eq!(classic, expected);
        assert_eq!(files(&s).await, ["a", "b"]);
        assert_eq!(files(&Snapshot::open(&store, Some(2)).await.unwrap()).await, ["a", "b"]);
        // The mark stays through later changes, and the versions behind it stay.
        set(&store, "k", "v").await;
        assert_eq!(newest(&store).await.state().metadata().configuration[BEFORE], "7");
        // Protection ends when history does.
        for (truncate, says) in [(false, "truncate_history"), (true, "WAIT_FOR_RETENTION")] {
            let e = drop_it(&store, "checkpointProtection", truncate).await.unwrap_err();
            assert!(e.message().contains(says), "{e}");
        }
        age(dir, 26);
        drop_it(&store, "checkpointProtection", true).await.unwrap();
        let s = newest(&store).await;
        assert!(!has(&s, "checkpointProtection") && !s.state().metadata().configuration.contains_key(BEFORE));
        assert!(!logged(dir).contains(&format!("{:020}.json", 6)));
        assert_eq!(files(&s).await, ["a", "b"]);
    });
}

#[test]
fn with_its_history_a_feature_goes_a_day_later() {
    // P098
    run(async |store, dir| {
        append(&store, "a").await;
        set(&store, "delta.checkpointPolicy", "v2").await;
        append(&store, "b").await;
        let e = drop_it(&store, "v2Checkpoint", true).await.unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidArgument);
        assert!(
            e.message().contains("DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD"),
            "{e}"
        );
        let prepared = newest(&store).await;
        assert!(has(&prepared, "v2Checkpoint") && prepared.state().metadata().configuration.is_empty());
        age(dir, 12);
        let e = drop_it(&store, "v2Checkpoint", true).await.unwrap_err();
        assert!(e.message().contains("version 1 needs it"), "{e}");
        age(dir, 13);
        append(&store, "c").await;
        drop_it(&store, "v2Checkpoint", true).await.unwrap();
        let s = newest(&store).await;
        assert_eq!(s.state().protocol().min_writer_version, 2);
        assert!(!logged(dir).contains(&format!("{:020}.json", 1)));
        assert_eq!(files(&s).await, ["a", "b", "c"]);
        let e = drop_it(&store, "appendOnly", true).await.unwrap_err();
        assert!(e.message().contains("HISTORY_TRUNCATION_NOT_ALLOWED"), "{e}");
    });
}

#[test]
fn row_ids_go_with_row_tracking_so_that_none_comes_twice() {
    // P140, P141
    run(async |store, dir| {
        append(&store, "a").await;
        append(&store, "b").await;
        set(&store, "delta.enableRowTracking", "true").await;
        append(&store, "c").await;
        let done = drop_it(&store, "rowTracking", false).await.unwrap();
        let version = done.version.unwrap();
        let operation = |v| match &actions(dir, v)[0] {
            Action::CommitInfo(i) => i["operation"].as_str().unwrap().to_owned(),
            other => panic!("{other:?}"),
        };
        let said: Vec<_> = (version - 2..=version).map(operation).collect();
        assert_eq!(said, ["SET TBLPROPERTIES", "ROW TRACKING UNBACKFILL", "DROP FEATURE"]);
        let s = newest(&store).await;
        assert!(!has(&s, "rowTracking") && !has(&s, "checkpointProtection") && has(&s, "domainMetadata"));
        assert!(s.state().metadata().configuration.is_empty() && s.domains().await.unwrap().is_empty());
        assert_eq!(files(&s).await, ["a", "b", "c"]);
        append(&store, "d").await;
        set(&store, "delta.enableRowTracking", "true").await;
        let backfill = newest(&store).await.version() - 1;
        let (mut ids, mark) = row_ids(dir, backfill);
        ids.sort_unstable();
        let first: Vec<i64> = ids.iter().map(|(id, _)| *id).collect();
        assert_eq!((first, mark), (vec![0, 2, 4, 6], Some(7)));
    });
}

#[test]
fn files_with_vectors_are_written_anew_first_and_old_vectors_stay() {
    // P098, P120: others than those who know vectors must not take their files for garbage
    run(async |store, dir| {
        append(&store, "a").await;
        set(&store, "delta.enableDeletionVectors", "true").await;
        let (file, name) = name_file(uuid::Uuid::from_u128(7));
        let marked = |path: &str, storage_type: &str, text: &str| Add {
            deletion_vector: Some(DeletionVector {
                storage_type: storage_type.to_owned(),
                path_or_inline_dv: text.to_owned(),
                offset: (storage_type == "u").then_some(1),
                size_in_bytes: 4,
                cardinality: 1,
            }),
            ..add(path, None)
        };
        let p = planned(&store, json!({"mode": "append"})).await;
        let adds = vec![
            marked("b", "u", &name),
            marked("c", "u", &name),
            marked("d", "i", "00000"),
        ];
        p.commit(adds).await.unwrap();
        let s = newest(&store).await;
        let how = s.rewrite_before_drop("deletionVectors").await.unwrap();
        assert_eq!(how, Some(RewriteFirst::Purge));
        let e = drop_it(&store, "deletionVectors", false).await.unwrap_err();
        assert!(e.message().contains("3 files may need it"), "{e}");
        assert_eq!(newest(&store).await.version(), 2, "nothing was committed");
        let over = planned(&store, json!({"mode": "overwrite"})).await;
        over.commit(vec![add("e", None)]).await.unwrap();
        assert_eq!(
            newest(&store)
                .await
                .rewrite_before_drop("deletionVectors")
                .await
                .unwrap(),
            None
        );
        drop_it(&store, "deletionVectors", false).await.unwrap();
        let s = newest(&store).await;
        assert!(!has(&s, "deletionVectors") && files(&s).await == ["e"]);
        // One tombstone for the file of two vectors, once.
        let removed = |v| {
            let paths = actions(dir, v).into_iter().filter_map(|a| match a {
                Action::Remove(r) => Some((r.path, r.data_change)),
                _ => None,
            });
            paths.collect::<Vec<_>>()
        };
        assert_eq!(removed(5), [(file, false)]);
        set(&store, "delta.enableDeletionVectors", "true").await;
        let before = newest(&store).await.version();
        drop_it(&store, "deletionVectors", false).await.unwrap();
        assert!((before + 1..=newest(&store).await.version()).all(|v| removed(v).is_empty()));
    });
}

#[test]
fn widened_columns_are_forgotten_where_somebody_wrote_their_files_anew() {
    // P098
    run(async |store, _| {
        append(&store, "a").await;
        set(&store, "delta.enableTypeWidening", "true").await;
        let widen = json!({"change": "change_type", "column": "id", "to": "decimal(20,0)"});
        change(&store, widen).await.unwrap();
        let seen = newest(&store).await.version();
        let drop_at = async |rewritten: Option<u64>| {
            change(
                &store,
                json!({"change": "drop_feature", "feature": "typeWidening", "rewritten": rewritten}),
            )
            .await
        };
        for not_looked_at in [None, Some(seen + 1)] {
            let e = drop_at(not_looked_at).await.unwrap_err();
            assert!(e.message().contains("1 files may need it"), "{e}");
        }
        append(&store, "b").await;
        let e = drop_at(Some(seen)).await.unwrap_err();
        assert!(e.message().contains("another writer's"), "{e}");
        drop_at(Some(seen + 1)).await.unwrap();
        let s = newest(&store).await;
        assert!(!has(&s, "typeWidening") && !s.schema().to_json().contains("typeChanges"));
        assert_eq!(files(&s).await, ["a", "b"]);
    });
}

#[test]
fn columns_that_files_know_by_name_are_unmapped() {
    // P098, P114
    run(async |store, _| {
        append(&store, "a").await;
        set(&store, "delta.columnMapping.mode", "name").await;
        let late = planned(&store, json!({"mode": "append"})).await;
        drop_it(&store, "columnMapping", false).await.unwrap();
        let s = newest(&store).await;
        assert!(!has(&s, "columnMapping"));
        assert_eq!(s.schema().to_json(), schema().to_json());
        // A plan that was made with the column mapping is refused.
        assert_eq!(
            late.commit(vec![add("b", None)]).await.err().unwrap().kind(),
            Kind::MetadataChanged
        );
        append(&store, "c").await;
        set(&store, "delta.columnMapping.mode", "name").await;
        change(
            &store,
            json!({"change": "rename_column", "column": "day", "to": "date"}),
        )
        .await
        .unwrap();
        let e = drop_it(&store, "columnMapping", false).await.unwrap_err();
        assert!(e.message().contains("`date` has another name in files"), "{e}");
    });
}

#[test]
fn appends_go_on_while_a_feature_is_dropped() {
    run(async |store, _| {
        append(&store, "start").await;
        set(&store, "delta.enableTypeWidening", "true").await;
        let writer = {
            let store = store.clone();
            tokio::spawn(async move {
                let mut written = 0;
                for i in 0..20 {
                    let p = planned(&store, json!({"mode": "append"})).await;
                    // Changes of the metadata are conflicts, which a writer runs into and tries
                    // again.
                    written += usize::from(p.commit(vec![add(&format!("f{i}"), None)]).await.is_ok());
                }
                written
            })
        };
        drop_it(&store, "typeWidening", false).await.unwrap();
        let written = writer.await.unwrap();
        let s = newest(&store).await;
        assert_eq!(files(&s).await.len(), 1 + written);
        let before: u64 = s.state().metadata().configuration[BEFORE].parse().unwrap();
        let snapshot = Snapshot::open(&store, Some(before)).await.unwrap();
        assert!(
            !has(&snapshot, "typeWidening")
                && has(&Snapshot::open(&store, Some(before - 1)).await.unwrap(), "typeWidening")
        );
    });
}
