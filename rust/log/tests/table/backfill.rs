//! Row tracking for a table that exists (P140, P141): every commit on the way leaves a sound table.

use std::collections::HashSet;

use super::attempts::{actions, row_ids};
use super::*;
use deltaplane_log::{AlterRequest, Altered, alter};
use deltaplane_protocol::actions::Action;

const FILES: usize = 10_050;

async fn enable(store: &Store, more: serde_json::Value) -> deltaplane_log::Result<Altered> {
    let mut properties = json!({"delta.enableRowTracking": "true"});
    properties
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let request = json!({"change": {"change": "set_properties", "properties": properties}, "commit": {}});
    alter(store, &serde_json::from_value::<AlterRequest>(request).unwrap()).await
}

async fn many(store: &Store) {
    let files = (0..FILES).map(|i| add(&format!("f{i}"), None)).collect();
    let p = planned(store, json!({"mode": "append"})).await;
    p.commit(files).await.unwrap();
}

async fn ids(store: &Store) -> Vec<i64> {
    let s = Snapshot::open(store, None).await.unwrap();
    let batches: Vec<_> = s.plan(None, PlanColumns::Logged).try_collect().await.unwrap();
    let rows = |b| (0..RecordBatch::num_rows(b)).map(move |r| FileRows::new(b).base_row_id(r).unwrap());
    batches.iter().flat_map(rows).collect()
}

#[test]
fn files_get_ids_in_bounded_commits_before_the_property_says_so() {
    run(async |store, dir| {
        many(&store).await;
        let done = enable(&store, json!({})).await.unwrap();
        assert_eq!(done.version, Some(4));
        let operation = |v| match &actions(dir, v)[0] {
            Action::CommitInfo(i) => i["operation"].as_str().unwrap().to_owned(),
            other => panic!("{other:?}"),
        };
        let operations: Vec<_> = (1..=4).map(operation).collect();
        let backfill = "ROW TRACKING BACKFILL";
        assert_eq!(
            operations,
            ["UPGRADE PROTOCOL", backfill, backfill, "SET TBLPROPERTIES"]
        );
        let (first, mark) = row_ids(dir, 2);
        assert_eq!((first.len(), mark), (10_000, Some(19_999)));
        assert!(
            actions(dir, 2)
                .iter()
                .all(|a| !matches!(a, Action::Add(a) if a.data_change))
        );
        let (second, mark) = row_ids(dir, 3);
        assert_eq!((second.len(), mark), (50, Some(20_099)));
        assert_eq!(second[0], (20_000, 3));
        let last = actions(dir, 4);
        assert!(last.iter().any(|a| matches!(a, Action::Metadata(m)
            if m.configuration["delta.rowTracking.materializedRowIdColumnName"].starts_with("_row-id-col-"))));
        // What was there keeps its name when it is switched off and on again.
        let unset =
            json!({"change": {"change": "unset_properties", "keys": ["delta.enableRowTracking"]}, "commit": {}});
        alter(&store, &serde_json::from_value(unset).unwrap()).await.unwrap();
        assert_eq!(enable(&store, json!({})).await.unwrap().version, Some(6));
        let commit_of = |v| {
            actions(dir, v).into_iter().find_map(|a| match a {
                Action::Metadata(m) => Some(m.configuration),
                _ => None,
            })
        };
        assert_eq!(commit_of(4), commit_of(6));
    });
}

#[test]
fn it_goes_on_after_a_crash_between_any_two_commits() {
    run(async |store, dir| {
        many(&store).await;
        enable(&store, json!({})).await.unwrap();
        for left in 0..4 {
            for gone in left + 1..=4 {
                for end in ["json", "crc"] {
                    let _ = std::fs::remove_file(dir.path().join(format!("_delta_log/{gone:020}.{end}")));
                }
            }
            // Every step leaves a table that other programs read and write.
            assert_eq!(files(&Snapshot::open(&store, None).await.unwrap()).await.len(), FILES);
            assert_eq!(
                enable(&store, json!({})).await.unwrap().version,
                Some(4),
                "after {left}"
            );
            let all = ids(&store).await;
            assert_eq!(all.iter().collect::<HashSet<_>>().len(), FILES);
        }
    });
}

#[test]
fn writers_who_began_before_follow() {
    // Section 5.1 rules 1, 2 and 5
    run(async |store, dir| {
        append(&store, "a").await;
        append(&store, "b").await;
        let late = planned(&store, json!({"mode": "append"})).await;
        let over = planned(&store, json!({"mode": "overwrite"})).await;
        enable(&store, json!({})).await.unwrap();
        let over = over.commit(vec![add("d", None)]).await.unwrap();
        assert_eq!(row_ids(dir, over.version), (vec![(4, 5)], Some(5)));
        let removed = actions(dir, over.version).into_iter().filter_map(|a| match a {
            Action::Remove(r) => Some((r.path, r.base_row_id, r.default_row_commit_version)),
            _ => None,
        });
        let mut removed: Vec<_> = removed.collect();
        removed.sort();
        let known = |p: &str, id| (p.to_owned(), Some(id), Some(3));
        // Newest commits are numbered first.
        assert_eq!(removed, [known("a", 2), known("b", 0)]);
        let tag = |v| match &actions(dir, v)[0] {
            Action::CommitInfo(i) => i["tags"]["delta.rowTracking.preserved"].clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(tag(over.version), "false");
        let late = late.commit(vec![add("c", None)]).await.unwrap();
        assert_eq!(row_ids(dir, late.version), (vec![(6, 6)], Some(7)));
        append(&store, "e").await;
        assert_eq!(tag(late.version + 1), "true");
    });
}

#[test]
fn what_can_not_be_numbered_changes_nothing() {
    // P140, P141
    run(async |store, _| {
        let unmeasured = Add {
            stats: None,
            ..add("a", None)
        };
        let p = planned(&store, json!({"mode": "append"})).await;
        p.commit(vec![unmeasured]).await.unwrap();
        let e = enable(&store, json!({})).await.unwrap_err();
        assert_eq!((e.kind(), e.path()), (Kind::UnsupportedFeature, Some("a")));
        assert!(e.message().contains("1 files") && e.message().contains("P140"), "{e}");
        let e = enable(&store, json!({"delta.rowTrackingSuspended": "true"}))
            .await
            .unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidArgument);
        assert_eq!(Snapshot::open(&store, None).await.unwrap().version(), 0);
        let suspended = json!({"change": {"change": "set_properties", "properties": {"delta.rowTrackingSuspended": "true"}}, "commit": {}});
        alter(&store, &serde_json::from_value(suspended).unwrap())
            .await
            .unwrap();
        let e = enable(&store, json!({"delta.rowTrackingSuspended": "false"}))
            .await
            .unwrap_err();
        assert!(e.message().contains("of its own"), "{e}");
    });
}
