//! Measures a transaction over ten tables against the commit of one: the median of each, and the
//! slowest of ten single commits.
//!
//! `cargo run --release -p deltaplane-catalog --example transaction_rates`
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use deltaplane_catalog::api::LoadedTable;
use deltaplane_catalog::api::classic::{CatalogInfo, SchemaInfo};
use deltaplane_catalog::committer::CatalogCommitter;
use deltaplane_catalog::store::StoreOptions;
use deltaplane_catalog::{Catalog, LocalCatalog, TableName, TableStores, Transaction, TransactionIsolation};
use deltaplane_log::committer::managed;
use deltaplane_log::{WritePlan, create_table, plan_write};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::schema::{Field, Primitive, StructType};
use deltaplane_store::{Location, Options, Store};
use serde_json::json;

const TABLES: usize = 10;
const ROUNDS: usize = 30;

struct Plain;

#[async_trait]
impl TableStores for Plain {
    async fn open(&self, _: &TableName, loaded: &LoadedTable) -> deltaplane_error::Result<Store> {
        Ok(plain(&loaded.metadata.location))
    }
}

fn plain(location: &str) -> Store {
    Store::open(&Location::parse(location).unwrap(), &Options::default()).unwrap()
}

fn schema() -> StructType {
    StructType::new(vec![Field::new("id", Primitive::Long, true)])
}

async fn append(store: &Store, path: &str) {
    let add = Add {
        path: path.to_owned(),
        size: 10,
        data_change: true,
        ..Add::default()
    };
    let request = serde_json::from_value(json!({"mode": "append"})).unwrap();
    match plan_write(store, schema(), request).await.unwrap() {
        WritePlan::Go(planned) => drop(planned.commit(vec![add]).await.unwrap()),
        WritePlan::Skip(why) => panic!("skipped: {why}"),
    }
}

async fn created(catalog: &Arc<dyn Catalog>, name: &TableName) {
    let staging = catalog.create_staging(name).await.unwrap();
    let (location, properties) = (staging.location.clone(), staging.required_properties.clone());
    let committer = CatalogCommitter::create(Arc::clone(catalog), name.clone(), staging)
        .await
        .unwrap();
    let store = managed(&plain(&location), Arc::new(committer), None).unwrap();
    let request = json!({"mode": "error", "configuration": properties});
    create_table(&store, schema(), serde_json::from_value(request).unwrap())
        .await
        .unwrap();
}

async fn opened(catalog: &Arc<dyn Catalog>, name: &TableName) -> Store {
    let loaded = catalog.load(name, None).await.unwrap();
    let (committer, tail) = CatalogCommitter::open(Arc::clone(catalog), name.clone(), &loaded)
        .await
        .unwrap();
    managed(&plain(&loaded.metadata.location), Arc::new(committer), Some(tail)).unwrap()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

#[tokio::main]
async fn main() {
    let folder = std::env::temp_dir().join(format!("transaction-rates-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let options = StoreOptions {
        storage_root: Some(format!("file://{}/lake", folder.display())),
        ..StoreOptions::default()
    };
    let url = format!("sqlite:///{}/lake.db", folder.display());
    let catalog: Arc<dyn Catalog> = Arc::new(LocalCatalog::open(&url, options).await.unwrap());
    let (main, default) = ("main".to_owned(), "default".to_owned());
    let info = CatalogInfo {
        name: main.clone(),
        ..CatalogInfo::default()
    };
    catalog.create_catalog(info).await.unwrap();
    let info = SchemaInfo {
        name: default,
        catalog_name: main,
        ..SchemaInfo::default()
    };
    catalog.create_schema(info).await.unwrap();
    let named = |n: usize| TableName::new("main", "default", format!("t{n}")).unwrap();
    let names: Vec<TableName> = (0..TABLES).map(named).collect();
    for name in &names {
        created(&catalog, name).await;
    }
    let (mut single, mut slowest, mut begins, mut commits, mut whole) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let mut times = Vec::new();
        for name in &names {
            let began = Instant::now();
            append(&opened(&catalog, name).await, &format!("single{round}")).await;
            times.push(began.elapsed());
        }
        slowest.extend(times.iter().max().copied());
        single.extend(times);
        let began = Instant::now();
        let transaction = Transaction::begin(
            Arc::clone(&catalog),
            Arc::new(Plain),
            &names,
            TransactionIsolation::Serializable,
        );
        let transaction = transaction.await.unwrap();
        begins.push(began.elapsed());
        for name in &names {
            append(&transaction.table(name).await.unwrap(), &format!("group{round}")).await;
        }
        let committing = Instant::now();
        transaction.commit().await.unwrap();
        commits.push(committing.elapsed());
        whole.push(began.elapsed());
    }
    println!("single write (open, plan, commit): {:.2} ms", median(single));
    println!("slowest of ten single writes: {:.2} ms", median(slowest));
    println!(
        "transaction over ten tables: begin {:.2} ms, commit {:.2} ms, whole {:.2} ms",
        median(begins),
        median(commits),
        median(whole)
    );
    std::fs::remove_dir_all(&folder).unwrap();
}
