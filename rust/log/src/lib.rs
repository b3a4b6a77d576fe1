//! THE TABLE = protocol + store: listing, reading commits and checkpoints, snapshots, plans,
//! transactions, checkpoint writing, history. Knows no rows (see `deltaplane-data`) and no Python.

mod alter;
mod changes;
mod checkpoint_file;
mod checkpoint_reader;
mod checkpoint_rows;
mod checkpoint_writer;
mod checksum;
mod cleanup;
mod clock;
mod commit_reader;
mod compaction;
mod domains;
mod history;
mod last_checkpoint;
mod listing;
mod mapped_schema;
mod parquet_file;
mod post_commit;
mod schema_checks;
mod sidecars;
mod snapshot;
mod transaction;
mod write_plan;
mod write_request;

pub use alter::{AlterRequest, Altered, Change, alter, protocol_json};
pub use changes::{CommittedChange, versions_between};
pub use checkpoint_writer::CheckpointReport;
pub use cleanup::CleanupReport;
pub use clock::now_ms;
pub use history::HistoryEntry;
pub use listing::is_table;
pub use snapshot::{PlanColumns, Snapshot};
pub use transaction::{Committed, Operation, Staged, commit};
pub use write_plan::{PlannedWrite, WritePlan, create_table, plan_write};
pub use write_request::{SchemaMode, TxnRequest, WriteMode, WriteRequest};

pub use deltaplane_error::{Error, Kind, Result};
