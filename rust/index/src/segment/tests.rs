//! Segments have every file of a key, few others, and no answer where they are damaged.
#![allow(clippy::unwrap_used)]
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use deltaplane_store::{Location, Options, Store, block_on};
use proptest::prelude::*;

use super::merge::merge_segments;
use super::reader::Segment;
use super::writer::{SegmentFiles, write_segment};
use crate::entries::EntrySorter;
use crate::keys::{KeyClass, KeyColumn};
use crate::manifest::{DIR, Manifest, SegmentInfo, newest, publish, recent, refresh_copy, unneeded};

fn store(dir: &tempfile::TempDir) -> Store {
    let location = Location::parse(dir.path().to_str().unwrap()).unwrap();
    Store::open(&location, &Options::default()).unwrap()
}

/// Writes a segment with these entries of files that are named by their numbers.
fn written(store: &Store, key: &str, entries: &[(u64, u32)], files: u32) -> SegmentInfo {
    let files: Vec<(String, i64)> = (0..files).map(|n| (format!("f {n}"), size_of(n))).collect();
    written_sized(store, key, entries, &files)
}

/// The same of files with these names.
fn written_of(store: &Store, key: &str, entries: &[(u64, u32)], names: &[String]) -> SegmentInfo {
    let files: Vec<(String, i64)> = names.iter().map(|name| (name.clone(), size_of(0))).collect();
    written_sized(store, key, entries, &files)
}

fn written_sized(store: &Store, key: &str, entries: &[(u64, u32)], files: &[(String, i64)]) -> SegmentInfo {
    let mut sorter = EntrySorter::with_room(1 << 10);
    entries
        .iter()
        .for_each(|(hash, file)| sorter.push(*hash, *file).unwrap());
    let columns = [column("c", KeyClass::Number)];
    let covered = SegmentFiles {
        table: "id",
        columns: &columns,
        files,
        known_bits: None,
    };
    block_on(write_segment(store, key, &covered, sorter.finish().unwrap()))
        .unwrap()
        .unwrap()
}

fn column(name: &str, class: KeyClass) -> KeyColumn {
    KeyColumn {
        name: name.to_owned(),
        class,
    }
}

/// The size of a file whose rows are wide.
fn size_of(file: u32) -> i64 {
    1_000_000 + i64::from(file)
}

fn find(segment: &Segment, hashes: &[u64]) -> BTreeSet<u32> {
    block_on(segment.find(hashes)).unwrap().into_iter().collect()
}

/// Numbers that look random.
fn spread(n: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes())
}

#[test]
fn a_large_segment_finds_each_key_and_few_other_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir);
    let entries: Vec<(u64, u32)> = (0..200_000_u32).map(|n| (spread(u64::from(n)), n % 500)).collect();
    let info = written(&store, "_deltaplane_index/s-1.keys", &entries, 500);
    assert_eq!((info.entries, info.files), (200_000, 500));
    assert!(info.size_bytes < 200_000 * 22 / 8 + 100_000, "{}", info.size_bytes);
    let segment = block_on(Segment::open(&store, &info, "id")).unwrap();
    assert_eq!(segment.covered().number("f 3", size_of(3)), Some(3));
    assert_eq!(segment.covered().number("f 3", size_of(4)), None);
    let mut all = Vec::new();
    block_on(segment.each(|hash, file| {
        all.push((hash, file));
        Ok(())
    }))
    .unwrap();
    let unknown = 64 - segment.hash_bits();
    let mut expected: Vec<(u64, u32)> = entries.iter().map(|(h, f)| (h >> unknown << unknown, *f)).collect();
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(all, expected);
    let mut surplus = 0;
    for (hash, file) in entries.iter().step_by(97) {
        let files = find(&segment, &[*hash]);
        if *file % 50 == 0 {
            let (_, opened) = block_on(Segment::open_and_find(&store, &info, "id", &[*hash, !*hash])).unwrap();
            assert_eq!(opened.unwrap(), block_on(segment.find(&[*hash, !*hash])).unwrap());
        }
        assert!(files.contains(file));
        surplus += files.len() - 1;
    }
    assert!(surplus < 200, "{surplus} files are found in vain by 2,062 keys");
    let absent = (1_000_000..1_001_000)
        .map(|n| find(&segment, &[spread(n)]).len())
        .sum::<usize>();
    assert!(absent < 100, "{absent} files are found by 1,000 absent keys");
    let all: Vec<u64> = entries.iter().step_by(50).map(|(hash, _)| *hash).collect();
    let files: BTreeSet<u32> = entries.iter().step_by(50).map(|(_, file)| *file).collect();
    assert!(find(&segment, &all).is_superset(&files));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_segment_finds_every_file_of_a_key(
        entries in prop::collection::vec((0_u64..60, 0_u32..7), 0..300),
        asked in prop::collection::vec(0_u64..80, 1..6),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir);
        let hashed: Vec<(u64, u32)> = entries.iter().map(|(k, f)| (spread(*k), *f)).collect();
        let info = written(&store, "s", &hashed, 7);
        let segment = block_on(Segment::open(&store, &info, "id")).unwrap();
        let hashes: Vec<u64> = asked.iter().map(|k| spread(*k)).collect();
        let matches = find(&segment, &hashes);
        let expected: BTreeSet<u32> = entries.iter().filter(|(k, _)| asked.contains(k)).map(|(_, f)| *f).collect();
        prop_assert!(matches.is_superset(&expected));
    }

    #[test]
    fn damage_is_an_error_and_never_a_missing_file(
        entries in prop::collection::vec((0_u64..60, 0_u32..7), 1..100),
        position in any::<prop::sample::Index>(),
        flip in 1_u8..=255,
        truncates in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir);
        let hashed: Vec<(u64, u32)> = entries.iter().map(|(k, f)| (spread(*k), *f)).collect();
        let info = written(&store, "s", &hashed, 7);
        let mut bytes = block_on(store.read("s")).unwrap().to_vec();
        let position = position.index(bytes.len());
        match truncates {
            true => bytes.truncate(position),
            false => *bytes.get_mut(position).unwrap() ^= flip,
        }
        block_on(store.put("s", Bytes::from(bytes))).unwrap();
        if let Ok(segment) = block_on(Segment::open(&store, &info, "id")) {
            for (hash, file) in &hashed {
                if let Ok(matches) = block_on(segment.find(&[*hash])) {
                    prop_assert!(matches.contains(file));
                }
            }
        }
    }
}

/// Opens the segments, and makes one of them.
fn merged(store: &Store, infos: &[SegmentInfo]) -> Option<SegmentInfo> {
    let open = |info: &SegmentInfo| {
        (
            info.clone(),
            Arc::new(block_on(Segment::open(store, info, "id")).unwrap()),
        )
    };
    let segments: Vec<(SegmentInfo, Arc<Segment>)> = infos.iter().map(open).collect();
    block_on(merge_segments(store, "merged", "id", &segments)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_merged_segment_finds_every_file_of_a_key(
        parts in prop::collection::vec((prop::collection::vec((0_u64..60, 0_u32..7), 0..100), 7_u32..9), 2..6),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir);
        // Segments may cover the same files. Those of each one have names of their own order.
        let mut infos = Vec::new();
        let mut expected: Vec<(u64, String)> = Vec::new();
        for (part, (entries, count)) in parts.iter().enumerate() {
            let name = |file: u32| format!("f {}", (usize::try_from(file).unwrap() * 5 + part * 3) % 16);
            let names: Vec<String> = (0..*count).map(name).collect();
            let hashed: Vec<(u64, u32)> = entries.iter().map(|(k, f)| (spread(*k), *f)).collect();
            expected.extend(entries.iter().map(|(k, f)| (spread(*k), name(*f))));
            infos.push(written_of(&store, &format!("s{part}"), &hashed, &names));
        }
        let info = merged(&store, &infos).unwrap();
        let segment = block_on(Segment::open(&store, &info, "id")).unwrap();
        for (hash, name) in expected {
            let number = segment.covered().number(&name, 1_000_000).unwrap();
            prop_assert!(find(&segment, &[hash]).contains(&number));
        }
    }
}

#[test]
fn segments_with_too_few_bits_are_not_merged() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir);
    // Rows of one byte: an index of them must be short.
    let narrow = |key: &str| {
        let entries: Vec<(u64, u32)> = (0..100_000_u32).map(|n| (spread(u64::from(n)), 0)).collect();
        written_sized(&store, key, &entries, &[(key.to_owned(), 100_000)])
    };
    let infos: Vec<SegmentInfo> = (0..16).map(|n| narrow(&format!("s{n}"))).collect();
    assert_eq!(merged(&store, &infos), None);
    assert!(block_on(store.read("merged")).is_err());
}

#[test]
fn a_segment_of_another_table_or_other_columns_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir);
    let info = written(&store, "s", &[(1, 0)], 1);
    assert!(block_on(Segment::open(&store, &info, "other")).is_err());
    let number = column("c", KeyClass::Number);
    for columns in [
        vec![column("d", KeyClass::Number)],
        vec![column("c", KeyClass::Text)],
        vec![number.clone(), number],
        Vec::new(),
    ] {
        let other = SegmentInfo {
            columns,
            ..info.clone()
        };
        assert!(block_on(Segment::open(&store, &other, "id")).is_err());
    }
    let missing = SegmentInfo {
        path: "t".to_owned(),
        ..info
    };
    assert!(block_on(Segment::open(&store, &missing, "id")).is_err());
}

#[test]
fn the_newest_readable_manifest_counts() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir);
    let manifest = |paths: &[&str]| {
        let segment = |path: &&str| SegmentInfo {
            path: format!("{DIR}/{path}"),
            columns: vec![column("c", KeyClass::Text)],
            files: 1,
            entries: 1,
            size_bytes: 9,
            tail_bytes: 3,
        };
        Manifest::new("id", paths.iter().map(segment).collect())
    };
    assert_eq!(block_on(newest(&store, "id")).unwrap(), (0, manifest(&[])));
    assert!(block_on(publish(&store, 1, &manifest(&["a"]))).unwrap());
    assert!(
        block_on(publish(&store, 1, &manifest(&["a"]))).unwrap(),
        "an answer may be lost"
    );
    assert!(!block_on(publish(&store, 1, &manifest(&["b"]))).unwrap());
    assert!(block_on(publish(&store, 2, &manifest(&["b"]))).unwrap());
    assert_eq!(block_on(newest(&store, "id")).unwrap(), (2, manifest(&["b"])));
    assert_eq!(
        block_on(newest(&store, "other")).unwrap(),
        (2, Manifest::new("other", Vec::new()))
    );
    for (key, text) in [
        ("00000000000000000003.json", "{"),
        ("s-x.keys", "x"),
        ("notes.json", "{}"),
    ] {
        block_on(store.put(&format!("{DIR}/{key}"), Bytes::from_static(text.as_bytes()))).unwrap();
    }
    assert_eq!(block_on(newest(&store, "id")).unwrap(), (3, manifest(&["b"])));
    assert_eq!(block_on(recent(&store, "id")).unwrap(), manifest(&["b"]));
    block_on(refresh_copy(&store, &manifest(&["a"]))).unwrap();
    assert_eq!(
        block_on(recent(&store, "id")).unwrap(),
        manifest(&["a"]),
        "it is read first"
    );
    assert_eq!(
        block_on(recent(&store, "other")).unwrap(),
        Manifest::new("other", Vec::new())
    );
    block_on(refresh_copy(&store, &manifest(&["b"]))).unwrap();
    assert_eq!(block_on(recent(&store, "id")).unwrap(), manifest(&["b"]));
    let old = block_on(unneeded(&store, 3, &manifest(&["b"]), i64::MAX)).unwrap();
    let names: HashSet<&str> = old.iter().filter_map(|k| k.rsplit('/').next()).collect();
    let expected = [
        "00000000000000000001.json",
        "00000000000000000002.json",
        "s-x.keys",
        "notes.json",
    ];
    assert_eq!(names, HashSet::from(expected));
    assert!(block_on(unneeded(&store, 3, &manifest(&["b"]), 0)).unwrap().is_empty());
}
