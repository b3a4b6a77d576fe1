//! Credentials that expire are asked for again before the next request, by each cloud's own
//! mechanism or by the application's provider, which is also asked when the store refuses one;
//! anonymous requests are sent unsigned and ask nobody. One server on loopback is the store and the
//! giver of credentials.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use deltaplane_error::{Error, Kind};
use deltaplane_store::{CredentialSource, Location, Options, ProvidedFields, Store, block_on, set_credential_source};

mod http;

use http::{next_request, serve_connections};

/// Remembers what was asked: path and Authorization header. The first credential has expired when
/// it is given, the second is good for an hour.
struct Giver {
    endpoint: String,
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Giver {
    fn start() -> Giver {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let endpoint = serve_connections(move |stream| serve(stream, &seen));
        Giver { endpoint, asked }
    }

    /// The Authorization headers of requests for a path that holds this text.
    fn headers(&self, path: &str) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let headers_of_path = asked.iter().filter(|(asked, _)| asked.contains(path));
        headers_of_path.map(|(_, header)| header.clone()).collect()
    }
}

fn serve(stream: TcpStream, seen: &Mutex<Vec<(String, String)>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((head, body)) = next_request(&mut reader) {
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let is_authorization = |line: &&str| line.to_ascii_lowercase().starts_with("authorization:");
        let authorization = head.lines().find(is_authorization).unwrap_or_default();
        let authorization = authorization
            .split_once(':')
            .map_or("", |(_, value)| value.trim())
            .to_owned();
        let refused = refusal(&authorization);
        let provided = {
            let mut seen = seen.lock().unwrap();
            seen.push((path.clone(), authorization));
            seen.iter().filter(|(p, _)| p.contains("/give")).count()
        };
        // Who proves an identity by a token sends it along.
        let assertion = String::from_utf8_lossy(&body).contains("client_assertion=workload-token");
        let (status, body) = match refused {
            Some((status, body)) => (status, body.to_owned()),
            None if path.contains("/federated/") && !assertion => ("401 Unauthorized", String::new()),
            None => ("200 OK", answer(&path, provided)),
        };
        let head = "ETag: \"e\"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nx-goog-generation: 1";
        let _ = write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{head}\r\n\r\n{body}",
            body.len()
        );
    }
}

/// What a store says to a signature by keys or a token that it no longer takes. AWS calls such a
/// request malformed.
fn refusal(authorization: &str) -> Option<(&'static str, &'static str)> {
    match authorization {
        of_aws if of_aws.contains("Credential=OLD") => {
            Some(("400 Bad Request", "<Error><Code>ExpiredToken</Code></Error>"))
        }
        of_aws if of_aws.contains("Credential=DENIED") => Some(("403 Forbidden", "")),
        bearer if bearer.contains("Bearer OLD") => Some(("401 Unauthorized", "")),
        _ => None,
    }
}

fn answer(path: &str, provided: usize) -> String {
    let (seconds, expiration) = match provided {
        0 | 1 => (0, "2020-01-01T00:00:00Z"),
        _ => (3600, "2999-01-01T00:00:00Z"),
    };
    if path.contains("/give/aws") || path.ends_with("security-credentials/give") {
        return format!(
            "{{\"AccessKeyId\": \"KEY{provided}\", \"SecretAccessKey\": \"s\", \"Token\": \"t\", \"Expiration\": \"{expiration}\"}}"
        );
    }
    if path.contains("/oauth2/") || path.contains("/computeMetadata/") {
        return format!("{{\"access_token\": \"TOKEN{provided}\", \"expires_in\": {seconds}}}");
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
    let settings = [
        ("aws_metadata_endpoint", giver.endpoint.as_str()),
        ("aws_endpoint_url", &giver.endpoint),
        ("aws_region", "us-east-1"),
    ];
    let options = settings.iter().map(|(k, v)| (k.to_string(), v.to_string()));
    let location = Location::parse("s3://bucket/t").unwrap();
    let refused = Store::open(
        &location,
        &Options::new(options.chain([("allow_http".into(), "true".into())])),
    );
    assert_eq!(refused.unwrap_err().kind(), Kind::StoreDenied);
    assert!(giver.asked.lock().unwrap().is_empty());

    let mut allowed = settings.to_vec();
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

/// The token that the platform puts into a file is exchanged for one of Azure's.
#[test]
fn azure_s_federated_token_is_exchanged_and_renewed() {
    let giver = Giver::start();
    let authority = format!("{}/give/federated", giver.endpoint);
    let endpoint = format!("{}/account", giver.endpoint);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "workload-token").unwrap();
    let options = [
        ("azure_storage_account_name", "account"),
        ("azure_client_id", "client"),
        ("azure_tenant_id", "tenant"),
        ("azure_federated_token_file", file.to_str().unwrap()),
        ("azure_authority_host", &authority),
        ("azure_endpoint", &endpoint),
    ];
    let store = open("az://container/t", &options);
    read_three_times(&store);
    assert_eq!(giver.headers("/give/federated/tenant/oauth2").len(), 2);
    let expected = ["Bearer TOKEN1", "Bearer TOKEN2", "Bearer TOKEN2"];
    assert_eq!(giver.headers("/container/t/f"), expected);

    // Another token than the platform's is refused, and isn't shown.
    std::fs::write(&file, "another-secret-token").unwrap();
    let store = open("az://container/t", &options);
    let e = block_on(store.read("f")).unwrap_err();
    assert_eq!(e.kind(), Kind::StoreDenied);
    assert!(!e.to_string().contains("another-secret"), "{e}");
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

/// Providers by what their names say, and how often each was asked.
#[derive(Default)]
struct Providers(Mutex<Vec<String>>);

impl Providers {
    /// The only source of this process.
    fn of_all_tests() -> &'static Arc<Providers> {
        static ALL: OnceLock<Arc<Providers>> = OnceLock::new();
        ALL.get_or_init(|| {
            let all = Arc::new(Providers::default());
            set_credential_source(Arc::clone(&all) as Arc<dyn CredentialSource>);
            all
        })
    }

    fn asked(&self, provider: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|name| *name == provider).count()
    }
}

impl CredentialSource for Providers {
    fn check(&self, provider: &str) -> deltaplane_error::Result<()> {
        match provider {
            "unknown" => Err(Error::invalid_argument("nobody knows this provider")),
            _ => Ok(()),
        }
    }

    /// The first credential is refused by the store, the second one isn't.
    fn fetch(&self, provider: &str) -> deltaplane_error::Result<ProvidedFields> {
        self.0.lock().unwrap().push(provider.to_owned());
        let word = if self.asked(provider) == 1 { "OLD" } else { "NEW" };
        let fields: &[(&str, &str)] = match provider.split('-').next().unwrap() {
            "keys" => &[
                ("access_key_id", word),
                ("secret_access_key", "s"),
                ("session_token", "t"),
            ],
            "token" => &[("token", word)],
            "denied" => &[("access_key_id", "DENIED"), ("secret_access_key", "hunter2hunter2")],
            "empty" => &[],
            _ => return Err(Error::new(Kind::StoreUnavailable, "the provider's service is down")),
        };
        Ok(ProvidedFields {
            fields: fields.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            expires_ms: None,
        })
    }
}

#[test]
fn a_refused_credential_is_replaced_by_the_provider_s_next_one() {
    let (giver, providers) = (Giver::start(), Providers::of_all_tests());
    let account = format!("{}/account", giver.endpoint);
    for (location, provider, options) in [
        (
            "s3://bucket/t",
            "keys-1",
            &[("aws_endpoint_url", giver.endpoint.as_str())][..],
        ),
        (
            "az://bucket/t",
            "token-1",
            &[("azure_endpoint", &account), ("account_name", "account")],
        ),
        ("gs://bucket/t", "token-2", &[("google_base_url", &giver.endpoint)]),
    ] {
        let options = [options, &[("credential_provider", provider)]].concat();
        let store = open(location, &options);
        block_on(store.put_if_absent("g", "x".into())).unwrap();
        assert_eq!(providers.asked(provider), 2, "{location}");
        read_three_times(&store);
        // Another store by the same provider begins with what that gave last.
        read_three_times(&open(location, &options));
        assert_eq!(providers.asked(provider), 2, "{location}");
    }
    let asked = giver.asked.lock().unwrap();
    assert_eq!(asked.iter().filter(|(_, header)| header.contains("OLD")).count(), 3);
    assert_eq!(asked.iter().filter(|(_, header)| header.contains("NEW")).count(), 3 * 7);
}

#[test]
fn a_refusal_that_stays_is_told_and_asks_the_provider_once_more() {
    let (giver, providers) = (Giver::start(), Providers::of_all_tests());
    let options = [
        ("aws_endpoint_url", giver.endpoint.as_str()),
        ("credential_provider", "denied"),
    ];
    let store = open("s3://bucket/t", &options);
    for _ in 0..3 {
        let e = block_on(store.read("f")).unwrap_err();
        assert_eq!(e.kind(), Kind::StoreDenied);
        assert!(!format!("{e} {e:?}").contains("hunter2"), "{e}");
    }
    assert_eq!(providers.asked("denied"), 2);
    assert_eq!(giver.headers("/bucket/t/f").len(), 3);
}

#[test]
fn a_provider_that_fails_says_so_under_its_own_kind() {
    let (giver, _) = (Giver::start(), Providers::of_all_tests());
    for (provider, kind, text) in [
        ("broken", Kind::StoreUnavailable, "the provider's service is down"),
        ("empty", Kind::InvalidArgument, "access_key_id and secret_access_key"),
    ] {
        let options = [
            ("aws_endpoint_url", giver.endpoint.as_str()),
            ("credential_provider", provider),
        ];
        let locked = [("aws_s3_locking_provider", "dynamodb")];
        for options in [options.to_vec(), [&options[..], &locked].concat()] {
            let e = block_on(open("s3://bucket/t", &options).read("f")).unwrap_err();
            assert_eq!(e.kind(), kind, "{e}");
            assert!(e.to_string().contains(text), "{e}");
        }
    }
    for more in [
        ("credential_provider", "unknown"),
        ("aws_secret_access_key", "hunter2hunter2"),
    ] {
        let pairs = [("credential_provider", "keys-2"), more].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let e = Store::open(&Location::parse("s3://bucket/t").unwrap(), &Options::new(pairs)).unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidArgument);
        assert!(!e.to_string().contains("hunter2"), "{e}");
    }
    assert!(giver.asked.lock().unwrap().is_empty());
}
