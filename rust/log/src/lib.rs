//! The table: listing, reading commits and checkpoints, snapshots, plans, transactions, checkpoint
//! writing, history. Knows no rows (see `deltaplane-data`) and no Python.

mod checkpoint;
mod checkpoint_writer;
mod commands;
mod commit;
pub mod committer;
mod environment;
mod follow;
mod history;
mod listing;
mod progress;
mod scan_report;
mod snapshot;
mod table_info;
mod table_schema;
mod transaction;
mod write;

pub use checkpoint::reader::PlanColumns;
pub use checkpoint_writer::CheckpointReport;
pub use commands::alter::{AlterRequest, Altered, Change, NewColumns, alter};
pub use commands::cleanup::CleanupReport;
pub use commands::clone::{CloneRequest, CloneSource, Cloned, Copies, ParquetFiles, clone_table, copy_files};
pub use commands::commit_read::ReadRequest;
pub use commands::feature_usage::RewriteFirst;
pub use commands::fsck::{Finding, RepairRequest, Repaired};
pub use commands::log_facts::{CommitTotals, LogFiles, LogFolder, NewestCheckpoint, TombstoneTotals};
pub use commands::optimize::{LayoutPlan, LayoutRequest, Moved, Placed};
pub use commands::restore::{RestoreRequest, Restored, restore};
pub use commands::rewrite::{Rewrite, RewriteRequest, Rewritten};
pub use commands::vacuum::{Deletes, VacuumCommits, VacuumRequest, VacuumResult, Vacuumed, vacuum, visible_files};
pub use environment::{Environment, EnvironmentGuard, new_id, now_ms, with_environment};
pub use follow::columns::{ColumnSteps, TrackedColumns};
pub use follow::offset::{TailLimits, TailOffset};
pub use follow::{Tail, TailRequest, TailStart};
pub use history::HistoryEntry;
pub use history::changes::{CommittedChange, versions_between};
pub use history::distributed_replay::{
    CommitActions, LogHead, ReplayPart, ReplayParts, checkpoint_adds, commit_actions,
};
pub use history::log_history::log_history;
pub use listing::is_table;
pub use progress::{Progress, Tell};
pub use scan_report::ScanReport;
pub use snapshot::file_scan::Considered;
pub use snapshot::{LogSize, Snapshot};
pub use table_info::{
    FeatureInfo, PropertyInfo, ProtocolInfo, Protocols, TableInfo, check_properties, known_features, known_properties,
};
pub use table_schema::{TableField, TableSchema};
pub use transaction::dry_run::DryRun;
pub use transaction::group::{GroupCommitted, GroupFailure, GroupMember, commit_group};
pub use transaction::own_commits;
pub use transaction::{AFTER_COMMIT, Committed, Operation, ReappliedRows, RowConflictResolver, Staged, commit};
pub use write::plan::{
    FileTarget, PlannedWrite, WritePlan, create_table, plan_append_ahead, plan_write, plan_write_after, plan_write_on,
};
pub use write::request::{
    CommitRequest, FileRequest, IncomingRequest, SchemaMode, TxnRequest, WriteMode, WriteRequest,
};

pub use deltaplane_error::{Error, Kind, Result};
