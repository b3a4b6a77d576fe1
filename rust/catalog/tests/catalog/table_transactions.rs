//! Transactions over several managed tables: the log's commits over the catalog's one decision.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use deltaplane_catalog::api::LoadedTable;
use deltaplane_catalog::limits::MAX_INLINE_BYTES;
use deltaplane_catalog::{Catalog, TableName, TableStores, Transaction, TransactionIsolation};
use deltaplane_error::{Kind, Result};
use deltaplane_log::{Operation, Snapshot, Staged, commit, create_table};
use deltaplane_protocol::conflict::ReadSet;
use deltaplane_protocol::paths::commit as commit_key;
use deltaplane_store::Store;
use serde_json::{Value, json};

use crate::managed_tables::{append, created, file, lake, opened, paths, plain, schema};
use crate::proxy::{self, Losses};
use crate::support::{Database, client, databases, name};

/// Opens locations as they are.
pub struct Plain;

#[async_trait]
impl TableStores for Plain {
    async fn open(&self, _: &TableName, loaded: &LoadedTable) -> Result<Store> {
        Ok(plain(&loaded.metadata.location))
    }
}

async fn begin(catalog: &Arc<dyn Catalog>, names: &[&str]) -> Transaction {
    begun(catalog, names, TransactionIsolation::Serializable).await.unwrap()
}

async fn begun(catalog: &Arc<dyn Catalog>, names: &[&str], isolation: TransactionIsolation) -> Result<Transaction> {
    let names: Vec<TableName> = names.iter().map(|table| name(table)).collect();
    Transaction::begin(Arc::clone(catalog), Arc::new(Plain), &names, isolation).await
}

/// Creates tables; returns the catalog that made them.
async fn tables(catalog: Arc<dyn Catalog>, names: &[&str]) -> Arc<dyn Catalog> {
    for table in names {
        created(Arc::clone(&catalog), &name(table)).await;
    }
    catalog
}

/// Removes a file, and adds others in its place, as a command that read all rows or none of the
/// others.
async fn replace(store: &Store, old: &str, new: &[&str], read: ReadSet) -> Result<u64> {
    let base = Snapshot::open(store, None).await?;
    let staged = Staged {
        adds: new.iter().map(|path| file(path, 0)).collect(),
        removes: vec![file(old, 0).to_remove(1, true)],
        read,
        operation: Operation {
            name: "WRITE".to_owned(),
            ..Operation::default()
        },
        ..Staged::default()
    };
    commit(store, Some(base), &staged).await.map(|done| done.version)
}

/// The live files of the newest version, outside of any transaction.
async fn live(catalog: &Arc<dyn Catalog>, table: &str) -> (u64, Vec<String>) {
    let (store, _) = opened(Arc::clone(catalog), &name(table)).await;
    live_in(&store).await
}

async fn live_in(store: &Store) -> (u64, Vec<String>) {
    let version = Snapshot::open(store, None).await.unwrap().version();
    let mut files = BTreeMap::new();
    for version in 1..=version {
        for action in actions(store, version).await {
            if let Some(path) = action["add"]["path"].as_str() {
                files.insert(path.to_owned(), ());
            }
            if let Some(path) = action["remove"]["path"].as_str() {
                files.remove(path);
            }
        }
    }
    (version, files.into_keys().collect())
}

async fn actions(store: &Store, version: u64) -> Vec<Value> {
    let text = store.read(&commit_key(version)).await.unwrap();
    let lines = std::str::from_utf8(&text).unwrap().lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn info(catalog: &Arc<dyn Catalog>, table: &str, version: u64) -> Value {
    let (store, _) = opened(Arc::clone(catalog), &name(table)).await;
    actions(&store, version).await[0]["commitInfo"].clone()
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Names of the files below a table's folder.
fn files_of(location: &str, folder: &str) -> Vec<String> {
    let root = Path::new(location.strip_prefix("file://").unwrap()).join(folder);
    let Ok(entries) = std::fs::read_dir(root) else {
        return Vec::new();
    };
    let files = entries
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file());
    let mut names: Vec<String> = files.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_reads_its_own_writes_and_commits_them_together() {
    // P158, and the RFC delta-io/delta#7437
    for database in databases() {
        let folder = tempfile::tempdir().unwrap();
        let lake = lake(database, folder.path()).await;
        let catalogs: [Arc<dyn Catalog>; 2] = [Arc::new(lake.client()), Arc::new(lake.embedded())];
        for (round, catalog) in catalogs.into_iter().enumerate() {
            let (orders, lines) = (format!("orders{round}"), format!("lines{round}"));
            let catalog = tables(catalog, &[&orders, &lines]).await;
            let transaction = begin(&catalog, &[&orders]).await;
            let (first, second) = (
                transaction.table(&name(&orders)).await.unwrap(),
                transaction.table(&name(&lines)).await.unwrap(),
            );
            append(&first, file("a", 0)).await.unwrap();
            append(&first, file("b", 0)).await.unwrap();
            assert_eq!(live_in(&first).await, (2, owned(&["a", "b"])), "its own writes");
            replace(&first, "a", &["c"], ReadSet::Nothing).await.unwrap();
            append(&second, file("line", 0)).await.unwrap();
            assert_eq!(live_in(&first).await, (3, owned(&["b", "c"])));
            assert_eq!(
                live(&catalog, &orders).await,
                (0, Vec::new()),
                "not there before the commit"
            );
            let done = transaction.commit().await.unwrap();
            assert_eq!(done, [(name(&lines), 1), (name(&orders), 1)], "one version each");
            assert_eq!(live(&catalog, &orders).await, (1, owned(&["b", "c"])));
            assert_eq!(live(&catalog, &lines).await, (1, owned(&["line"])));
            let (of_orders, of_lines) = (info(&catalog, &orders, 1).await, info(&catalog, &lines, 1).await);
            assert_eq!(of_orders["transactionGroup"], of_lines["transactionGroup"]);
            let group = &of_orders["transactionGroup"];
            assert_eq!(group["transactionId"], transaction.id());
            assert_eq!(group["participants"].as_array().unwrap().len(), 2);
            for table in [&orders, &lines] {
                let uuid = catalog.load(&name(table), None).await.unwrap().metadata.table_uuid;
                let of_table = json!({"tableId": uuid, "proposedVersion": 1});
                assert!(group["participants"].as_array().unwrap().contains(&of_table), "{group}");
            }
            let tag = "delta.multiTableTransaction.transactionId";
            assert_eq!(of_orders["tags"][tag], transaction.id());
            assert_eq!(
                (of_orders["operation"].as_str(), of_lines["operation"].as_str()),
                (Some("TRANSACTION"), Some("WRITE"))
            );
            assert_ne!(of_orders["txnId"], of_lines["txnId"], "a unique id each");
            // It has ended.
            assert_eq!(transaction.commit().await.err().unwrap().kind(), Kind::InvalidArgument);
            assert_eq!(
                append(&first, file("late", 0)).await.err().unwrap().kind(),
                Kind::InvalidArgument
            );
            assert_eq!(live(&catalog, &orders).await.0, 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(Database::Sqlite, folder.path()).await;
    let catalog = tables(Arc::new(lake.embedded()), &["t", "u"]).await;
    let location = catalog.load(&name("t"), None).await.unwrap().metadata.location;
    for dropped in [false, true] {
        let transaction = begin(&catalog, &["t", "u"]).await;
        let store = transaction.table(&name("t")).await.unwrap();
        store.put("data.parquet", "rows".into()).await.unwrap();
        append(&store, file("data.parquet", 0)).await.unwrap();
        assert_eq!(files_of(&location, ""), ["data.parquet"]);
        match dropped {
            false => assert_eq!(transaction.rollback().await.unwrap(), 1),
            true => drop(transaction),
        }
        for _ in 0..100 {
            if files_of(&location, "").is_empty() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert!(files_of(&location, "").is_empty());
        let late = store.put("late.parquet", "rows".into()).await.err().unwrap();
        assert_eq!(late.kind(), Kind::InvalidArgument, "{late}");
        assert_eq!(live(&catalog, "t").await, (0, Vec::new()));
        assert_eq!(
            files_of(&location, "_delta_log"),
            ["crc", "json"].map(|end| format!("{:020}.{end}", 0))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_no_version_has_are_deleted_after_the_commit() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(Database::Sqlite, folder.path()).await;
    let catalog = tables(Arc::new(lake.embedded()), &["t"]).await;
    let location = catalog.load(&name("t"), None).await.unwrap().metadata.location;
    let transaction = begin(&catalog, &["t"]).await;
    let store = transaction.table(&name("t")).await.unwrap();
    for path in ["first.parquet", "second.parquet"] {
        store.put(path, "rows".into()).await.unwrap();
    }
    append(&store, file("first.parquet", 0)).await.unwrap();
    replace(&store, "first.parquet", &["second.parquet"], ReadSet::Nothing)
        .await
        .unwrap();
    // What isn't its own, and files of the log, a transaction neither deletes nor writes.
    plain(&location).put("foreign.parquet", "rows".into()).await.unwrap();
    assert_eq!(
        store.delete("foreign.parquet").await.err().unwrap().kind(),
        Kind::InvalidArgument
    );
    let checkpoint = Snapshot::open(&store, None).await.unwrap().checkpoint().await;
    assert_eq!(checkpoint.err().unwrap().kind(), Kind::InvalidArgument);
    assert_eq!(transaction.commit().await.unwrap(), [(name("t"), 1)]);
    assert_eq!(files_of(&location, ""), ["foreign.parquet", "second.parquet"]);
    assert!(
        info(&catalog, "t", 1).await.get("transactionGroup").is_none(),
        "a single table is no group"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_is_checked_at_the_commit() {
    for database in databases() {
        let folder = tempfile::tempdir().unwrap();
        let lake = lake(database, folder.path()).await;
        let catalog = tables(Arc::new(lake.embedded()), &["read", "written", "other"]).await;
        let (outside, _) = opened(Arc::clone(&catalog), &name("read")).await;
        append(&outside, file("seen", 0)).await.unwrap();
        let attempt = async |isolation, number: usize| {
            let transaction = begun(&catalog, &["read", "written"], isolation).await.unwrap();
            let read = transaction.table(&name("read")).await.unwrap();
            let (before, _) = paths(&read, None).await;
            Snapshot::open(&read, None).await.unwrap().note_read(None);
            append(
                &transaction.table(&name("written")).await.unwrap(),
                file(&format!("w{number}"), 0),
            )
            .await
            .unwrap();
            append(&outside, file(&format!("unseen{number}"), 0)).await.unwrap();
            assert_eq!(paths(&read, None).await.0, before, "one instant");
            transaction.commit().await
        };
        let refused = attempt(TransactionIsolation::Serializable, 1).await.err().unwrap();
        assert_eq!(refused.kind(), Kind::ConcurrentAppend, "{refused}");
        assert!(
            refused
                .table()
                .is_some_and(|table| table.contains(folder.path().to_str().unwrap())),
            "{refused:?}"
        );
        assert_eq!(live(&catalog, "written").await.0, 0);
        attempt(TransactionIsolation::Snapshot, 2).await.unwrap();
        assert_eq!(live(&catalog, "written").await, (1, owned(&["w2"])));
        // A change elsewhere doesn't matter, and neither does reading alone.
        let transaction = begin(&catalog, &["read", "written"]).await;
        let read = transaction.table(&name("read")).await.unwrap();
        Snapshot::open(&read, None).await.unwrap().note_read(None);
        append(&opened(Arc::clone(&catalog), &name("other")).await.0, file("o", 0))
            .await
            .unwrap();
        append(&transaction.table(&name("written")).await.unwrap(), file("w3", 0))
            .await
            .unwrap();
        transaction.commit().await.unwrap();
        let reading = begin(&catalog, &["read"]).await;
        let read = reading.table(&name("read")).await.unwrap();
        Snapshot::open(&read, None).await.unwrap().note_read(None);
        append(&outside, file("later", 0)).await.unwrap();
        assert_eq!(reading.commit().await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_in_one_table_leaves_all_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(Database::Sqlite, folder.path()).await;
    let catalog = tables(Arc::new(lake.embedded()), &["a", "b"]).await;
    for table in ["a", "b"] {
        append(&opened(Arc::clone(&catalog), &name(table)).await.0, file("base", 0))
            .await
            .unwrap();
    }
    let transaction = begin(&catalog, &["a", "b"]).await;
    let (a, b) = (
        transaction.table(&name("a")).await.unwrap(),
        transaction.table(&name("b")).await.unwrap(),
    );
    // Large, so that its commits are staged as files.
    append(&a, file("mine", MAX_INLINE_BYTES)).await.unwrap();
    replace(&b, "base", &["mine"], ReadSet::Nothing).await.unwrap();
    let (outside, loaded) = opened(Arc::clone(&catalog), &name("b")).await;
    replace(&outside, "base", &["theirs"], ReadSet::Nothing).await.unwrap();
    let refused = transaction.commit().await.err().unwrap();
    assert_eq!(refused.kind(), Kind::ConcurrentDeleteDelete, "{refused}");
    assert!(refused.kind().rules_out_commit());
    assert_eq!(live(&catalog, "a").await, (1, owned(&["base"])));
    assert_eq!(live(&catalog, "b").await, (2, owned(&["theirs"])));
    let of_a = catalog.load(&name("a"), None).await.unwrap().metadata.location;
    for location in [of_a, loaded.metadata.location] {
        assert_eq!(
            files_of(&location, "_delta_log/_staged_commits"),
            Vec::<String>::new(),
            "cleaned up"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_transactions_lose_nothing() {
    // Eight writers: each transaction appends one file to both tables, half of them staged.
    const WRITERS: usize = 8;
    const EACH: usize = 5;
    for database in databases() {
        let folder = tempfile::tempdir().unwrap();
        let lake = lake(database, folder.path()).await;
        let catalog = tables(Arc::new(lake.embedded()), &["a", "b"]).await;
        let writers = (0..WRITERS).map(|writer| {
            let catalog: Arc<dyn Catalog> = Arc::new(lake.client());
            tokio::spawn(async move {
                for number in 0..EACH {
                    let transaction = begin(&catalog, &["a", "b"]).await;
                    let bytes = if writer % 2 == 0 { 0 } else { MAX_INLINE_BYTES / 2 };
                    for table in ["a", "b"] {
                        let store = transaction.table(&name(table)).await.unwrap();
                        append(&store, file(&format!("w{writer}n{number}"), bytes))
                            .await
                            .unwrap();
                    }
                    transaction.commit().await.unwrap();
                }
            })
        });
        for writer in futures::future::join_all(writers).await {
            writer.unwrap();
        }
        let (a, b) = (live(&catalog, "a").await, live(&catalog, "b").await);
        assert_eq!(a.0, (WRITERS * EACH) as u64);
        assert_eq!(a.1.len(), WRITERS * EACH);
        assert_eq!(a, b);
        // Each version of one table belongs to the same transaction as that of the other one.
        for version in 1..=a.0 {
            let (first, second) = (info(&catalog, "a", version).await, info(&catalog, "b", version).await);
            assert_eq!(first["transactionGroup"], second["transactionGroup"]);
            assert_eq!(first["transactionGroup"]["participants"][0]["proposedVersion"], version);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_reads_and_writes_are_serializable() {
    // Each transaction reads both tables and writes one: at most one of two that overlap commits.
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(Database::Sqlite, folder.path()).await;
    let catalog = tables(Arc::new(lake.embedded()), &["a", "b"]).await;
    let conflicts = Arc::new(AtomicUsize::new(0));
    let writers = (0..8_usize).map(|writer| {
        let (catalog, conflicts) = (Arc::clone(&catalog), Arc::clone(&conflicts));
        tokio::spawn(async move {
            let mut committed = Vec::new();
            while committed.len() < 3 {
                let transaction = begin(&catalog, &["a", "b"]).await;
                let mut seen = 0;
                for table in ["a", "b"] {
                    let store = transaction.table(&name(table)).await.unwrap();
                    Snapshot::open(&store, None).await.unwrap().note_read(None);
                    seen += paths(&store, None).await.1.len();
                }
                let store = transaction.table(&name(["a", "b"][writer % 2])).await.unwrap();
                append(&store, file(&format!("saw{seen:03}w{writer}"), 0))
                    .await
                    .unwrap();
                match transaction.commit().await {
                    Ok(_) => committed.push(seen),
                    Err(e) => {
                        assert_eq!(e.kind(), Kind::ConcurrentAppend, "{e}");
                        conflicts.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            committed
        })
    });
    let mut seen: Vec<usize> = Vec::new();
    for writer in futures::future::join_all(writers).await {
        seen.extend(writer.unwrap());
    }
    seen.sort_unstable();
    // A serial order: each saw all files before its own.
    assert_eq!(seen, (0..24).collect::<Vec<_>>());
    assert_eq!(
        live(&catalog, "a").await.1.len() + live(&catalog, "b").await.1.len(),
        24
    );
    assert!(conflicts.load(Ordering::Relaxed) > 0, "they raced");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_answers_are_looked_up() {
    // P072, P158
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(Database::Sqlite, folder.path()).await;
    tables(Arc::new(lake.embedded()), &["a", "b"]).await;
    let losses = Losses::every(0);
    let address = proxy::start(lake.server.address(), losses.clone()).await;
    let remote: Arc<dyn Catalog> = Arc::new(client(&format!("http://{address}"), &lake.token));
    for number in 0..6 {
        let transaction = begin(&remote, &["a", "b"]).await;
        for table in ["a", "b"] {
            let store = transaction.table(&name(table)).await.unwrap();
            append(&store, file(&format!("f{number}"), 0)).await.unwrap();
        }
        losses.set(2);
        transaction.commit().await.unwrap();
        losses.set(0);
    }
    assert!(losses.lost.load(Ordering::SeqCst) >= 6, "of each commit");
    let all: Vec<String> = (0..6).map(|n| format!("f{n}")).collect();
    for table in ["a", "b"] {
        assert_eq!(live(&remote, table).await, (6, all.clone()), "each once");
    }
    // No answer arrives any more: the outcome is open, and files stay.
    let transaction = begin(&remote, &["a", "b"]).await;
    for table in ["a", "b"] {
        let store = transaction.table(&name(table)).await.unwrap();
        store.put("open.parquet", "rows".into()).await.unwrap();
        append(&store, file("open.parquet", 0)).await.unwrap();
    }
    losses.set(1);
    let open = tokio::time::timeout(std::time::Duration::from_secs(300), transaction.commit()).await;
    let open = open.unwrap().err().unwrap();
    losses.set(0);
    assert!(!open.kind().rules_out_commit(), "{open}");
    let location = remote.load(&name("a"), None).await.unwrap().metadata.location;
    assert_eq!(files_of(&location, ""), ["open.parquet"], "{open}");
    let (a, b) = (live(&remote, "a").await.0, live(&remote, "b").await.0);
    assert_eq!(a, b, "all or nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_cannot_take_part_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(Database::Sqlite, folder.path()).await;
    let catalog = tables(Arc::new(lake.embedded()), &["managed"]).await;
    let external = catalog.create_staging(&name("outside")).await.unwrap();
    let mut request = crate::support::creation(&external, &name("outside"));
    request.table_type = deltaplane_catalog::api::TableType::External;
    request.location = format!("file://{}/elsewhere", folder.path().display());
    request.protocol = deltaplane_catalog::api::Protocol {
        min_reader_version: 1,
        min_writer_version: 2,
        ..Default::default()
    };
    request.properties.clear();
    catalog.create_table("main", "default", request).await.unwrap();
    for (table, kind, word) in [
        ("outside", Kind::UnsupportedFeature, "main.default.outside"),
        ("missing", Kind::TableNotFound, "main.default.missing"),
    ] {
        let refused = begun(&catalog, &["managed", table], TransactionIsolation::Serializable).await;
        let refused = refused.err().unwrap();
        assert_eq!(refused.kind(), kind, "{refused}");
        assert!(refused.message().contains(word), "{refused}");
        let transaction = begin(&catalog, &["managed"]).await;
        let refused = transaction.table(&name(table)).await.err().unwrap();
        assert_eq!(refused.kind(), kind, "{refused}");
        // The transaction goes on without it.
        append(&transaction.table(&name("managed")).await.unwrap(), file(table, 0))
            .await
            .unwrap();
        transaction.commit().await.unwrap();
    }
    let elsewhere = TableName::new("another", "default", "managed").unwrap();
    let refused = begin(&catalog, &["managed"])
        .await
        .table(&elsewhere)
        .await
        .err()
        .unwrap();
    assert_eq!(refused.kind(), Kind::TableNotFound, "{refused}");
    assert!(refused.message().contains("another"), "{refused}");
    // A table is not created in a transaction.
    let transaction = begin(&catalog, &["managed"]).await;
    let store = transaction.table(&name("managed")).await.unwrap();
    let request = serde_json::from_value(json!({"mode": "error"})).unwrap();
    assert!(create_table(&store, schema(), request).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_join_later_are_of_the_same_instant() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(Database::Sqlite, folder.path()).await;
    let catalog = tables(Arc::new(lake.embedded()), &["a", "b", "c"]).await;
    let (outside_a, _) = opened(Arc::clone(&catalog), &name("a")).await;
    // Not in use: it moves on.
    let transaction = begin(&catalog, &["a"]).await;
    append(&outside_a, file("one", 0)).await.unwrap();
    let b = transaction.table(&name("b")).await.unwrap();
    let a = transaction.table(&name("a")).await.unwrap();
    assert_eq!((live_in(&a).await.0, live_in(&b).await.0), (1, 0));
    // In use, and changed: it can't be read at the instant of another table.
    append(&outside_a, file("two", 0)).await.unwrap();
    let refused = transaction.table(&name("c")).await.err().unwrap();
    assert_eq!(refused.kind(), Kind::ConcurrentWrite, "{refused}");
    assert!(refused.message().contains("main.default.a has version 2"), "{refused}");
    // What it has goes on.
    append(&b, file("b", 0)).await.unwrap();
    append(&a, file("a", 0)).await.unwrap();
    assert_eq!(transaction.commit().await.unwrap(), [(name("a"), 3), (name("b"), 1)]);
    assert_eq!(live(&catalog, "a").await.1, owned(&["a", "one", "two"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn later_versions_of_others_are_invisible_with_their_checkpoints() {
    // P063: a checkpoint by others has the number of a buffered version.
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(Database::Sqlite, folder.path()).await;
    let catalog = tables(Arc::new(lake.embedded()), &["t", "u"]).await;
    let transaction = begin(&catalog, &["t", "u"]).await;
    let store = transaction.table(&name("t")).await.unwrap();
    let (outside, _) = opened(Arc::clone(&catalog), &name("t")).await;
    for number in 0..3 {
        append(&outside, file(&format!("theirs{number}"), 0)).await.unwrap();
    }
    Snapshot::open(&outside, None)
        .await
        .unwrap()
        .checkpoint()
        .await
        .unwrap();
    for number in 0..4 {
        append(&store, file(&format!("mine{number}"), 0)).await.unwrap();
        let seen = Snapshot::open(&store, None).await.unwrap();
        assert_eq!(seen.version(), number + 1);
        assert_eq!(
            paths(&store, None).await.1,
            (0..=number).map(|n| format!("mine{n}")).collect::<Vec<_>>()
        );
    }
    assert_eq!(transaction.commit().await.unwrap(), [(name("t"), 4)]);
    let all = owned(&["mine0", "mine1", "mine2", "mine3", "theirs0", "theirs1", "theirs2"]);
    assert_eq!(live(&catalog, "t").await.1, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_that_is_full_gets_its_commits_published() {
    let folder = tempfile::tempdir().unwrap();
    let options = deltaplane_catalog::store::StoreOptions {
        storage_root: Some(format!("file://{}", folder.path().display())),
        max_unpublished: 1,
        ..Default::default()
    };
    let lake = crate::support::Lake::with(Database::Sqlite, options, Default::default()).await;
    let catalog = tables(Arc::new(lake.embedded()), &["a", "b"]).await;
    for number in 0..4 {
        let transaction = begin(&catalog, &["a", "b"]).await;
        for table in ["a", "b"] {
            append(
                &transaction.table(&name(table)).await.unwrap(),
                file(&format!("f{number}"), 0),
            )
            .await
            .unwrap();
        }
        transaction.commit().await.unwrap();
    }
    assert_eq!(live(&catalog, "a").await.0, 4);
}

/// Runs a future until it has been polled this many times, and then drops it, as the death of its
/// process would.
async fn killed_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = Box::pin(future);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 {
            return std::task::Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// The newest versions of two tables, and whether each adds this file.
async fn newest(catalog: &Arc<dyn Catalog>, tables: [&str; 2], path: &str) -> [(u64, bool); 2] {
    let mut newest = [(0, false); 2];
    for (table, newest) in tables.iter().zip(&mut newest) {
        let (store, loaded) = opened(Arc::clone(catalog), &name(table)).await;
        let version = u64::try_from(loaded.latest_table_version.unwrap()).unwrap();
        let adds = actions(&store, version)
            .await
            .iter()
            .any(|action| action["add"]["path"] == path);
        *newest = (version, adds);
    }
    newest
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_dies_at_any_instant_leaves_all_or_nothing() {
    // Killed at each point at which the commit waits: inline and staged, embedded and over HTTP.
    const MOST_POLLS: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(Database::Sqlite, folder.path()).await;
    let embedded: Arc<dyn Catalog> = Arc::new(lake.embedded());
    let remote: Arc<dyn Catalog> = Arc::new(lake.client());
    let (mut killed, mut visible) = (0, 0);
    let kinds = [
        (&embedded, 0, ["a0", "b0"]),
        (&embedded, MAX_INLINE_BYTES, ["a1", "b1"]),
        (&remote, 0, ["a2", "b2"]),
    ];
    for (catalog, bytes, names) in kinds {
        tables(Arc::clone(&embedded), &names).await;
        let mut version = 0;
        for polls in (1..12).chain((12..MOST_POLLS).step_by(7)) {
            let path = format!("killed after {polls}");
            let transaction = begin(catalog, &names).await;
            for table in names {
                let store = transaction.table(&name(table)).await.unwrap();
                append(&store, file(&path, bytes)).await.unwrap();
            }
            let done = killed_after(polls, transaction.commit()).await;
            drop(transaction);
            // A request that was sent is decided soon, although nothing waits for it.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            let [a, b] = newest(&embedded, names, &path).await;
            assert_eq!(a, b, "{path}");
            assert_eq!(a.0, version + u64::from(a.1), "{path}");
            version = a.0;
            if let Some(done) = done {
                done.unwrap();
                assert!(a.1);
                break;
            }
            killed += 1;
            visible += usize::from(a.1);
            assert!(polls + 7 < MOST_POLLS, "the commit never ended");
        }
    }
    assert!(killed > 3, "{visible} of {killed} were committed before they died");
}
