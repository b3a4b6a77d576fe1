//! Which files are chosen, by hand and by rules that hold for any sizes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
use super::*;
use crate::actions::DeletionVector;

fn file(name: &str, size: i64) -> Candidate {
    Candidate {
        add: Add {
            path: name.to_owned(),
            size,
            ..Add::default()
        },
        records: Some(100),
    }
}

fn with_deleted(mut file: Candidate, cardinality: i64) -> Candidate {
    file.add.deletion_vector = Some(DeletionVector {
        cardinality,
        ..DeletionVector::default()
    });
    file
}

fn in_order(mut file: Candidate, order: &Ordering, run: &str) -> Candidate {
    file.add.tags = Some(order.tags(run));
    file
}

fn rules(target: i64) -> Rules {
    Rules {
        target,
        most_deleted: 0.05,
        full: false,
    }
}

fn names(bins: &[Bin]) -> Vec<Vec<&str>> {
    let mut groups: Vec<Vec<&str>> = bins
        .iter()
        .map(|b| b.files.iter().map(|f| f.add.path.as_str()).collect())
        .collect();
    groups.iter_mut().for_each(|group| group.sort_unstable());
    groups.sort();
    groups
}

fn by(columns: &[&str], curve: Curve) -> Ordering {
    Ordering {
        columns: columns.iter().map(|c| (*c).to_owned()).collect(),
        curve,
    }
}

#[test]
fn the_target_grows_with_the_table() {
    assert_eq!(automatic_target(0), 256 << 20);
    assert_eq!(automatic_target(2_560 << 30), 256 << 20);
    assert_eq!(automatic_target(i64::MAX), 1 << 30);
    let middle = automatic_target((2_560 << 30) / 2 + (10 << 40) / 2);
    assert_eq!(middle, (256 << 20) / 2 + (1 << 30) / 2);
}

#[test]
fn small_neighbours_become_a_file_and_large_ones_stay() {
    let files = vec![
        file("a", 40),
        file("b", 50),
        file("c", 75),
        file("d", 60),
        file("e", 30),
    ];
    assert_eq!(names(&compacted(files, &rules(100))), [vec!["a", "b"], vec!["d", "e"]]);
}

#[test]
fn partitions_stay_apart() {
    let mut other = file("b", 10);
    other.add.partition_values = [("p".to_owned(), None)].into();
    assert!(compacted(vec![file("a", 10), other], &rules(100)).is_empty());
}

#[test]
fn a_file_alone_is_written_anew_for_deleted_rows_or_statistics_only() {
    let bins = compacted(
        vec![
            file("a", 10),
            with_deleted(file("b", 400), 5),
            with_deleted(file("c", 400), 6),
        ],
        &rules(100),
    );
    assert_eq!(names(&bins), [["c"]]);
    let unknown = Candidate {
        records: None,
        ..with_deleted(file("a", 400), 1)
    };
    assert_eq!(
        names(&compacted(vec![unknown], &rules(100))),
        [["a"]],
        "nothing tells how many are left"
    );
    let unmeasured = Candidate {
        records: None,
        ..file("a", 400)
    };
    assert_eq!(
        names(&compacted(vec![unmeasured, file("b", 400)], &rules(100))),
        [["a"]]
    );
}

#[test]
fn what_was_put_together_needs_nothing_more() {
    // Sizes from a small generator, so that they look like nothing in particular.
    let mut state = 7_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(state >> 40).unwrap() % 120 + 1
    };
    for _ in 0..50 {
        let files: Vec<_> = (0..40).map(|n| file(&format!("{n:02}"), next())).collect();
        let bins = compacted(files.clone(), &rules(100));
        let gone: Vec<&str> = bins
            .iter()
            .flat_map(|b| &b.files)
            .map(|f| f.add.path.as_str())
            .collect();
        let mut after: Vec<_> = files
            .iter()
            .filter(|f| !gone.contains(&f.add.path.as_str()))
            .cloned()
            .collect();
        after.extend(bins.iter().enumerate().map(|(n, b)| file(&format!("z{n}"), b.bytes())));
        assert!(bins.iter().all(|b| b.files.len() > 1 && b.bytes() <= 100));
        assert!(compacted(after, &rules(100)).is_empty());
    }
}

#[test]
fn new_files_take_runs_with_them_that_are_not_much_larger() {
    let order = by(&["x", "y"], Curve::Hilbert);
    let old = |name, size, run| in_order(file(name, size), &order, run);
    let files = || vec![file("new", 10), old("a", 15, "1"), old("b", 5, "1"), old("c", 200, "2")];
    assert_eq!(
        names(&ordered(files(), &order, &rules(100), false)),
        [["a", "b", "new"]]
    );
    assert_eq!(
        names(&ordered(files()[1..].to_vec(), &order, &rules(100), false)),
        Vec::<Vec<&str>>::new()
    );
    let full = Rules {
        full: true,
        ..rules(100)
    };
    assert_eq!(names(&ordered(files(), &order, &full, false))[0].len(), 4);
}

#[test]
fn another_order_is_none_unless_it_is_to_be_kept() {
    let (order, other) = (by(&["x", "y"], Curve::Hilbert), by(&["y", "x"], Curve::Hilbert));
    let curved = by(&["x", "y"], Curve::ZOrder);
    let files = || {
        vec![
            in_order(file("other", 10), &other, "1"),
            in_order(file("curved", 10), &curved, "2"),
            in_order(with_deleted(file("deleted", 10), 50), &order, "3"),
        ]
    };
    assert_eq!(
        names(&ordered(files(), &order, &rules(100), false)),
        [["curved", "deleted", "other"]]
    );
    assert_eq!(names(&ordered(files(), &order, &rules(100), true)), [["deleted"]]);
    let mut foreign = file("foreign", 10);
    foreign.add.clustering_provider = Some("someone".to_owned());
    assert!(ordered(vec![foreign.clone()], &order, &rules(100), true).is_empty());
    foreign.add.clustering_provider = Some(PROVIDER.to_owned());
    assert_eq!(names(&ordered(vec![foreign], &order, &rules(100), true)), [["foreign"]]);
}
