//! Puts of commits whose outcome the store leaves open (P070, P072): the same bytes are put under
//! the same name again until they are there; rows are committed once or the error says what is
//! open.

use super::faulty_store::{self, PutFault, Rules};
use super::*;
use deltaplane_protocol::actions::{Action, parse_commit};

const FAULTS: [PutFault; 6] = [
    PutFault::Lost,
    PutFault::AnswerLost,
    PutFault::Doubled,
    PutFault::Late,
    PutFault::ExistsFalsely,
    PutFault::LostToOther,
];

/// How often the table's commits add a file of this path.
async fn times_added(store: &Store, path: &str) -> usize {
    let mut listing = store.list_from("_delta_log", "").await.unwrap();
    let mut times = 0;
    while let Some(object) = listing.try_next().await.unwrap() {
        if object.key.ends_with(".json") {
            let text = store.read(&object.key).await.unwrap();
            let actions = parse_commit(std::str::from_utf8(&text).unwrap()).unwrap();
            times += actions
                .iter()
                .filter(|a| matches!(a, Action::Add(a) if a.path == path))
                .count();
        }
    }
    times
}

/// A table of one file behind a store with these rules.
async fn committed(rules: Rules, retry_timeout: &str) -> (Store, deltaplane_error::Result<Committed>) {
    let dir = tempfile::tempdir().unwrap();
    let location = Location::parse(&format!("memory://unclear{}/t", dir.path().display())).unwrap();
    let store = Store::open(&location, &Options::default()).unwrap();
    append(&store, "first").await;
    let options = Options::new([("retry_timeout".to_owned(), retry_timeout.to_owned())]);
    let (faulty, faults) = faulty_store::open(&store, options);
    let staged = Staged {
        adds: vec![add("rows", None)],
        skip_checkpoint: true,
        ..Staged::default()
    };
    let base = Snapshot::open(&faulty, None).await.unwrap();
    faults.set(rules);
    let done = deltaplane_log::commit(&faulty, Some(base), &staged).await;
    (store, done)
}

#[test]
fn rows_are_committed_once_whatever_becomes_of_two_puts() {
    block_on(async {
        for first in FAULTS {
            for second in FAULTS {
                let rules = Rules {
                    puts: vec![second, first],
                    ..Rules::default()
                };
                let (store, done) = committed(rules, "60s").await;
                let version = done.unwrap_or_else(|e| panic!("{first:?}, {second:?}: {e}")).version;
                assert_eq!(times_added(&store, "rows").await, 1, "{first:?}, {second:?}");
                let others = times_added(&store, "other").await as u64;
                assert_eq!(version, 1 + others, "{first:?}, {second:?}");
            }
        }
    });
}

#[test]
fn own_commit_is_recognized_when_it_cannot_be_read_back_at_once() {
    block_on(async {
        for fault in [PutFault::AnswerLost, PutFault::Doubled, PutFault::Late] {
            let rules = Rules {
                puts: vec![fault],
                failing_looks: 2,
                ..Rules::default()
            };
            let (store, done) = committed(rules, "60s").await;
            assert_eq!(done.unwrap().version, 1, "{fault:?}");
            assert_eq!(times_added(&store, "rows").await, 1, "{fault:?}");
        }
    });
}

#[test]
fn own_commit_is_recognized_when_it_is_read_back_cut_short() {
    // Nothing in a body that was cut at its start says whose it is: taking it for another writer's
    // would double the rows.
    block_on(async {
        for (bytes, times) in [(0, 1), (0, 3), (40, 1)] {
            let cut = faulty_store::Cut {
                key: format!("_delta_log/{:020}.json", 1),
                bytes,
                times,
            };
            let rules = Rules {
                puts: vec![PutFault::Doubled],
                cut: Some(cut),
                ..Rules::default()
            };
            let (store, done) = committed(rules, "60s").await;
            assert_eq!(done.unwrap().version, 1);
            assert_eq!(times_added(&store, "rows").await, 1);
        }
    });
}

#[test]
fn open_outcome_names_the_transaction_and_advises_no_second_write() {
    block_on(async {
        for fault in [PutFault::Lost, PutFault::ExistsFalsely] {
            let rules = Rules {
                puts: vec![fault; 100],
                ..Rules::default()
            };
            let (store, done) = committed(rules, "200ms").await;
            let e = done.err().unwrap();
            assert_eq!((e.kind(), e.version()), (Kind::StoreUnavailable, Some(1)), "{fault:?}");
            assert!(!e.to_string().contains("try again"), "{e}");
            assert!(e.message().contains("transaction id"), "{e}");
            assert_eq!(times_added(&store, "rows").await, 0);
        }
    });
}

#[test]
fn commit_that_cannot_be_read_back_is_still_a_commit() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let location = Location::parse(&format!("memory://unread{}/t", dir.path().display())).unwrap();
        let store = Store::open(&location, &Options::default()).unwrap();
        let (faulty, faults) = faulty_store::open(&store, Options::default());
        let adds = |path: &str| Staged {
            adds: vec![add(path, None)],
            skip_checkpoint: true,
            ..Staged::default()
        };
        let fail = || {
            faults.set(Rules {
                failing_looks: usize::MAX,
                ..Rules::default()
            });
        };
        append(&store, "first").await;
        let mut base = Snapshot::open(&faulty, None).await.unwrap();
        fail();
        // The snapshot of an unread commit is a base for the next one.
        for (version, path) in [(1, "second"), (2, "third")] {
            let done = deltaplane_log::commit(&faulty, Some(base), &adds(path)).await.unwrap();
            assert_eq!((done.version, done.snapshot.version()), (version, version));
            base = done.snapshot;
        }
        for path in ["first", "second", "third"] {
            assert_eq!(times_added(&store, path).await, 1, "{path}");
        }
        faults.set(Rules::default());
        assert_eq!(base.update().await.unwrap().version(), 2);
        assert_eq!(Snapshot::open(&store, None).await.unwrap().version(), 2);
    });
}
