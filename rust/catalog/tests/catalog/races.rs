//! Racing clients, lost answers and killed servers: nothing is lost or doubled.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use deltaplane_catalog::api::{LoadedTable, UpdateTable};
use deltaplane_catalog::server::{Authentication, Server, ServerOptions};
use deltaplane_catalog::store::{Access, Location, Principal, Store};
use deltaplane_catalog::{Catalog, CommitOutcome, ErrorType, HttpCatalog, TableName, commit};

use crate::proxy::{self, Losses};
use crate::support::{Lake, adding, client, create, databases, name, options, proposal, published};

/// Commits until `count` proposals are ratified, and returns their file names by version.
async fn write(catalog: HttpCatalog, table: TableName, count: usize, inline: bool) -> BTreeMap<i64, String> {
    let mut own = BTreeMap::new();
    let mut loaded = reload(&catalog, &table).await;
    let mut next = loaded.latest_table_version.unwrap() + 1;
    while own.len() < count {
        let content = inline.then(|| format!("{{\"commitInfo\":{{\"version\":{next}}}}}"));
        let proposed = proposal(next, content);
        let file_name = proposed.file_name.clone();
        match decide(&catalog, &table, &adding(&loaded, proposed)).await {
            CommitOutcome::Ratified(_) => {
                own.insert(next, file_name);
                next += 1;
            }
            CommitOutcome::Taken(_) => {
                loaded = reload(&catalog, &table).await;
                next = loaded.latest_table_version.unwrap() + 1;
            }
            CommitOutcome::PublishFirst => panic!("the limit is above the number of commits"),
            CommitOutcome::Unknown(e) => panic!("the server is there: {e}"),
        }
    }
    own
}

/// Loads a table, also if several answers in a row are lost.
async fn reload(catalog: &HttpCatalog, table: &TableName) -> LoadedTable {
    for _ in 0..10 {
        match catalog.load(table, None).await {
            Ok(loaded) => return loaded,
            Err(e) => assert_eq!(e.error_type, ErrorType::Unavailable, "{e}"),
        }
    }
    panic!("one of seven answers is lost, not all");
}

/// Commits to a known outcome, also if several answers in a row are lost.
async fn decide(catalog: &HttpCatalog, table: &TableName, request: &UpdateTable) -> CommitOutcome {
    for _ in 0..10 {
        match commit(catalog, table, request).await.unwrap() {
            CommitOutcome::Unknown(e) => assert_eq!(e.error_type, ErrorType::Unavailable, "{e}"),
            outcome => return outcome,
        }
    }
    panic!("one of seven answers is lost, not all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_clients_lose_and_double_nothing_although_answers_are_lost() {
    const CLIENTS: usize = 8;
    const COMMITS: usize = 100;
    for database in databases() {
        let lake = Lake::start(database).await;
        let table = name("t");
        let loaded = create(&lake.client(), &table).await;
        let losses = Losses::every(7);
        let proxy = proxy::start(lake.server.address(), losses.clone()).await;
        let mut writers = Vec::new();
        for number in 0..CLIENTS {
            let catalog = client(&format!("http://{proxy}"), &lake.token);
            writers.push(tokio::spawn(write(catalog, table.clone(), COMMITS, number % 2 == 0)));
        }
        let mut all = BTreeMap::new();
        for writer in writers {
            for (version, file_name) in writer.await.unwrap() {
                let other = all.insert(version, file_name);
                assert_eq!(other, None, "version {version} was ratified twice");
            }
        }
        let versions: Vec<_> = all.keys().copied().collect();
        assert_eq!(versions, (1..=(CLIENTS * COMMITS) as i64).collect::<Vec<_>>());
        let seen = lake.client().load(&table, None).await.unwrap();
        assert_eq!(seen.latest_table_version, Some((CLIENTS * COMMITS) as i64));
        let seen: BTreeMap<_, _> = seen
            .commits
            .unwrap()
            .into_iter()
            .map(|c| (c.version, c.file_name))
            .collect();
        assert_eq!(seen, all);
        assert!(losses.lost.load(Ordering::SeqCst) > 50);
        lake.client().update(&table, &published(&loaded, 800)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_over_one_postgresql_ratify_each_version_once() {
    if !crate::postgres::is_installed() {
        return eprintln!("not tested: install Debian's package postgresql");
    }
    let lake = Lake::start(crate::support::Database::Postgres).await;
    let other_store = Store::open(lake.location.clone(), options()).await.unwrap();
    let second = crate::support::serve(&other_store, Default::default()).await;
    let table = name("t");
    create(&lake.client(), &table).await;
    let mut writers = Vec::new();
    for number in 0..4 {
        let address = if number % 2 == 0 {
            lake.server.address()
        } else {
            second.address()
        };
        let catalog = client(&format!("http://{address}"), &lake.token);
        writers.push(tokio::spawn(write(catalog, table.clone(), 25, false)));
    }
    let mut count = 0;
    for writer in writers {
        count += writer.await.unwrap().len();
    }
    assert_eq!(count, 100);
    assert_eq!(
        lake.client().load(&table, None).await.unwrap().latest_table_version,
        Some(100)
    );
}

/// Runs a server in this test's program until [`killed_between_decision_and_answer`] kills it.
#[tokio::test(flavor = "multi_thread")]
async fn server_of_another_test() {
    let Ok(path) = std::env::var("CATALOG_TEST_DATABASE") else {
        return;
    };
    let address: SocketAddr = std::env::var("CATALOG_TEST_ADDRESS").unwrap().parse().unwrap();
    let store = Store::open(Location::parse(&path).unwrap(), options()).await.unwrap();
    let _server = Server::start(
        store,
        ServerOptions {
            address,
            authentication: Authentication::Tokens,
            credentials: Default::default(),
        },
    )
    .await
    .unwrap();
    std::future::pending::<()>().await;
}

/// A server's process, which ends with the test.
struct Process(Child);

impl Process {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn start_process(url: &str, address: SocketAddr) -> Process {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["races::server_of_another_test", "--exact"])
        .env("CATALOG_TEST_DATABASE", url)
        .env("CATALOG_TEST_ADDRESS", address.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let process = Process(child);
    for _ in 0..200 {
        if tokio::net::TcpStream::connect(address).await.is_ok() {
            return process;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the server did not start");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_decision_and_answer() {
    for database in databases() {
        let folder = tempfile::tempdir().unwrap();
        let url = match database {
            crate::support::Database::Sqlite => format!("sqlite:///{}/lake.db", folder.path().display()),
            crate::support::Database::Postgres => crate::postgres::new_database(),
        };
        let admin = Principal::owner("admin");
        let store = Store::open(Location::parse(&url).unwrap(), options()).await.unwrap();
        let token = store.create_token("admin", None, &admin).await.unwrap();
        store
            .grant("admin", None, None, Some(Access::Manage), &admin)
            .await
            .unwrap();
        drop(store);
        let address = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let mut process = start_process(&url, address).await;
        let losses = Losses::every(0);
        let proxy = proxy::start(address, losses.clone()).await;
        let catalog = client(&format!("http://{proxy}"), &token);
        catalog
            .create_catalog(serde_json::from_str(r#"{"name":"main"}"#).unwrap())
            .await
            .unwrap();
        let schema = serde_json::from_str(r#"{"name":"default","catalog_name":"main"}"#).unwrap();
        catalog.create_schema(schema).await.unwrap();
        let table = name("t");
        let loaded = create(&catalog, &table).await;
        for version in 1..=3 {
            let request = adding(&loaded, proposal(version, None));
            let (catalog, target) = (client(&format!("http://{proxy}"), &token), table.clone());
            // The only answer that is lost is the commit's.
            catalog.extensions("main").await.unwrap();
            losses.set(1);
            let committing = tokio::spawn(async move { commit(&catalog, &target, &request).await });
            losses.happened.notified().await;
            process.kill();
            losses.set(0);
            process = start_process(&url, address).await;
            let outcome = committing.await.unwrap().unwrap();
            assert!(matches!(outcome, CommitOutcome::Ratified(_)), "{outcome:?}");
            let seen = catalog_latest(&format!("http://{proxy}"), &token, &table).await;
            assert_eq!(seen, Some(version));
        }
        process.kill();
        // With no server at all the outcome is unknown, and no success or loss.
        let request = adding(&loaded, proposal(4, None));
        match commit(&catalog, &table, &request).await.unwrap() {
            CommitOutcome::Unknown(e) => assert_eq!(e.error_type, ErrorType::Unavailable),
            other => panic!("{other:?}"),
        }
    }
}

async fn catalog_latest(url: &str, token: &deltaplane_catalog::Secret, table: &TableName) -> Option<i64> {
    client(url, token).load(table, None).await.unwrap().latest_table_version
}
