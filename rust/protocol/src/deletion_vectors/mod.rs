//! Deletion vectors as the protocol writes them (P120–P125): the set of a file's deleted rows, its
//! two serialised forms, the files that hold many of them, and where a log's vector is to be found.
//! Pure; `data` fetches and stores the bytes.

mod bitmap;
mod change;
mod file;
mod place;

pub use bitmap::{MOST_ROWS, Positions};
pub use change::{Marking, mark, num_records, replace};
pub use file::{FRAME_BYTES, VectorFile, unframe};
pub use place::{Place, name_file};

use crate::Error;

/// A vector that can't be what a correct writer left; `what` names the mismatch.
fn corrupt(what: impl std::fmt::Display) -> Error {
    Error::corrupt_file(format!(
        "a deletion vector can't be read: {what}; which rows of its file are deleted is unknown: restore the vector's file, or restore the table to an earlier version"
    ))
}
