//! What a catalog's table refuses: its location alone, the feature where no catalog is, maintenance
//! that the catalog doesn't permit, checkpoints of unpublished versions (P007, P158).

use deltaplane_log::committer::decide_alike;
use deltaplane_log::{LayoutPlan, LayoutRequest, Tail, TailRequest, Tell, VacuumRequest, alter, vacuum};

use super::*;

#[test]
fn a_location_alone_is_refused_with_advice() {
    // P158
    with_catalog(MemoryCatalog::default(), async |store, _, root| {
        append(&store, "a").await;
        append(&store, "b").await;
        let location = Location::parse(root.to_str().unwrap()).unwrap();
        let plain = Store::open(&location, &Options::default()).unwrap();
        assert!(!decide_alike(&store, &plain) && decide_alike(&store, &store.without_cache().unwrap()));
        let refusals = [
            Snapshot::open(&plain, None).await.err(),
            Snapshot::open(&plain, Some(0)).await.err(),
            plan_write(&plain, schema(), request(json!({"mode": "append"})))
                .await
                .err(),
            plan_write(&plain, schema(), request(json!({"mode": "overwrite"})))
                .await
                .err(),
            deltaplane_log::log_history(&plain, Some(1)).await.err(),
            Tail::open(&plain, TailRequest::default()).await.err(),
            vacuum(&plain, &VacuumRequest::default(), None, None, &Tell::default())
                .await
                .err(),
        ];
        for refused in refusals {
            let refused = refused.unwrap();
            assert_eq!(refused.kind(), Kind::UnsupportedFeature, "{refused}");
            assert!(
                refused.message().contains("catalogManaged") && refused.message().contains("by its name"),
                "{refused}"
            );
        }
        assert_eq!(commits_there(root), [0, 1].map(commit_name));
    });
}

#[test]
fn the_feature_needs_a_catalog() {
    run(async |store, _| {
        append(&store, "a").await;
        let features = json!({"change": {"change": "add_features", "features": ["catalogManaged"], "allow_protocol_versions_increase": true}, "commit": {}});
        let refused = match serde_json::from_value(features) {
            Ok(change) => alter(&store, &change).await.err().unwrap(),
            Err(e) => panic!("{e}"),
        };
        assert_eq!(refused.kind(), Kind::UnsupportedFeature, "{refused}");
        assert!(refused.message().contains("catalog creates it"), "{refused}");
    });
    run(async |store, _| {
        for old in ["catalogOwned-preview", "coordinatedCommits-preview", "catalogManaged"] {
            let configuration =
                json!({"mode": "error", "configuration": {format!("delta.feature.{old}"): "supported"}});
            let refused = plan_write(&store, schema(), request(configuration))
                .await
                .err()
                .unwrap();
            assert_eq!(refused.kind(), Kind::UnsupportedFeature, "{refused}");
            assert!(refused.message().contains(old), "{refused}");
        }
    });
    with_catalog(MemoryCatalog::default(), async |store, _, _| {
        append(&store, "a").await;
        let drop = json!({"change": {"change": "drop_feature", "feature": "catalogManaged"}, "commit": {}});
        let refused = alter(&store, &serde_json::from_value(drop).unwrap())
            .await
            .err()
            .unwrap();
        assert!(refused.message().contains("catalogManaged"), "{refused}");
        let off = json!({"change": {"change": "set_properties", "properties": {"delta.enableInCommitTimestamps": "false"}}, "commit": {}});
        let refused = alter(&store, &serde_json::from_value(off).unwrap())
            .await
            .err()
            .unwrap();
        assert!(refused.message().contains("enableInCommitTimestamps"), "{refused}");
        assert_eq!(newest(&store).await.0, 0);
    });
}

#[test]
fn a_catalog_s_table_must_have_the_feature() {
    run(async |plain, _| {
        append(&plain, "a").await;
        let store = managed(&plain, Arc::new(catalog_at(0)), None).unwrap();
        let refused = planned(&store, json!({"mode": "append"}))
            .await
            .commit(vec![add("b", None)])
            .await;
        let refused = refused.err().unwrap();
        assert_eq!(refused.kind(), Kind::UnsupportedFeature);
        assert!(refused.message().contains("by its location"), "{refused}");
    });
}

/// A catalog that says that this is the newest version.
fn catalog_at(version: u64) -> MemoryCatalog {
    let catalog = MemoryCatalog::default();
    catalog.lie(LogTail {
        latest: Some(version),
        commits: Vec::new(),
        published: Some(version),
    });
    catalog
}

#[test]
fn checkpoints_and_compactions_are_of_published_versions() {
    // P007, P158
    with_catalog(MemoryCatalog::default(), async |store, catalog, root| {
        append(&store, "a").await;
        foreign(&catalog, root, 1, "b");
        foreign(&catalog, root, 2, "c");
        let snapshot = Snapshot::open(&store, Some(1)).await.unwrap();
        snapshot.checkpoint().await.unwrap();
        assert_eq!(commits_there(root), [0, 1].map(commit_name));
        let snapshot = Snapshot::open(&store, None).await.unwrap();
        snapshot.compact_logs(1, 2).await.unwrap();
        assert_eq!(commits_there(root).len(), 4, "three commits and the compaction");
        foreign(&catalog, root, 3, "d");
        // A version that can't be published gets no checkpoint.
        std::fs::write(root.join("_delta_log").join(commit_name(3)), text_of("wrong", 3)).unwrap();
        let snapshot = Snapshot::open(&store, None).await.unwrap();
        let refused = snapshot.checkpoint().await.err().unwrap();
        assert_eq!(refused.kind(), Kind::CorruptLog, "{refused}");
        assert!(
            !names(root, "")
                .iter()
                .any(|n| n.starts_with(&format!("{:020}.checkpoint", 3)))
        );
        assert_eq!(
            newest(&store).await,
            (3, ["a", "b", "c", "d"].map(str::to_owned).to_vec())
        );
    });
}

#[test]
fn commits_go_no_other_way() {
    // P158: neither a put of the name nor a deletion passes the catalog by.
    with_catalog(MemoryCatalog::default(), async |store, catalog, root| {
        append(&store, "a").await;
        append(&store, "b").await;
        let (key, text) = (format!("_delta_log/{}", commit_name(2)), Bytes::from(text_of("c", 2)));
        assert_eq!(
            store.put(&key, text.clone()).await.err().unwrap().kind(),
            Kind::Internal
        );
        assert_eq!(store.upload(&key).await.err().unwrap().kind(), Kind::Internal);
        let without_id = Bytes::from_static(b"{\"commitInfo\":{\"timestamp\":1}}\n");
        assert_eq!(
            store.put_if_absent(&key, without_id).await.err().unwrap().kind(),
            Kind::Internal
        );
        let staged = names(root, "_staged_commits");
        let mut keys = vec![format!("_delta_log/{}", commit_name(0))];
        keys.push(format!("_delta_log/_staged_commits/{}", staged[0]));
        for key in &keys {
            assert_eq!(store.delete(key).await.err().unwrap().kind(), Kind::Internal, "{key}");
        }
        assert_eq!(store.delete_all(&keys).await.err().unwrap().kind(), Kind::Internal);
        assert_eq!(commits_there(root), [0, 1].map(commit_name));
        assert_eq!(catalog.proposals().len(), 2);
    });
}

#[test]
fn maintenance_needs_the_catalog_s_permission() {
    // P065, P158
    let layout = || -> LayoutRequest {
        serde_json::from_value(json!({
            "rewrite": {"operation": "OPTIMIZE", "commit": {}}, "most_deleted": 0.05,
        }))
        .unwrap()
    };
    with_catalog(MemoryCatalog::default(), async |store, _, root| {
        append(&store, "a").await;
        append(&store, "b").await;
        let snapshot = Snapshot::open(&store, None).await.unwrap();
        let refusals = [
            snapshot.cleanup_metadata().await.err(),
            vacuum(&store, &VacuumRequest::default(), None, None, &Tell::default())
                .await
                .err(),
            LayoutPlan::plan(&snapshot, layout()).await.err(),
        ];
        for refused in refusals {
            let refused = refused.unwrap();
            assert_eq!(refused.kind(), Kind::UnsupportedFeature, "{refused}");
            assert!(refused.message().contains("permit"), "{refused}");
        }
        assert_eq!(commits_there(root), [0, 1].map(commit_name));
    });
    let permitting = MemoryCatalog {
        permits: true,
        ..MemoryCatalog::default()
    };
    with_catalog(permitting, async |store, _, _| {
        append(&store, "a").await;
        let snapshot = Snapshot::open(&store, None).await.unwrap();
        snapshot.cleanup_metadata().await.unwrap();
        vacuum(&store, &VacuumRequest::default(), None, None, &Tell::default())
            .await
            .unwrap();
        LayoutPlan::plan(&snapshot, layout()).await.unwrap();
    });
}

#[test]
fn fsck_finds_orphans_of_staging() {
    // P014, P158
    with_catalog(MemoryCatalog::default(), async |store, catalog, root| {
        append(&store, "a").await;
        foreign(&catalog, root, 1, "b");
        let folder = root.join("_delta_log/_staged_commits");
        let lost = "00000000000000000001.7d17ac10-5cc3-401b-bd1a-9c82dd2ea032.json";
        let open = "00000000000000000002.7d17ac10-5cc3-401b-bd1a-9c82dd2ea032.json";
        let young = "00000000000000000001.b91807ba-fe18-488c-a15e-c4807dbd2174.json";
        let month = std::time::SystemTime::now() - std::time::Duration::from_secs(30 * 86_400);
        for (name, is_old) in [(lost, true), (open, true), (young, false)] {
            std::fs::write(folder.join(name), "{}").unwrap();
            if is_old {
                std::fs::File::options()
                    .write(true)
                    .open(folder.join(name))
                    .unwrap()
                    .set_modified(month)
                    .unwrap();
            }
        }
        let snapshot = Snapshot::open(&store, None).await.unwrap();
        let findings = snapshot.check(&Tell::default()).await.unwrap();
        let orphans: Vec<&str> = findings
            .iter()
            .filter(|f| f.kind == "orphan")
            .filter_map(|f| f.path.as_deref())
            .collect();
        assert_eq!(orphans, [format!("_delta_log/_staged_commits/{lost}")]);
    });
}
