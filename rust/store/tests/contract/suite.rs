//! What every store must do, as functions of a store at a fresh root.
//! Knows no scheme: a new store passes all of it or isn't one.

use std::sync::Arc;

use bytes::Bytes;
use deltaplane_error::Kind;
use deltaplane_store::{ProbeResult, PutDraft, PutOutcome, Store, block_on};
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectStore, ObjectStoreExt};

const WRITERS: usize = 16;
const RACES: usize = 20;
/// More than one part of a multipart upload.
const BIG_BYTES: usize = 12 << 20;

/// What a run showed, counted where it was asserted.
#[derive(Debug, Default, Clone, serde::Serialize)]
pub struct Figures {
    /// Names that writers raced for, from two stores with connections of their own.
    pub races: usize,
    /// Attempts at these names, all at one moment for each.
    pub racing_puts: usize,
    /// Attempts that were told that they had made the object.
    pub winners: usize,
    /// Writers that found the object listed and whole, by the other store, as soon as they had
    /// their answer.
    pub seen_at_once: usize,
    /// Names in the longest listing: more than the store gives at once.
    pub listed_names: usize,
    /// Names with spaces, escapes, other alphabets.
    pub odd_names: usize,
    /// Bytes of streamed uploads that were read back.
    pub uploaded_bytes: usize,
    /// Uploads given up before their end, of which nothing was seen.
    pub given_up: usize,
}

pub fn block<F: Future>(future: F) -> F::Output {
    block_on(future)
}

/// In what stores may differ.
#[derive(Debug, Clone, serde::Deserialize)]
pub struct Traits {
    /// How many names a listing gives at once.
    pub page: usize,
    /// Names that the store can't keep as they are: it has to refuse them.
    #[serde(default)]
    pub refused: Vec<String>,
    /// Whether readers of a replaced object may still get parts of the old one.
    #[serde(default)]
    pub keeps: bool,
}

impl Traits {
    /// A store that keeps every name.
    pub fn of_page(page: usize) -> Traits {
        Traits {
            page,
            refused: Vec::new(),
            keeps: false,
        }
    }
}

/// Runs the suite; `open` gives a store at an empty root of that name, twice for the same root if
/// asked twice.
pub fn run(open: &dyn Fn(&str) -> Store, traits: &Traits) -> Figures {
    let batches = traits.page + traits.page / 50;
    let mut figures = Figures::default();
    block(read_after_write(open("basics")));
    block(overwrite(open("overwrite")));
    block(puts_again(open("again")));
    block(expendable(open("expendable")));
    block(ranges(open("ranges"), traits.keeps));
    block(errors(open("errors")));
    block(listing(open("listing")));
    block(levels(open("levels")));
    block(deletes(open("deletes")));
    block(empty_directories(open("directories")));
    block(listing_in_batches(open("batches"), batches, &mut figures));
    block(names(open("names"), &traits.refused, &mut figures));
    block(uploads(open("uploads"), &mut figures));
    block(resolving(open("resolving")));
    block(races([open("races"), open("races")], &mut figures));
    figures
}

/// A level is what `list_all` finds, but for what is in directories, which it names.
async fn levels(store: Store) {
    for key in ["a", "d e/b", "d e/f/c", "g%h/i"] {
        store.put(key, text("x")).await.unwrap();
    }
    for (dir, directories, files) in [
        ("", vec!["d e", "g%h"], vec!["a"]),
        ("d e", vec!["d e/f"], vec!["d e/b"]),
        ("none", vec![], vec![]),
    ] {
        let Some(mut level) = store.list_level(dir).await.unwrap() else {
            return;
        };
        level.directories.sort();
        assert_eq!(level.directories, directories);
        assert_eq!(level.files.iter().map(|f| f.key.as_str()).collect::<Vec<_>>(), files);
        assert!(level.files.iter().all(|f| f.size_bytes == 1));
    }
}

/// Many objects at once, some of which aren't there; others stay.
async fn deletes(store: Store) {
    let mut keys: Vec<String> = (0..70).map(|n| format!("d/ü {n}")).collect();
    for key in &keys {
        store.put(key, text("x")).await.unwrap();
    }
    keys.push("d/none".to_owned());
    let stays = keys.remove(3);
    store.delete_all(&keys).await.unwrap();
    store.delete_all(&[]).await.unwrap();
    assert_eq!(all_keys(&store, "").await, [stays]);
}

/// A store with directories names those without files, inner ones first, and removes them unless
/// they have a file by then. A store without directories names none.
async fn empty_directories(store: Store) {
    for key in ["a/b/c", "a/d", "e/f/g"] {
        store.put(key, text("x")).await.unwrap();
    }
    store
        .delete_all(&["a/b/c".to_owned(), "e/f/g".to_owned()])
        .await
        .unwrap();
    assert!(store.empty_directories("", 0).await.unwrap().is_empty());
    let empty = store.empty_directories("", i64::MAX).await.unwrap();
    if !empty.is_empty() {
        let place = |dir: &str| empty.iter().position(|e| e == dir).unwrap();
        assert!(
            empty.len() == 3 && place("e/f") < place("e") && place("a/b") < 3,
            "{empty:?}"
        );
    }
    store.put("e/f/new", text("x")).await.unwrap();
    store.remove_directories(&empty).await.unwrap();
    assert!(store.empty_directories("", i64::MAX).await.unwrap().is_empty());
    let mut left = all_keys(&store, "").await;
    left.sort();
    assert_eq!(left, ["a/d", "e/f/new"]);
}

async fn keys(store: &Store, dir: &str, from: &str) -> Vec<String> {
    let listing = store.list_from(dir, from).await.unwrap();
    listing.map_ok(|o| o.key).try_collect().await.unwrap()
}

async fn all_keys(store: &Store, dir: &str) -> Vec<String> {
    let listing = store.list_all(dir).await.unwrap();
    let mut keys: Vec<_> = listing.map_ok(|o| o.key).try_collect().await.unwrap();
    keys.sort();
    keys
}

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

pub async fn read_after_write(store: Store) {
    store.put("a/b.json", text("one")).await.unwrap();
    assert_eq!(store.read("a/b.json").await.unwrap(), "one");
    let head = store.head("a/b.json").await.unwrap();
    assert_eq!((head.key.as_str(), head.size_bytes), ("a/b.json", 3));
    let age_ms = chrono::Utc::now().timestamp_millis() - head.modified_ms;
    assert!((-60_000..60_000).contains(&age_ms), "{age_ms}");
    let listed: Vec<_> = store.list_from("a", "").await.unwrap().try_collect().await.unwrap();
    assert_eq!((&listed[0].key, listed[0].size_bytes), (&head.key, 3));
    assert_eq!(listed[0].etag, head.etag);
    assert!(head.etag.is_some());

    store.put("empty", Bytes::new()).await.unwrap();
    assert_eq!(store.read("empty").await.unwrap().len(), 0);

    store.delete("a/b.json").await.unwrap();
    store.delete("a/b.json").await.unwrap();
    store.delete("no/such/dir/file").await.unwrap();
    assert_eq!(store.read("a/b.json").await.unwrap_err().kind(), Kind::ObjectNotFound);
    store.delete("empty").await.unwrap();
}

async fn overwrite(store: Store) {
    assert_eq!(
        store.put_if_absent("x/k", text("1")).await.unwrap(),
        PutOutcome::Created
    );
    assert_eq!(store.put_if_absent("x/k", text("2")).await.unwrap(), PutOutcome::Exists);
    assert_eq!(store.read("x/k").await.unwrap(), "1");
    let before = store.head("x/k").await.unwrap();
    store.put("x/k", text("three")).await.unwrap();
    assert_eq!(store.read("x/k").await.unwrap(), "three");
    assert_ne!(store.head("x/k").await.unwrap().etag, before.etag);
    store.delete("x/k").await.unwrap();
    assert_eq!(
        store.put_if_absent("x/k", text("4")).await.unwrap(),
        PutOutcome::Created
    );
    assert_eq!(all_keys(&store, "").await, ["x/k"]);
}

/// Bytes that are put under one name after the other, and asked for by name where that is offered.
async fn puts_again(store: Store) {
    store.put("log/0", text("taken")).await.unwrap();
    store.put("log/1", text("taken")).await.unwrap();
    let mut draft = PutDraft::default();
    for name in ["log/0", "log/1"] {
        let put = store.put_if_absent_again(name, text("mine"), &mut draft).await.unwrap();
        assert_eq!(
            (put, store.read(name).await.unwrap()),
            (PutOutcome::Exists, text("taken"))
        );
    }
    // What was kept of other bytes isn't put for these.
    let put = store
        .put_if_absent_again("log/2", text("other"), &mut draft)
        .await
        .unwrap();
    assert_eq!(
        (put, store.read("log/2").await.unwrap()),
        (PutOutcome::Created, text("other"))
    );
    for (name, outcome) in [("log/2", PutOutcome::Exists), ("log/3", PutOutcome::Created)] {
        assert_eq!(
            store.put_if_absent_again(name, text("mine"), &mut draft).await.unwrap(),
            outcome
        );
    }
    assert_eq!(store.read("log/3").await.unwrap(), "mine");
    drop(draft);
    assert_eq!(all_keys(&store, "").await, ["log/0", "log/1", "log/2", "log/3"]);
    if let Some(absent) = store.read_text_if_local("log/4").await.unwrap() {
        assert_eq!(absent, ProbeResult::Absent);
        let probe = store.read_text_if_local("log/3").await.unwrap().unwrap();
        assert_eq!(
            probe,
            ProbeResult::Found(store.head("log/3").await.unwrap(), text("mine"))
        );
        assert_eq!(
            store.read_text_if_local("none/1").await.unwrap(),
            Some(ProbeResult::Absent)
        );
    }
}

/// Objects that others can do without, begun beside other work.
async fn expendable(store: Store) {
    store.put("log/0", text("there")).await.unwrap();
    let begun = store.begin_expendable("log/1", &text("sum"));
    store.put_expendable("log/1", text("sum"), begun).await.unwrap();
    assert_eq!(store.read("log/1").await.unwrap(), "sum");
    // A name that is taken keeps what it has, and nothing is left of what was begun in vain.
    let begun = store.begin_expendable("log/1", &text("late"));
    store.put_expendable("log/1", text("late"), begun).await.unwrap();
    assert_eq!(store.read("log/1").await.unwrap(), "sum");
    drop(store.begin_expendable("log/2", &text("given up")));
    assert_eq!(all_keys(&store, "").await, ["log/0", "log/1"]);
}

async fn ranges(store: Store, keeps: bool) {
    store.put("f", text("0123456789")).await.unwrap();
    assert_eq!(store.read_range("f", 2..5).await.unwrap(), "234");
    assert_eq!(store.read_range("f", 8..50).await.unwrap(), "89");
    assert_eq!(store.read_range("f", 3..3).await.unwrap(), "");
    let shown = store.head("f").await.unwrap();
    assert_eq!(store.read_part(&shown, 2..5).await.unwrap(), "234");
    assert_eq!(store.read_part(&shown, 8..50).await.unwrap(), "89");
    store.put("f", text("0123456789 and more")).await.unwrap();
    let unmixed = async |range, of_old: &str| match store.read_part(&shown, range).await {
        Ok(bytes) => assert!(keeps && bytes == of_old, "{bytes:?}"),
        Err(e) => assert_eq!(e.kind(), Kind::ObjectNotFound),
    };
    unmixed(2..5, "234").await;
    store.put("f", text("01")).await.unwrap();
    unmixed(8..50, "89").await;
    store.delete("f").await.unwrap();
    unmixed(2..5, "234").await;
    store.put("f", text("0123456789")).await.unwrap();
    assert_eq!(
        store.read_range("f", 10..12).await.unwrap_err().kind(),
        Kind::InvalidArgument
    );
    assert_eq!(
        store.read_range("g", 0..1).await.unwrap_err().kind(),
        Kind::ObjectNotFound
    );
}

async fn errors(store: Store) {
    for key in ["absent", "absent/dir/file"] {
        for e in [store.read(key).await.unwrap_err(), store.head(key).await.unwrap_err()] {
            assert_eq!(e.kind(), Kind::ObjectNotFound);
            assert_eq!(e.path(), Some(key));
            assert_eq!(e.table(), Some(store.location().as_str()));
        }
    }
    store.put("file", text("x")).await.unwrap();
    assert_eq!(store.read("file/below").await.unwrap_err().kind(), Kind::ObjectNotFound);
    for key in ["", "../up", "a/../../up"] {
        assert_eq!(
            store.put(key, text("x")).await.unwrap_err().kind(),
            Kind::InvalidArgument,
            "{key}"
        );
        assert_eq!(
            store.read(key).await.unwrap_err().kind(),
            Kind::InvalidArgument,
            "{key}"
        );
    }
}

async fn listing(store: Store) {
    assert!(keys(&store, "log", "").await.is_empty());
    assert!(all_keys(&store, "log").await.is_empty());
    let mut written = Vec::new();
    for name in [
        "0009.json",
        "0010.json",
        "0010.crc",
        "_last",
        "é",
        "0019.json",
        "0020.json",
        "A",
        "a",
    ] {
        written.push(format!("log/{name}"));
    }
    for key in [
        "log/0010.d/x",
        "log/_side/1",
        "log/_side/2",
        "log/_side/deep/3",
        "logs/0",
    ] {
        store.put(key, text("x")).await.unwrap();
    }
    for key in written.iter().rev() {
        store.put(key, text("x")).await.unwrap();
    }
    written.sort();
    for from in [
        "",
        "0",
        "0010",
        "0010.json",
        "0019",
        "0020",
        "0021",
        "A",
        "_",
        "_last",
        "a",
        "b",
        "é",
        "\u{10000}",
    ] {
        let expected: Vec<_> = written.iter().filter(|k| &k[4..] >= from).cloned().collect();
        assert_eq!(keys(&store, "log", from).await, expected, "from {from:?}");
    }
    assert_eq!(all_keys(&store, "log").await.len(), written.len() + 4);
    assert_eq!(all_keys(&store, "log/_side").await.len(), 3);
    assert_eq!(all_keys(&store, "").await.len(), written.len() + 5);
    assert!(keys(&store, "", "").await.is_empty());
    store.put("top", text("x")).await.unwrap();
    assert_eq!(keys(&store, "", "").await, ["top"]);
    assert_eq!(keys(&store, "/log/", "_last").await.len(), 3);
}

/// More names than one page of the store's listing.
async fn listing_in_batches(store: Store, count: usize, figures: &mut Figures) {
    let put = |i: usize| {
        let store = store.clone();
        async move { store.put(&format!("l/{i:06}"), text("x")).await }
    };
    futures::stream::iter((0..count).map(put))
        .buffer_unordered(32)
        .try_collect::<()>()
        .await
        .unwrap();
    let all = keys(&store, "l", "").await;
    assert_eq!(all, (0..count).map(|i| format!("l/{i:06}")).collect::<Vec<_>>());
    assert_eq!(keys(&store, "l", "000042").await.len(), count - 42);
    assert_eq!(all_keys(&store, "l").await, all);
    figures.listed_names = all.len();
}

/// Keys are literal: nothing is escaped, decoded or folded on the way.
async fn names(store: Store, refused: &[String], figures: &mut Figures) {
    let mut odd = vec![
        "a b",
        "a%20b",
        "100%",
        "a#1",
        "x#123",
        "q?v=1",
        "p=1",
        "é/ü",
        "日本",
        "back\\slash",
        "semi;colon",
        "plus+and&",
        "tilde~",
        "quote'\"",
        "br[ack]{et}",
        "a:b",
        "star*",
        "UPPER",
        "upper",
        "dot.",
        "e%CC%81",
    ];
    for name in refused {
        let e = store.put(&format!("dir/{name}.f"), text("x")).await.unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidArgument, "{name}");
        assert!(odd.contains(&name.as_str()), "{name}");
        odd.retain(|odd| odd != name);
    }
    for name in &odd {
        let key = format!("dir/{name}.f");
        store.put(&key, Bytes::from(key.clone())).await.unwrap();
    }
    figures.odd_names = odd.len();
    let mut expected: Vec<_> = odd.iter().map(|n| format!("dir/{n}.f")).collect();
    expected.sort();
    assert_eq!(all_keys(&store, "dir").await, expected);
    for key in &expected {
        assert_eq!(store.read(key).await.unwrap(), *key);
        assert_eq!(store.head(key).await.unwrap().key, *key);
        assert_eq!(store.put_if_absent(key, text("x")).await.unwrap(), PutOutcome::Exists);
        let (objects, path) = store.object(key).unwrap();
        assert_eq!(objects.head(&path).await.unwrap().size, key.len() as u64);
        let ranges = objects.get_ranges(&path, &[0..3, 4..5]).await.unwrap();
        assert_eq!(ranges, [&key.as_bytes()[0..3], &key.as_bytes()[4..5]]);
        let whole = objects.get(&path).await.unwrap().bytes().await.unwrap();
        assert_eq!(whole, *key);
        let part = objects.get_range(&path, 1..4).await.unwrap();
        assert_eq!(part, key.as_bytes()[1..4]);
        let (same, resolved) = store.resolve(key).unwrap();
        assert_eq!((same.location(), &resolved), (store.location(), key));
        store.delete(key).await.unwrap();
    }
    assert!(all_keys(&store, "dir").await.is_empty());
    let (objects, path) = store.object("dir/gone").unwrap();
    let e = objects.get(&path).await.unwrap_err();
    assert!(matches!(e, object_store::Error::NotFound { .. }), "{e}");
}

async fn uploads(store: Store, figures: &mut Figures) {
    let block: Bytes = (0..1 << 16).map(|i| (i * 7 + i / 256) as u8).collect::<Vec<_>>().into();
    for (key, bytes) in [("u/none", 0), ("u/small", 100_000), ("u/deep/p=a b/big", BIG_BYTES)] {
        let mut upload = store.upload(key).await.unwrap();
        let mut left = bytes;
        while left > 0 {
            let slice = block.slice(..left.min(block.len()));
            left -= slice.len();
            upload.write(slice).await.unwrap();
        }
        assert_eq!(store.head(key).await.unwrap_err().kind(), Kind::ObjectNotFound);
        assert_eq!(upload.size_bytes(), bytes as u64);
        assert_eq!(upload.finish().await.unwrap(), bytes as u64);
        let read = store.read(key).await.unwrap();
        assert_eq!(read.len(), bytes);
        assert!(read.chunks(block.len()).all(|chunk| chunk == &block[..chunk.len()]));
        figures.uploaded_bytes += read.len();
    }
    // One write larger than a part.
    let whole = store.read("u/deep/p=a b/big").await.unwrap();
    let mut upload = store.upload("u/one").await.unwrap();
    upload.write(whole.clone()).await.unwrap();
    upload.finish().await.unwrap();
    assert!(store.read("u/one").await.unwrap() == whole);

    for bytes in [10, BIG_BYTES] {
        let mut upload = store.upload("u/aborted").await.unwrap();
        upload.write(whole.slice(..bytes)).await.unwrap();
        upload.abort().await.unwrap();
        let mut upload = store.upload("u/dropped").await.unwrap();
        upload.write(whole.slice(..bytes)).await.unwrap();
        drop(upload);
        figures.given_up += 2;
    }
    let expected = ["u/deep/p=a b/big", "u/none", "u/one", "u/small"];
    assert_eq!(all_keys(&store, "u").await, expected);
}

async fn resolving(store: Store) {
    store.put("p=1/f.parquet", text("x")).await.unwrap();
    let root = store.location().as_str().to_owned();
    let (same, key) = store.resolve(&format!("{root}/p=1/f.parquet")).unwrap();
    assert_eq!((same.location(), key.as_str()), (store.location(), "p=1/f.parquet"));

    let other = format!("{}-elsewhere/deep/g%20h.parquet", store.location());
    let foreign = if root.starts_with("s3:") {
        "gs://b/f"
    } else {
        "s3://b/f"
    };
    let refusal = |path: &str| store.resolve(path).unwrap_err().kind();
    assert_eq!(refusal(foreign), Kind::InvalidArgument);
    assert_eq!(refusal(&other), Kind::InvalidArgument);
    // No correct writer names a file so.
    for wrong in ["", "../f", "a/../f", "a\0b", &format!("{root}/../f")] {
        assert_eq!(refusal(wrong), Kind::CorruptLog, "{wrong}");
    }

    let e = store.resolve("s3://user:hunter2@b/f").unwrap_err();
    assert!(!format!("{e} {e:?}").contains("hunter2"), "{e}");
    for relative in ["p=a:b/f", "://f", "p=x://y"] {
        let (same, key) = store.resolve(relative).unwrap();
        assert_eq!((same.location(), key.as_str()), (store.location(), relative));
    }
}

/// N writers per name: exactly one wins, and its bytes stay; after any answer listings show the
/// object.
async fn races(stores: [Store; 2], figures: &mut Figures) {
    for name in 0..RACES {
        let key = format!("_log/{name:020}.json");
        let gate = Arc::new(tokio::sync::Barrier::new(WRITERS));
        let writers = (0..WRITERS).map(|writer| {
            let [own, other] = [&stores[writer % 2], &stores[1 - writer % 2]].map(Store::clone);
            let (key, gate) = (key.clone(), Arc::clone(&gate));
            deltaplane_store::handle().spawn(async move {
                let bytes = format!("{writer} ").repeat(500 + writer);
                gate.wait().await;
                let outcome = own.put_if_absent(&key, bytes.clone().into()).await.unwrap();
                let listed = keys(&other, "_log", "").await.contains(&key);
                (outcome, bytes, listed, other.read(&key).await.unwrap())
            })
        });
        let outcomes = futures::future::try_join_all(writers).await.unwrap();
        let won: Vec<_> = outcomes.iter().filter(|o| o.0 == PutOutcome::Created).collect();
        assert_eq!(won.len(), 1, "{key}");
        assert!(outcomes.iter().all(|o| o.2 && o.3 == won[0].1), "{key}");
        figures.races += 1;
        figures.racing_puts += outcomes.len();
        figures.winners += won.len();
        figures.seen_at_once += outcomes.len();
    }
    assert_eq!(keys(&stores[0], "_log", "").await.len(), RACES);
}

/// For stores with buckets: a missing one is an error that says so, never an empty table.
pub async fn missing_bucket(store: Store) {
    let e = store.read("f").await.unwrap_err();
    assert_eq!(e.kind(), Kind::ObjectNotFound);
    let mut listing = store.list_from("l", "").await.unwrap();
    let e = listing.next().await.unwrap().unwrap_err();
    assert_eq!(e.kind(), Kind::ObjectNotFound);
    assert!(e.to_string().contains("bucket"), "{e}");
}
