//! The snapshot class: one version of a table.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_log::{
    CheckpointReport, CleanupReport, CommitRequest, CommitTotals, HistoryEntry, LogFolder, LogSize, ProtocolInfo,
    ReadRequest, RewriteFirst, ScanReport, Snapshot as Inner, TableInfo, TombstoneTotals, TrackedColumns, now_ms,
    own_commits, versions_between,
};
use deltaplane_operations::add_view::AddView;
use deltaplane_operations::changes::Changes;
use deltaplane_operations::file_list::{self, absolute_paths, paths};
use deltaplane_operations::file_sets::{FileSet, sampled};
use deltaplane_operations::key_index::{self, KeyIndex};
use deltaplane_operations::scan::{self, Scan as Rows, ScanRequest, Sought, pruner_of};
use deltaplane_operations::vector_masks::masks;
use deltaplane_protocol::arrow_types::to_arrow_schema;
use deltaplane_protocol::changes::feed_schema;
use deltaplane_protocol::features::deletion_vectors::may_have_vectors;
use deltaplane_protocol::features::row_tracking;
use deltaplane_store::block_on;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arrow_bridge::{ArrowSchema, ArrowStream};
use crate::errors::run;
use crate::incoming;
use crate::record::Record;
use crate::scan::Scan;
use crate::session_options::with_store;
pub(crate) use crate::session_options::{Options, store};
use crate::table_schema::TableSchema;
use crate::values::predicate::{Predicate, expr};

/// One immutable version of a table.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Snapshot(pub(crate) Inner);

impl From<Inner> for Snapshot {
    fn from(inner: Inner) -> Self {
        Snapshot(inner)
    }
}

/// The newest commits of a location's log, newest first, without opening the table.
#[boundary]
#[pyo3(signature = (location, options = None, limit = None))]
pub(crate) fn log_history(location: &str, options: Options, limit: Option<usize>) -> Result<Record<Vec<HistoryEntry>>> {
    with_store(location, options, |store| {
        block_on(deltaplane_log::log_history(store, limit))
    })
    .map(Record)
}

#[boundary]
impl Snapshot {
    #[staticmethod]
    #[pyo3(signature = (location, options = None, version = None, timestamp_ms = None))]
    fn open(location: &str, options: Options, version: Option<u64>, timestamp_ms: Option<i64>) -> Result<Self> {
        let opened = with_store(location, options, |store| match timestamp_ms {
            Some(time) => block_on(Inner::open_at(store, time)),
            None => block_on(Inner::open(store, version)),
        });
        opened.map(Into::into)
    }

    #[getter]
    fn version(&self) -> u64;

    #[getter]
    fn location(&self) -> String {
        self.0.store().location().as_str().to_owned()
    }

    #[getter]
    fn uri(&self) -> String {
        self.0.store().location().uri_text()
    }

    /// What the table's properties ask for after a commit: joining small files, building indexes.
    #[getter]
    fn follow_up(&self) -> (bool, bool) {
        self.0.state().properties().follow_up()
    }

    #[getter]
    fn timestamp_ms(&self) -> Result<Option<i64>> {
        block_on(self.0.timestamp_ms())
    }

    fn update(&self) -> Result<Self> {
        block_on(self.0.update()).map(Into::into)
    }

    /// The snapshot after this process's commit of a version, or a newer one.
    fn after_own_commit(&self, version: u64) -> Result<Self> {
        block_on(own_commits::after_commit(&self.0, version)).map(Into::into)
    }

    /// Another version of the same table.
    fn at(&self, version: u64) -> Result<Self> {
        block_on(Inner::open(self.0.store(), Some(version))).map(Into::into)
    }

    #[getter]
    fn schema(&self) -> TableSchema {
        Arc::clone(self.0.schema()).into()
    }

    #[getter]
    fn column_mapping(&self) -> &'static str {
        self.0.state().mapping().as_str()
    }

    fn arrow_schema(&self) -> ArrowSchema {
        ArrowSchema(to_arrow_schema(self.0.schema()))
    }

    #[getter]
    fn info(&self) -> Record<TableInfo> {
        Record(self.0.state().metadata().into())
    }

    #[getter]
    fn protocol(&self) -> Record<ProtocolInfo> {
        Record(self.0.state().protocol().into())
    }

    /// The version's columns as a follower keeps them.
    #[getter]
    fn tracked_columns(&self) -> Record<TrackedColumns> {
        Record(TrackedColumns::of(self.0.version(), self.0.state()))
    }

    /// Why this build wouldn't write the table, if so.
    #[getter]
    fn write_refusal(&self) -> Option<String> {
        self.0.state().check_write().err().map(|e| e.message().to_owned())
    }

    /// Whether files of the table may have deletion vectors.
    fn may_have_vectors(&self) -> bool {
        may_have_vectors(self.0.state().protocol())
    }

    /// Where every row has an id (P141): the columns of files that store ids and versions of rows,
    /// if they have names.
    fn row_tracking_columns(&self) -> Option<(Option<String>, Option<String>)> {
        let metadata = self.0.state().metadata();
        row_tracking::is_on(metadata).then(|| row_tracking::materialised(metadata))
    }

    #[pyo3(signature = (limit = None))]
    fn history(&self, limit: Option<usize>) -> Result<Record<Vec<HistoryEntry>>> {
        block_on(self.0.history(limit)).map(Record)
    }

    /// The content of the log directory.
    fn log_folder(&self) -> Result<Record<LogFolder>> {
        block_on(self.0.log_folder()).map(Record)
    }

    /// What each of the newest commits did to the table's files.
    fn commit_totals(&self, limit: usize) -> Result<Record<Vec<CommitTotals>>> {
        block_on(self.0.commit_totals(limit)).map(Record)
    }

    /// The size at which OPTIMIZE aims, and from which on it leaves a file alone.
    fn aimed_file_size(&self, table_bytes: i64) -> (i64, f64);

    /// Removed files that the log still names.
    fn tombstone_totals(&self) -> Result<Record<TombstoneTotals>> {
        block_on(self.0.tombstone_totals()).map(Record)
    }

    /// The versions that applications committed last.
    fn transactions(&self) -> Result<BTreeMap<String, i64>> {
        block_on(self.0.transactions(now_ms())).map(|all| all.into_iter().map(|t| (t.app_id, t.version)).collect())
    }

    /// The configurations of the table's domains by name.
    fn domains(&self) -> Result<BTreeMap<String, String>> {
        block_on(self.0.domains()).map(|all| all.into_iter().map(|d| (d.domain, d.configuration)).collect())
    }

    #[pyo3(signature = (domain, configuration))]
    fn set_domain(&self, domain: &str, configuration: Option<String>) -> Result<Self> {
        block_on(self.0.set_domain(domain, configuration)).map(|done| done.snapshot.into())
    }

    fn rewrite_before_drop(&self, feature: &str) -> Result<Option<&'static str>> {
        block_on(self.0.rewrite_before_drop(feature)).map(|first| first.map(RewriteFirst::as_str))
    }

    fn commit_read(&self, request: Record<ReadRequest>) -> Result<Self> {
        block_on(self.0.commit_read(&request.0)).map(|done| done.snapshot.into())
    }

    #[pyo3(signature = (predicate = None))]
    fn file_paths<'py>(&self, py: Python<'py>, predicate: Option<&Predicate>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, run(|| block_on(paths(&self.0, expr(predicate))))?.iter())
    }

    #[pyo3(signature = (predicate = None))]
    fn file_uris<'py>(&self, py: Python<'py>, predicate: Option<&Predicate>) -> PyResult<Bound<'py, PyList>> {
        let uris = run(|| block_on(absolute_paths(&self.0, expr(predicate))))?;
        PyList::new(py, uris.iter())
    }

    fn num_files(&self) -> Result<usize> {
        block_on(file_list::num_files(&self.0))
    }

    /// The number of rows, if every file's statistics tell.
    fn num_records(&self) -> Result<Option<i64>> {
        block_on(file_list::num_records(&self.0))
    }

    fn add_actions(&self, statistics: bool) -> ArrowStream {
        AddView::new(self.0.state(), statistics).of_plan(&self.0, None).into()
    }

    /// The files that may hold a matching row, with their statistics and deletion vectors.
    #[pyo3(signature = (predicate = None))]
    fn plan(&self, predicate: Option<&Predicate>) -> Result<ArrowStream> {
        let pruner = block_on(pruner_of(&self.0, expr(predicate)))?;
        let view = AddView::new(self.0.state(), true).with_vectors();
        Ok(view.of_plan(&self.0, pruner).into())
    }

    /// What such a plan looks at.
    #[pyo3(signature = (predicate = None))]
    fn explain(&self, predicate: Option<&Predicate>) -> Result<Record<ScanReport>> {
        block_on(scan::explain(&self.0, expr(predicate))).map(Record)
    }

    /// All row groups of the first files that may match, and the number of those that may match.
    fn row_groups(&self, predicate: Option<&Predicate>, most_files: usize) -> Result<(usize, usize)> {
        block_on(scan::row_groups(&self.0, expr(predicate), most_files))
    }

    fn deletion_vectors(&self) -> ArrowStream {
        masks(&self.0, self.0.store().location().as_str()).into()
    }

    /// The property, and its value, by which a column has an index of keys.
    fn index_to_add(&self, columns: Vec<String>) -> Result<(String, String)> {
        key_index::property_to_add(self.0.state(), &columns)
    }

    /// The property of a column's index of keys.
    fn index_to_drop(&self, columns: Vec<String>) -> Result<String> {
        key_index::property_to_drop(self.0.state(), &columns)
    }

    /// The indexes of keys, and how many of the version's files they cover.
    fn indexes(&self) -> Result<Record<Vec<KeyIndex>>> {
        block_on(key_index::describe(&self.0)).map(Record)
    }

    /// Deletes old objects of indexes of keys; with `dropped` all of indexes that were dropped.
    fn clean_indexes(&self, dropped: bool) -> Result<()> {
        block_on(key_index::clean(&self.0, dropped))
    }

    /// `members` are a column, a stream, and whether the column may be null: what [`Sought::of`]
    /// takes. Only rows with one of the values of the stream's first column are returned.
    #[pyo3(signature = (columns = None, predicate = None, batch_rows = None, encoded_files = false, members = None))]
    fn scan(
        &self,
        columns: Option<Vec<String>>,
        predicate: Option<&Predicate>,
        batch_rows: Option<usize>,
        encoded_files: bool,
        members: Option<(String, incoming::Rows, bool)>,
    ) -> Result<Scan> {
        let sought = members.map(|(column, rows, nulls)| Sought::of(&column, rows.0, nulls));
        let request = ScanRequest {
            columns,
            predicate: expr(predicate).cloned(),
            batch_rows,
            encoded_files,
            sought: sought.transpose()?.unwrap_or_default(),
        };
        Rows::new(&self.0, request).map(Scan::from)
    }

    /// Rows that this version has and `base` may lack, or with `gone` the reverse: those of other
    /// files or deletion vectors. Both come as this version's columns.
    fn unlike(&self, base: &Snapshot, columns: Vec<String>, gone: bool) -> Result<Scan> {
        let (holder, other) = if gone { (base, self) } else { (self, base) };
        let others = block_on(FileSet::of(&other.0))?;
        Rows::of_rows_missing_in(&self.0, &holder.0, others, columns).map(Scan::from)
    }

    /// Samples about `rows` rows, of at most `files` files.
    fn sample(&self, columns: Vec<String>, files: usize, rows: u64, seed: u64) -> Result<Scan> {
        let files = block_on(sampled(&self.0, files, rows, seed))?;
        Rows::of_files(&self.0, files, columns).map(Scan::from)
    }

    /// What opening the version reads of the log, without sidecars.
    #[getter]
    fn log_size(&self) -> Record<LogSize>;

    /// What the versions from `first` up to this one changed, as rows.
    #[pyo3(signature = (first, columns = None, predicate = None))]
    fn changes(&self, first: u64, columns: Option<Vec<String>>, predicate: Option<&Predicate>) -> Result<Scan> {
        block_on(Changes::new(&self.0, first, columns, expr(predicate))).map(Scan::from)
    }

    /// The columns of these rows.
    fn change_schema(&self) -> Result<TableSchema> {
        feed_schema(self.0.schema()).map(Into::into)
    }

    /// The first and the last version whose times are in a range.
    fn versions_between(&self, from_ms: Option<i64>, until_ms: Option<i64>) -> Result<Option<(u64, u64)>> {
        block_on(versions_between(&self.0, from_ms, until_ms))
    }

    fn checkpoint(&self) -> Result<Record<CheckpointReport>> {
        block_on(self.0.checkpoint()).map(Record)
    }

    fn cleanup_metadata(&self) -> Result<Record<CleanupReport>> {
        block_on(self.0.cleanup_metadata()).map(Record)
    }

    fn forget_history(&self, request: Record<CommitRequest>) -> Result<Record<CleanupReport>> {
        block_on(self.0.forget_history(&request.0)).map(Record)
    }

    /// Publishes the commits of a catalog's table.
    fn publish(&self) -> Result<u64> {
        block_on(self.0.publish())
    }

    fn compact_logs(&self, starting_version: u64, ending_version: u64) -> Result<()> {
        block_on(self.0.compact_logs(starting_version, ending_version))
    }
}
