//! The local store where it differs from the others: names on disk, files under way, bad places.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use bytes::Bytes;
use deltaplane_error::Kind;
use deltaplane_store::{Location, Options, Store, block_on};
use futures::TryStreamExt;
use object_store::ObjectStoreExt;

fn open(path: &std::path::Path) -> Store {
    let location = Location::parse(path.to_str().unwrap()).unwrap();
    Store::open(&location, &Options::default()).unwrap()
}

fn keys(store: &Store, dir: &str) -> Vec<String> {
    block_on(async {
        let listing = store.list_from(dir, "").await.unwrap();
        listing.map_ok(|o| o.key).try_collect().await.unwrap()
    })
}

#[test]
fn any_legal_name_is_the_name_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("odd root %20 # ?");
    let store = open(&root);
    let long = "x".repeat(255);
    for name in [
        "a b",
        "%",
        "%2F",
        "100%25",
        "a#12",
        "#1",
        "?",
        "a=b",
        "日本",
        "back\\slash",
        "new\nline",
        "tab\t",
        "\u{7f}",
        "~",
        "C:",
        "c|",
        "trailing ",
        "trailing.",
        "-",
        "*",
        "\"",
        "e\u{301}",
        &long,
    ] {
        block_on(async {
            store.put(name, Bytes::from_static(b"bytes")).await.unwrap();
            assert_eq!(fs::read(root.join(name)).unwrap(), b"bytes", "{name:?}");
            assert_eq!(keys_of(&store).await, [name]);
            let (objects, path) = store.object(name).unwrap();
            assert_eq!(objects.get(&path).await.unwrap().bytes().await.unwrap(), "bytes");
            assert_eq!(store.local_path(name).unwrap(), root.join(name));
            store.delete(name).await.unwrap();
            let upload = store.upload(name).await.unwrap();
            upload.finish().await.unwrap();
            assert!(root.join(name).is_file(), "{name:?}");
            store.delete(name).await.unwrap();
        });
    }
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
}

async fn keys_of(store: &Store) -> Vec<String> {
    let listing = store.list_all("").await.unwrap();
    listing.map_ok(|o| o.key).try_collect().await.unwrap()
}

#[test]
fn files_under_way_are_hidden_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    block_on(async {
        let mut upload = store.upload("d/f").await.unwrap();
        upload.write(vec![1; 3 << 20].into()).await.unwrap();
        assert_eq!(fs::read_dir(dir.path().join("d")).unwrap().count(), 1);
        assert!(keys_of(&store).await.is_empty());
        drop(upload);
        assert_eq!(fs::read_dir(dir.path().join("d")).unwrap().count(), 0);
    });
}

#[test]
fn listing_survives_vanishing_and_foreign_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for i in 0..2500 {
        fs::write(dir.path().join(format!("{i:05}")), "x").unwrap();
    }
    std::os::unix::fs::symlink("/no/such/target", dir.path().join("zz-dangling")).unwrap();
    std::os::unix::fs::symlink("..", dir.path().join("loop")).unwrap();
    let foreign: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff");
    fs::write(dir.path().join(foreign), "x").unwrap();
    block_on(async {
        let mut listing = store.list_from("", "00010").await.unwrap();
        let first = listing.try_next().await.unwrap().unwrap();
        assert_eq!(first.key, "00010");
        for i in 1500..2500 {
            fs::remove_file(dir.path().join(format!("{i:05}"))).unwrap();
        }
        let rest: Vec<_> = listing.try_collect().await.unwrap();
        assert_eq!(rest.len(), 1500 - 11);
        assert_eq!(keys_of(&store).await.len(), 1500);
    });
}

#[test]
fn bad_places_are_typed_errors() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let store = open(&file);
    block_on(async {
        let listed = store.list_from("_delta_log", "").await.err().unwrap();
        let put = store.put("a", Bytes::new()).await.unwrap_err();
        let read = store.read("a").await.unwrap_err();
        for e in [listed, put, read] {
            assert_eq!(e.kind(), Kind::InvalidArgument);
            assert!(e.to_string().contains("location is a file"), "{e}");
        }
    });
    assert!(keys(&open(&dir.path().join("missing")), "_delta_log").is_empty());

    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let store = open(&closed);
    let refused = block_on(store.list_from("", "")).err();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    // The superuser may read everything.
    if let Some(e) = refused {
        assert_eq!(e.kind(), Kind::StoreDenied, "{e}");
    }
}

#[test]
fn a_directory_is_no_object() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fs::create_dir(dir.path().join("d")).unwrap();
    block_on(async {
        assert_eq!(store.read("d").await.unwrap_err().kind(), Kind::ObjectNotFound);
        assert_eq!(store.head("d").await.unwrap_err().kind(), Kind::ObjectNotFound);
        let (objects, path) = store.object("d").unwrap();
        assert!(objects.head(&path).await.is_err());
    });
    assert!(keys(&store, "").is_empty());
}

#[test]
fn files_outside_the_table_are_read_where_the_options_allow_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(dir.path().join("source")).unwrap();
    fs::write(dir.path().join("source/f%20g"), "there").unwrap();
    let table = Location::parse(&path("table")).unwrap();
    let named = format!("file://{}", path("source/f%20g"));

    let e = Store::open(&table, &Options::default())
        .unwrap()
        .resolve(&named)
        .unwrap_err();
    assert_eq!(e.kind(), Kind::InvalidArgument);
    let place = format!("allow_external_files={}", path("source"));
    assert!(e.message().contains(&place), "{e}");

    let (key, value) = place.split_once('=').unwrap();
    let allowed = Store::open(&table, &Options::new([(key.to_owned(), value.to_owned())])).unwrap();
    let (store, key) = allowed.resolve(&named).unwrap();
    assert_eq!(
        (store.location().as_str(), key.as_str()),
        (path("source").as_str(), "f%20g")
    );
    assert_eq!(block_on(store.read(&key)).unwrap(), "there");
}
