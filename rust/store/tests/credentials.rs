//! Credentials that expire are asked for again before the next request, by each cloud's own mechanism; anonymous requests are
//! sent unsigned and ask nobody. One server on loopback is the store and the giver of credentials.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use deltaplane_error::Kind;
use deltaplane_store::{Location, Options, Store, block_on};

/// Remembers what was asked: path and Authorization header. The first credential has expired when it is given, the second
/// is good for an hour.
struct Giver {
    endpoint: String,
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Giver {
    fn start() -> Giver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || serve(stream.unwrap(), &seen));
            }
        });
        Giver { endpoint, asked }
    }

    /// The Authorization headers of requests for a path that holds this text.
    fn headers(&self, path: &str) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let of = asked.iter().filter(|(asked, _)| asked.contains(path));
        of.map(|(_, header)| header.clone()).collect()
    }
}

fn serve(stream: TcpStream, seen: &Mutex<Vec<(String, String)>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let (mut first, mut authorization, mut length) = (String::new(), String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let lower = line.to_ascii_lowercase();
            if let Some(n) = lower.strip_prefix("content-length:") {
                length = n.trim().parse().unwrap();
            }
            if lower.starts_with("authorization:") {
                authorization = line["authorization:".len()..].trim().to_owned();
            }
            if line == "\r\n" {
                break;
            }
            if first.is_empty() {
                first = line;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let path = first.split(' ').nth(1).unwrap().to_owned();
        let given = {
            let mut seen = seen.lock().unwrap();
            seen.push((path.clone(), authorization));
            seen.iter().filter(|(p, _)| p.contains("/give")).count()
        };
        let body = answer(&path, given);
        let head = "ETag: \"e\"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nx-goog-generation: 1";
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{head}\r\n\r\n{body}",
            body.len()
        );
    }
}

fn answer(path: &str, given: usize) -> String {
    let (seconds, expiration) = match given {
        0 | 1 => (0, "2020-01-01T00:00:00Z"),
        _ => (3600, "2999-01-01T00:00:00Z"),
    };
    if path.contains("/give/aws") || path.ends_with("security-credentials/give") {
        return format!(
            "{{\"AccessKeyId\": \"KEY{given}\", \"SecretAccessKey\": \"s\", \"Token\": \"t\", \"Expiration\": \"{expiration}\"}}"
        );
    }
    if path.contains("/oauth2/") || path.contains("/computeMetadata/") {
        return format!("{{\"access_token\": \"TOKEN{given}\", \"expires_in\": {seconds}}}");
    }
    // The name of a machine's role, in AWS's metadata.
    if path.ends_with("security-credentials/") {
        return "give".to_owned();
    }
    "body".to_owned()
}

fn open(location: &str, pairs: &[(&str, &str)]) -> Store {
    let own = [("allow_http", "true"), ("max_retries", "1"), ("init_backoff", "10ms")];
    let pairs = own.iter().chain(pairs).map(|(k, v)| (k.to_string(), v.to_string()));
    Store::open(&Location::parse(location).unwrap(), &Options::new(pairs)).unwrap()
}

fn read_three_times(store: &Store) {
    for _ in 0..3 {
        assert_eq!(block_on(store.read("f")).unwrap(), "body");
    }
}

#[test]
fn a_container_s_keys_are_renewed() {
    let giver = Giver::start();
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "container-token").unwrap();
    let uri = format!("{}/give/aws", giver.endpoint);
    let store = open(
        "s3://bucket/t",
        &[
            ("aws_container_credentials_full_uri", &uri),
            ("aws_container_authorization_token_file", token.to_str().unwrap()),
            ("aws_endpoint_url", &giver.endpoint),
            ("aws_region", "us-east-1"),
        ],
    );
    read_three_times(&store);
    assert_eq!(giver.headers("/give/aws"), ["container-token", "container-token"]);
    let signed = giver.headers("/bucket/t/f");
    for (header, key) in signed.iter().zip(["KEY1/", "KEY2/", "KEY2/"]) {
        assert!(header.contains(key), "{signed:?}");
    }
    assert_eq!(signed.len(), 3);
}

#[test]
fn a_machine_s_role_is_asked_only_where_allowed() {
    let giver = Giver::start();
    let told = [
        ("aws_metadata_endpoint", giver.endpoint.as_str()),
        ("aws_endpoint_url", &giver.endpoint),
        ("aws_region", "us-east-1"),
    ];
    let options = told.iter().map(|(k, v)| (k.to_string(), v.to_string()));
    let location = Location::parse("s3://bucket/t").unwrap();
    let refused = Store::open(
        &location,
        &Options::new(options.chain([("allow_http".into(), "true".into())])),
    );
    assert_eq!(refused.unwrap_err().kind(), Kind::StoreDenied);
    assert!(giver.asked.lock().unwrap().is_empty());

    let mut allowed = told.to_vec();
    allowed.push(("allow_instance_metadata", "true"));
    read_three_times(&open("s3://bucket/t", &allowed));
    assert_eq!(giver.headers("security-credentials/give").len(), 2);
    assert!(giver.headers("/bucket/t/f")[2].contains("KEY2/"));
}

#[test]
fn azure_s_token_is_renewed() {
    let giver = Giver::start();
    let authority = format!("{}/give", giver.endpoint);
    let endpoint = format!("{}/account", giver.endpoint);
    let store = open(
        "az://container/t",
        &[
            ("azure_storage_account_name", "account"),
            ("azure_client_id", "client"),
            ("azure_client_secret", "hunter2hunter2"),
            ("azure_tenant_id", "tenant"),
            ("azure_authority_host", &authority),
            ("azure_endpoint", &endpoint),
        ],
    );
    read_three_times(&store);
    assert_eq!(giver.headers("/give/tenant/oauth2").len(), 2);
    let expected = ["Bearer TOKEN1", "Bearer TOKEN2", "Bearer TOKEN2"];
    assert_eq!(giver.headers("/container/t/f"), expected);
}

/// Google's metadata host comes from the environment, so a process of its own asks it.
#[test]
fn google_s_token_is_renewed() {
    let giver = Giver::start();
    let host = format!("{}/give", giver.endpoint.strip_prefix("http://").unwrap());
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "google_child", "--ignored"])
        .env("GCE_METADATA_HOST", host)
        .env("DELTAPLANE_TEST_GOOGLE", &giver.endpoint)
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    assert_eq!(giver.headers("/give/computeMetadata").len(), 2);
    let expected = ["Bearer TOKEN1", "Bearer TOKEN2", "Bearer TOKEN2"];
    assert_eq!(giver.headers("/bucket/t%2Ff"), expected);
}

#[test]
#[ignore = "the other half of google_s_token_is_renewed"]
fn google_child() {
    let endpoint = std::env::var("DELTAPLANE_TEST_GOOGLE").unwrap();
    let options = [
        ("google_base_url", endpoint.as_str()),
        ("allow_instance_metadata", "true"),
    ];
    read_three_times(&open("gs://bucket/t", &options));
}

#[test]
fn anonymous_requests_are_unsigned_and_ask_nobody() {
    let giver = Giver::start();
    let account = format!("{}/account", giver.endpoint);
    for (location, options) in [
        (
            "s3://bucket/t",
            &[("aws_skip_signature", "true"), ("aws_endpoint_url", &giver.endpoint)][..],
        ),
        (
            "az://bucket/t",
            &[
                ("azure_skip_signature", "true"),
                ("azure_endpoint", &account),
                ("account_name", "account"),
            ],
        ),
        (
            "gs://bucket/t",
            &[("google_skip_signature", "true"), ("google_base_url", &giver.endpoint)],
        ),
    ] {
        let store = open(location, options);
        assert_eq!(block_on(store.read("f")).unwrap(), "body", "{location}");
        block_on(store.put("f", "x".into())).unwrap();
        block_on(store.put_if_absent("g", "x".into())).unwrap();
    }
    let asked = giver.asked.lock().unwrap();
    assert_eq!(asked.len(), 9, "{asked:?}");
    assert!(asked.iter().all(|(_, header)| header.is_empty()), "{asked:?}");
}
