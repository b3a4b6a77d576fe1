//! Commands on the log: which files they read, replace or delete, and their commits. Knows no rows:
//! engines read and write them.

pub(crate) mod alter;
pub(crate) mod cleanup;
pub(crate) mod clone;
pub(crate) mod commit_read;
pub(crate) mod compaction;
pub(crate) mod feature_usage;
pub(crate) mod forget_history;
pub(crate) mod fsck;
pub(crate) mod log_facts;
pub(crate) mod optimize;
pub(crate) mod publish;
pub(crate) mod remove_column_mapping;
pub(crate) mod restore;
pub(crate) mod rewrite;
pub(crate) mod row_id_backfill;
pub(crate) mod set_domains;
pub(crate) mod vacuum;
