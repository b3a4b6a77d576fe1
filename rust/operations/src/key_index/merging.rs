//! Keeps the number of an index's segments small, since a look-up reads each of them: small ones
//! become one, as in a log-structured merge tree.

use std::sync::Arc;

use deltaplane_error::{Kind, Result};
use deltaplane_index::{DIR, MOST_FILES, Segment, SegmentInfo, merge_segments};
use deltaplane_log::{Snapshot, new_id};
use tracing::warn;

/// Rows of a segment's files at most, unless one file has more: 350 MB of a segment.
pub(super) const MOST_ROWS: u64 = 1 << 27;
/// Segments of an index from which on the small ones become one.
const MERGED_FROM: usize = 8;
/// Segments of an index from which on small ones are built again from the data files if they
/// can't be merged.
const REBUILT_FROM: usize = 16;
/// A segment with more entries than this many times all smaller ones isn't small beside them: each
/// entry is written again a few times only.
const GROWTH: u64 = 4;

/// Segments that one segment replaces.
pub(super) struct Merged {
    /// Their keys.
    pub(super) replaced: Vec<String>,
    /// The segment with their entries; `None` if their files must be read again.
    pub(super) segment: Option<SegmentInfo>,
}

impl Merged {
    /// Whether the keys of a segment's files are in no segment any more.
    pub(super) fn loses(&self, info: &SegmentInfo) -> bool {
        self.segment.is_none() && self.replaced.contains(&info.path)
    }
}

/// Merges the small ones of an index's segments; `None` if they stay as they are.
pub(super) async fn merge(snapshot: &Snapshot, segments: &[(SegmentInfo, Arc<Segment>)]) -> Result<Option<Merged>> {
    let group = small_ones(segments);
    if group.is_empty() {
        return Ok(None);
    }
    let key = format!("{DIR}/s-{}.keys", new_id());
    let (store, table) = (snapshot.store(), &snapshot.state().metadata().id);
    let segment = match merge_segments(store, &key, table, &group).await {
        Ok(None) if segments.len() < REBUILT_FROM => return Ok(None),
        Err(e) if matches!(e.kind(), Kind::CorruptFile | Kind::ObjectNotFound) => {
            warn!(table = %store.location(), error = %e, "segments of a key index can't be merged, building them again");
            None
        }
        merged => merged?,
    };
    let replaced = group.into_iter().map(|(info, _)| info.path).collect();
    Ok(Some(Merged { replaced, segment }))
}

/// The segments that become one, none or at least two.
fn small_ones(segments: &[(SegmentInfo, Arc<Segment>)]) -> Vec<(SegmentInfo, Arc<Segment>)> {
    let mut by_size: Vec<_> = segments.iter().collect();
    by_size.sort_by_key(|(info, _)| info.entries);
    let sizes: Vec<(u64, u64)> = by_size.iter().map(|(info, _)| (info.files, info.entries)).collect();
    by_size.into_iter().take(merged_of(&sizes)).cloned().collect()
}

/// How many of these segments, (files, entries) by ascending entries, become one.
fn merged_of(sizes: &[(u64, u64)]) -> usize {
    if sizes.len() < MERGED_FROM {
        return 0;
    }
    let (mut files, mut entries, mut count) = (0, 0, 0);
    for (more_files, more_entries) in sizes {
        let is_small = count == 0 || *more_entries <= GROWTH * entries;
        files += more_files;
        entries += more_entries;
        if !is_small || files > MOST_FILES as u64 || entries > MOST_ROWS {
            break;
        }
        count += 1;
    }
    if count < 2 { 0 } else { count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_segments_are_merged_and_large_ones_stay() {
        assert_eq!(merged_of(&[(1, 10); 7]), 0);
        assert_eq!(merged_of(&[(1, 10); 8]), 8);
        let beside = |large| [vec![(1, 10); 7], vec![(100, large)]].concat();
        assert_eq!(merged_of(&beside(280)), 8);
        assert_eq!(merged_of(&beside(281)), 7);
        assert_eq!(merged_of(&[(1, 0); 9]), 9);
        assert_eq!(merged_of(&[(16_000, 1 << 26); 9]), 0, "a segment has a limit of files");
        assert_eq!(merged_of(&[(1_000, 1 << 26); 9]), 2, "and of entries");
    }

    #[test]
    fn a_table_of_appends_has_few_segments_and_writes_few_entries_again() {
        let (mut segments, mut written) = (Vec::new(), 0);
        for _ in 0..2_000 {
            segments.push((1, 10_000));
            segments.sort_unstable_by_key(|(_, entries)| *entries);
            let merged: Vec<(u64, u64)> = segments.drain(..merged_of(&segments)).collect();
            if !merged.is_empty() {
                let entries = merged.iter().map(|(_, e)| e).sum();
                segments.push((merged.iter().map(|(f, _)| f).sum(), entries));
                written += entries;
            }
            assert!(segments.len() <= MERGED_FROM + 2, "{segments:?}");
        }
        assert!(written < 2_000 * 10_000 * 9, "{written}");
    }
}
