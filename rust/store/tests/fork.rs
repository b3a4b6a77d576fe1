//! A forked child has none of its parent's threads: runtime and stores must start again in it.
//! Alone in its file, because a fork beside other running tests may inherit their locks.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{Read, Write};
use std::net::TcpListener;

use deltaplane_store::{Location, Options, Store, block_on};

unsafe extern "C" {
    fn fork() -> i32;
    fn alarm(seconds: u32) -> u32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

fn open(text: &str, options: &[(&str, &str)]) -> Store {
    let options = options.iter().map(|(k, v)| (k.to_string(), v.to_string()));
    Store::open(&Location::parse(text).unwrap(), &Options::new(options)).unwrap()
}

/// Answers every request of every connection with the same four bytes.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|n| n > 0) {
                    let head = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nETag: \"e\"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT";
                    stream.write_all(format!("{head}\r\n\r\nbody").as_bytes()).unwrap();
                }
            });
        }
    });
    endpoint
}

#[test]
fn a_child_works_with_its_parents_stores() {
    let dir = tempfile::tempdir().unwrap();
    let local = open(dir.path().to_str().unwrap(), &[]);
    let endpoint = server();
    let options = [
        ("skip_signature", "true"),
        ("allow_http", "true"),
        ("endpoint", &endpoint),
    ];
    let remote = open("s3://bucket/t", &options);
    let work = || {
        block_on(local.put("f", "x".into())).is_ok()
            && block_on(local.read("f")).is_ok_and(|b| b == "x")
            && block_on(remote.read("f")).is_ok_and(|b| b == "body")
    };
    assert!(work());
    // SAFETY: the child runs only this library's code and leaves through `_exit`.
    match unsafe { fork() } {
        0 => unsafe {
            alarm(20);
            _exit(if work() { 0 } else { 1 })
        },
        child => {
            assert!(work());
            let mut status = -1;
            // SAFETY: `status` outlives the call.
            assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "the child failed or hung");
        }
    }
}
