//! The rows of a table: reads data files as the table's columns, and writes rows to new data files
//! with their statistics. Knows protocol and store, no log: callers decide what to read and commit
//! the written files.

mod arrow_check;
mod batch_split;
mod cast;
mod char_varchar;
mod convert;
mod optimize;
// Store contract tests include this module, and may unwrap.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../store/tests/contract/counted.rs"]
mod counted;
mod footer;
mod hashes;
mod hidden_values;
mod identity;
mod processors;
mod read;
mod rewrite;
mod shred;
mod stats;
#[cfg(test)]
mod testing;
mod types;
mod variant;
mod write;

pub use arrow_check::check_arrow;
pub use batch_split::{MAX_BATCH_BYTES, split_batch};
pub use cast::cast_batch;
pub use footer::{footer_schema, footer_stats};
pub use identity::IdentityValues;
pub use optimize::{
    CarriedDeletes, ClusteredWriter, FileGroup, LineageStorage, OptimizeJob, OptimizedFile, Order, RowLineage,
    carry_deletes,
};
pub use processors::processors;
pub use read::{
    DEFAULT_BATCH_ROWS, FileRead, Members, ReadSpec, RowGroups, SelectedRows, Vectors, is_outdated, read_file,
    row_groups, scan,
};
pub use rewrite::{SelectedFile, delete_rows, reapply_deletes};
pub use stats::StatsConfig;
pub use write::{Compression, FileKind, FileWriter, Marked, Patcher, RowSink, WriteSpec, Written, mark_rows};
