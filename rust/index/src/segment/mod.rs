//! A segment: the keys of one index in some files, as one immutable object.
//!
//! Buckets, one after another; then the tail: the directory (length and checksum of each bucket),
//! the covered files, a description as JSON, and a trailer with their lengths and a checksum. A
//! reader reads the tail once, and a bucket for each key.

pub(crate) mod merge;
pub(crate) mod reader;
#[cfg(test)]
mod tests;
pub(crate) mod writer;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::bucket::Coding;
use crate::keys::KeyColumn;

/// The last bytes of a segment, with the format's version.
const MAGIC: [u8; 8] = *b"DPKEYS\x00\x03";
/// Bytes of a directory's entry.
const DIRECTORY_ENTRY: usize = 8;
/// Bytes of the trailer: three lengths, the checksum and the magic.
const TRAILER: usize = 12 + 8 + 8;

/// What a segment is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Description {
    /// The table's id: a location may have another table later.
    table: String,
    /// The columns that keys are made of.
    columns: Vec<KeyColumn>,
    coding: Coding,
    entries: u64,
    files: u64,
}

/// The checksum of a bucket.
fn bucket_checksum(bytes: &[u8]) -> u32 {
    (xxh3_64(bytes) & u64::from(u32::MAX)) as u32
}
