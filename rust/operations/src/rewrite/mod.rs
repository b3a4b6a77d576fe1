//! Commands that change rows of live files: DELETE, UPDATE, MERGE, and commands that only move
//! rows. A command is `Rewrite` (begun), `Selected` (its rows are known), `Staged` (its files are
//! written), and ends with a commit or a dry run. Its methods block the calling thread. Knows no
//! Python.

mod command;
mod patches;
pub mod row_conflicts;
mod select;
mod session;
mod stage;
pub mod tasks;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by it")]
mod tests;
mod written_files;

pub(crate) use command::all_columns;
pub use command::{Command, LocatedFile};
pub use patches::{PatchedFiles, Patches};
pub use select::{Rewrite, Selected};
pub use session::Session;
pub use stage::{FileSummary, Staged};
