//! What each attempt of a commit decides again: in-commit timestamps, row ids, domains.

use super::*;
use deltaplane_protocol::actions::{Action, parse_commit};
use serde_json::Value;

pub(super) fn actions(dir: &tempfile::TempDir, version: u64) -> Vec<Action> {
    let path = dir.path().join("_delta_log").join(format!("{version:020}.json"));
    parse_commit(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn own_time(dir: &tempfile::TempDir, version: u64) -> i64 {
    match &actions(dir, version)[0] {
        Action::CommitInfo(i) => i["inCommitTimestamp"].as_i64().unwrap(),
        other => panic!("provenance comes first, not {other:?}"),
    }
}

/// Base row ids and versions of the files that a commit added, and its new high-water mark.
pub(super) fn row_ids(dir: &tempfile::TempDir, version: u64) -> (Vec<(i64, i64)>, Option<i64>) {
    let (mut ids, mut mark) = (Vec::new(), None);
    for a in actions(dir, version) {
        match a {
            Action::Add(a) => ids.push((a.base_row_id.unwrap(), a.default_row_commit_version.unwrap())),
            Action::DomainMetadata(d) if d.domain == "delta.rowTracking" => {
                let v: Value = serde_json::from_str(&d.configuration).unwrap();
                mark = v["rowIdHighWaterMark"].as_i64();
            }
            _ => {}
        }
    }
    (ids, mark)
}

async fn create(store: &Store, configuration: Value) -> Snapshot {
    let r = json!({"mode": "error", "configuration": configuration});
    create_table(store, schema(), request(r)).await.unwrap()
}

#[test]
fn times_only_grow_on_every_attempt() {
    // P073, P083, P084
    run(async |store, dir| {
        let s = create(&store, json!({"delta.enableInCommitTimestamps": "true"})).await;
        assert!(
            s.state().metadata().configuration.len() == 1,
            "no enablement keys at version 0"
        );
        let late = planned(&store, json!({"mode": "append"})).await;
        append(&store, "a").await;
        // The winner's clock was a day ahead.
        let ahead = own_time(dir, 0) + 86_400_000;
        let path = dir.path().join("_delta_log").join(format!("{:020}.json", 1));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace(&own_time(dir, 1).to_string(), &ahead.to_string())).unwrap();
        let done = late.commit(vec![add("b", None)]).await.unwrap();
        assert_eq!((done.version, done.attempts), (2, 2));
        assert_eq!(own_time(dir, 2), ahead + 1);
        assert_eq!(done.snapshot.timestamp_ms().await.unwrap(), Some(ahead + 1));
    });
}

#[test]
fn the_feed_takes_no_other_time_for_a_missing_one() {
    // P085
    run(async |store, dir| {
        let on = json!({"delta.enableInCommitTimestamps": "true", "delta.enableChangeDataFeed": "true"});
        create(&store, on).await;
        let done = append(&store, "a").await;
        assert_eq!(
            done.snapshot.changes(1).await.unwrap()[0].timestamp_ms,
            own_time(dir, 1)
        );
        let path = dir.path().join("_delta_log").join(format!("{:020}.json", 1));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("inCommitTimestamp", "gone")).unwrap();
        let e = Snapshot::open(&store, None)
            .await
            .unwrap()
            .changes(1)
            .await
            .unwrap_err();
        assert_eq!((e.kind(), e.version()), (Kind::CorruptLog, Some(1)));
    });
}

#[test]
fn row_ids_follow_the_base_of_the_attempt() {
    // P073, P140, P141
    run(async |store, dir| {
        let s = create(&store, json!({"delta.enableRowTracking": "true"})).await;
        let names = &s.state().metadata().configuration;
        assert!(names["delta.rowTracking.materializedRowIdColumnName"].starts_with("_row-id-col-"));
        assert!(
            names["delta.rowTracking.materializedRowCommitVersionColumnName"].starts_with("_row-commit-version-col-")
        );
        let late = planned(&store, json!({"mode": "append"})).await;
        append(&store, "a").await;
        assert_eq!(row_ids(dir, 1), (vec![(0, 1)], Some(1)));
        let done = late.commit(vec![add("b", None), add("c", None)]).await.unwrap();
        assert_eq!(done.attempts, 2);
        assert_eq!(row_ids(dir, 2), (vec![(2, 2), (4, 2)], Some(5)));
        let over = planned(&store, json!({"mode": "overwrite"})).await;
        let over = over.commit(vec![add("d", None)]).await.unwrap();
        assert_eq!(row_ids(dir, 3), (vec![(6, 3)], Some(7)));
        let removed: Vec<_> = actions(dir, 3)
            .into_iter()
            .filter_map(|a| match a {
                Action::Remove(r) => Some((r.base_row_id.unwrap(), r.default_row_commit_version.unwrap())),
                _ => None,
            })
            .collect();
        assert_eq!(removed.len(), 3);
        assert!(removed.contains(&(4, 2)));
        // The mark goes on from a checkpoint too.
        over.snapshot.checkpoint().await.unwrap();
        append(&store, "e").await;
        assert_eq!(row_ids(dir, 4), (vec![(8, 4)], Some(9)));
        let unmeasured = Add {
            stats: None,
            ..add("f", None)
        };
        let p = planned(&store, json!({"mode": "append"})).await;
        let e = p.commit(vec![unmeasured]).await.err().unwrap();
        assert!(e.message().contains("numRecords"), "{e}");
    });
}

#[test]
fn domains_are_set_kept_and_removed() {
    // P040, P151, section 5.1 rule 3
    run(async |store, dir| {
        let plain = create(&store, json!({})).await;
        let e = plain.set_domain("mine", Some("{}".into())).await.err().unwrap();
        assert_eq!(e.kind(), Kind::UnsupportedFeature);
        std::fs::remove_dir_all(dir.path().join("_delta_log")).unwrap();
        let s = create(&store, json!({"delta.enableRowTracking": "true"})).await;
        for name in ["", "delta.rowTracking", "Delta.x"] {
            let e = s.set_domain(name, Some("{}".into())).await.err().unwrap();
            assert_eq!(e.kind(), Kind::InvalidArgument, "{name}");
        }
        let commit = s.set_domain("mine", Some(r#"{"a":1}"#.into())).await.unwrap();
        let lost = s.set_domain("mine", Some("{}".into())).await.err().unwrap();
        assert_eq!(lost.kind(), Kind::ConcurrentTransaction);
        s.set_domain("other", Some("x".into())).await.unwrap();
        append(&store, "a").await;
        let domains =
            async |s: &Snapshot| -> Vec<String> { s.domains().await.unwrap().into_iter().map(|d| d.domain).collect() };
        let now = Snapshot::open(&store, None).await.unwrap();
        assert_eq!(domains(&now).await, ["delta.rowTracking", "mine", "other"]);
        let gone = now.set_domain("mine", None).await.unwrap();
        assert_eq!(domains(&gone.snapshot).await, ["delta.rowTracking", "other"]);
        assert!(actions(dir, gone.version).iter().any(|a| matches!(a,
            Action::DomainMetadata(d) if d.removed && d.configuration == r#"{"a":1}"#)));
        let e = gone.snapshot.set_domain("mine", None).await.err().unwrap();
        assert_eq!(e.kind(), Kind::InvalidArgument);
        assert_eq!(domains(&commit.snapshot).await, ["mine"]);
    });
}

#[test]
fn a_new_table_is_clustered() {
    // P152
    run(async |store, _| {
        let clustered = |columns: Value, more: Value| {
            let mut r = json!({"mode": "error", "cluster_by": columns});
            r.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            request(r)
        };
        for (columns, more) in [
            (json!(["nope"]), json!({})),
            (json!(["id", "ID"]), json!({})),
            (json!(["id"]), json!({"partition_by": ["day"]})),
            (
                json!(["day"]),
                json!({"configuration": {"delta.dataSkippingNumIndexedCols": "1"}}),
            ),
            (json!(["a", "b", "c", "d", "e"]), json!({})),
        ] {
            let e = create_table(&store, schema(), clustered(columns.clone(), more))
                .await
                .err()
                .unwrap();
            assert_eq!(e.kind(), Kind::InvalidArgument, "{columns}");
        }
        let s = create_table(&store, schema(), clustered(json!(["DAY", "id"]), json!({})))
            .await
            .unwrap();
        let features = s.state().protocol().writer_features.clone().unwrap();
        assert_eq!(features, ["appendOnly", "clustering", "domainMetadata", "invariants"]);
        let domains = s.domains().await.unwrap();
        let domain: Value = serde_json::from_str(&domains[0].configuration).unwrap();
        assert_eq!(domain["clusteringColumns"], json!([["day"], ["id"]]));
        append(&store, "a").await;
        let again = |columns: Value| request(json!({"mode": "append", "cluster_by": columns}));
        assert!(plan_write(&store, schema(), again(json!(["day", "id"]))).await.is_ok());
        let e = plan_write(&store, schema(), again(json!(["id"]))).await.err().unwrap();
        assert!(e.message().contains("clustered by [day, id]"), "{e}");
        let narrow = StructType::new(vec![Field::new("id", Primitive::Long, true)]);
        let over = request(json!({"mode": "overwrite", "schema_mode": "overwrite"}));
        let e = plan_write(&store, narrow, over).await.err().unwrap();
        assert!(e.message().contains("`day`"), "{e}");
    });
}

#[test]
fn the_name_of_a_version_that_was_cleaned_up_stays_taken() {
    // P009, P065, P073
    run(async |store, dir| {
        for i in 0..=4 {
            append(&store, &format!("f{i}")).await;
        }
        let old = Snapshot::open(&store, Some(1)).await.unwrap();
        Snapshot::open(&store, None).await.unwrap().checkpoint().await.unwrap();
        let commit = |v: u64| dir.path().join("_delta_log").join(format!("{v:020}.json"));
        for v in 0..=3 {
            std::fs::remove_file(commit(v)).unwrap();
        }
        let staged = Staged {
            adds: vec![add("late", None)],
            ..Staged::default()
        };
        for base in [Some(old), None] {
            let e = deltaplane_log::commit(&store, base, &staged).await.err().unwrap();
            assert_eq!(e.kind(), Kind::ConcurrentWrite, "{e}");
            assert!(e.to_string().contains("cleaned up"), "{e}");
        }
        assert!(!commit(0).exists() && !commit(2).exists());
        // From the newest version it goes on.
        let newest = Snapshot::open(&store, None).await.unwrap();
        let done = deltaplane_log::commit(&store, Some(newest), &staged).await.unwrap();
        assert_eq!((done.version, done.attempts), (5, 1));
    });
}
