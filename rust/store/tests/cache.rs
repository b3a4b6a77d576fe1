//! The cache over a store that notes what it is asked: what it spares, what it never serves, and
//! what damage, other processes and full disks do to it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::single_range_in_vec_init
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use deltaplane_error::Kind;
use deltaplane_store::{
    CacheContents, Location, ObjectInfo, Options, Store, block_on, cache_contents, clear_cache, register_scheme,
};
use futures::TryStreamExt;

#[path = "contract/counted.rs"]
mod counted;
#[path = "contract/suite.rs"]
#[allow(dead_code)] // what only stores with buckets are asked
mod suite;

const BLOCK: u64 = 256 << 10;

fn options(dir: &Path) -> Options {
    let pairs = [("cache_dir", dir.to_str().unwrap()), ("cache_bytes", "4MiB")];
    Options::new(pairs.map(|(k, v)| (k.to_owned(), v.to_owned())))
}

fn open(location: &str, dir: &Path) -> Store {
    Store::open(&Location::parse(location).unwrap(), &options(dir)).unwrap()
}

/// Bytes of which any part shows where it was taken from, and of which writing.
fn content(length: u64, writing: u64) -> Bytes {
    (0..length)
        .map(|i| (((i + writing) * 2_654_435_761) >> 7) as u8)
        .collect::<Vec<_>>()
        .into()
}

async fn listed(store: &Store, key: &str) -> ObjectInfo {
    let (dir, name) = key.rsplit_once('/').unwrap();
    let mut listing = store.list_from(dir, name).await.unwrap();
    listing.try_next().await.unwrap().unwrap()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(files(&path))
        } else {
            out.push(path)
        }
    }
    out
}

#[test]
fn the_contract_holds_behind_a_cache() {
    counted::register("contracted", |tag| tag);
    let dir = tempfile::tempdir().unwrap();
    let traits = suite::Traits {
        keeps: true,
        ..suite::Traits::of_page(100)
    };
    // Each round uses the same tables, created again, with the cache's blocks of the previous ones.
    for _ in 0..2 {
        suite::run(&|name| open(&format!("contracted://h/{name}"), dir.path()), &traits);
        block_on(async {
            let all = open("contracted://h", dir.path());
            let keys: Vec<_> = all.list_all("").await.unwrap().try_collect().await.unwrap();
            for info in keys {
                all.delete(&info.key).await.unwrap();
            }
        });
    }
    assert!(cache_contents(dir.path()).unwrap().entries > 0);
}

#[test]
fn what_was_read_once_is_not_asked_for_again() {
    let asked = counted::register("spared", |tag| tag);
    let dir = tempfile::tempdir().unwrap();
    let body = content(3 * BLOCK + 100, 0);
    block_on(async {
        let first = open("spared://h/t", dir.path());
        first.put("log/0.json", body.clone()).await.unwrap();
        let info = listed(&first, "log/0.json").await;
        asked.take();
        // Blocks that lie beside each other are one request, ranges in one block too.
        let parts = first
            .read_parts(&info, &[5..10, 20..30, BLOCK - 1..BLOCK + 1])
            .await
            .unwrap();
        assert_eq!(
            parts,
            [body.slice(5..10), body.slice(20..30), body.slice(262_143..262_145)]
        );
        assert_eq!(asked.take(), ["part log/0.json 0..524288"]);
        assert_eq!(
            first.read_part(&info, 3 * BLOCK + 90..u64::MAX).await.unwrap(),
            body.slice(786_522..)
        );
        assert_eq!(asked.take(), ["part log/0.json 786432..786532"]);

        // Another process: only what is missing.
        let second = open("spared://h/t", dir.path());
        assert_eq!(second.read_listed(&info).await.unwrap(), body);
        assert_eq!(asked.take(), ["part log/0.json 524288..786432"]);
        assert_eq!(second.read_listed(&info).await.unwrap(), body);
        assert_eq!(second.read_part(&info, 0..body.len() as u64).await.unwrap(), body);
        assert_eq!(second.read_part(&info, 7..7).await.unwrap(), "");
        assert_eq!(asked.take(), [""; 0]);
        // A read without the object's identity gets the current content.
        assert_eq!(second.read("log/0.json").await.unwrap(), body);
        assert_eq!(second.read_range("log/0.json", 0..5).await.unwrap(), body.slice(0..5));
        assert_eq!(asked.take(), ["read log/0.json", "read log/0.json 0..5"]);
    });
    let contents = cache_contents(dir.path()).unwrap();
    assert_eq!((contents.entries, contents.drafts), (4, 0));
    assert_eq!(contents.tables["spared://h/t"].entries, 4);
    let cleared = clear_cache(dir.path()).unwrap();
    assert_eq!((cleared.files, cleared.size_bytes), (4, contents.size_bytes));
    assert!(files(dir.path()).is_empty());
    assert_eq!(cache_contents(dir.path()).unwrap(), CacheContents::default());
}

#[test]
fn whoever_must_know_asks_the_store_itself() {
    let asked = counted::register("known", |tag| tag);
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = open("known://h/t", dir.path());
        store.put("log/c", content(9, 0)).await.unwrap();
        let info = listed(&store, "log/c").await;
        store.read_listed(&info).await.unwrap();
        asked.take();
        let itself = store.without_cache().unwrap();
        for _ in 0..2 {
            assert_eq!(itself.read_listed(&info).await.unwrap(), content(9, 0));
            assert_eq!(itself.read_part(&info, 0..5).await.unwrap(), content(9, 0).slice(..5));
            assert_eq!(asked.take(), ["part log/c 0..5", "read log/c"]);
        }
        assert_eq!(store.read_listed(&info).await.unwrap(), content(9, 0));
        assert_eq!(asked.take(), [""; 0]);
    });
}

#[test]
fn a_table_made_anew_in_the_same_place_is_another_one() {
    counted::register("renewed", |tag| tag);
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let (mut before, mut seen) = (None, Vec::new());
        for writing in 0..4 {
            let store = open("renewed://h/t", dir.path());
            store.delete("log/0.json").await.unwrap();
            // The same name and the same length each time.
            let body = content(BLOCK + 9, writing);
            store.put("log/0.json", body.clone()).await.unwrap();
            let info = listed(&store, "log/0.json").await;
            assert_eq!(store.read_listed(&info).await.unwrap(), body);
            assert_eq!(
                store.read_part(&info, 3..BLOCK + 2).await.unwrap(),
                body.slice(3..262_146)
            );
            if let Some(old) = before {
                // A listing from before: what it showed, or what is there now, whole.
                let read = store.read_listed(&old).await.unwrap();
                assert!(seen.contains(&read) || read == body);
                let part = store.read_part(&old, 0..9).await;
                assert!(part.is_ok_and(|p| p == seen.last().unwrap().slice(0..9)));
            }
            (before, seen) = (Some(info), [seen, vec![body]].concat());
        }
    });
}

#[test]
fn an_object_that_was_replaced_before_it_was_read_is_no_mixture() {
    counted::register("replaced", |tag| tag);
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = open("replaced://h/t", dir.path());
        let (old, new) = (content(2 * BLOCK, 0), content(2 * BLOCK, 1));
        store.put("log/c", old.clone()).await.unwrap();
        let info = listed(&store, "log/c").await;
        // The first half of the old one is known when another writer puts the new one there.
        assert_eq!(store.read_part(&info, 0..9).await.unwrap(), old.slice(0..9));
        store.put("log/c", new.clone()).await.unwrap();
        let e = store.read_part(&info, 0..2 * BLOCK).await.unwrap_err();
        assert_eq!(e.kind(), Kind::ObjectNotFound);
        assert_eq!(store.read_listed(&info).await.unwrap(), new);
        let now = store.head("log/c").await.unwrap();
        assert_eq!(store.read_part(&now, 0..2 * BLOCK).await.unwrap(), new);
    });
}

#[test]
fn objects_without_a_telling_tag_are_not_kept() {
    let untagged = counted::register("untagged", |_| None);
    let weak = counted::register("weak", |tag| tag.map(|t| format!("W/\"{t}\"")));
    let dir = tempfile::tempdir().unwrap();
    for (scheme, asked) in [("untagged", untagged), ("weak", weak)] {
        block_on(async {
            let store = open(&format!("{scheme}://h/t"), dir.path());
            store.put("log/0.json", content(9, 0)).await.unwrap();
            let info = listed(&store, "log/0.json").await;
            asked.take();
            for _ in 0..2 {
                assert_eq!(store.read_listed(&info).await.unwrap(), content(9, 0));
                store.read_part(&info, 0..5).await.unwrap();
                assert_eq!(asked.take(), ["part log/0.json 0..5", "read log/0.json"]);
            }
        });
    }
    assert_eq!(cache_contents(dir.path()).unwrap().entries, 0);
}

#[test]
fn damaged_entries_are_read_again_and_put_right() {
    let asked = counted::register("damaged", |tag| tag);
    let dir = tempfile::tempdir().unwrap();
    let body = content(4 * BLOCK, 0);
    block_on(async {
        let store = open("damaged://h/t", dir.path());
        store.put("log/c", body.clone()).await.unwrap();
        let info = listed(&store, "log/c").await;
        let read = async || {
            asked.take();
            assert_eq!(store.read_listed(&info).await.unwrap(), body);
            asked.take().len()
        };
        assert_eq!((read().await, read().await), (1, 0));
        let damages: [fn(&[PathBuf]); 4] = [
            |all| fs::write(&all[0], b"").unwrap(),
            |all| {
                let mut file = fs::read(&all[0]).unwrap();
                file.truncate(1000);
                fs::write(&all[0], file).unwrap();
            },
            |all| {
                let mut file = fs::read(&all[0]).unwrap();
                let place = file.len() - 7;
                file[place] ^= 0x20;
                fs::write(&all[0], file).unwrap();
            },
            // Two whole entries in each other's place.
            |all| {
                let [entry, two] = [&all[0], &all[1]].map(|path| fs::read(path).unwrap());
                fs::write(&all[0], two).unwrap();
                fs::write(&all[1], entry).unwrap();
            },
        ];
        for damage in damages {
            damage(&files(dir.path()));
            assert!((1..=2).contains(&read().await));
            assert_eq!(read().await, 0);
        }
    });
}

#[test]
fn a_store_without_a_place_for_its_cache_reads_on() {
    let asked = counted::register("unplaced", |tag| tag);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"x").unwrap();
    block_on(async {
        let store = open("unplaced://h/t", &file.join("cache"));
        let body = content(BLOCK + 1, 0);
        store.put("log/c", body.clone()).await.unwrap();
        let info = listed(&store, "log/c").await;
        asked.take();
        for _ in 0..2 {
            assert_eq!(store.read_listed(&info).await.unwrap(), body);
            assert_eq!(store.read_parts(&info, &[3..5]).await.unwrap(), [body.slice(3..5)]);
            assert_eq!(asked.take(), ["part log/c 3..5", "read log/c"]);
        }
    });
    assert_eq!(fs::read(&file).unwrap(), b"x");
}

#[test]
fn no_secret_lands_on_the_disk() {
    counted::register("secretive", |tag| tag);
    let dir = tempfile::tempdir().unwrap();
    let secret = [
        ("aws_secret_access_key", "hunter2hunter2"),
        ("sas_token", "sig=hunter2hunter2"),
    ];
    let secret = secret.map(|(k, v)| (k.to_owned(), v.to_owned()));
    let all = options(dir.path());
    let all = all.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).chain(secret);
    let store = Store::open(&Location::parse("secretive://h/t").unwrap(), &Options::new(all)).unwrap();
    block_on(async {
        store.put("log/0.json", content(9, 0)).await.unwrap();
        store.read_listed(&listed(&store, "log/0.json").await).await.unwrap();
    });
    let written = files(dir.path());
    assert_eq!(written.len(), 1);
    for path in written {
        let file = fs::read(path).unwrap();
        assert!(!file.windows(7).any(|w| w == b"hunter2"));
    }
}

#[test]
fn mistaken_settings_are_refused() {
    let open = |location: &str, key: &str, value: &str| {
        let options = Options::new([(key.to_owned(), value.to_owned())]);
        Store::open(&Location::parse(location).unwrap(), &options)
    };
    for (location, key, value, named) in [
        ("/t", "cache_bytes", "a lot", "cache_bytes"),
        ("memory://t", "cache_data", "perhaps", "cache_data"),
        ("/t", "cache_dirr", "/c", "did you mean cache_dir?"),
    ] {
        let e = open(location, key, value).unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidArgument);
        assert!(e.to_string().contains(named), "{e}");
    }
    open("/t", "cache_dir", "/c").unwrap();
    assert!(register_scheme("file", std::sync::Arc::new(|_, _| panic!("never"))).is_err());
}

const HAMMERED: &str = "DELTAPLANE_TEST_HAMMERED_CACHE";
const OBJECTS: u64 = 60;
const HAMMERING: Duration = Duration::from_secs(2);

/// Processes that read the same objects through one cache, far too small for them, while one of
/// them damages entries.
#[test]
fn processes_share_a_cache_without_harm() {
    if let Ok(dir) = std::env::var(HAMMERED) {
        hammer(Path::new(&dir));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let test = ["processes_share_a_cache_without_harm", "--exact", "--nocapture"];
    let begin = |_| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(test).env(HAMMERED, dir.path()).spawn().unwrap()
    };
    let mut children: Vec<_> = (0..3).map(begin).collect();
    let (mut most, mut damaged) = (0, 0);
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        let entries = match dir.path().join("deltaplane-cache-1").is_dir() {
            true => cache_contents(dir.path()).unwrap(),
            false => continue,
        };
        most = most.max(entries.size_bytes);
        let names = walk(dir.path());
        if let Some(path) = names.get(damaged % names.len().max(1)) {
            // It may be gone by now.
            damaged += usize::from(fs::write(path, b"not what it was").is_ok());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(children.into_iter().all(|mut child| child.wait().unwrap().success()));
    assert!(damaged > 5, "{damaged}");
    assert!((1 << 20..=4 << 20).contains(&most), "{most} bytes at most");
    assert_eq!(cache_contents(dir.path()).unwrap().drafts, 0);
}

/// Entries as far as they are there.
fn walk(dir: &Path) -> Vec<PathBuf> {
    let ours = dir.join("deltaplane-cache-1");
    let inner = fs::read_dir(ours).into_iter().flatten().flatten().map(|e| e.path());
    let inner = inner.filter(|path| !path.ends_with("drafts"));
    inner
        .flat_map(|d| fs::read_dir(d).into_iter().flatten().flatten().map(|e| e.path()))
        .collect()
}

/// Every process makes the same objects: tags of a store in memory are numbers of writing.
fn hammer(dir: &Path) {
    let asked = counted::register("hammered", |tag| tag);
    block_on(async {
        let store = open("hammered://h/t", dir);
        let mut infos = Vec::new();
        for n in 0..OBJECTS {
            let key = format!("log/{n}");
            store.put(&key, content(BLOCK / 2 + 1000 * n, n)).await.unwrap();
            infos.push(store.head(&key).await.unwrap());
        }
        asked.take();
        let (begun, mut reads, mut state) = (Instant::now(), 0, u64::from(std::process::id()));
        while begun.elapsed() < HAMMERING {
            // Some objects are asked for more often than others.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let n = ((state >> 33) % OBJECTS) * ((state >> 40) % OBJECTS) / OBJECTS;
            let read = store.read_listed(&infos[n as usize]).await.unwrap();
            assert_eq!(read, content(BLOCK / 2 + 1000 * n, n), "object {n}");
            reads += 1;
        }
        let requests = asked.take().len();
        assert!(
            requests > 0 && requests < reads,
            "{requests} requests for {reads} reads"
        );
    });
}
