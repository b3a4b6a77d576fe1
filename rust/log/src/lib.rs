//! THE TABLE = protocol + store: listing, reading commits and checkpoints, snapshots, plans,
//! transactions, checkpoint writing, history. Knows no rows (see `deltaplane-data`) and no Python.

mod alter;
mod changes;
mod checkpoint_file;
mod checkpoint_filter;
mod checkpoint_order;
mod checkpoint_reader;
mod checkpoint_rows;
mod checkpoint_runs;
mod checkpoint_writer;
mod checksum;
mod cleanup;
mod commit_reader;
mod compaction;
mod domains;
mod freshness;
mod history;
mod last_checkpoint;
mod listing;
mod live_files;
mod mapped_schema;
mod parquet_file;
mod plan;
mod plan_trace;
mod post_commit;
mod reads;
mod rewrite;
mod row_numbers;
mod schema_checks;
mod sidecars;
mod snapshot;
mod sorted_runs;
mod surroundings;
mod traces;
mod transaction;
mod winners;
mod write_plan;
mod write_request;

pub use alter::{AlterRequest, Altered, Change, alter, protocol_json};
pub use changes::{CommittedChange, versions_between};
pub use checkpoint_reader::PlanColumns;
pub use checkpoint_writer::CheckpointReport;
pub use cleanup::CleanupReport;
pub use history::HistoryEntry;
pub use listing::is_table;
pub use plan_trace::PlanReport;
pub use reads::ReadRequest;
pub use rewrite::{Rewrite, RewriteRequest, Rewritten};
pub use snapshot::Snapshot;
pub use surroundings::{Surrounded, Surroundings, now_ms, surround};
pub use transaction::{Committed, Marks, Operation, Staged, commit};
pub use write_plan::{FileTarget, PlannedWrite, WritePlan, create_table, plan_write};
pub use write_request::{CommitRequest, FileRequest, SchemaMode, TxnRequest, WriteMode, WriteRequest};

pub use deltaplane_error::{Error, Kind, Result};
