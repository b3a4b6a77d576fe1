//! What a cache of log files spares a table's readers, and what it must not keep from them.

use super::*;

fn cached(location: &str, dir: &tempfile::TempDir) -> Store {
    let options = [("cache_dir".to_owned(), dir.path().to_str().unwrap().to_owned())];
    Store::open(&Location::parse(location).unwrap(), &Options::new(options)).unwrap()
}

fn uncached(location: &str) -> Store {
    Store::open(&Location::parse(location).unwrap(), &Options::default()).unwrap()
}

/// Twelve commits and a checkpoint of the tenth.
async fn grown(store: &Store) -> Vec<String> {
    let name = |n: u32| format!("file {n}");
    for n in 0..13 {
        append(store, &name(n)).await;
    }
    let mut names: Vec<String> = (0..13).map(name).collect();
    names.sort();
    names
}

#[test]
fn a_table_that_was_opened_once_costs_its_listing() {
    let asked = counted::register("remembered", |tag| tag);
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let names = grown(&uncached("remembered://h/t")).await;
        asked.take();
        for reading in 0..3 {
            let opened = Snapshot::open(&cached("remembered://h/t", &dir), None).await.unwrap();
            assert_eq!((opened.version(), files(&opened).await), (12, names.clone()));
            assert_eq!(opened.history(None).await.unwrap().len(), 13);
            let asked = asked.take();
            let first = asked.iter().filter(|a| a.starts_with("part ")).count();
            // Thirteen commits, the checkpoint and a checksum at most.
            assert!(
                if reading == 0 {
                    (14..=15).contains(&first)
                } else {
                    first == 0
                },
                "{asked:?}"
            );
            let rest: Vec<_> = asked.into_iter().filter(|a| !a.starts_with("part ")).collect();
            assert_eq!(
                rest,
                [
                    "list _delta_log",
                    "list _delta_log",
                    "read _delta_log/_last_checkpoint 0..65536"
                ]
            );
        }
        // A commit more is one request more, and the writer's own one is read like any other.
        append(&uncached("remembered://h/t"), "last").await;
        asked.take();
        let opened = Snapshot::open(&cached("remembered://h/t", &dir), None).await.unwrap();
        assert_eq!(opened.version(), 13);
        let read: Vec<_> = asked.take().into_iter().filter(|a| a.starts_with("part ")).collect();
        assert_eq!(read.iter().filter(|a| a.contains("00013.json")).count(), 1);
        assert!(read.iter().all(|a| a.contains("00013.")), "{read:?}");
    });
}

#[test]
fn sidecars_are_looked_at_and_not_read_again() {
    let asked = counted::register("attended", |tag| tag);
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = uncached("attended://h/t");
        let with = json!({"mode": "error", "configuration": {"delta.checkpointPolicy": "v2"}});
        create_table(&store, schema(), request(with)).await.unwrap();
        let names = grown(&store).await;
        for reading in 0..2 {
            asked.take();
            let opened = Snapshot::open(&cached("attended://h/t", &dir), None).await.unwrap();
            assert_eq!(files(&opened).await, names);
            let asked = asked.take();
            let calls_with = |what: &str| {
                asked
                    .iter()
                    .filter(|a| a.starts_with(what) && a.contains("_sidecars/"))
                    .count()
            };
            assert_eq!(
                (calls_with("head "), calls_with("part ")),
                (1, if reading == 0 { 1 } else { 0 }),
                "{asked:?}"
            );
        }
    });
}

#[test]
fn without_a_cache_a_listed_checkpoint_needs_no_further_look() {
    let asked = counted::register("looked", |tag| tag);
    block_on(async {
        let names = grown(&uncached("looked://h/t")).await;
        asked.take();
        let opened = Snapshot::open(&uncached("looked://h/t"), None).await.unwrap();
        assert_eq!(files(&opened).await, names);
        let asked = asked.take();
        assert!(asked.iter().any(|a| a.contains("checkpoint.parquet")));
        assert!(!asked.iter().any(|a| a.starts_with("head ")), "{asked:?}");
    });
}

#[test]
fn tables_of_stores_without_tags_are_read_as_ever() {
    let asked = counted::register("tagless", |_| None);
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let names = grown(&uncached("tagless://h/t")).await;
        for _ in 0..2 {
            asked.take();
            let opened = Snapshot::open(&cached("tagless://h/t", &dir), None).await.unwrap();
            assert_eq!(files(&opened).await, names);
            assert!(asked.take().iter().any(|a| a.starts_with("head ")));
        }
    });
    assert_eq!(deltaplane_store::cache_contents(dir.path()).unwrap().entries, 0);
}

#[test]
fn a_table_made_anew_under_the_same_names_is_seen_at_once() {
    counted::register("remade", |tag| tag);
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        for making in 0..3 {
            let store = uncached("remade://h/t");
            let old: Vec<_> = store.list_all("").await.unwrap().try_collect().await.unwrap();
            for object in old {
                store.delete(&object.key).await.unwrap();
            }
            // The same versions, and names of one length.
            let name = |n: u32| format!("making {making} file {n:02}");
            for n in 0..12 {
                append(&store, &name(n)).await;
            }
            let opened = Snapshot::open(&cached("remade://h/t", &dir), None).await.unwrap();
            assert_eq!(files(&opened).await, (0..12).map(name).collect::<Vec<_>>());
        }
    });
}

#[test]
fn a_checkpoint_that_another_writer_replaced_is_read_anew() {
    counted::register("rewritten", |tag| tag);
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = uncached("rewritten://h/t");
        let names = grown(&store).await;
        let key = "_delta_log/00000000000000000010.checkpoint.parquet";
        assert_eq!(
            files(&Snapshot::open(&cached("rewritten://h/t", &dir), None).await.unwrap()).await,
            names
        );
        // Opened from the listing, replaced before it is planned.
        let opened = Snapshot::open(&cached("rewritten://h/t", &dir), None).await.unwrap();
        let bytes = store.read(key).await.unwrap();
        store.put(key, bytes).await.unwrap();
        assert_eq!(files(&opened).await, names);
        // One of the same length that is none: the commits stand in for it.
        let length = store.head(key).await.unwrap().size_bytes as usize;
        store.put(key, Bytes::from(vec![b'x'; length])).await.unwrap();
        assert_eq!(
            files(&Snapshot::open(&cached("rewritten://h/t", &dir), None).await.unwrap()).await,
            names
        );
    });
}

#[test]
fn what_is_kept_of_a_checkpoint_is_no_proof_that_it_is_sound() {
    // The bytes go bad behind a tag that stays.
    counted::register("rotting", |tag| tag.map(|_| "the same".to_owned()));
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = uncached("rotting://h/t");
        let names = grown(&store).await;
        let key = "_delta_log/00000000000000000010.checkpoint.parquet";
        let read = async || {
            let opened = Snapshot::open(&cached("rotting://h/t", &dir), Some(10)).await.unwrap();
            assert_eq!(files(&opened).await.len(), 11);
            opened
        };
        read().await;
        let sound = store.read(key).await.unwrap();
        store.put(key, Bytes::from(vec![b'x'; sound.len()])).await.unwrap();
        let report = read().await.checkpoint().await.unwrap();
        assert_eq!((report.version, report.adds), (10, 11));
        assert_eq!(&store.read(key).await.unwrap()[..4], b"PAR1");
        assert_eq!(files(&Snapshot::open(&store, None).await.unwrap()).await, names);
    });
}
