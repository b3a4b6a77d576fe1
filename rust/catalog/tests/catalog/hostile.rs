//! Requests that are malformed or hostile, and the server's own endpoints.

use deltaplane_catalog::limits::{MAX_INLINE_BYTES, MAX_REQUEST_BYTES};
use deltaplane_catalog::store::Page;
use deltaplane_catalog::{Catalog, ErrorType, TableName};
use serde_json::{Value, json};

use crate::support::{Database, Lake, adding, client, create, databases, name, proposal};

/// Status and body of a raw request.
async fn raw(lake: &Lake, method: &str, path: &str, body: impl Into<reqwest::Body>) -> (u16, Value) {
    let url = format!("{}/api/2.1/unity-catalog/{path}", lake.url());
    let response = reqwest::Client::new()
        .request(method.parse().unwrap(), url)
        .header("authorization", format!("Bearer {}", lake.token.expose()))
        .header("content-type", "application/json")
        .body(body)
        .send()
        .await
        .unwrap();
    let status = response.status().as_u16();
    let text = response.bytes().await.unwrap();
    (status, serde_json::from_slice(&text).unwrap_or(Value::Null))
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_requests_are_refused_with_a_type_and_change_nothing() {
    for database in databases() {
        let lake = Lake::start(database).await;
        let loaded = create(&lake.client(), &name("t")).await;
        let path = "delta/v1/catalogs/main/schemas/default/tables/t";
        let uuid = loaded.metadata.table_uuid.as_str();
        let update = |updates: Value| {
            json!({"requirements": [{"type": "assert-table-uuid", "uuid": uuid}], "updates": updates}).to_string()
        };
        let commit = |change: Value| {
            let mut commit = json!({"version": 1, "timestamp": 2000, "file-size": 1, "file-modification-timestamp": 1,
                "file-name": "00000000000000000001.48ae7812-9cf2-4548-a859-fc64b89de294.json"});
            commit
                .as_object_mut()
                .unwrap()
                .extend(change.as_object().unwrap().clone());
            update(json!([{"action": "add-commit", "commit": commit}]))
        };
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let bodies = [
            String::new(),
            "{".to_owned(),
            "null".to_owned(),
            "[]".to_owned(),
            deep,
            "{\"updates\": 1e400}".to_owned(),
            json!({"updates": [{"action": "set-table-comment", "comment": "x"}]}).to_string(),
            update(json!([])),
            update(json!([{"action": "drop-everything"}])),
            update(json!([{"comment": "no action"}])),
            update(
                json!([{"action": "set-table-comment", "comment": "a"}, {"action": "set-table-comment", "comment": "b"}]),
            ),
            update(json!([{"action": "set-table-comment", "comment": "a\u{0}"}])),
            update(json!([{"action": "set-properties", "updates": {"a": 1}}])),
            update(
                json!([{"action": "set-properties", "updates": {"a": "1"}}, {"action": "remove-properties", "removals": ["a"]}]),
            ),
            update(json!([{"action": "set-properties", "updates": {"delta.lastUpdateVersion": "9"}}])),
            update(json!([{"action": "set-properties", "updates": {"io.unitycatalog.tableId": "other"}}])),
            update(json!([{"action": "remove-properties", "removals": ["io.unitycatalog.tableId"]}])),
            update(json!([{"action": "set-columns", "columns": {"type": "struct", "fields": [{"name": "a"}]}}])),
            update(json!([{"action": "set-latest-backfilled-version", "latest-published-version": -1}])),
            commit(json!({"version": 0})),
            commit(json!({"version": -5})),
            commit(json!({"version": 1.5})),
            commit(json!({"version": "1"})),
            commit(json!({"version": 9_223_372_036_854_775_807_i64})),
            commit(json!({"timestamp": 0})),
            commit(json!({"timestamp": 1000})),
            commit(json!({"file-size": 0})),
            commit(json!({"file-name": "../../../etc/passwd"})),
            commit(json!({"file-name": "00000000000000000002.48ae7812-9cf2-4548-a859-fc64b89de294.json"})),
            commit(json!({"content": "ab"})),
            commit(json!({"content": "x".repeat(MAX_INLINE_BYTES + 1), "file-size": MAX_INLINE_BYTES + 1})),
        ];
        for body in bodies {
            let shown: String = body.chars().take(100).collect();
            let (status, answer) = raw(&lake, "POST", path, body).await;
            assert_eq!(status, 400, "{shown}: {answer}");
            let kind = answer["error"]["type"].as_str().unwrap();
            assert!(ErrorType::from_name(kind).is_some(), "{shown}: {answer}");
        }
        let (status, answer) = raw(&lake, "POST", path, vec![b' '; MAX_REQUEST_BYTES + 1]).await;
        assert_eq!(status, 413, "{answer}");
        assert!(answer["error"]["message"].is_string());
        let (status, _) = raw(&lake, "POST", path, vec![0xff, 0xfe]).await;
        assert_eq!(status, 400);
        // The largest numbers that fit are stored as they are.
        let far = commit(json!({"timestamp": i64::MAX, "file-size": i64::MAX}));
        assert_eq!(raw(&lake, "POST", path, far).await.0, 200);
        let e = lake
            .client()
            .update(&name("t"), &adding(&loaded, proposal(2, None)))
            .await
            .unwrap_err();
        assert_eq!(e.error_type, ErrorType::InvalidParameterValue);
        let seen = lake.client().load(&name("t"), None).await.unwrap();
        assert_eq!(seen.latest_table_version, Some(1));
        assert_eq!(seen.metadata, loaded.metadata);
        assert_eq!(raw(&lake, "PATCH", path, "").await.0, 404);
        assert_eq!(raw(&lake, "GET", "no/such/endpoint", "").await.0, 404);
        assert_eq!(raw(&lake, "GET", "delta/v1/config?catalog=main", "").await.0, 400);
        let lost = raw(&lake, "GET", "delta/v1/config?catalog=none&protocol-versions=1.0", "").await;
        assert_eq!(
            (lost.0, lost.1["error"]["type"].as_str()),
            (404, Some("NoSuchCatalogException"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_data_and_never_statements() {
    for database in databases() {
        let lake = Lake::start(database).await;
        let catalog = lake.client();
        let evil = [
            "a';DROP\u{3000}TABLE",
            "a';DELETE",
            "x');--",
            "$1",
            "%s",
            "?",
            "ä\"ö",
            "..",
            "{table}",
            "a%27%3B",
            "café🦆",
        ];
        let mut created = 0;
        for text in evil {
            match TableName::new("main", "default", text) {
                Ok(table) => {
                    let loaded = create(&catalog, &table).await;
                    let again = catalog.load(&table, None).await.unwrap();
                    assert_eq!(again.metadata.table_uuid, loaded.metadata.table_uuid, "{text}");
                    catalog
                        .update(&table, &adding(&loaded, proposal(1, None)))
                        .await
                        .unwrap();
                    created += 1;
                }
                Err(e) => assert_eq!(e.error_type, ErrorType::InvalidParameterValue, "{text}"),
            }
        }
        assert!(created >= 8);
        let list = catalog.list_tables("main", "default", Page::default()).await.unwrap();
        assert_eq!(list.tables.len(), created);
        let path = "delta/v1/catalogs/main/schemas/default/tables/a'%3B%20DROP%20TABLE%20tables";
        let (status, _) = raw(&lake, "GET", path, "").await;
        assert_eq!(status, 400);
        for query in ["page_token=';DROP", "max_results=-1", "max_results=x"] {
            let path = format!("tables?catalog_name=main&schema_name=default&{query}");
            let (status, _) = raw(&lake, "GET", &path, "").await;
            assert!(matches!(status, 200 | 400), "{query}");
        }
        assert_eq!(
            catalog
                .list_schemas("main", Page::default())
                .await
                .unwrap()
                .schemas
                .len(),
            2
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_metrics_answer_and_a_stopping_server_finishes() {
    let lake = Lake::start(Database::Sqlite).await;
    let loaded = create(&lake.client(), &name("t")).await;
    let get = async |path: &str| {
        let response = reqwest::get(format!("{}{path}", lake.url())).await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    assert_eq!(get("/health").await, (200, "ok\n".to_owned()));
    let (status, text) = get("/metrics").await;
    assert_eq!(status, 200);
    assert!(text.contains("/tables\",status=\"200\"} 1"), "{text}");
    assert_eq!(get("/api/2.1/unity-catalog/catalogs").await.0, 401);
    // Requests on their way are answered before the server ends.
    let (catalog, table) = (lake.client(), name("t"));
    catalog.load(&table, None).await.unwrap();
    let request = adding(&loaded, proposal(1, None));
    let running = tokio::spawn(async move { catalog.update(&table, &request).await });
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let url = lake.url();
    lake.server.stop().await;
    let outcome = running.await.unwrap();
    let e = client(&url, &lake.token)
        .list_catalogs(Page::default())
        .await
        .unwrap_err();
    assert_eq!(e.error_type, ErrorType::Unavailable);
    let latest = lake
        .store
        .load(&name("t"), Default::default(), None, &lake.admin)
        .await
        .unwrap();
    assert_eq!(outcome.unwrap().latest_table_version, latest.latest_table_version);
}
