//! Makes one segment of several, from their entries alone: no data file is read.

use std::collections::HashMap;
use std::sync::Arc;

use deltaplane_error::{Error, Result};
use deltaplane_store::Store;

use super::reader::Segment;
use super::writer::{SegmentFiles, write_segment};
use crate::bucket::Coding;
use crate::entries::{EntrySorter, MOST_FILES};
use crate::manifest::SegmentInfo;

/// Writes the entries of these segments, which are of the same columns, as one under this key;
/// returns its entry in a manifest. `None` if they have too few bits of the hashes for their keys,
/// or too many files: then the files must be read again.
///
/// # Errors
/// `CorruptFile` for a damaged segment; those of the store and of temporary files.
pub async fn merge_segments(
    store: &Store,
    key: &str,
    table: &str,
    segments: &[(SegmentInfo, Arc<Segment>)],
) -> Result<Option<SegmentInfo>> {
    let Some((first, _)) = segments.first() else {
        return Ok(None);
    };
    let known_bits = segments.iter().map(|(_, s)| s.hash_bits()).min().unwrap_or(0);
    let entries = segments.iter().map(|(info, _)| info.entries).sum();
    let files = files_of(segments);
    let data_bytes = files.iter().map(|(_, size)| size.unsigned_abs()).sum();
    // Before anything is read. Equal hashes only make the number of entries smaller.
    if files.len() > MOST_FILES || Coding::of_known(known_bits, entries, files.len(), data_bytes).is_none() {
        return Ok(None);
    }
    let numbers: HashMap<(&str, i64), u32> = files.iter().map(|(p, s)| (p.as_str(), *s)).zip(0..).collect();
    let mut sorter = EntrySorter::default();
    for (_, segment) in segments {
        let covered = segment.covered();
        let mut renumbered = vec![None; covered.len()];
        for (path, number, size) in covered.iter() {
            if let Some(slot) = renumbered.get_mut(number as usize) {
                *slot = numbers.get(&(path, size)).copied();
            }
        }
        let renumbered = |file: u32| renumbered.get(file as usize).copied().flatten();
        let unknown = || Error::corrupt_file("a segment of a key index has an entry of a file that it doesn't cover");
        segment
            .each(|hash, file| sorter.push(hash, renumbered(file).ok_or_else(unknown)?))
            .await?;
    }
    let covered = SegmentFiles {
        table,
        columns: &first.columns,
        files: &files,
        known_bits: Some(known_bits),
    };
    write_segment(store, key, &covered, sorter.finish()?).await
}

/// The covered files, each once, in an order that doesn't depend on the process.
fn files_of(segments: &[(SegmentInfo, Arc<Segment>)]) -> Vec<(String, i64)> {
    let covered = segments.iter().flat_map(|(_, s)| s.covered().iter());
    let mut files: Vec<(String, i64)> = covered.map(|(path, _, size)| (path.to_owned(), size)).collect();
    files.sort_unstable();
    files.dedup();
    files
}
