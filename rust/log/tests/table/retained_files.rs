//! Files that stay in a table mean what they meant: changes of its metadata that would read them
//! otherwise are refused.

use deltaplane_log::commit;
use deltaplane_protocol::actions::Metadata;

use super::*;

async fn partitioned(store: &Store) -> Snapshot {
    let p = planned(store, json!({"mode": "error", "partition_by": ["day"]})).await;
    let files = vec![add("a", Some("2024-01-01")), add("b", Some("2024-01-02"))];
    p.commit(files).await.unwrap().snapshot
}

/// Commits metadata as any caller might, with these files added and removed.
async fn changed(store: &Store, base: &Snapshot, metadata: Metadata, adds: Vec<Add>, gone: &[&str]) -> Option<Kind> {
    let removes = gone.iter().map(|p| add(p, Some("2024-01-01")).to_remove(1, true));
    let staged = Staged {
        metadata: Some(metadata),
        adds,
        removes: removes.collect(),
        ..Staged::default()
    };
    commit(store, Some(base.clone()), &staged).await.err().map(|e| e.kind())
}

#[test]
fn no_file_stays_under_other_partitioning_or_types() {
    run(async |store, _| {
        let base = partitioned(&store).await;
        let now = base.state().metadata().clone();
        let flat = Metadata {
            partition_columns: Vec::new(),
            ..now.clone()
        };
        let typed = |ty: Primitive| Metadata {
            schema_string: Some(
                StructType::new(vec![Field::new("id", ty, true), schema().fields()[1].clone()]).to_json(),
            ),
            ..now.clone()
        };
        let refused = Some(Kind::InvalidArgument);
        for gone in [&[][..], &["a"]] {
            for metadata in [flat.clone(), typed(Primitive::String), typed(Primitive::Boolean)] {
                assert_eq!(
                    changed(&store, &base, metadata, Vec::new(), gone).await,
                    refused,
                    "{gone:?}"
                );
            }
        }
        // A file that is added again with its old partition value means what it meant, which is
        // wrong now.
        let again = vec![add("b", Some("2024-01-02"))];
        assert_eq!(changed(&store, &base, flat.clone(), again, &["a", "b"]).await, refused);
        assert_eq!(Snapshot::open(&store, None).await.unwrap().version(), 0);
        // Where all files go, anything may come.
        assert_eq!(
            changed(&store, &base, flat, vec![add("c", None)], &["a", "b"]).await,
            None
        );
        let newest = Snapshot::open(&store, None).await.unwrap();
        assert_eq!((newest.version(), files(&newest).await), (1, vec!["c".to_owned()]));
    });
}

#[test]
fn columns_are_replaced_with_all_rows_or_not_at_all() {
    for (asks, expected) in [
        (json!({"partition_by": []}), Some(vec!["c".to_owned()])),
        (json!({"partition_by": ["day"]}), None),
        (json!({"partition_by": ["id"]}), None),
        (json!({}), None),
    ] {
        run(async |store, _| {
            partitioned(&store).await;
            let mut asked = json!({"mode": "overwrite", "schema_mode": "overwrite", "dynamic_partitions": true});
            asked.as_object_mut().unwrap().extend(asks.as_object().unwrap().clone());
            match plan_write(&store, schema(), request(asked)).await {
                Ok(WritePlan::Go(p)) => {
                    let done = p.commit(vec![add("c", None)]).await.unwrap();
                    assert_eq!(Some(files(&done.snapshot).await), expected, "{asks}");
                }
                Ok(WritePlan::Skip(why)) => panic!("skipped: {why}"),
                Err(e) => assert_eq!((e.kind(), &expected), (Kind::InvalidArgument, &None), "{asks}"),
            }
        });
    }
}

#[test]
fn first_rows_meet_the_condition_of_their_overwrite() {
    run(async |store, _| {
        let first = json!({"mode": "overwrite", "first_rows_meet": "id > 0", "applies_row_rules": true});
        let p = planned(&store, first.clone()).await;
        assert_eq!(p.row_rules().only.as_deref(), Some("id > 0"));
        append(&store, "another").await;
        // Another writer made the table: its rows aren't replaced by a write that looked for none.
        let e = p.commit(vec![add("mine", None)]).await.err().unwrap();
        assert!(e.kind().is_conflict(), "{e}");
        assert_eq!(files(&Snapshot::open(&store, None).await.unwrap()).await, ["another"]);
        let unjudged = json!({"mode": "overwrite", "first_rows_meet": "id > 0"});
        assert!(
            plan_write(&open_store(&tempfile::tempdir().unwrap()), schema(), request(unjudged))
                .await
                .is_err()
        );
    });
}
