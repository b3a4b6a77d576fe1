//! Chooses the sidecars that a new checkpoint rewrites, so that few are written and few have to be
//! read: those that commits touched, small ones like the levels of a merge tree, and large ones
//! where too many key ranges overlap. Pure.

/// At most this many large sidecars may overlap at one key of the order; more are merged into
/// disjoint ones.
const MOST_OVERLAID: usize = 6;

/// An existing sidecar of live files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    /// Keys of its first and last file.
    pub first: &'a [u8],
    pub last: &'a [u8],
    pub files: u64,
    /// Whether one of its files was removed or written again.
    pub touched: bool,
}

/// The sidecars to rewrite, as indexes into the pieces.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SidecarCompaction {
    /// Each of these becomes a run of its own, together with the new files that belong between its
    /// keys.
    pub runs: Vec<Vec<usize>>,
    /// These become one with all other new files.
    pub small: Vec<usize>,
}

/// Target number of files in a sidecar, for a table with `live` files. Balances two costs:
/// rewriting the sidecars touched by about ten removals, and listing every sidecar in each
/// checkpoint, which takes about the bytes of three files.
pub(crate) fn sidecar_files(live: u64) -> u64 {
    const FEWEST: u64 = 1_024;
    const MOST: u64 = 50_000;
    (live.isqrt() * 5 / 4).clamp(FEWEST, MOST)
}

/// Plans the checkpoint for `new` files, where a full sidecar has `full` files.
pub(crate) fn plan_compaction(pieces: &[Piece<'_>], new: u64, full: u64) -> SidecarCompaction {
    let is_large = |p: &Piece<'_>| p.files >= full / 2;
    let mut large: Vec<(usize, &Piece<'_>)> = pieces.iter().enumerate().filter(|(_, p)| is_large(p)).collect();
    large.sort_by_key(|(i, p)| (p.first, *i));
    let mut runs = overlaid(&large);
    let in_run = |i: &usize, runs: &[Vec<usize>]| runs.iter().any(|r| r.contains(i));
    let touched: Vec<usize> = large.iter().filter(|(_, p)| p.touched).map(|(i, _)| *i).collect();
    let alone: Vec<usize> = touched.into_iter().filter(|i| !in_run(i, &runs)).collect();
    runs.extend(alone.into_iter().map(|i| vec![i]));
    let (mut small, mut files) = (Vec::new(), new);
    let mut rest: Vec<(usize, &Piece<'_>)> = Vec::new();
    for (i, p) in pieces.iter().enumerate().filter(|(_, p)| !is_large(p)) {
        match p.touched {
            true => {
                small.push(i);
                files = files.saturating_add(p.files);
            }
            false => rest.push((i, p)),
        }
    }
    // The remainder doubles each time, so a file is rewritten about as often as its size can
    // double. It ends with a full sidecar: in a table that has grown much, all of the first ones
    // are small, and one checkpoint would rewrite them all.
    rest.sort_by_key(|(i, p)| (p.files, *i));
    for (i, p) in rest {
        if p.files > files || files >= full {
            break;
        }
        small.push(i);
        files = files.saturating_add(p.files);
    }
    small.sort_unstable();
    SidecarCompaction { runs, small }
}

/// Groups of large pieces of which too many overlap at one key. The pieces are sorted by their
/// first keys.
fn overlaid(large: &[(usize, &Piece<'_>)]) -> Vec<Vec<usize>> {
    let (mut heaps, mut here): (Vec<Vec<usize>>, Vec<(usize, &Piece<'_>)>) = (Vec::new(), Vec::new());
    for (i, p) in large {
        // Merging can't separate files with equal keys.
        if p.first == p.last {
            continue;
        }
        here.retain(|(_, other)| other.last > p.first);
        here.push((*i, p));
        if here.len() > MOST_OVERLAID {
            heaps.push(here.drain(..).map(|(i, _)| i).collect());
        }
    }
    heaps
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]
    use super::*;

    fn piece<'a>(keys: &'a [u8; 2], files: u64, touched: bool) -> Piece<'a> {
        Piece {
            first: &keys[..1],
            last: &keys[1..],
            files,
            touched,
        }
    }

    #[test]
    fn touched_ones_are_written_by_themselves() {
        let pieces = [
            piece(b"ab", 1000, false),
            piece(b"bc", 1000, true),
            piece(b"cd", 500, true),
            piece(b"ad", 20, true),
        ];
        let chosen = plan_compaction(&pieces, 3, 1000);
        assert_eq!((chosen.runs, chosen.small), (vec![vec![1], vec![2]], vec![3]));
        assert_eq!(plan_compaction(&pieces[..1], 0, 1000), SidecarCompaction::default());
    }

    #[test]
    fn small_ones_are_merged_when_as_many_files_came() {
        let pieces = [
            piece(b"az", 100, false),
            piece(b"az", 10, false),
            piece(b"az", 3, false),
            piece(b"az", 900, false),
        ];
        let small = |new| plan_compaction(&pieces, new, 1000).small;
        assert_eq!(small(2), Vec::<usize>::new());
        assert_eq!(small(3), [2]);
        assert_eq!(small(7), [1, 2]);
        assert_eq!(small(100), [0, 1, 2]);
    }

    #[test]
    fn sidecars_of_a_smaller_table_are_merged_a_few_at_a_time() {
        let pieces = vec![piece(b"az", 100, false); 800];
        let merged = |new| plan_compaction(&pieces, new, 1000).small.len() as u64 * 100;
        assert_eq!(merged(50), 0);
        assert_eq!(merged(100), 900);
        assert!((0..2_000).all(|new| merged(new) <= 1000));
    }

    #[test]
    fn appends_leave_few_small_ones_and_write_a_file_seldom() {
        let (full, mut sizes, mut written) = (1000_u64, Vec::<u64>::new(), 0);
        for _ in 0..2_000 {
            // None overlaps another.
            let pieces: Vec<Piece<'_>> = sizes.iter().map(|n| piece(b"kk", *n, false)).collect();
            let chosen = plan_compaction(&pieces, 10, full);
            assert!(chosen.runs.is_empty());
            let merged = chosen.small.iter().map(|i| sizes[*i]).sum::<u64>() + 10;
            for i in chosen.small.iter().rev() {
                sizes.remove(*i);
            }
            written += merged;
            sizes.push(merged);
            assert!(sizes.iter().filter(|n| **n < full / 2).count() <= 8, "{sizes:?}");
        }
        assert!(sizes.len() <= 45 && written <= 8 * 20_000, "{written}, {sizes:?}");
    }

    #[test]
    fn where_many_lie_over_each_other_they_are_merged() {
        let mut pieces = vec![piece(b"az", 1000, false); MOST_OVERLAID];
        pieces.push(piece(b"zz", 1000, false));
        assert!(
            plan_compaction(&pieces, 0, 1000).runs.is_empty(),
            "what only meets isn't overlaid"
        );
        pieces.push(piece(b"cd", 1000, true));
        let chosen = plan_compaction(&pieces, 0, 1000);
        assert_eq!(chosen.runs, [vec![0, 1, 2, 3, 4, 5, 7]]);
        let one_key = vec![piece(b"kk", 1000, false); 20];
        assert!(plan_compaction(&one_key, 0, 1000).runs.is_empty());
    }

    #[test]
    fn sidecars_grow_slower_than_the_table() {
        let counts = [1, 100_000, 1_000_000, 10_000_000, u64::MAX].map(sidecar_files);
        assert_eq!(counts, [1_024, 1_024, 1_250, 3_952, 50_000]);
        for live in [1_000_000, 10_000_000] {
            let (touched, named) = (10 * sidecar_files(live), 3 * live / sidecar_files(live));
            assert!((touched + named) * 50 < live, "ten removals anywhere write 2 % at most");
        }
    }
}
