//! Compares the length of each read with the size that the store listed. A body that a proxy or a
//! broken connection cut short is read again a few times and then refused: half a commit would
//! lose rows without a word.

use std::ops::Range;

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use tracing::warn;

use crate::backend::{Backend, ObjectInfo};

/// Reads of one object before its length is refused.
const READS: usize = 4;

/// The whole of a listed object. `first` is the first read of it.
///
/// Errors: `CorruptFile` when each read has a length that neither the listing nor `head` shows.
pub(crate) async fn whole(backend: &dyn Backend, object: &ObjectInfo, first: Result<Bytes>) -> Result<Bytes> {
    let mut answer = first;
    for read in 1..=READS {
        let bytes = match answer {
            // The answer of a store, or of a proxy, that sends nothing of the range.
            Err(e) if e.kind() == Kind::InvalidArgument && object.size_bytes > 0 => Bytes::new(),
            answer => answer?,
        };
        let length = bytes.len() as u64;
        if length == object.size_bytes {
            return Ok(bytes);
        }
        // Another writer may have replaced the object since the listing (a checksum, for example).
        let now = backend.head(&object.key).await?;
        if length == now.size_bytes {
            return Ok(bytes);
        }
        warn!(key = %object.key, length, expected = now.size_bytes, read, "the store sent another length than it lists");
        if read == READS {
            return Err(cut(length, now.size_bytes));
        }
        answer = backend.read_listed(&now).await;
    }
    Err(Error::internal("a checked read ended without a result"))
}

/// Parts of a listed object, in the order of their ranges. `first` is the first read of them.
///
/// Errors: `CorruptFile` when each read is shorter than the object; `ObjectNotFound` when another
/// writer replaced the object.
pub(crate) async fn parts(
    backend: &dyn Backend,
    object: &ObjectInfo,
    ranges: &[Range<u64>],
    first: Result<Vec<Bytes>>,
) -> Result<Vec<Bytes>> {
    let mut answer = first;
    let is_within = ranges.iter().all(|r| r.is_empty() || r.start < object.size_bytes);
    for read in 1..=READS {
        let (length, expected) = match answer {
            Ok(parts) => {
                let lengths = ranges.iter().map(|range| length_within(range, object.size_bytes));
                let short = parts
                    .iter()
                    .zip(lengths)
                    .find(|(part, expected)| part.len() as u64 != *expected);
                let Some((part, expected)) = short else {
                    return Ok(parts);
                };
                (part.len() as u64, expected)
            }
            // The answer of a store for an object that ends before the range begins.
            Err(e) if e.kind() == Kind::InvalidArgument && is_within => (0, object.size_bytes),
            Err(e) => return Err(e),
        };
        object.expect(&backend.head(&object.key).await?)?;
        warn!(key = %object.key, length, expected, read, "the store sent another length than was asked for");
        if read == READS {
            return Err(cut(length, expected));
        }
        answer = backend.read_parts(object, ranges).await;
    }
    Err(Error::internal("a checked read ended without a result"))
}

/// How many bytes of a range an object of this size has.
fn length_within(range: &Range<u64>, size_bytes: u64) -> u64 {
    range.end.min(size_bytes).saturating_sub(range.start)
}

fn cut(length: u64, expected: u64) -> Error {
    Error::new(
        Kind::CorruptFile,
        format!(
            "the store sent {length} bytes of {expected} in each of {READS} reads, so the file isn't used: check the store and the proxies on the way to it, then read again"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_length_ends_with_the_object() {
        for (range, size, expected) in [(0..5, 10, 5), (5..15, 10, 5), (3..3, 10, 0), (12..15, 10, 0)] {
            assert_eq!(length_within(&range, size), expected, "{range:?} of {size}");
        }
    }
}
