//! Measures a catalog's server: start, memory at 10,000 tables, and commits a second.
//!
//! `cargo run --release -p deltaplane-catalog --example catalog_rates -- DATABASE [relaxed]`
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use deltaplane_catalog::api::{AssertedTable, Commit, CreateTable, TableUpdate, UpdateTable};
use deltaplane_catalog::client::{ClientOptions, Token};
use deltaplane_catalog::server::{Authentication, Server, ServerOptions};
use deltaplane_catalog::store::{Durability, Location, Store, StoreOptions};
use deltaplane_catalog::{Catalog, CatalogError, HttpCatalog, TableName};
use serde_json::json;

const TABLES: usize = 10_000;

async fn serve(location: &Location) -> Result<Server, CatalogError> {
    let options = StoreOptions {
        storage_root: Some("s3://lake".to_owned()),
        max_unpublished: 100_000,
        ..StoreOptions::default()
    };
    let store = Store::open(location.clone(), options).await?;
    let options = ServerOptions {
        address: "127.0.0.1:0".parse().unwrap(),
        authentication: Authentication::Anonymous,
        credentials: Default::default(),
    };
    Server::start(store, options).await
}

fn client(server: &Server) -> HttpCatalog {
    let url = format!("http://{}", server.address());
    HttpCatalog::new(&url, Token::Absent, ClientOptions::default()).unwrap()
}

/// Resident memory in MiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

async fn create(catalog: &HttpCatalog, name: &TableName) -> Result<AssertedTable, CatalogError> {
    let staging = catalog.create_staging(name).await?;
    let fields: Vec<_> = (0..20)
        .map(|n| json!({"name": format!("column{n}"), "type": "long", "nullable": true, "metadata": {}}))
        .collect();
    let request = CreateTable {
        name: name.table.clone(),
        location: staging.location,
        table_type: staging.table_type,
        comment: None,
        columns: json!({"type": "struct", "fields": fields}),
        partition_columns: Vec::new(),
        protocol: staging.required_protocol,
        properties: staging
            .required_properties
            .into_iter()
            .map(|(key, value)| (key, value.unwrap_or_default()))
            .collect(),
        domain_metadata: None,
        last_commit_timestamp_ms: 1,
        uniform: None,
    };
    catalog.create_table(&name.catalog, &name.schema, request).await?;
    Ok(AssertedTable {
        uuid: staging.table_id,
        etag: None,
    })
}

fn request(asserted: &AssertedTable, version: i64) -> UpdateTable {
    let content = format!(
        "{{\"commitInfo\":{{\"inCommitTimestamp\":{version},\"txnId\":\"{version}\"}}}}\n{{\"add\":{{\"path\":\"{}\"}}}}\n",
        "x".repeat(700)
    );
    let commit = Commit {
        version,
        timestamp: 1 + version,
        file_name: format!("{version:020}.{}.json", uuid::Uuid::new_v4()),
        file_size: content.len() as i64,
        file_modification_timestamp: 1,
        content: Some(content),
    };
    let publish = TableUpdate::SetLatestBackfilledVersion {
        latest_published_version: (version - 100).max(0),
    };
    UpdateTable::new(
        asserted,
        vec![TableUpdate::AddCommit { commit, uniform: None }, publish],
    )
}

/// Writers that commit to their tables for some seconds: commits a second, and the median in ms.
async fn rate(server: &Server, tables: &[(TableName, AssertedTable)], writers: usize, from: i64) -> (f64, f64, i64) {
    let seconds = Duration::from_secs(5);
    let begun = Instant::now();
    let mut tasks = Vec::new();
    let tables: Arc<Vec<_>> = Arc::new(
        tables
            .iter()
            .map(|(name, asserted)| (name.clone(), asserted.clone(), tokio::sync::Mutex::new(from)))
            .collect(),
    );
    for writer in 0..writers {
        let (catalog, tables) = (client(server), Arc::clone(&tables));
        tasks.push(tokio::spawn(async move {
            let mut took = Vec::new();
            let mut turn = writer;
            while begun.elapsed() < seconds {
                let (name, asserted, version) = &tables[turn % tables.len()];
                turn += writers;
                let mut version = version.lock().await;
                let start = Instant::now();
                catalog.update(name, &request(asserted, *version + 1)).await.unwrap();
                *version += 1;
                took.push(start.elapsed());
            }
            took
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    let elapsed = begun.elapsed().as_secs_f64();
    all.sort();
    let median = all[all.len() / 2].as_secs_f64() * 1e3;
    let mut last = from;
    for (_, _, version) in tables.iter() {
        last = last.max(*version.lock().await);
    }
    (all.len() as f64 / elapsed, median, last)
}

#[tokio::main]
async fn main() -> Result<(), CatalogError> {
    let url = std::env::args().nth(1).expect("the database's URL");
    let mut location = Location::parse(&url)?;
    if let (Location::Sqlite(_, durability), Some("relaxed")) = (&mut location, std::env::args().nth(2).as_deref()) {
        *durability = Durability::Relaxed;
    }
    let server = serve(&location).await?;
    let catalog = client(&server);
    catalog
        .create_catalog(serde_json::from_str(r#"{"name":"main"}"#).unwrap())
        .await?;
    let schema = serde_json::from_str(r#"{"name":"s","catalog_name":"main"}"#).unwrap();
    catalog.create_schema(schema).await?;
    let mut tables = Vec::new();
    for number in 0..51 {
        let name = TableName::new("main", "s", format!("t{number}"))?;
        let asserted = create(&catalog, &name).await?;
        tables.push((name, asserted));
    }
    let (alone, median, last) = rate(&server, &tables[..1], 1, 0).await;
    println!("one writer, one table: {alone:.0} commits/s, median {median:.2} ms");
    let (shared, median, _) = rate(&server, &tables[..1], 8, last).await;
    println!("8 writers in turn, one table: {shared:.0} commits/s, median {median:.2} ms");
    let (many, median, _) = rate(&server, &tables[1..], 64, 0).await;
    println!("64 writers, 50 tables: {many:.0} commits/s, median {median:.2} ms");
    let mut creators = Vec::new();
    for creator in 0..16 {
        let catalog = client(&server);
        creators.push(tokio::spawn(async move {
            for number in (51 + creator..TABLES).step_by(16) {
                let name = TableName::new("main", "s", format!("t{number}")).unwrap();
                create(&catalog, &name).await.unwrap();
            }
        }));
    }
    for creator in creators {
        creator.await.unwrap();
    }
    let before = resident();
    let page = catalog.list_tables("main", "s", Default::default()).await?;
    println!(
        "memory at {TABLES} tables: {before} MiB; after a list of {}: {} MiB",
        page.tables.len(),
        resident()
    );
    server.stop().await;
    let begun = Instant::now();
    let server = serve(&location).await?;
    client(&server)
        .load(&TableName::new("main", "s", "t9999")?, None)
        .await?;
    println!(
        "start to the first table: {:.0} ms",
        begun.elapsed().as_secs_f64() * 1e3
    );
    server.stop().await;
    Ok(())
}
