//! Deletion vectors in the protocol's formats (P120–P125): the set of a file's deleted rows, its
//! two serialised forms, files with many vectors, and the location of a log's vector. Pure; `data`
//! reads and writes the bytes.

mod bitmap;
mod change;
mod file;
mod place;

pub use bitmap::{MOST_ROWS, Positions};
pub use change::{Marking, mark, num_records, replace};
pub use file::{FRAME_BYTES, VectorFile, crc32, unframe};
pub use place::{Place, name_file};

use crate::Error;

/// The error for an invalid vector; `what` names the mismatch.
fn corrupt(what: impl std::fmt::Display) -> Error {
    Error::corrupt_file(format!(
        "a deletion vector can't be read: {what}; which rows of its file are deleted is unknown: restore the vector's file, or restore the table to an earlier version"
    ))
}
