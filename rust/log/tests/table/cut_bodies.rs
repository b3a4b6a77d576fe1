//! Files of a log whose bodies a store or proxy cuts short, at line ends too: a table is read right
//! or refused with the file's name, never with fewer rows (P001, P011, P018, P060).

use super::damaged::{TABLES, placed, read};
use super::faulty_store::{self, Cut, Rules};
use super::*;

/// Where bodies of this file are cut: its start, its middle, its last byte, each of its line ends.
fn cuts(bytes: &[u8]) -> Vec<usize> {
    let mut cuts = vec![0, bytes.len() / 2, bytes.len() - 1];
    if std::str::from_utf8(bytes).is_ok() {
        cuts.extend(
            bytes
                .iter()
                .enumerate()
                .filter(|(_, b)| **b == b'\n')
                .map(|(end, _)| end + 1),
        );
    }
    cuts.retain(|end| *end < bytes.len());
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

#[test]
fn body_cut_once_is_read_again() {
    judge(1, |key, right, result| {
        assert_eq!(&result.unwrap_or_else(|e| panic!("{key}: {e}")), right, "{key}");
    });
}

#[test]
fn body_cut_each_time_is_refused_by_name() {
    judge(usize::MAX, |key, right, result| match result {
        // The table can be read without this file: a checksum, a hint, a compaction.
        Ok(result) => assert_eq!(&result, right, "{key}"),
        Err(e) => {
            assert!(matches!(e.kind(), Kind::CorruptLog | Kind::CorruptFile), "{key}: {e:?}");
            assert!(
                e.path().is_some_and(|path| key.ends_with(path) || path.ends_with(key)),
                "{key}: {e:?}"
            );
        }
    });
}

fn judge(times: usize, check: impl Fn(&str, &Vec<String>, deltaplane_error::Result<Vec<String>>)) {
    block_on(async {
        for files in TABLES.iter() {
            let store = placed(files).await;
            let right = read(&store).await.unwrap();
            let (faulty, faults) = faulty_store::open(&store, Options::default());
            for (key, body) in files {
                for bytes in cuts(body) {
                    let cut = Some(Cut {
                        key: key.clone(),
                        bytes,
                        times,
                    });
                    faults.set(Rules {
                        cut,
                        ..Rules::default()
                    });
                    check(key, &right, read(&faulty).await);
                }
            }
        }
    });
}

#[test]
fn grown_or_replaced_file_is_read_as_it_is_now() {
    // A checksum may be written again between the listing and its read; a slow writer's commit may
    // grow.
    run(async |store, _| {
        append(&store, "a").await;
        let mut listing = store.list_from("_delta_log", "").await.unwrap();
        let mut shown = listing.try_next().await.unwrap().unwrap();
        shown.size_bytes -= 3;
        let whole = store.read(&shown.key).await.unwrap();
        assert_eq!(store.read_listed(&shown).await.unwrap(), whole);
    });
}
