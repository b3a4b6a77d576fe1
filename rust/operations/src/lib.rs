//! Operations that need the log and the rows of a table: scans, change feeds, writes, commands that
//! rewrite rows, OPTIMIZE. No Python: the boundary and Rust programs call the same functions.

pub mod add_view;
pub mod changes;
pub mod file_sets;
pub mod incoming;
pub mod optimize;
pub mod rewrite;
pub mod scan;
pub mod table_types;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "helpers of tests fail by it")]
mod testing;
pub mod vector_masks;
pub mod write_job;
