//! Tables whose log is a catalog's: the log's transactions over the adapter, in a local directory.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use deltaplane_catalog::api::LoadedTable;
use deltaplane_catalog::committer::CatalogCommitter;
use deltaplane_catalog::limits::MAX_INLINE_BYTES;
use deltaplane_catalog::local::CredentialRules;
use deltaplane_catalog::store::StoreOptions;
use deltaplane_catalog::{Catalog, TableName};
use deltaplane_error::Kind;
use deltaplane_log::committer::managed;
use deltaplane_log::{Committed, Snapshot, WritePlan, create_table, plan_write};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::schema::{Field, Primitive, StructType};
use deltaplane_store::{Location, Options, Store};
use serde_json::json;

use crate::proxy::{self, Losses};
use crate::support::{Database, Lake, client, databases, name};

fn schema() -> StructType {
    StructType::new(vec![Field::new("id", Primitive::Long, true)])
}

/// A catalog whose managed tables are in this local directory.
async fn lake(database: Database, root: &std::path::Path) -> Lake {
    let options = StoreOptions {
        storage_root: Some(format!("file://{}", root.display())),
        ..StoreOptions::default()
    };
    Lake::with(database, options, CredentialRules::default()).await
}

fn plain(location: &str) -> Store {
    Store::open(&Location::parse(location).unwrap(), &Options::default()).unwrap()
}

/// Creates a table as a client does: the catalog gives the place, version 0 goes there, and the
/// catalog registers it.
async fn created(catalog: Arc<dyn Catalog>, name: &TableName) -> Store {
    let staging = catalog.create_staging(name).await.unwrap();
    let (location, properties) = (staging.location.clone(), staging.required_properties.clone());
    let committer = CatalogCommitter::create(catalog, name.clone(), staging).await.unwrap();
    let store = managed(&plain(&location), Arc::new(committer), None).unwrap();
    let request = json!({"mode": "error", "configuration": properties});
    let table = create_table(&store, schema(), serde_json::from_value(request).unwrap());
    assert_eq!(table.await.unwrap().version(), 0);
    store
}

/// The store of a table by its name: one call to the catalog.
async fn opened(catalog: Arc<dyn Catalog>, name: &TableName) -> (Store, LoadedTable) {
    let loaded = catalog.load(name, None).await.unwrap();
    let (committer, tail) = CatalogCommitter::open(catalog, name.clone(), &loaded).await.unwrap();
    let store = managed(&plain(&loaded.metadata.location), Arc::new(committer), Some(tail)).unwrap();
    (store, loaded)
}

fn file(path: &str, stats_bytes: usize) -> Add {
    let filler = "x".repeat(stats_bytes);
    Add {
        path: path.to_owned(),
        size: 10,
        modification_time: 1,
        data_change: true,
        stats: Some(json!({"numRecords": 2, "filler": filler}).to_string()),
        ..Add::default()
    }
}

async fn append(store: &Store, add: Add) -> deltaplane_error::Result<Committed> {
    let request = serde_json::from_value(json!({"mode": "append"})).unwrap();
    match plan_write(store, schema(), request).await? {
        WritePlan::Go(planned) => planned.commit(vec![add]).await,
        WritePlan::Skip(why) => panic!("skipped: {why}"),
    }
}

/// The paths of the version's files, sorted.
async fn paths(store: &Store, version: Option<u64>) -> (u64, Vec<String>) {
    let snapshot = Snapshot::open(store, version).await.unwrap();
    let mut paths = Vec::new();
    for version in 1..=snapshot.version() {
        let text = store.read(&deltaplane_protocol::paths::commit(version)).await.unwrap();
        let lines = std::str::from_utf8(&text).unwrap().lines();
        let actions = lines.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        paths.extend(actions.filter_map(|action| Some(action["add"]["path"].as_str()?.to_owned())));
    }
    paths.sort();
    (snapshot.version(), paths)
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_writers_commit_inline_and_staged_and_readers_open_by_name() {
    // P158
    for database in databases() {
        let folder = tempfile::tempdir().unwrap();
        let lake = lake(database, folder.path()).await;
        let catalog: Arc<dyn Catalog> = Arc::new(lake.embedded());
        created(Arc::clone(&catalog), &name("race")).await;
        let (inline, _) = opened(Arc::clone(&catalog), &name("race")).await;
        let (staged, loaded) = opened(Arc::clone(&catalog), &name("race")).await;
        let write = async |store: &Store, who: &str, stats_bytes: usize| {
            for number in 0..3 {
                append(store, file(&format!("{who}{number}"), stats_bytes))
                    .await
                    .unwrap();
            }
        };
        tokio::join!(write(&inline, "inline", 0), write(&staged, "staged", MAX_INLINE_BYTES));
        let (reader, after) = opened(Arc::clone(&catalog), &name("race")).await;
        let all = ["inline0", "inline1", "inline2", "staged0", "staged1", "staged2"];
        assert_eq!(after.latest_table_version, Some(6));
        assert_eq!(paths(&reader, None).await, (6, all.map(str::to_owned).to_vec()));
        assert_eq!(paths(&reader, Some(2)).await.1.len(), 2, "time travel");
        let root = loaded.metadata.location.strip_prefix("file://").unwrap();
        let staging = std::fs::read_dir(format!("{root}/_delta_log/_staged_commits")).unwrap();
        let names: Vec<_> = staging.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        assert!(names.len() >= 3, "{names:?}");
        // Published, each version has its file, and the catalog holds none.
        Snapshot::open(&reader, None).await.unwrap().publish().await.unwrap();
        for version in 0..=6 {
            assert!(std::path::Path::new(&format!("{root}/_delta_log/{version:020}.json")).exists());
        }
        let (again, after) = opened(Arc::clone(&catalog), &name("race")).await;
        assert!(after.commits.unwrap_or_default().is_empty());
        assert_eq!(paths(&again, None).await.0, 6);
        let refused = Snapshot::open(&plain(&loaded.metadata.location), None)
            .await
            .err()
            .unwrap();
        assert_eq!(refused.kind(), Kind::UnsupportedFeature, "{refused}");
        assert!(refused.message().contains("catalog"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_looked_up_and_the_commit_counts_once() {
    // P072, P158
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(Database::Sqlite, folder.path()).await;
    created(Arc::new(lake.embedded()), &name("lost")).await;
    let losses = Losses::every(0);
    let address = proxy::start(lake.server.address(), losses.clone()).await;
    let remote: Arc<dyn Catalog> = Arc::new(client(&format!("http://{address}"), &lake.token));
    let (store, _) = opened(Arc::clone(&remote), &name("lost")).await;
    losses.set(2);
    for number in 0..4 {
        append(&store, file(&format!("f{number}"), 0)).await.unwrap();
    }
    losses.set(0);
    assert!(losses.lost.load(Ordering::SeqCst) > 0);
    let (reader, _) = opened(remote, &name("lost")).await;
    assert_eq!(
        paths(&reader, None).await,
        (4, (0..4).map(|n| format!("f{n}")).collect())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_that_goes_away_in_a_commit_leaves_a_table_that_goes_on() {
    // P158: the decision happens, and no answer arrives any more.
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(Database::Sqlite, folder.path()).await;
    created(Arc::new(lake.embedded()), &name("away")).await;
    let losses = Losses::every(0);
    let address = proxy::start(lake.server.address(), losses.clone()).await;
    let remote: Arc<dyn Catalog> = Arc::new(client(&format!("http://{address}"), &lake.token));
    let (store, _) = opened(Arc::clone(&remote), &name("away")).await;
    let request = serde_json::from_value(json!({"mode": "append"})).unwrap();
    let WritePlan::Go(planned) = plan_write(&store, schema(), request).await.unwrap() else {
        panic!("skipped")
    };
    losses.set(1);
    let unclear = planned.commit(vec![file("unclear", 0)]).await.err().unwrap();
    assert!(!unclear.kind().rules_out_commit(), "{unclear}");
    losses.set(0);
    let (store, _) = opened(Arc::clone(&remote), &name("away")).await;
    assert_eq!(paths(&store, None).await, (1, vec!["unclear".to_owned()]));
    append(&store, file("next", 0)).await.unwrap();
    let both = vec!["next".to_owned(), "unclear".to_owned()];
    assert_eq!(paths(&store, None).await, (2, both));
}
