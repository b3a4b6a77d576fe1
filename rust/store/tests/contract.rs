//! The stores that the contract suite runs over. Servers are told by the file that
//! DELTAPLANE_TEST_SERVERS names, a JSON list of `Server`s; tests/stores/contract.py writes it and
//! starts them. What a run showed goes to the file DELTAPLANE_TEST_REPORT, as JSON.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use deltaplane_store::{Location, Options, Store};

#[path = "contract/suite.rs"]
mod suite;

/// A running server, with an empty place that its store may use.
#[derive(serde::Deserialize)]
struct Server {
    name: String,
    /// An empty table root below a bucket or container, or a whole file system.
    root: String,
    /// A bucket or container that is empty, and one that isn't there, for stores that have them.
    bucket: Option<String>,
    missing: Option<String>,
    options: BTreeMap<String, String>,
    #[serde(flatten)]
    traits: suite::Traits,
}

fn open(text: &str, options: &Options) -> Store {
    Store::open(&Location::parse(text).unwrap(), options).unwrap()
}

#[test]
fn local() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap().to_owned();
    suite::run(
        &|name| open(&format!("{root}/{name}"), &Options::default()),
        &suite::Traits::of_page(1000),
    );
}

#[test]
fn memory() {
    suite::run(
        &|name| open(&format!("memory://contract/{name}"), &Options::default()),
        &suite::Traits::of_page(1000),
    );
}

#[test]
#[ignore = "needs the servers that tests/stores/contract.py starts"]
fn servers() {
    let file = std::env::var("DELTAPLANE_TEST_SERVERS").expect("tests/stores/contract.py sets DELTAPLANE_TEST_SERVERS");
    let servers: Vec<Server> = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let mut report = BTreeMap::new();
    for server in servers {
        eprintln!("store: {}", server.name);
        let options = Options::new(server.options);
        let figures = suite::run(
            &|name| open(&format!("{}/{name}", server.root), &options),
            &server.traits,
        );
        if let Some(bucket) = server.bucket {
            // A bucket's root is a table root too.
            suite::block(suite::read_after_write(open(&bucket, &options)));
        }
        if let Some(missing) = server.missing {
            suite::block(suite::missing_bucket(open(&missing, &options)));
        }
        report.insert(server.name, figures);
    }
    if let Ok(file) = std::env::var("DELTAPLANE_TEST_REPORT") {
        std::fs::write(file, serde_json::to_vec_pretty(&report).unwrap()).unwrap();
    }
}
