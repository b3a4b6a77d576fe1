//! Remote stores that answer badly, slowly or not at all, played by a scripted server: error
//! kinds, bounded retries, the meaning of refused conditional puts, and no secret in any message.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use deltaplane_error::Kind;
use deltaplane_store::{Location, Options, PutOutcome, Store, block_on};
use futures::TryStreamExt;

mod http;

use http::{next_request, serve_connections};

const SECRET: &str = "hunter2hunter2";

/// Answers each request with the next status (the last one for ever after); 0 never answers.
struct Server {
    endpoint: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(statuses: &'static [u16]) -> Server {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let endpoint = serve_connections(move |stream| serve(stream, statuses, &seen));
        Server { endpoint, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    fn store(&self, more: &[(&str, &str)]) -> Store {
        open(&self.endpoint, more)
    }
}

fn serve(stream: TcpStream, statuses: &[u16], seen: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((head, _)) = next_request(&mut reader) {
        let n = {
            let mut seen = seen.lock().unwrap();
            seen.push(head.clone());
            seen.len()
        };
        let status = *statuses.get(n - 1).or(statuses.last()).unwrap();
        if status == 0 {
            std::thread::sleep(Duration::from_secs(30));
            return;
        }
        // A server that repeats what it was sent, credentials included.
        let body = format!("<Error><Code>Teapot</Code><Message>{SECRET}</Message></Error>");
        let body = if head.starts_with("HEAD") { String::new() } else { body };
        let _ = write!(
            stream,
            "HTTP/1.1 {status} Said So\r\nContent-Length: {}\r\nETag: \"e\"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\n{body}",
            body.len()
        );
    }
}

fn open(endpoint: &str, more: &[(&str, &str)]) -> Store {
    let mut options = vec![
        ("aws_access_key_id", "AKIAhunter2AAAA"),
        ("aws_secret_access_key", SECRET),
        ("aws_session_token", "token-hunter2hunter2"),
        ("aws_region", "us-east-1"),
        ("aws_endpoint_url", endpoint),
        ("allow_http", "true"),
        ("init_backoff", "10ms"),
        ("max_retries", "3"),
    ];
    options.extend(more);
    let options = options.iter().map(|(k, v)| (k.to_string(), v.to_string()));
    let location = Location::parse("s3://bucket/t").unwrap();
    Store::open(&location, &Options::new(options)).unwrap()
}

fn check_clean(e: &deltaplane_error::Error, store: &Store) {
    let text = format!("{e} {e:?} {store:?} {:?}", store.options());
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn statuses_are_kinds_and_messages_hold_no_secret() {
    for (statuses, kind, requests) in [
        (&[401][..], Kind::StoreDenied, 1),
        (&[403], Kind::StoreDenied, 1),
        (&[404], Kind::ObjectNotFound, 1),
        (&[500], Kind::StoreUnavailable, 4),
        (&[503], Kind::StoreUnavailable, 4),
        (&[429], Kind::StoreUnavailable, 4),
        (&[400], Kind::InvalidArgument, 1),
        (&[301], Kind::InvalidArgument, 1),
    ] {
        let server = Server::start(statuses);
        let store = server.store(&[]);
        block_on(async {
            let e = store.read("f").await.unwrap_err();
            assert_eq!(e.kind(), kind, "{e}");
            check_clean(&e, &store);
            assert_eq!(server.requests().len(), requests, "{statuses:?}");
            let listing = async { store.list_from("l", "").await?.try_collect::<Vec<_>>().await };
            let e = listing.await.unwrap_err();
            assert_eq!(e.kind(), kind, "{e}");
            check_clean(&e, &store);
            let e = store.put("f", Bytes::new()).await.unwrap_err();
            assert_eq!(e.kind(), kind, "{e}");
            check_clean(&e, &store);
            let e = store.put_if_absent("f", Bytes::new()).await.unwrap_err();
            assert_eq!(e.kind(), kind, "{e}");
            check_clean(&e, &store);
        });
    }
}

#[test]
fn passing_failures_are_retried() {
    let server = Server::start(&[500, 503, 200]);
    block_on(server.store(&[]).put("f", Bytes::new())).unwrap();
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn an_unreachable_store_is_given_up_within_seconds() {
    // Bound and never accepted would hang; closed again refuses.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint = format!("http://127.0.0.1:{port}");
    let begun = Instant::now();
    // The defaults, not the quick test settings.
    let store = open(&endpoint, &[("init_backoff", "100ms"), ("max_retries", "1000")]);
    let e = block_on(store.read("f")).unwrap_err();
    assert_eq!(e.kind(), Kind::StoreUnavailable, "{e}");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    check_clean(&e, &store);
}

#[test]
fn a_silent_store_is_given_up_after_the_time_out() {
    let server = Server::start(&[0]);
    let store = server.store(&[("timeout", "300ms"), ("max_retries", "1")]);
    let begun = Instant::now();
    let e = block_on(store.read("f")).unwrap_err();
    assert_eq!(e.kind(), Kind::StoreUnavailable, "{e}");
    assert!(e.to_string().contains("in time"), "{e}");
    let e = block_on(store.put_if_absent("f", Bytes::new())).unwrap_err();
    assert_eq!(e.kind(), Kind::StoreUnavailable, "{e}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn conditional_puts_ask_the_store_and_read_its_answer() {
    let server = Server::start(&[412]);
    let put = server.store(&[]);
    assert_eq!(
        block_on(put.put_if_absent("f", Bytes::new())).unwrap(),
        PutOutcome::Exists
    );
    let head = server.requests()[0].to_ascii_lowercase();
    assert!(head.contains("if-none-match: *"), "{head}");

    // 409, and a look says that nothing is there: a simultaneous request; the next try wins.
    let server = Server::start(&[409, 404, 200]);
    let put = server.store(&[]);
    assert_eq!(
        block_on(put.put_if_absent("f", Bytes::new())).unwrap(),
        PutOutcome::Created
    );
    // 409, and the object is there.
    let server = Server::start(&[409, 200]);
    let put = server.store(&[]);
    assert_eq!(
        block_on(put.put_if_absent("f", Bytes::new())).unwrap(),
        PutOutcome::Exists
    );
    // 409 for ever ends.
    let server = Server::start(&[409, 404, 409, 404, 409, 404, 409, 404, 409, 404, 409, 404]);
    let e = block_on(server.store(&[]).put_if_absent("f", Bytes::new())).unwrap_err();
    assert_eq!(e.kind(), Kind::StoreUnavailable, "{e}");
    // Without conditional puts there are no commits.
    let disabled = server.store(&[("conditional_put", "disabled")]);
    let e = block_on(disabled.put_if_absent("f", Bytes::new())).unwrap_err();
    assert_eq!(e.kind(), Kind::InvalidArgument, "{e}");
}

#[test]
fn plain_http_needs_permission() {
    let location = Location::parse("s3://bucket/t").unwrap();
    let options = [("skip_signature", "true"), ("endpoint_url", "http://127.0.0.1:9")];
    let options = Options::new(options.map(|(k, v)| (k.to_owned(), v.to_owned())));
    let e = Store::open(&location, &options).unwrap_err();
    assert_eq!(e.kind(), Kind::InvalidArgument);
    assert!(e.to_string().contains("allow_http"), "{e}");
    assert_eq!(e.table(), Some("s3://bucket/t"));
}
