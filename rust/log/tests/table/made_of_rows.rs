//! Writes of rows that were made of the table's own: they rest on the version that was read, all of
//! it.

use super::*;

async fn fails(store: &Store, r: serde_json::Value) -> Kind {
    let p = planned(store, r).await;
    p.commit(vec![add("made", None)]).await.err().unwrap().kind()
}

#[test]
fn other_rows_are_a_conflict_by_the_tables_isolation() {
    for (level, expected) in [
        ("Serializable", Some(Kind::ConcurrentAppend)),
        ("WriteSerializable", None),
    ] {
        run(async |store, dir| {
            append(&store, "a").await;
            // Other engines set levels that ours don't.
            let log = dir.path().join("_delta_log").join(format!("{:020}.json", 0));
            let text = std::fs::read_to_string(&log).unwrap();
            let set = format!(r#""configuration":{{"delta.isolationLevel":"{level}"}}"#);
            assert!(text.contains(r#""configuration":{}"#), "{text}");
            std::fs::write(&log, text.replace(r#""configuration":{}"#, &set)).unwrap();
            append(&store, "b").await;
            let p = planned(&store, json!({"mode": "append", "read_version": 0})).await;
            assert_eq!(p.version(), Some(0));
            let done = p.commit(vec![add("made", None)]).await;
            assert_eq!(done.as_ref().err().map(deltaplane_error::Error::kind), expected);
            if let Ok(done) = done {
                assert_eq!(
                    (done.version, files(&done.snapshot).await),
                    (2, vec!["a".into(), "b".into(), "made".into()])
                );
            }
        });
    }
}

#[test]
fn rows_that_went_are_a_conflict() {
    run(async |store, _| {
        append(&store, "a").await;
        let p = planned(&store, json!({"mode": "overwrite"})).await;
        p.commit(vec![add("b", None)]).await.unwrap();
        let append = json!({"mode": "append", "read_version": 0});
        assert!(fails(&store, append).await.is_conflict());
        let overwrite = json!({"mode": "overwrite", "read_version": 0});
        assert!(fails(&store, overwrite).await.is_conflict());
        let p = planned(&store, json!({"mode": "overwrite", "read_version": 1})).await;
        let done = p.commit(vec![add("made", None)]).await.unwrap();
        assert_eq!(
            (done.version, files(&done.snapshot).await),
            (2, vec!["made".to_owned()])
        );
    });
}

#[test]
fn replaced_partitions_rest_on_all_of_the_rows() {
    run(async |store, _| {
        let p = planned(&store, json!({"mode": "append", "partition_by": ["day"]})).await;
        let added = |path, day| add(path, Some(day));
        p.commit(vec![added("a", "2024-01-01"), added("b", "2024-01-02")])
            .await
            .unwrap();
        let p = planned(&store, json!({"mode": "append"})).await;
        p.commit(vec![added("c", "2024-01-02")]).await.unwrap();
        let mut request = json!({"mode": "overwrite", "dynamic_partitions": true});
        for expected in [None, Some(Kind::ConcurrentAppend)] {
            request["read_version"] = if expected.is_some() { json!(0) } else { json!(null) };
            let p = planned(&store, request.clone()).await;
            let done = p.dry_run(vec![added("made", "2024-01-01")]).await;
            assert_eq!(done.err().map(|e| e.kind()), expected);
        }
    });
}

#[test]
fn a_version_that_isnt_there_is_refused() {
    run(async |store, _| {
        let made_of = |version: u64| request(json!({"mode": "append", "read_version": version}));
        let e = plan_write(&store, schema(), made_of(0)).await.err().unwrap();
        assert_eq!(e.kind(), Kind::TableNotFound);
        append(&store, "a").await;
        let e = plan_write(&store, schema(), made_of(7)).await.err().unwrap();
        assert_eq!(e.kind(), Kind::VersionNotFound);
    });
}

#[test]
fn what_was_done_before_is_skipped_though_it_came_later() {
    run(async |store, _| {
        append(&store, "a").await;
        let commit = json!({"txn": {"app_id": "feed", "version": 1}});
        let r = json!({"mode": "append", "read_version": 0, "commit": commit});
        planned(&store, r.clone())
            .await
            .commit(vec![add("b", None)])
            .await
            .unwrap();
        let again = plan_write(&store, schema(), request(r)).await.unwrap();
        assert!(matches!(again, WritePlan::Skip("txn")));
    });
}
