//! Tables from their creation to their end, by each kind of client.

use deltaplane_catalog::api::classic::TableInfo;
use deltaplane_catalog::api::{CredentialOperation, Extensions, TableUpdate, UpdateTable};
use deltaplane_catalog::client::{ClientOptions, Token};
use deltaplane_catalog::commit::create_managed;
use deltaplane_catalog::local::CredentialRules;
use deltaplane_catalog::store::{Page, StoreOptions};
use deltaplane_catalog::{Catalog, CommitOutcome, ErrorType, HttpCatalog, commit};
use serde_json::json;

use crate::support::{
    Database, Lake, adding, asserted, create, creation, credential, databases, name, options, proposal, published,
};

/// A client without extensions, as foreign programs are.
fn foreign(lake: &Lake) -> HttpCatalog {
    let options = ClientOptions {
        extensions: Extensions::default(),
        ..ClientOptions::default()
    };
    HttpCatalog::new(&lake.url(), Token::Fixed(lake.token.clone()), options).unwrap()
}

async fn each_catalog(lake: &Lake, check: impl AsyncFn(&dyn Catalog, &str)) {
    check(&lake.client(), "http").await;
    check(&lake.embedded(), "embedded").await;
    check(&foreign(lake), "foreign").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_lives_through_all_calls() {
    for database in databases() {
        let lake = Lake::start(database).await;
        each_catalog(&lake, async |catalog, kind| {
            let table = name(&format!("t_{kind}"));
            let loaded = create(catalog, &table).await;
            assert_eq!(loaded.latest_table_version, Some(0));
            assert_eq!(loaded.commits.as_deref(), Some([].as_slice()));
            assert!(loaded.is_catalog_managed());
            assert!(loaded.metadata.location.starts_with("s3://lake/root/"));
            assert!(catalog.exists(&table).await.unwrap());
            let first = proposal(1, None);
            let outcome = catalog.update(&table, &adding(&loaded, first.clone())).await.unwrap();
            assert_eq!(outcome.latest_table_version, Some(1));
            assert_eq!(outcome.etag, loaded.metadata.etag, "a commit of data keeps the etag");
            let again = catalog.load(&table, None).await.unwrap();
            assert_eq!(again.commits.unwrap(), std::slice::from_ref(&first));
            assert_eq!(again.latest_table_version, Some(1));
            catalog.update(&table, &published(&loaded, 1)).await.unwrap();
            catalog.update(&table, &published(&loaded, 1)).await.unwrap();
            catalog.update(&table, &published(&loaded, 0)).await.unwrap();
            assert_eq!(catalog.load(&table, None).await.unwrap().commits.unwrap(), []);
            // A repetition is recognised although the version is published.
            catalog.update(&table, &adding(&loaded, first)).await.unwrap();
            let e = catalog
                .update(&table, &adding(&loaded, proposal(1, None)))
                .await
                .unwrap_err();
            assert_eq!(e.error_type, ErrorType::CommitVersionConflict);
            let e = catalog
                .update(&table, &adding(&loaded, proposal(3, None)))
                .await
                .unwrap_err();
            assert_eq!(e.error_type, ErrorType::InvalidParameterValue);
            let e = catalog.update(&table, &published(&loaded, 2)).await.unwrap_err();
            assert_eq!(e.error_type, ErrorType::InvalidParameterValue);
            let info = catalog.table_info(&table).await.unwrap();
            let columns = info.columns.unwrap();
            assert_eq!(columns[1].type_text, "array<string>");
            assert_eq!(columns[1].comment.as_deref(), Some("labels"));
            let renamed = name(&format!("n_{kind}"));
            catalog.rename(&table, &renamed.table).await.unwrap();
            assert!(!catalog.exists(&table).await.unwrap());
            let e = catalog
                .update(&table, &adding(&loaded, proposal(2, None)))
                .await
                .unwrap_err();
            assert_eq!(e.error_type, ErrorType::NoSuchTable);
            let uuid = loaded.metadata.table_uuid.clone();
            catalog
                .report_metrics(&renamed, &uuid, &json!({"num-files-added": 1}))
                .await
                .unwrap();
            catalog.drop_table(&renamed).await.unwrap();
            let e = catalog.load(&renamed, None).await.unwrap_err();
            assert_eq!(e.error_type, ErrorType::NoSuchTable);
            let dropped = lake.store.dropped_tables(&lake.admin).await.unwrap();
            assert!(dropped.iter().any(|(id, _)| *id == uuid));
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inline_commits_are_hidden_from_others_until_they_are_published() {
    for database in databases() {
        let lake = Lake::start(database).await;
        let (own, foreign) = (lake.client(), foreign(&lake));
        assert_eq!(own.extensions("main").await.unwrap(), Extensions::ALL);
        assert_eq!(foreign.extensions("main").await.unwrap(), Extensions::default());
        let table = name("t");
        let loaded = create(&own, &table).await;
        own.update(&table, &adding(&loaded, proposal(1, None))).await.unwrap();
        let text = "{\"commitInfo\":{\"txnId\":\"ü'\\u0001\"}}\n".to_owned();
        let inline = proposal(2, Some(text.clone()));
        own.update(&table, &adding(&loaded, inline.clone())).await.unwrap();
        own.update(&table, &adding(&loaded, proposal(3, None))).await.unwrap();
        let seen = own.load(&table, None).await.unwrap();
        assert_eq!(seen.latest_table_version, Some(3));
        assert_eq!(
            seen.commits.as_ref().unwrap()[1].content.as_deref(),
            Some(text.as_str())
        );
        let newer = own.load(&table, Some(2)).await.unwrap();
        assert_eq!(newer.commits.unwrap().len(), 1);
        let hidden = foreign.load(&table, None).await.unwrap();
        assert_eq!(hidden.latest_table_version, Some(1));
        assert_eq!(hidden.commits.unwrap().len(), 1);
        // Its commit after what it sees loses, and the outcome is no success.
        let late = adding(&loaded, proposal(2, None));
        assert!(matches!(
            commit(&foreign, &table, &late).await.unwrap(),
            CommitOutcome::Taken(_)
        ));
        let e = foreign
            .update(&table, &adding(&loaded, proposal(4, Some(text))))
            .await
            .unwrap_err();
        assert_eq!(e.error_type, ErrorType::NotImplemented);
        own.update(&table, &published(&loaded, 2)).await.unwrap();
        let seen = foreign.load(&table, None).await.unwrap();
        assert_eq!(seen.latest_table_version, Some(3));
        assert_eq!(seen.commits.unwrap().len(), 1);
        // The repetition of a published inline commit.
        assert!(matches!(
            commit(&own, &table, &adding(&loaded, inline)).await.unwrap(),
            CommitOutcome::Ratified(_)
        ));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_changes_move_the_etag_and_lose_against_newer_ones() {
    for database in databases() {
        let lake = Lake::start(database).await;
        let catalog = lake.client();
        let table = name("t");
        let loaded = create(&catalog, &table).await;
        let mut asserted = asserted(&loaded);
        asserted.etag = Some(loaded.metadata.etag.clone());
        let columns = json!({"type": "struct", "fields": [
            {"name": "id", "type": "long", "nullable": true, "metadata": {}}]});
        let commit = proposal(1, None);
        let mut protocol = deltaplane_catalog::api::Protocol {
            min_reader_version: 3,
            min_writer_version: 7,
            reader_features: Some(Vec::new()),
            writer_features: Some(Vec::new()),
        };
        let with = |protocol: &deltaplane_catalog::api::Protocol| {
            UpdateTable::new(
                &asserted,
                vec![
                    TableUpdate::AddCommit {
                        commit: commit.clone(),
                        uniform: None,
                    },
                    TableUpdate::SetColumns {
                        columns: columns.clone(),
                    },
                    TableUpdate::SetProperties {
                        updates: [("owner".to_owned(), "me".to_owned())].into(),
                    },
                    TableUpdate::SetDomainMetadata {
                        updates: [("delta.clustering".to_owned(), json!({"clusteringColumns": [["id"]]}))].into(),
                    },
                    TableUpdate::SetProtocol {
                        protocol: protocol.clone(),
                    },
                ],
            )
        };
        // A protocol without the managed features is refused, and nothing of the request happens.
        let e = catalog.update(&table, &with(&protocol)).await.unwrap_err();
        assert_eq!(e.error_type, ErrorType::InvalidParameterValue, "{e}");
        assert_eq!(catalog.load(&table, None).await.unwrap().latest_table_version, Some(0));
        let features = [
            "catalogManaged",
            "deletionVectors",
            "v2Checkpoint",
            "vacuumProtocolCheck",
        ]
        .map(str::to_owned);
        protocol.reader_features = Some(features.to_vec());
        let mut writer = features.to_vec();
        writer.extend(["inCommitTimestamp", "domainMetadata", "clustering"].map(str::to_owned));
        protocol.writer_features = Some(writer);
        let outcome = catalog.update(&table, &with(&protocol)).await.unwrap();
        assert_ne!(outcome.etag, loaded.metadata.etag);
        // The same request again is the same commit, although its etag is no longer true.
        catalog.update(&table, &with(&protocol)).await.unwrap();
        let seen = catalog.load(&table, None).await.unwrap();
        assert_eq!(seen.metadata.etag, outcome.etag);
        assert_eq!(seen.metadata.columns, columns);
        let property = |key: &str| seen.metadata.properties.get(key).map(String::as_str);
        assert_eq!(property("owner"), Some("me"));
        assert_eq!(property("delta.clusteringColumns"), Some("[[\"id\"]]"));
        assert_eq!(property("delta.feature.clustering"), Some("supported"));
        assert_eq!(property("delta.lastUpdateVersion"), Some("1"));
        let late = UpdateTable::new(
            &asserted,
            vec![TableUpdate::AddCommit {
                commit: proposal(2, None),
                uniform: None,
            }],
        );
        let e = catalog.update(&table, &late).await.unwrap_err();
        assert_eq!(e.error_type, ErrorType::UpdateRequirementConflict);
        let mut replaced = asserted.clone();
        replaced.uuid = uuid::Uuid::new_v4().to_string();
        let e = catalog
            .update(&table, &UpdateTable::new(&replaced, late.updates.clone()))
            .await
            .unwrap_err();
        assert_eq!(e.error_type, ErrorType::UpdateRequirementConflict);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unpublished_commits_are_bounded_by_number_and_bytes() {
    for database in databases() {
        let limits = StoreOptions {
            max_unpublished: 3,
            max_inline_bytes: 1_000,
            ..options()
        };
        let lake = Lake::with(database, limits, CredentialRules::default()).await;
        let catalog = lake.client();
        let table = name("t");
        let loaded = create(&catalog, &table).await;
        for version in 1..=3 {
            let request = adding(&loaded, proposal(version, None));
            assert!(matches!(
                commit(&catalog, &table, &request).await.unwrap(),
                CommitOutcome::Ratified(_)
            ));
        }
        let fourth = adding(&loaded, proposal(4, None));
        assert_eq!(
            commit(&catalog, &table, &fourth).await.unwrap(),
            CommitOutcome::PublishFirst
        );
        // Publication and the next commit in one request.
        let mut updates = fourth.updates.clone();
        updates.push(TableUpdate::SetLatestBackfilledVersion {
            latest_published_version: 2,
        });
        let both = UpdateTable::new(&asserted(&loaded), updates);
        assert!(matches!(
            commit(&catalog, &table, &both).await.unwrap(),
            CommitOutcome::Ratified(_)
        ));
        catalog.update(&table, &published(&loaded, 4)).await.unwrap();
        let large = |version| adding(&loaded, proposal(version, Some("x".repeat(600))));
        assert!(matches!(
            commit(&catalog, &table, &large(5)).await.unwrap(),
            CommitOutcome::Ratified(_)
        ));
        assert_eq!(
            commit(&catalog, &table, &large(6)).await.unwrap(),
            CommitOutcome::PublishFirst
        );
        catalog.update(&table, &published(&loaded, 5)).await.unwrap();
        assert!(matches!(
            commit(&catalog, &table, &large(6)).await.unwrap(),
            CommitOutcome::Ratified(_)
        ));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_have_pages_and_external_tables() {
    for database in databases() {
        let lake = Lake::start(database).await;
        let catalog = lake.client();
        for number in 0..5 {
            create(&catalog, &name(&format!("t{number}"))).await;
        }
        let mut external = TableInfo {
            name: "e".to_owned(),
            catalog_name: "main".to_owned(),
            schema_name: "default".to_owned(),
            table_type: Some("EXTERNAL".to_owned()),
            data_source_format: Some("DELTA".to_owned()),
            storage_location: Some("s3://elsewhere/e/".to_owned()),
            ..TableInfo::default()
        };
        lake.store.register_table(external.clone(), &lake.admin).await.unwrap();
        let loaded = catalog.load(&name("e"), None).await.unwrap();
        assert_eq!((loaded.latest_table_version, loaded.commits.clone()), (None, None));
        let e = catalog
            .update(&name("e"), &adding(&loaded, proposal(1, None)))
            .await
            .unwrap_err();
        assert_eq!(e.error_type, ErrorType::InvalidParameterValue);
        let moved = TableUpdate::UpdateMetadataSnapshotVersion {
            last_commit_version: 7,
            last_commit_timestamp_ms: 9,
        };
        catalog
            .update(&name("e"), &UpdateTable::new(&asserted(&loaded), vec![moved]))
            .await
            .unwrap();
        let loaded = catalog.load(&name("e"), None).await.unwrap();
        assert_eq!(loaded.metadata.last_commit_version, Some(7));
        // No table may be within another.
        for location in [
            "s3://elsewhere/e",
            "s3://elsewhere/e/x",
            "s3://elsewhere",
            "s3://lake/root",
        ] {
            external.name = "f".to_owned();
            external.storage_location = Some(location.to_owned());
            let e = lake
                .store
                .register_table(external.clone(), &lake.admin)
                .await
                .unwrap_err();
            assert!(e.message.contains("overlaps"), "{location}: {e}");
        }
        external.storage_location = Some("s3://elsewhere/e2".to_owned());
        external.data_source_format = Some("CSV".to_owned());
        lake.store.register_table(external, &lake.admin).await.unwrap();
        let e = catalog.load(&name("f"), None).await.unwrap_err();
        assert_eq!(e.error_type, ErrorType::UnsupportedTableFormat);
        let mut names = Vec::new();
        let mut page = Page {
            max_results: 3,
            token: None,
        };
        loop {
            let part = catalog.list_tables("main", "default", page.clone()).await.unwrap();
            assert!(part.tables.len() <= 3);
            names.extend(part.tables.into_iter().map(|table| table.name));
            match part.next_page_token {
                Some(token) => page.token = Some(token),
                None => break,
            }
        }
        assert_eq!(names, ["e", "f", "t0", "t1", "t2", "t3", "t4"]);
        let schemas = catalog.list_schemas("main", Page::default()).await.unwrap();
        assert_eq!(schemas.schemas.len(), 2);
        let e = catalog.drop_schema("main", "default").await.unwrap_err();
        assert_eq!(e.error_type, ErrorType::InvalidParameterValue);
        catalog.drop_schema("main", "other").await.unwrap();
        let e = catalog.drop_catalog("main", true).await.unwrap_err();
        assert_eq!(e.error_type, ErrorType::InvalidParameterValue);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_of_the_longest_prefix_and_of_the_operation() {
    let rules = CredentialRules::new(vec![
        credential("s3://lake", "wide"),
        credential("s3://lake/root", "narrow"),
    ]);
    let lake = Lake::with(Database::Sqlite, options(), rules).await;
    let catalog = lake.client();
    let table = name("t");
    let loaded = create(&catalog, &table).await;
    let vended = catalog.credentials(&table, CredentialOperation::Read).await.unwrap();
    let best = vended
        .longest_prefix(&loaded.metadata.location, CredentialOperation::Read)
        .unwrap();
    assert_eq!(best.prefix, loaded.metadata.location);
    let secret = best.config["s3.secret-access-key"].as_ref().unwrap();
    assert_eq!(secret.expose(), "narrow");
    assert!(!format!("{vended:?}").contains("narrow"));
    let none = catalog
        .credentials(&table, CredentialOperation::ReadWrite)
        .await
        .unwrap();
    assert_eq!(none.storage_credentials, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_whose_answer_was_lost_is_found() {
    for database in databases() {
        let lake = Lake::start(database).await;
        let catalog = lake.client();
        let table = name("t");
        let staging = catalog.create_staging(&table).await.unwrap();
        let request = creation(&staging, &table);
        catalog.create_table("main", "default", request.clone()).await.unwrap();
        let loaded = create_managed(&catalog, &table, &staging.table_id, request.clone())
            .await
            .unwrap();
        assert_eq!(loaded.metadata.table_uuid, staging.table_id);
        // Another creator of the same name gets the refusal.
        let e = catalog.create_staging(&table).await.unwrap_err();
        assert_eq!(e.error_type, ErrorType::AlreadyExists);
        let mut nowhere = request;
        nowhere.name = "u".to_owned();
        nowhere.location = "s3://lake/nowhere".to_owned();
        let e = catalog.create_table("main", "default", nowhere).await.unwrap_err();
        assert_eq!(e.error_type, ErrorType::NoSuchTable);
    }
}
