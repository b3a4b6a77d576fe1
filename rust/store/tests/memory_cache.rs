//! The cache in memory over a store that records its requests: which reads it saves, and which it
//! must not answer.

#![allow(clippy::unwrap_used, clippy::single_range_in_vec_init)]

use bytes::Bytes;
use deltaplane_store::{Location, ObjectInfo, Options, Store, block_on};
use futures::TryStreamExt;

#[path = "contract/counted.rs"]
mod counted;

const KEY: &str = "_delta_log/00000000000000000000.json";

fn open(location: &str, memory_bytes: &str) -> Store {
    let options = Options::new([("cache_memory_bytes".to_owned(), memory_bytes.to_owned())]);
    Store::open(&Location::parse(location).unwrap(), &options).unwrap()
}

async fn listed(store: &Store, key: &str) -> ObjectInfo {
    let (dir, name) = key.rsplit_once('/').unwrap();
    let mut files = store.list_from(dir, name).await.unwrap();
    files.try_next().await.unwrap().unwrap()
}

/// Bytes that differ at each offset within 250.
fn body(length: usize) -> Bytes {
    (0..length)
        .map(|i| u8::try_from(i % 251).unwrap())
        .collect::<Vec<_>>()
        .into()
}

#[test]
fn a_log_file_is_requested_once_by_all_handles_of_a_process() {
    let asked = counted::register("memoryonce", |tag| tag);
    block_on(async {
        let (first, second) = (open("memoryonce://h/t", "1MiB"), open("memoryonce://h/t", "1MiB"));
        first.put(KEY, body(1000)).await.unwrap();
        let info = listed(&first, KEY).await;
        asked.take();
        assert_eq!(
            first.read_part(&info, 900..1000).await.unwrap(),
            body(1000).slice(900..)
        );
        assert_eq!(asked.take(), [format!("part {KEY} 900..1000")]);
        // Only the bytes that are missing are requested.
        let parts = second.read_parts(&info, &[950..2000, 0..10]).await.unwrap();
        assert_eq!(parts, [body(1000).slice(950..), body(1000).slice(..10)]);
        assert_eq!(asked.take(), [format!("part {KEY} 0..10")]);
        assert_eq!(second.read_listed(&info).await.unwrap(), body(1000));
        assert_eq!(asked.take(), [format!("read {KEY}")]);
        assert_eq!(first.read_listed(&info).await.unwrap(), body(1000));
        assert_eq!(first.read_part(&info, 3..7).await.unwrap(), body(1000).slice(3..7));
        assert_eq!(asked.take(), [""; 0]);
        // Another table has other files under the same names.
        let other = open("memoryonce://h/other", "1MiB");
        assert!(other.read_listed(&info).await.is_err());
    });
}

#[test]
fn a_replaced_file_is_read_again() {
    let asked = counted::register("memoryreplaced", |tag| tag);
    block_on(async {
        let store = open("memoryreplaced://h/t", "1MiB");
        store.put(KEY, body(1000)).await.unwrap();
        let old = listed(&store, KEY).await;
        store.read_listed(&old).await.unwrap();
        let newer = body(1000).slice(1..);
        store.put(KEY, newer.clone()).await.unwrap();
        let new = listed(&store, KEY).await;
        asked.take();
        assert_eq!(store.read_listed(&new).await.unwrap(), newer);
        assert_eq!(asked.take().len(), 1);
        // Reads that state no identity never come from the cache.
        assert_eq!(store.read(KEY).await.unwrap(), newer);
        assert_eq!(store.read_range(KEY, 0..3).await.unwrap(), newer.slice(0..3));
        assert_eq!(asked.take().len(), 2);
        // A listing that is older than the file shows either of the two contents.
        let dropped = open("memoryreplaced://h/t", "0");
        let either = dropped.read_listed(&old).await.unwrap();
        assert_eq!(either, newer);
    });
}

#[test]
fn some_reads_bypass_the_cache() {
    let asked = counted::register("memorybypass", |tag| tag);
    block_on(async {
        let store = open("memorybypass://h/t", "1MiB");
        let data = "x/part-0.parquet";
        store.put(data, body(1000)).await.unwrap();
        store.put(KEY, body(1000)).await.unwrap();
        let (file, commit) = (listed(&store, data).await, listed(&store, KEY).await);
        asked.take();
        for _ in 0..2 {
            // Data files would evict the files of the log.
            store.read_part(&file, 0..10).await.unwrap();
            assert_eq!(asked.take().len(), 1);
            open("memorybypass://h/t", "0").read_listed(&commit).await.unwrap();
            assert_eq!(asked.take().len(), 1);
        }
        store.read_listed(&commit).await.unwrap();
        asked.take();
        store.without_cache().unwrap().read_listed(&commit).await.unwrap();
        assert_eq!(asked.take().len(), 1);
        // More than an eighth of the cache would evict too many others.
        let small = open("memorybypass://h/small", "4KiB");
        small.put(KEY, body(1000)).await.unwrap();
        let commit = listed(&small, KEY).await;
        asked.take();
        small.read_listed(&commit).await.unwrap();
        small.read_listed(&commit).await.unwrap();
        assert_eq!(asked.take().len(), 2);
    });
}

#[test]
fn objects_without_a_strong_tag_are_not_cached() {
    for (scheme, tag) in [
        ("memoryuntagged", (|_| None) as fn(Option<String>) -> Option<String>),
        ("memoryweak", |tag| Some(format!("W/{}", tag.unwrap_or_default()))),
    ] {
        let asked = counted::register(scheme, tag);
        block_on(async {
            let store = open(&format!("{scheme}://h/t"), "1MiB");
            store.put(KEY, body(1000)).await.unwrap();
            let info = listed(&store, KEY).await;
            asked.take();
            store.read_listed(&info).await.unwrap();
            store.read_listed(&info).await.unwrap();
            assert_eq!(asked.take().len(), 2, "{scheme}");
        });
    }
}
