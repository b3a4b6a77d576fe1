//! The snapshot class: one version of a table.

use std::collections::{BTreeMap, HashMap};

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_log::{
    CheckpointReport, CleanupReport, CommitTotals, HistoryEntry, LogFolder, LogSize, ProtocolInfo, ReadRequest,
    RewriteFirst, ScanReport, Snapshot as Inner, TableInfo, TombstoneTotals, TrackedColumns, now_ms, versions_between,
};
use deltaplane_operations::changes::Changes;
use deltaplane_operations::scan::{Scan as Rows, ScanRequest, bind, bind_expr, members_of};
use deltaplane_operations::vector_masks::masks;
use deltaplane_operations::{file_list, snapshot_cache};
use deltaplane_protocol::arrow_types::to_arrow_schema;
use deltaplane_protocol::changes::feed_schema;
use deltaplane_protocol::expr::Expr;
use deltaplane_protocol::features::deletion_vectors::may_have_vectors;
use deltaplane_protocol::features::row_tracking;
use deltaplane_protocol::prune::Pruner;
use deltaplane_store::block_on;
use futures::StreamExt;
use pyo3::prelude::*;
use std::sync::Arc;

use crate::add_view::AddView;
use crate::arrow_bridge::{ArrowSchema, ArrowStream};
use crate::errors::run;
use crate::file_sets::{FileSet, sampled};
use crate::incoming::reader_of;
use crate::record::Record;
use crate::scan::Scan;
pub(crate) use crate::session_options::store;
use crate::string_list::StringList;
use crate::table_schema::TableSchema;
use crate::values::predicate::{Predicate, expr};

/// One immutable version of a table.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Snapshot {
    pub(crate) inner: Inner,
}

/// The newest commits of a location's log, newest first, without opening the table.
#[boundary]
#[pyfunction]
#[pyo3(signature = (location, options = None, limit = None))]
pub(crate) fn log_history(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    limit: Option<usize>,
) -> PyResult<Vec<Record<HistoryEntry>>> {
    let entries = run(py, || {
        block_on(deltaplane_log::log_history(&store(location, options)?, limit))
    })?;
    Ok(entries.into_iter().map(Record).collect())
}

#[boundary]
#[pymethods]
impl Snapshot {
    #[staticmethod]
    #[pyo3(signature = (location, options = None, version = None, timestamp_ms = None))]
    fn open(
        py: Python<'_>,
        location: &str,
        options: Option<HashMap<String, String>>,
        version: Option<u64>,
        timestamp_ms: Option<i64>,
    ) -> PyResult<Self> {
        let inner = run(py, || {
            let store = store(location, options)?;
            block_on(async {
                match timestamp_ms {
                    Some(t) => Inner::open_at(&store, t).await,
                    None => Inner::open(&store, version).await,
                }
            })
        })?;
        Ok(Snapshot { inner })
    }

    #[getter]
    fn version(&self) -> u64 {
        self.inner.version()
    }

    #[getter]
    fn location(&self) -> String {
        self.inner.store().location().as_str().to_owned()
    }

    #[getter]
    fn uri(&self) -> String {
        self.inner.store().location().to_uri()
    }

    /// Whether the table's properties want small files put together after a commit.
    #[getter]
    fn auto_compacts(&self) -> bool {
        self.inner.state().properties().auto_compact
    }

    #[getter]
    fn timestamp_ms(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        run(py, || block_on(self.inner.timestamp_ms()))
    }

    fn update(&self, py: Python<'_>) -> PyResult<Self> {
        let inner = run(py, || block_on(self.inner.update()))?;
        Ok(Snapshot { inner })
    }

    /// The snapshot after this process's commit of a version, or a newer one.
    fn after_own_commit(&self, py: Python<'_>, version: u64) -> PyResult<Self> {
        let inner = run(py, || block_on(snapshot_cache::after_commit(&self.inner, version)))?;
        Ok(Snapshot { inner })
    }

    /// Another version of the same table.
    fn at(&self, py: Python<'_>, version: u64) -> PyResult<Self> {
        let inner = run(py, || block_on(Inner::open(self.inner.store(), Some(version))))?;
        Ok(Snapshot { inner })
    }

    #[getter]
    fn schema(&self) -> TableSchema {
        Arc::clone(self.inner.schema()).into()
    }

    #[getter]
    fn column_mapping(&self) -> &'static str {
        self.inner.state().mapping().as_str()
    }

    fn arrow_schema(&self) -> ArrowSchema {
        ArrowSchema(to_arrow_schema(self.inner.schema()))
    }

    #[getter]
    fn info(&self) -> Record<TableInfo> {
        Record(self.inner.state().metadata().into())
    }

    #[getter]
    fn protocol(&self) -> Record<ProtocolInfo> {
        Record(self.inner.state().protocol().into())
    }

    /// The version's columns as a follower keeps them.
    #[getter]
    fn tracked_columns(&self) -> Record<TrackedColumns> {
        Record(TrackedColumns::of(self.inner.version(), self.inner.state()))
    }

    /// Why this build wouldn't write the table, if so.
    #[getter]
    fn write_refusal(&self) -> Option<String> {
        self.inner.state().check_write().err().map(|e| e.message().to_owned())
    }

    /// Whether files of the table may have deletion vectors.
    fn may_have_vectors(&self) -> bool {
        may_have_vectors(self.inner.state().protocol())
    }

    /// Where every row has an id (P141): the columns of files that store ids and versions of rows,
    /// if they have names.
    fn row_tracking_columns(&self) -> Option<(Option<String>, Option<String>)> {
        let metadata = self.inner.state().metadata();
        row_tracking::is_on(metadata).then(|| row_tracking::materialised(metadata))
    }

    #[pyo3(signature = (limit = None))]
    fn history(&self, py: Python<'_>, limit: Option<usize>) -> PyResult<Vec<Record<HistoryEntry>>> {
        let entries = run(py, || block_on(self.inner.history(limit)))?;
        Ok(entries.into_iter().map(Record).collect())
    }

    /// The content of the log directory.
    fn log_folder(&self, py: Python<'_>) -> PyResult<Record<LogFolder>> {
        run(py, || block_on(self.inner.log_folder())).map(Record)
    }

    /// What each of the newest commits did to the table's files.
    fn commit_totals(&self, py: Python<'_>, limit: usize) -> PyResult<Vec<Record<CommitTotals>>> {
        let totals = run(py, || block_on(self.inner.commit_totals(limit)))?;
        Ok(totals.into_iter().map(Record).collect())
    }

    /// The size at which OPTIMIZE aims, and from which on it leaves a file alone.
    fn aimed_file_size(&self, table_bytes: i64) -> (i64, f64) {
        self.inner.aimed_file_size(table_bytes)
    }

    /// Removed files that the log still names.
    fn tombstone_totals(&self, py: Python<'_>) -> PyResult<Record<TombstoneTotals>> {
        run(py, || block_on(self.inner.tombstone_totals())).map(Record)
    }

    fn transaction_version(&self, py: Python<'_>, app_id: &str) -> PyResult<Option<i64>> {
        let all = run(py, || block_on(self.inner.transactions(now_ms())))?;
        Ok(all.into_iter().find(|t| t.app_id == app_id).map(|t| t.version))
    }

    /// The versions that applications committed last.
    fn transactions(&self, py: Python<'_>) -> PyResult<BTreeMap<String, i64>> {
        let all = run(py, || block_on(self.inner.transactions(now_ms())))?;
        Ok(all.into_iter().map(|t| (t.app_id, t.version)).collect())
    }

    /// The configurations of the table's domains by name.
    fn domains(&self, py: Python<'_>) -> PyResult<BTreeMap<String, String>> {
        let all = run(py, || block_on(self.inner.domains()))?;
        Ok(all.into_iter().map(|d| (d.domain, d.configuration)).collect())
    }

    #[pyo3(signature = (domain, configuration))]
    fn set_domain(&self, py: Python<'_>, domain: &str, configuration: Option<String>) -> PyResult<Self> {
        let done = run(py, || block_on(self.inner.set_domain(domain, configuration)))?;
        Ok(Snapshot { inner: done.snapshot })
    }

    fn rewrite_before_drop(&self, py: Python<'_>, feature: &str) -> PyResult<Option<&'static str>> {
        let found = run(py, || block_on(self.inner.rewrite_before_drop(feature)))?;
        Ok(found.map(|how| match how {
            RewriteFirst::Purge => "purge",
            RewriteFirst::RemoveColumnMapping => "remove_column_mapping",
        }))
    }

    fn commit_read(&self, py: Python<'_>, request: Record<ReadRequest>) -> PyResult<Self> {
        let done = run(py, || block_on(self.inner.commit_read(&request.0)))?;
        Ok(Snapshot { inner: done.snapshot })
    }

    #[pyo3(signature = (predicate = None))]
    fn file_paths(&self, py: Python<'_>, predicate: Option<&Predicate>) -> PyResult<StringList> {
        run(py, || self.paths(predicate, |to, path| to.push(&[path])))
    }

    #[pyo3(signature = (predicate = None))]
    fn file_uris(&self, py: Python<'_>, predicate: Option<&Predicate>) -> PyResult<StringList> {
        let root = self.location()?;
        let absolute = |to: &mut StringList, path: &str| match path.starts_with('/') || path.contains("://") {
            true => to.push(&[path]),
            false => to.push(&[&root, "/", path]),
        };
        run(py, || self.paths(predicate, absolute))
    }

    fn num_files(&self, py: Python<'_>) -> PyResult<usize> {
        run(py, || block_on(file_list::num_files(&self.inner)))
    }

    /// The number of rows, if every file's statistics tell.
    fn num_records(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        run(py, || block_on(file_list::num_records(&self.inner)))
    }

    fn add_actions(&self, statistics: bool) -> ArrowStream {
        self.view(AddView::new(self.inner.state(), statistics), None)
    }

    /// The files that may hold a matching row, with their statistics and deletion vectors.
    #[pyo3(signature = (predicate = None))]
    fn plan(&self, py: Python<'_>, predicate: Option<&Predicate>) -> PyResult<ArrowStream> {
        let bound = run(py, || bind(&self.inner, expr(predicate)))?;
        Ok(self.view(
            AddView::new(self.inner.state(), true).with_vectors(),
            bound.map(|(_, p)| p),
        ))
    }

    /// What such a plan looks at.
    #[pyo3(signature = (predicate = None))]
    fn explain(&self, py: Python<'_>, predicate: Option<&Predicate>) -> PyResult<Record<ScanReport>> {
        let report = run(py, || {
            let always = Expr::Literal {
                value: Some("true".to_owned()),
                type_name: "boolean".to_owned(),
            };
            let (_, pruner) = bind_expr(self.inner.state(), expr(predicate).unwrap_or(&always))?;
            block_on(self.inner.explain(pruner))
        })?;
        Ok(Record(report))
    }

    fn deletion_vectors(&self) -> PyResult<ArrowStream> {
        let (schema, masks) = masks(&self.inner, &self.location()?);
        Ok(ArrowStream::new(schema, masks))
    }

    /// `members` are a column, a stream of values, and whether it may be null: only rows are shown
    /// that hold one of the values there. Values of some types aren't looked up; they leave nothing
    /// out.
    #[pyo3(signature = (columns = None, predicate = None, batch_rows = None, encoded_files = false, members = None))]
    fn scan(
        &self,
        py: Python<'_>,
        columns: Option<Vec<String>>,
        predicate: Option<&Predicate>,
        batch_rows: Option<usize>,
        encoded_files: bool,
        members: Option<(String, Bound<'_, PyAny>, bool)>,
    ) -> PyResult<Scan> {
        let members = members.map(|(column, values, nulls)| PyResult::Ok((column, reader_of(&values)?, nulls)));
        let members = members.transpose()?;
        run(py, || {
            let members = members.map(|(column, values, nulls)| members_of(&column, values, nulls));
            let request = ScanRequest {
                columns,
                predicate: expr(predicate).cloned(),
                batch_rows,
                encoded_files,
                members: members.transpose()?.flatten(),
            };
            Rows::new(&self.inner, request).map(Scan::from)
        })
    }

    /// Rows of a version that other files than those of another version hold, or that only its
    /// deletion vectors leave: what is new in this version since `base`, or with `gone` what went.
    /// Both come as this version's columns.
    fn unlike(&self, py: Python<'_>, base: &Snapshot, columns: Vec<String>, gone: bool) -> PyResult<Scan> {
        let (of, other) = if gone { (base, self) } else { (self, base) };
        run(py, || {
            let others = block_on(FileSet::of(&other.inner))?;
            Rows::of_rows_missing_in(&self.inner, &of.inner, others, columns).map(Scan::from)
        })
    }

    /// Samples about `rows` rows, of at most `files` files.
    fn sample(&self, py: Python<'_>, columns: Vec<String>, files: usize, rows: u64, seed: u64) -> PyResult<Scan> {
        run(py, || {
            let files = block_on(sampled(&self.inner, files, rows, seed))?;
            Rows::of_files(&self.inner, files, columns).map(Scan::from)
        })
    }

    /// What opening the version reads of the log, without sidecars.
    #[getter]
    fn log_size(&self) -> Record<LogSize> {
        Record(self.inner.log_size())
    }

    /// What the versions from `first` up to this one changed, as rows.
    #[pyo3(signature = (first, columns = None, predicate = None))]
    fn changes(
        &self,
        py: Python<'_>,
        first: u64,
        columns: Option<Vec<String>>,
        predicate: Option<&Predicate>,
    ) -> PyResult<Scan> {
        run(py, || {
            block_on(Changes::new(&self.inner, first, columns, expr(predicate))).map(Scan::from)
        })
    }

    /// The columns of these rows.
    fn change_schema(&self, py: Python<'_>) -> PyResult<TableSchema> {
        run(py, || feed_schema(self.inner.schema())).map(Into::into)
    }

    /// The first and the last version whose times are in a range.
    fn versions_between(
        &self,
        py: Python<'_>,
        from_ms: Option<i64>,
        until_ms: Option<i64>,
    ) -> PyResult<Option<(u64, u64)>> {
        run(py, || block_on(versions_between(&self.inner, from_ms, until_ms)))
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<Record<CheckpointReport>> {
        run(py, || block_on(self.inner.checkpoint())).map(Record)
    }

    fn cleanup_metadata(&self, py: Python<'_>) -> PyResult<Record<CleanupReport>> {
        run(py, || block_on(self.inner.cleanup_metadata())).map(Record)
    }

    fn compact_logs(&self, py: Python<'_>, starting_version: u64, ending_version: u64) -> PyResult<()> {
        run(py, || {
            block_on(self.inner.compact_logs(starting_version, ending_version))
        })
    }
}

impl Snapshot {
    fn view(&self, view: AddView, pruner: Option<Arc<Pruner>>) -> ArrowStream {
        let columns = view.plan_columns();
        let schema = view.schema().clone();
        ArrowStream::new(
            schema,
            self.inner.plan(pruner, columns).map(move |b| view.rows(b?)).boxed(),
        )
    }

    fn paths(&self, predicate: Option<&Predicate>, push: impl Fn(&mut StringList, &str)) -> Result<StringList> {
        let pruner = bind(&self.inner, expr(predicate))?.map(|(_, p)| p);
        let mut out = StringList::default();
        block_on(file_list::for_each_path(&self.inner, pruner, |path| {
            push(&mut out, path)
        }))?;
        Ok(out)
    }
}
