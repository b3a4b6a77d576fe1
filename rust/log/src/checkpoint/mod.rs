//! Checkpoints as files: opening and streaming them, skipping by a predicate, and their Parquet
//! files. Knows no snapshot; `checkpoint_writer` decides the content of a new one.

pub(crate) mod contents;
pub(crate) mod copy_state;
pub(crate) mod file;
pub(crate) mod live_row_groups;
pub(crate) mod parquet_file;
pub(crate) mod part;
pub(crate) mod path_range;
pub(crate) mod reader;
pub(crate) mod row_filter;
pub(crate) mod row_group_writer;
pub(crate) mod sidecar_stats;
pub(crate) mod skipping;
