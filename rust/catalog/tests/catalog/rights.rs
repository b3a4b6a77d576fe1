//! Tokens: what they permit, and that no message contains them.

use deltaplane_catalog::api::CredentialOperation;
use deltaplane_catalog::api::classic::{CatalogInfo, SchemaInfo};
use deltaplane_catalog::client::{ClientOptions, Token};
use deltaplane_catalog::store::{Access, Page};
use deltaplane_catalog::{Catalog, ErrorType, HttpCatalog, Secret, TableName};
use serde_json::json;

use crate::support::{Database, Lake, adding, client, create, databases, name, proposal};

#[tokio::test(flavor = "multi_thread")]
async fn tokens_reach_as_far_as_their_grants() {
    for database in databases() {
        let lake = Lake::start(database).await;
        let admin = lake.client();
        let table = name("t");
        let loaded = create(&admin, &table).await;
        let token = lake.store.create_token("ann", None, &lake.admin).await.unwrap();
        let grant = async |schema: &str, access: Option<Access>| {
            lake.store
                .grant("ann", Some("main"), Some(schema), access, &lake.admin)
                .await
                .unwrap();
        };
        // A principal's rights are remembered for seconds, so each step has a token of its own.
        let ann = async || {
            let token = lake.store.create_token("ann", None, &lake.admin).await.unwrap();
            client(&lake.url(), &token)
        };
        let nobody = client(&lake.url(), &token);
        let denied = |e: deltaplane_catalog::CatalogError| {
            assert_eq!(e.error_type, ErrorType::PermissionDenied, "{e}");
        };
        assert_eq!(nobody.list_catalogs(Page::default()).await.unwrap().catalogs, []);
        // What a principal doesn't see isn't there.
        let e = nobody.load(&table, None).await.unwrap_err();
        assert_eq!(e.error_type, ErrorType::NoSuchCatalog);

        grant("default", Some(Access::Read)).await;
        let reader = ann().await;
        assert_eq!(reader.load(&table, None).await.unwrap(), loaded);
        assert_eq!(
            reader
                .list_schemas("main", Page::default())
                .await
                .unwrap()
                .schemas
                .len(),
            1
        );
        denied(
            reader
                .update(&table, &adding(&loaded, proposal(1, None)))
                .await
                .unwrap_err(),
        );
        denied(reader.create_staging(&name("u")).await.unwrap_err());
        denied(
            reader
                .credentials(&table, CredentialOperation::ReadWrite)
                .await
                .unwrap_err(),
        );
        reader.credentials(&table, CredentialOperation::Read).await.unwrap();
        let elsewhere = TableName::new("main", "other", "t").unwrap();
        denied(reader.load(&elsewhere, None).await.unwrap_err());
        denied(reader.list_tables("main", "other", Page::default()).await.unwrap_err());
        denied(
            reader
                .path_credentials("s3://lake", CredentialOperation::Read)
                .await
                .unwrap_err(),
        );

        grant("default", Some(Access::Write)).await;
        let writer = ann().await;
        writer
            .update(&table, &adding(&loaded, proposal(1, None)))
            .await
            .unwrap();
        denied(writer.drop_table(&table).await.unwrap_err());
        denied(writer.rename(&table, "x").await.unwrap_err());
        let own = name("own");
        let staging = writer.create_staging(&own).await.unwrap();
        // Only its creator uses a staging table.
        denied(admin.staging_credentials(&staging.table_id).await.unwrap_err());
        writer.staging_credentials(&staging.table_id).await.unwrap();
        let request = crate::support::creation(&staging, &own);
        denied(
            admin
                .create_table("main", "default", request.clone())
                .await
                .unwrap_err(),
        );
        writer.create_table("main", "default", request).await.unwrap();
        writer.drop_table(&own).await.unwrap();
        denied(writer.create_schema(schema("third")).await.unwrap_err());
        denied(writer.drop_schema("main", "default").await.unwrap_err());
        let new = CatalogInfo {
            name: "new".to_owned(),
            ..CatalogInfo::default()
        };
        denied(writer.create_catalog(new).await.unwrap_err());
        // A transaction with one table out of reach.
        let both = vec![
            (table.clone(), adding(&loaded, proposal(2, None))),
            (elsewhere, adding(&loaded, proposal(1, None))),
        ];
        denied(writer.update_all(&both).await.unwrap_err());
        assert_eq!(admin.load(&table, None).await.unwrap().latest_table_version, Some(1));

        assert!(lake.store.revoke_tokens("ann", &lake.admin).await.unwrap() >= 3);
        let e = client(
            &lake.url(),
            &lake.store.create_token("x", Some(1), &lake.admin).await.unwrap(),
        )
        .list_catalogs(Page::default())
        .await
        .unwrap_err();
        assert_eq!(e.error_type, ErrorType::NotAuthorized, "the token expired in 1970");
        let record = lake.store.audit_record(1_000, &lake.admin).await.unwrap();
        for action in ["CREATE TABLE", "DROP TABLE", "GRANT", "CREATE TOKEN", "REVOKE TOKENS"] {
            assert!(record.iter().any(|(_, _, recorded, _)| recorded == action), "{action}");
        }
        assert!(
            record
                .iter()
                .all(|entry| !format!("{entry:?}").contains(token.expose()))
        );
    }
}

fn schema(name: &str) -> SchemaInfo {
    SchemaInfo {
        name: name.to_owned(),
        catalog_name: "main".to_owned(),
        ..SchemaInfo::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_in_no_message() {
    let lake = Lake::start(Database::Sqlite).await;
    let secret = Secret::new("dapi-very-secret-token");
    let catalog = client(&lake.url(), &secret);
    let e = catalog.list_catalogs(Page::default()).await.unwrap_err();
    assert_eq!(e.error_type, ErrorType::NotAuthorized);
    let error: deltaplane_error_check::Error = e.clone().into();
    for text in [
        format!("{e}"),
        format!("{e:?}"),
        format!("{error} {error:?}"),
        format!("{:?}", Token::Fixed(secret.clone())),
        catalog.describe(),
        format!(
            "{:?}",
            deltaplane_catalog::store::Location::parse("postgresql://u:very-secret@h/d").unwrap()
        ),
    ] {
        assert!(!text.contains("very-secret"), "{text}");
    }
    // A server that repeats the token in its message.
    let echo = axum::Router::new().fallback(|headers: axum::http::HeaderMap| async move {
        let header = headers["authorization"].to_str().unwrap().to_owned();
        (
            axum::http::StatusCode::FORBIDDEN,
            json!({"error": {"type": "X", "message": header}}).to_string(),
        )
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, echo).await });
    let e = client(&url, &secret).list_catalogs(Page::default()).await.unwrap_err();
    assert!(e.message.contains("Bearer …"), "{e}");
    let bad = "postgresql://u:very-secret@127.0.0.1:1/d";
    let store = deltaplane_catalog::store::Store::open(
        deltaplane_catalog::store::Location::parse(bad).unwrap(),
        Default::default(),
    );
    let e = store.await.err().unwrap();
    assert_eq!(e.error_type, ErrorType::Unavailable);
    assert!(!format!("{e:?}").contains("very-secret"), "{e:?}");
}

/// Kinds as other crates see them.
mod deltaplane_error_check {
    pub use deltaplane_error::Error;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_token_is_asked_for_again_once() {
    let lake = Lake::start(Database::Sqlite).await;
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let (counter, good) = (asked.clone(), lake.token.clone());
    let token = Token::Provided(std::sync::Arc::new(move || {
        let count = counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(if count == 0 {
            Secret::new("expired")
        } else {
            good.clone()
        })
    }));
    let catalog = HttpCatalog::new(&lake.url(), token, ClientOptions::default()).unwrap();
    assert_eq!(catalog.list_catalogs(Page::default()).await.unwrap().catalogs.len(), 1);
    catalog.list_catalogs(Page::default()).await.unwrap();
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 2);
}
