//! The stores that the contract suite runs over. Another store is one more test here.
//! S3 runs against the server named by DELTAPLANE_TEST_S3_ENDPOINT (`http://host:port`), if any.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use deltaplane_store::{Location, Options, Store};

#[path = "contract/suite.rs"]
mod suite;

fn options(pairs: &[(&str, &str)]) -> Options {
    Options::new(pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())))
}

fn open(text: &str, options: &Options) -> Store {
    Store::open(&Location::parse(text).unwrap(), options).unwrap()
}

#[test]
fn local() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap().to_owned();
    suite::run(&|name| open(&format!("{root}/{name}"), &Options::default()));
}

#[test]
fn memory() {
    suite::run(&|name| open(&format!("memory://contract/{name}"), &Options::default()));
}

#[test]
fn s3() {
    let Ok(endpoint) = std::env::var("DELTAPLANE_TEST_S3_ENDPOINT") else {
        eprintln!("skipped: DELTAPLANE_TEST_S3_ENDPOINT is not set");
        return;
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let bucket = format!("contract-{}", since.as_nanos());
    make_bucket(&endpoint, &bucket);
    let options = options(&[
        ("aws_access_key_id", "testing"),
        ("aws_secret_access_key", "testing"),
        ("aws_region", "us-east-1"),
        ("aws_endpoint_url", &endpoint),
        ("aws_allow_http", "true"),
    ]);
    suite::run(&|name| open(&format!("s3://{bucket}/tables/{name}"), &options));
    // A bucket's root is a table root too.
    suite::block(suite::read_after_write(open(&format!("s3://{bucket}"), &options)));
    suite::block(suite::missing_bucket(open("s3://no-such-bucket-here/t", &options)));
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
