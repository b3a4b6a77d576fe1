//! Operations that need the log and the rows of a table: scans, change feeds, writes, commands that
//! rewrite rows, OPTIMIZE. No Python: the boundary and Rust programs call the same functions.

pub mod rewrite;
