//! Failures of a remote store that pass, played by a scripted server: each is repeated until the
//! store answers, within the time that the options allow.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use deltaplane_error::{Kind, Result};
use deltaplane_store::{Location, Options, PutOutcome, Store, block_on};
use futures::TryStreamExt;

mod http;

use http::{next_request, serve_connections};

const LISTING: &str = "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>t/l/a</Key>\
     <LastModified>2024-01-01T00:00:00Z</LastModified><ETag>\"e\"</ETag><Size>1</Size></Contents></ListBucketResult>";

/// One answer.
#[derive(Clone, Copy)]
struct Answer {
    status: u16,
    body: &'static str,
    /// Bytes of the body that are sent before the connection breaks; all of it otherwise.
    sent: Option<usize>,
}

const fn whole(status: u16, body: &'static str) -> Answer {
    Answer {
        status,
        body,
        sent: None,
    }
}

const fn broken(body: &'static str, sent: usize) -> Answer {
    let sent = Some(sent);
    Answer {
        status: 200,
        body,
        sent,
    }
}

const SLOW_DOWN: Answer = whole(503, "<Error><Code>SlowDown</Code></Error>");
const TIMED_OUT: Answer = whole(400, "<Error><Code>RequestTimeout</Code></Error>");
const SKEWED: Answer = whole(403, "<Error><Code>RequestTimeTooSkewed</Code></Error>");

/// A server whose answers come in this order, the last one for ever; and the number of requests.
struct Server {
    endpoint: String,
    requests: Arc<Mutex<usize>>,
}

impl Server {
    fn start(answers: Vec<Answer>) -> Server {
        let requests = Arc::new(Mutex::new(0));
        let seen = Arc::clone(&requests);
        let endpoint = serve_connections(move |stream| serve(stream, &answers, &seen));
        Server { endpoint, requests }
    }

    fn requests(&self) -> usize {
        *self.requests.lock().unwrap()
    }

    fn store(&self, more: &[(&str, &str)]) -> Store {
        open(&self.endpoint, more)
    }
}

fn open(endpoint: &str, more: &[(&str, &str)]) -> Store {
    let mut options = vec![
        ("aws_access_key_id", "AAAAAAAA"),
        ("aws_secret_access_key", "BBBBBBBB"),
        ("aws_region", "us-east-1"),
        ("aws_endpoint_url", endpoint),
        ("allow_http", "true"),
    ];
    options.extend(more);
    let options = options.iter().map(|(k, v)| (k.to_string(), v.to_string()));
    let location = Location::parse("s3://bucket/t").unwrap();
    Store::open(&location, &Options::new(options)).unwrap()
}

fn serve(stream: TcpStream, answers: &[Answer], seen: &Mutex<usize>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while next_request(&mut reader).is_some() {
        let n = {
            let mut seen = seen.lock().unwrap();
            *seen += 1;
            *seen
        };
        let answer = answers.get(n - 1).or(answers.last()).unwrap();
        let body = &answer.body[..answer.sent.unwrap_or(answer.body.len())];
        let _ = write!(
            stream,
            "HTTP/1.1 {} Said So\r\nContent-Length: {}\r\nETag: \"e\"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\n{body}",
            answer.status,
            answer.body.len()
        );
        if answer.sent.is_some() {
            return;
        }
    }
}

async fn listed(store: &Store) -> Result<usize> {
    let names: Vec<_> = store.list_from("l", "").await?.try_collect().await?;
    Ok(names.len())
}

const QUICK: &[(&str, &str)] = &[("init_backoff", "1ms"), ("max_backoff", "20ms")];

#[test]
fn listings_that_fail_for_a_while_are_repeated() {
    let cut = LISTING.len() - "</ListBucketResult>".len();
    for failure in [
        broken(LISTING, 100),
        broken(LISTING, 0),
        whole(200, ""),
        whole(200, &LISTING[..cut]),
        whole(200, "<Error><Code>InternalError</Code></Error>"),
        TIMED_OUT,
        SKEWED,
        SLOW_DOWN,
    ] {
        let server = Server::start(vec![failure, failure, whole(200, LISTING)]);
        assert_eq!(block_on(listed(&server.store(QUICK))).unwrap(), 1, "{}", failure.body);
        assert_eq!(server.requests(), 3, "{}", failure.body);
    }
}

#[test]
fn a_listing_that_stays_broken_is_an_error_and_never_an_empty_listing() {
    for failure in [broken(LISTING, 100), whole(200, "<Error/>"), whole(200, "")] {
        let server = Server::start(vec![failure]);
        let bounded = [("init_backoff", "1ms"), ("retry_timeout", "200ms")];
        let e = block_on(listed(&server.store(&bounded))).unwrap_err();
        assert_eq!(e.kind(), Kind::StoreUnavailable, "{e}");
    }
}

#[test]
fn puts_that_are_refused_for_a_while_are_repeated() {
    for failure in [TIMED_OUT, SKEWED, SLOW_DOWN] {
        let server = Server::start(vec![failure, failure, whole(200, "")]);
        let store = server.store(QUICK);
        block_on(store.put("f", Bytes::from_static(b"x"))).unwrap();
        let put = block_on(store.put_if_absent("g", Bytes::from_static(b"x"))).unwrap();
        assert_eq!((put, server.requests()), (PutOutcome::Created, 4), "{}", failure.body);
    }
}

#[test]
fn other_refusals_are_final() {
    for (failure, kind) in [
        (
            whole(400, "<Error><Code>InvalidArgument</Code></Error>"),
            Kind::InvalidArgument,
        ),
        (
            whole(403, "<Error><Code>AccessDenied</Code></Error>"),
            Kind::StoreDenied,
        ),
    ] {
        let server = Server::start(vec![failure]);
        let e = block_on(listed(&server.store(QUICK))).unwrap_err();
        assert_eq!((e.kind(), server.requests()), (kind, 1), "{e}");
    }
}

#[test]
fn throttling_is_bounded_by_time_and_not_by_a_number() {
    let mut answers = vec![SLOW_DOWN; 50];
    answers.push(whole(200, "content"));
    let server = Server::start(answers);
    assert_eq!(block_on(server.store(QUICK).read("f")).unwrap(), "content");
    assert_eq!(server.requests(), 51);

    let server = Server::start(vec![SLOW_DOWN]);
    let begun = Instant::now();
    let e = block_on(server.store(&[("retry_timeout", "500ms")]).read("f")).unwrap_err();
    assert_eq!(e.kind(), Kind::StoreUnavailable, "{e}");
    assert!((Duration::from_millis(500)..Duration::from_secs(20)).contains(&begun.elapsed()));

    let server = Server::start(vec![SLOW_DOWN]);
    block_on(server.store(&[("init_backoff", "1ms"), ("max_retries", "3")]).read("f")).unwrap_err();
    assert_eq!(server.requests(), 4);
}

#[test]
fn a_store_that_has_answered_is_waited_for_when_it_refuses_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer_once = |listener: &TcpListener| {
        let (stream, _) = listener.accept().unwrap();
        serve(stream, &[broken("content", 7)], &Mutex::new(0));
    };
    let server = std::thread::spawn(move || {
        answer_once(&listener);
        drop(listener);
        // Longer than a store that has never answered is waited for.
        std::thread::sleep(Duration::from_secs(4));
        answer_once(&TcpListener::bind(address).unwrap());
    });
    let store = open(&format!("http://{address}"), &[]);
    for _ in 0..2 {
        assert_eq!(block_on(store.read("f")).unwrap(), "content");
    }
    server.join().unwrap();
}
