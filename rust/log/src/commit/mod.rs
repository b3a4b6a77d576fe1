//! Reading commits: one file's actions, and those of many commits in batches from the newest to the
//! oldest.

pub(crate) mod batches;
pub(crate) mod reader;
