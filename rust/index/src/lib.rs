//! Indexes of keys: for the values of one or more columns, the data files that can hold them.
//! Compact, beside the table, and never a source of truth: what can't be read excludes no file.
//! Knows the store, no log and no rows; callers decide which files are covered, and give their
//! values.

mod bits;
mod bucket;
mod entries;
mod keys;
mod manifest;
mod segment;

pub use entries::{Entries, EntrySorter, MOST_FILES};
pub use keys::{KeyClass, KeyColumn, each_key, hash_of_parts, hash_scalar};
pub use manifest::{DIR, Manifest, SegmentInfo, newest, publish, recent, refresh_copy, unneeded};
pub use segment::merge::merge_segments;
pub use segment::reader::Segment;
pub use segment::writer::{SegmentFiles, write_segment};
