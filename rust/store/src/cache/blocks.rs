//! Which blocks of an object a read needs, and which of those are read in one request. Pure
//! arithmetic.

use std::collections::BTreeSet;
use std::ops::Range;

/// Objects are cached in blocks of this size, the last one shorter. A selective read of a
/// checkpoint takes pages of some ten kilobytes: larger blocks would mostly be bytes that no read
/// needs, and smaller ones more files than a directory should have.
pub(super) const BLOCK_BYTES: u64 = 256 << 10;
/// Adjacent missing blocks that are read in one request.
const RUN_BLOCKS: u64 = 32;

/// The byte range of a block of an object of this size.
pub(super) fn span(block: u64, size_bytes: u64) -> Range<u64> {
    let start = block.saturating_mul(BLOCK_BYTES);
    start..start.saturating_add(BLOCK_BYTES).min(size_bytes)
}

/// The blocks that these ranges touch; no range reaches beyond the object.
pub(super) fn needed(ranges: &[Range<u64>]) -> BTreeSet<u64> {
    let blocks_of = |r: &Range<u64>| r.start / BLOCK_BYTES..r.end.div_ceil(BLOCK_BYTES);
    ranges.iter().filter(|r| !r.is_empty()).flat_map(blocks_of).collect()
}

/// Ascending blocks as runs of adjacent ones, each of bounded length.
pub(super) fn runs(blocks: &[u64]) -> Vec<Range<u64>> {
    let mut out: Vec<Range<u64>> = Vec::new();
    for block in blocks {
        match out.last_mut() {
            Some(run) if run.end == *block && run.end - run.start < RUN_BLOCKS => run.end += 1,
            _ => out.push(*block..*block + 1),
        }
    }
    out
}

/// A part to read: its range in the object, and the bytes so far.
pub(super) struct Wanted {
    range: Range<u64>,
    bytes: Vec<u8>,
}

impl Wanted {
    /// Nothing read yet; `None` if the length exceeds the address space.
    pub(super) fn new(range: Range<u64>) -> Option<Self> {
        let length = usize::try_from(range.end.saturating_sub(range.start)).ok()?;
        Some(Wanted {
            range,
            bytes: vec![0; length],
        })
    }

    /// Copies the bytes that it needs from `bytes`, which begin at offset `at` of the object.
    pub(super) fn take_from(&mut self, start: u64, bytes: &[u8]) {
        let end = start.saturating_add(bytes.len() as u64);
        let (from, until) = (self.range.start.max(start), self.range.end.min(end));
        if from >= until {
            return;
        }
        let within = |base: u64, place: u64| usize::try_from(place - base).unwrap_or(usize::MAX);
        let source = bytes.get(within(start, from)..within(start, until));
        let own = within(self.range.start, from)..within(self.range.start, until);
        if let (Some(goal), Some(source)) = (self.bytes.get_mut(own), source) {
            goal.copy_from_slice(source);
        }
    }

    /// The bytes.
    pub(super) fn into_bytes(self) -> bytes::Bytes {
        self.bytes.into()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::single_range_in_vec_init)]
    use super::*;

    const B: u64 = BLOCK_BYTES;

    #[test]
    fn a_range_needs_the_blocks_that_it_touches() {
        for (range, blocks) in [
            (0..1, vec![0]),
            (0..B, vec![0]),
            (0..B + 1, vec![0, 1]),
            (B - 1..B + 1, vec![0, 1]),
            (B..B, vec![]),
            (3 * B..4 * B + 7, vec![3, 4]),
        ] {
            assert_eq!(
                Vec::from_iter(needed(std::slice::from_ref(&range))),
                blocks,
                "{range:?}"
            );
        }
        assert_eq!(Vec::from_iter(needed(&[5..9, 3..4, 2 * B..2 * B + 1])), [0, 2]);
    }

    #[test]
    fn the_last_block_ends_with_the_object() {
        assert_eq!(span(0, 10), 0..10);
        assert_eq!(span(1, 2 * B), B..2 * B);
        assert_eq!(span(2, 2 * B + 1), 2 * B..2 * B + 1);
    }

    #[test]
    fn neighbours_are_read_together_up_to_a_bound() {
        assert_eq!(runs(&[]), []);
        assert_eq!(runs(&[0, 1, 3]), [0..2, 3..4]);
        let many: Vec<u64> = (0..40).collect();
        assert_eq!(runs(&many), [0..32, 32..40]);
    }

    #[test]
    fn parts_are_put_together_from_any_pieces() {
        let object: Vec<u8> = (0..100).collect();
        for range in [0..100, 0..1, 17..18, 30..71, 99..100, 5..5] {
            let mut wanted = Wanted::new(range.clone()).unwrap();
            for start in [60, 0, 30, 90] {
                let end = (start + 30).min(100);
                wanted.take_from(start as u64, &object[start..end]);
            }
            assert_eq!(wanted.into_bytes(), object[range.start as usize..range.end as usize]);
        }
    }
}
