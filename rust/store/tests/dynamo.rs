//! The contract suite over S3 with a DynamoDB lock table, and commits that only the lock table
//! decides. Runs against the server named by DELTAPLANE_TEST_S3_ENDPOINT and its table
//! DELTAPLANE_TEST_LOCK_TABLE, which tests/stores/test_dynamo.py sets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use deltaplane_store::{Location, Options, PutOutcome, Store};
use futures::future::join_all;

#[path = "contract/suite.rs"]
mod suite;

const WRITERS: usize = 16;
const VERSIONS: usize = 20;

#[test]
#[ignore = "needs the server and the lock table that tests/stores/test_dynamo.py starts"]
fn dynamo() {
    let variable = |name| std::env::var(name).expect("tests/stores/test_dynamo.py sets the variables");
    let (endpoint, table) = (
        variable("DELTAPLANE_TEST_S3_ENDPOINT"),
        variable("DELTAPLANE_TEST_LOCK_TABLE"),
    );
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let bucket = format!("contract-{}", since.as_nanos());
    make_bucket(&endpoint, &bucket);
    let open = |path: &str, conditional_put: &str| {
        let options = [
            ("aws_access_key_id", "testing"),
            ("aws_secret_access_key", "testing"),
            ("aws_region", "us-east-1"),
            ("aws_endpoint_url", &endpoint),
            ("aws_allow_http", "true"),
            ("aws_s3_locking_provider", "dynamodb"),
            ("delta_dynamo_table_name", &table),
            ("aws_conditional_put", conditional_put),
        ];
        let options = Options::new(options.map(|(k, v)| (k.to_owned(), v.to_owned())));
        Store::open(&Location::parse(&format!("s3://{path}")).unwrap(), &options).unwrap()
    };
    suite::run(
        &|name| open(&format!("{bucket}/tables/{name}"), "etag"),
        &suite::Traits::of_page(1000),
    );
    suite::block(suite::missing_bucket(open("no-such-bucket-here/t", "etag")));
    suite::block(commits(open(&format!("{bucket}/commits"), "disabled")));
}

/// Of 16 writers of a version one wins, whose bytes are read and listed; nothing else stays.
async fn commits(store: Store) {
    for version in 0..VERSIONS {
        let key = format!("_delta_log/{version:020}.json");
        let puts = (0..WRITERS).map(|writer| {
            let (store, key) = (store.clone(), key.clone());
            deltaplane_store::handle().spawn(async move {
                let bytes = format!("{writer} ").repeat(100 + writer);
                (store.put_if_absent(&key, bytes.clone().into()).await.unwrap(), bytes)
            })
        });
        let outcomes: Vec<_> = join_all(puts).await.into_iter().map(Result::unwrap).collect();
        let won: Vec<_> = outcomes.iter().filter(|(o, _)| *o == PutOutcome::Created).collect();
        assert_eq!(won.len(), 1, "{key}");
        assert_eq!(store.read(&key).await.unwrap(), won[0].1);
    }
    let gap = format!("_delta_log/{:020}.json", VERSIONS + 1);
    assert!(store.put_if_absent(&gap, "x".into()).await.is_err());
    let listing = store.list_all("").await.unwrap();
    assert_eq!(futures::StreamExt::count(listing).await, VERSIONS);
}

fn make_bucket(endpoint: &str, bucket: &str) {
    let host = endpoint.strip_prefix("http://").unwrap().trim_end_matches('/');
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "PUT /{bucket} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
