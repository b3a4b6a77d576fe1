//! Commands that change rows of live files (DELETE, UPDATE, …) as the log sees them: which files
//! may have the rows, the requirements of new files, and the one commit that replaces old files by
//! new ones. The engine finds and writes the rows.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{Add, AddCdcFile, Protocol, Remove, claimed_sum};
use deltaplane_protocol::conflict::ReadSet;
use deltaplane_protocol::expr::{Expr, Predicate};
use deltaplane_protocol::features::identity_columns::{self, Fill};
use deltaplane_protocol::features::{
    self, FileForm, RowRules, StoredIds, change_data_feed, deletion_vectors, row_tracking,
};
use deltaplane_protocol::hidden_columns::{FILE, ROW, ROW_COMMIT_VERSION, ROW_ID};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::prune::Pruner;
use deltaplane_store::Store;
use futures::stream::BoxStream;
use serde::Deserialize;
use serde_json::Value;

use crate::commands::remove_column_mapping::WithoutColumnMapping;
use crate::transaction::dry_run::{DryRun, dry_run, with_copies};
use crate::transaction::{Committed, Operation, RowConflictResolver, Staged, commit};
use crate::write::plan::{FileTarget, PlannedWrite, plan_incoming};
use crate::write::request::{CommitRequest, FileRequest, IncomingRequest};
use crate::{PlanColumns, Snapshot, now_ms};

/// Columns that identify a row's position.
const PLACE: [&str; 2] = [FILE, ROW];
/// Columns that preserve row ids and versions in rewritten files.
const IDS: [&str; 2] = [ROW_ID, ROW_COMMIT_VERSION];

/// Arguments of a command.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RewriteRequest {
    /// Name of the operation in the history: `DELETE`, `UPDATE`, …
    pub operation: String,
    /// Its parameters in the history.
    #[serde(default)]
    pub operation_parameters: BTreeMap<String, Value>,
    /// Whether the command changes rows; if it only moves them it doesn't conflict with other
    /// writers (P028).
    #[serde(default = "yes")]
    pub data_change: bool,
    /// A condition which every row that the command reads meets; all rows when absent.
    #[serde(default)]
    pub predicate: Option<Expr>,
    /// Whether the result for a row depends on any other rows of the table, as with a subquery.
    #[serde(default)]
    pub reads_others: bool,
    /// The columns of new rows, if the command writes some or the schema may grow.
    #[serde(default)]
    pub incoming: Option<IncomingRequest>,
    /// How files are written.
    #[serde(default)]
    pub files: FileRequest,
    /// Settings of the commit.
    #[serde(default)]
    pub commit: CommitRequest,
    /// Whether the command removes the table's column mapping, so that new files have the columns'
    /// own names (P114).
    #[serde(default)]
    pub remove_column_mapping: bool,
    /// Whether it is a dry run: its files are discarded, and nothing is committed.
    #[serde(default)]
    pub dry_run: bool,
}

fn yes() -> bool {
    true
}

/// The result of a command.
#[derive(Default)]
pub struct Rewritten {
    /// New files, and files with new deletion vectors.
    pub adds: Vec<Add>,
    /// The files that they replace.
    pub removes: Vec<Remove>,
    /// Files of changed rows (P130).
    pub cdc: Vec<AddCdcFile>,
    /// Resolves conflicts with other writers that deleted rows by vectors.
    pub row_conflicts: Option<Arc<dyn RowConflictResolver>>,
    /// Metrics of the operation.
    pub metrics: BTreeMap<String, Value>,
}

/// A command that was checked against one version.
pub struct Rewrite {
    base: Snapshot,
    files: Store,
    request: RewriteRequest,
    reads: Option<(Predicate, Arc<Pruner>)>,
    rules: RowRules,
    form: FileForm,
    incoming: Option<PlannedWrite>,
    without_column_mapping: Option<WithoutColumnMapping>,
    was_done: bool,
}

impl Rewrite {
    /// Checks a command that changes rows of this version.
    ///
    /// # Errors
    /// `UnsupportedFeature` for a table that can't be written, `InvalidArgument` for an append-only
    /// one (P100) and for an invalid condition.
    pub async fn plan(base: &Snapshot, request: RewriteRequest) -> Result<Self> {
        let planned = Self::check(base, request).await;
        planned.map_err(|e| e.with_table(base.store().location().as_str()))
    }

    async fn check(base: &Snapshot, request: RewriteRequest) -> Result<Self> {
        let state = base.state();
        state.check_write()?;
        state.check_properties()?;
        // A MERGE may only insert rows: the transaction refuses it if it removes files.
        if request.data_change && request.operation != "MERGE" && features::is_append_only(state.view()) {
            return Err(Error::invalid_argument(format!(
                "the table is append-only (delta.appendOnly = true): {} can't change its rows; append, or unset the property first",
                request.operation
            )));
        }
        let is_taken = |name: &&&str| state.schema().field_ignore_case(name).is_some();
        let hidden = PLACE
            .iter()
            .chain(IDS.iter().filter(|_| row_tracking::is_on(state.metadata())));
        if let Some(taken) = hidden.into_iter().find(is_taken) {
            return Err(Error::unsupported_feature(format!(
                "the table has a column `{taken}`, a name under which {} finds rows: rename the column first, or use Spark",
                request.operation
            )));
        }
        let reads = match &request.predicate {
            None => None,
            Some(condition) => {
                let predicate = Predicate::bind(condition, state.schema())?;
                let pruner = Pruner::new(&predicate, state.schema(), state.partition_columns(), state.mapping())?;
                Some((predicate, Arc::new(pruner)))
            }
        };
        let incoming = match &request.incoming {
            Some(columns) => Some(plan_incoming(base, columns, &request.files).await?),
            None => None,
        };
        let without_column_mapping = match request.remove_column_mapping {
            true => Some(WithoutColumnMapping::of(base).await?),
            false => None,
        };
        let was_done = !request.commit.txn.is_empty() && request.commit.was_done(&base.transactions(now_ms()).await?);
        Ok(Rewrite {
            rules: match &incoming {
                Some(planned) => planned.row_rules().clone(),
                None => features::row_rules(state.view())?,
            },
            form: features::file_form(state.protocol(), state.metadata(), state.schema()),
            files: match request.dry_run {
                true => base.store().dry_run()?,
                false => base.store().clone(),
            },
            base: base.clone(),
            request,
            reads,
            incoming,
            without_column_mapping,
            was_done,
        })
    }

    /// The version that it reads.
    pub fn base(&self) -> &Snapshot {
        &self.base
    }

    /// The store for new files.
    pub fn store(&self) -> &Store {
        &self.files
    }

    /// Whether it is a dry run, which [`dry_run`](Self::dry_run) ends instead of
    /// [`commit`](Self::commit).
    pub fn is_dry_run(&self) -> bool {
        self.request.dry_run
    }

    /// Whether an application's version in the request was committed already (P076).
    pub fn was_done(&self) -> bool {
        self.was_done
    }

    /// Whether rows are deleted by deletion vectors (P121); otherwise their files are rewritten.
    pub fn may_mark(&self) -> bool {
        self.request.data_change && self.others_may_mark()
    }

    /// Whether other writers may delete rows by vectors meanwhile.
    pub fn others_may_mark(&self) -> bool {
        let state = self.base.state();
        deletion_vectors::check_may_mark(state.protocol(), state.metadata()).is_ok()
    }

    /// Whether changed rows must be recorded (P130).
    pub fn records_changes(&self) -> bool {
        self.request.data_change && change_data_feed::is_on(self.base.state().metadata())
    }

    /// The columns in which rewritten rows store their id and version, if rows have ids (P142).
    pub fn stored_ids(&self) -> Result<Option<StoredIds>> {
        let metadata = self.base.state().metadata();
        if !row_tracking::is_on(metadata) {
            return Ok(None);
        }
        features::stored_ids(metadata).map(Some).ok_or_else(|| {
            Error::corrupt_log(
                "the table tracks rows, but its properties don't name the columns that keep row ids and versions (P141): its rows can't be rewritten without losing their ids",
            )
        })
    }

    /// The requirements of new files.
    pub fn target(&self) -> FileTarget<'_> {
        let as_delta_rs = self.request.commit.delta_rs.is_some();
        if let Some(planned) = &self.incoming {
            return FileTarget {
                as_delta_rs,
                ..planned.target()
            };
        }
        let state = self.base.state();
        let (schema, mapping) = match &self.without_column_mapping {
            Some(after) => (&after.schema, Mapping::None),
            None => (state.schema(), state.mapping()),
        };
        FileTarget {
            schema,
            partition_columns: state.partition_columns(),
            mapping,
            form: self.form,
            properties: state.properties(),
            request: &self.request.files,
            as_delta_rs,
        }
    }

    /// How to fill identity columns that new rows lack.
    pub fn fills(&self) -> &[Fill] {
        self.incoming.as_ref().map_or(&[], PlannedWrite::fills)
    }

    /// The protocol of the table before and after the command.
    pub fn protocols(&self) -> (Protocol, Protocol) {
        let now = || self.base.state().protocol().clone();
        self.incoming
            .as_ref()
            .map_or_else(|| (now(), now()), PlannedWrite::protocols)
    }

    /// The row rules for changed rows.
    pub fn row_rules(&self) -> &RowRules {
        &self.rules
    }

    /// Whether the condition selects whole files, because it is about partitions or there is none.
    pub fn selects_files(&self) -> bool {
        let columns = self.base.state().partition_columns();
        self.reads.as_ref().is_none_or(|(p, _)| p.partition_only(columns))
    }

    /// Whether live files use column names that the table will no longer have after this command,
    /// so that all are rewritten.
    pub fn renames_columns(&self) -> bool {
        self.without_column_mapping
            .as_ref()
            .is_some_and(|after| !after.files_fit)
    }

    /// The live files that may hold rows which meet the condition.
    pub fn candidates(&self) -> BoxStream<'static, Result<RecordBatch>> {
        let pruner = self.reads.as_ref().map(|(_, p)| p.clone());
        self.base.plan(pruner, PlanColumns::Logged)
    }

    /// Commits this result.
    ///
    /// # Errors
    /// A conflict kind if another writer changed what the command read; nothing is visible then.
    pub async fn commit(&self, done: Rewritten) -> Result<Committed> {
        commit(self.base.store(), Some(self.base.clone()), &self.staged(done)).await
    }

    /// Reports the commit of this result without making it. `copied` are the files whose other rows
    /// would be copied; they count with their current bytes, since nothing was read.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn dry_run(&self, done: Rewritten, copied: &[Add], target_file_size_bytes: u64) -> Result<DryRun> {
        let marked: HashSet<&str> = done.removes.iter().map(|r| r.path.as_str()).collect();
        let written = done.adds.iter().filter(|a| !marked.contains(a.path.as_str()));
        let files = with_copies(written, copied, target_file_size_bytes);
        let result = dry_run(self.base.store(), Some(&self.base), &self.staged(done)).await?;
        Ok(DryRun {
            files_written: files,
            bytes_written: claimed_sum(copied.iter().map(|a| a.size).chain([result.bytes_written])),
            ..result
        })
    }

    fn staged(&self, mut done: Rewritten) -> Staged {
        let mut staged = self.request.commit.staged(now_ms());
        if let Some(planned) = &self.incoming {
            let marks = identity_columns::take_marks(&mut done.adds);
            (staged.metadata, staged.protocol) = planned.table_after(&marks);
        }
        if row_tracking::is_on(self.base.state().metadata()) {
            row_tracking::say_preserved(&mut staged.extra_info);
        }
        let changes = self.request.data_change;
        let adds = done.adds.into_iter();
        staged.adds = adds
            .map(|a| Add {
                data_change: changes,
                ..a
            })
            .collect();
        let removes = done.removes.into_iter();
        staged.removes = removes
            .map(|r| Remove {
                data_change: changes,
                ..r
            })
            .collect();
        staged.cdc = done.cdc;
        staged.row_conflicts = done.row_conflicts;
        staged.read = match changes {
            true if self.request.reads_others => ReadSet::Set(None),
            true => ReadSet::Rows(self.reads.as_ref().map(|(_, pruner)| pruner.clone())),
            // Moved rows stay the same, whatever other writers add.
            false => ReadSet::Nothing,
        };
        staged.is_serializable = changes && self.request.reads_others;
        if let Some(after) = &self.without_column_mapping {
            staged.metadata = Some(after.metadata.clone());
            staged.domains.clone_from(&after.domains);
            // A file that another writer adds meanwhile would have the old names.
            staged.read = ReadSet::Table;
        }
        staged.operation = Operation {
            name: self.request.operation.clone(),
            parameters: self.request.operation_parameters.clone(),
            metrics: done.metrics,
        };
        staged
    }
}
