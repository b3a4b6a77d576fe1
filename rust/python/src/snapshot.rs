//! The snapshot class: one version of a table.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use deltaplane_boundary::boundary;
use deltaplane_error::{Error, Result};
use deltaplane_log::{
    HistoryEntry, PlanColumns, ReadRequest, RewriteFirst, Snapshot as Inner, log_history, now_ms, versions_between,
};
use deltaplane_operations::vector_masks::masks;
use deltaplane_protocol::arrow_types::to_arrow_schema;
use deltaplane_protocol::changes::feed_schema;
use deltaplane_protocol::expr::Expr;
use deltaplane_protocol::features::deletion_vectors::may_have_vectors;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_protocol::prune::Pruner;
use deltaplane_store::{Location, Options, Store, block_on};
use futures::{StreamExt, TryStreamExt};
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

use crate::add_view::AddView;
use crate::arrow_bridge::{ArrowSchema, ArrowStream};
use crate::changes::{Changes, Rows as ChangedRows};
use crate::errors::run;
use crate::file_sets::{FileSet, sampled};
use crate::incoming::reader_of;
use crate::scan::{Rows, Scan, ScanRequest, bind, members_of};
use crate::string_list::StringList;

/// One immutable version of a table.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Snapshot {
    pub(crate) inner: Inner,
}

/// Opens the store of a location.
pub(crate) fn store(location: &str, options: Option<HashMap<String, String>>) -> Result<Store> {
    let location = Location::parse(location)?;
    Store::open(&location, &Options::new(options.unwrap_or_default()))
}

fn history_text(entries: Vec<HistoryEntry>) -> String {
    let entries = entries.into_iter().map(|e| {
        let mut info = e.info;
        info.insert("version".into(), json!(e.version));
        info.insert("timestamp".into(), json!(e.timestamp_ms));
        Value::Object(info)
    });
    Value::Array(entries.collect()).to_string()
}

/// What the newest commits of a location's log say of themselves, as JSON, without opening the table.
#[boundary]
#[pyfunction]
#[pyo3(signature = (location, options = None, limit = None))]
pub(crate) fn log_history_json(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    limit: Option<usize>,
) -> PyResult<String> {
    let entries = run(py, || block_on(log_history(&store(location, options)?, limit)))?;
    Ok(history_text(entries))
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

    /// Another version of the same table.
    fn at(&self, py: Python<'_>, version: u64) -> PyResult<Self> {
        let inner = run(py, || block_on(Inner::open(self.inner.store(), Some(version))))?;
        Ok(Snapshot { inner })
    }

    fn schema_json(&self) -> String {
        self.inner.schema().to_json()
    }

    #[getter]
    fn column_mapping(&self) -> &'static str {
        self.inner.state().mapping().as_str()
    }

    fn arrow_schema(&self) -> ArrowSchema {
        ArrowSchema(to_arrow_schema(self.inner.schema()))
    }

    fn metadata_json(&self) -> String {
        let m = self.inner.state().metadata();
        json!({
            "id": m.id, "name": m.name, "description": m.description, "partition_columns": m.partition_columns,
            "created_time": m.created_time, "configuration": m.configuration,
        })
        .to_string()
    }

    fn protocol_json(&self) -> String {
        let p = self.inner.state().protocol();
        json!({
            "min_reader_version": p.min_reader_version, "min_writer_version": p.min_writer_version,
            "reader_features": p.reader_features, "writer_features": p.writer_features,
        })
        .to_string()
    }

    /// Whether files of the table may have deletion vectors.
    fn may_have_vectors(&self) -> bool {
        may_have_vectors(self.inner.state().protocol())
    }

    #[pyo3(signature = (limit = None))]
    fn history_json(&self, py: Python<'_>, limit: Option<usize>) -> PyResult<String> {
        Ok(history_text(run(py, || block_on(self.inner.history(limit)))?))
    }

    /// What stands in the log folder.
    fn log_folder_json(&self, py: Python<'_>) -> PyResult<String> {
        let folder = run(py, || block_on(self.inner.log_folder()))?;
        Ok(json!(folder).to_string())
    }

    /// What each of the newest commits did to the table's files.
    fn commit_totals_json(&self, py: Python<'_>, limit: usize) -> PyResult<String> {
        let totals = run(py, || block_on(self.inner.commit_totals(limit)))?;
        Ok(json!(totals).to_string())
    }

    /// The size at which OPTIMIZE aims, and from which on it leaves a file alone.
    fn aimed_file_size(&self, table_bytes: i64) -> (i64, f64) {
        self.inner.aimed_file_size(table_bytes)
    }

    /// Removed files that the log still names.
    fn tombstone_totals_json(&self, py: Python<'_>) -> PyResult<String> {
        let totals = run(py, || block_on(self.inner.tombstone_totals()))?;
        Ok(json!(totals).to_string())
    }

    fn transaction_version(&self, py: Python<'_>, app_id: &str) -> PyResult<Option<i64>> {
        let all = run(py, || block_on(self.inner.transactions(now_ms())))?;
        Ok(all.into_iter().find(|t| t.app_id == app_id).map(|t| t.version))
    }

    fn transactions_json(&self, py: Python<'_>) -> PyResult<String> {
        let all = run(py, || block_on(self.inner.transactions(now_ms())))?;
        Ok(json!(all).to_string())
    }

    fn domain_metadata_json(&self, py: Python<'_>) -> PyResult<String> {
        let all = run(py, || block_on(self.inner.domains()))?;
        Ok(json!(all).to_string())
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

    fn commit_read(&self, py: Python<'_>, request: &str) -> PyResult<Self> {
        let done = run(py, || {
            let request: ReadRequest = serde_json::from_str(request)
                .map_err(|e| Error::invalid_argument(format!("not a read request: {e}")))?;
            block_on(self.inner.commit_read(&request))
        })?;
        Ok(Snapshot { inner: done.snapshot })
    }

    #[pyo3(signature = (predicate = None))]
    fn file_paths(&self, py: Python<'_>, predicate: Option<&str>) -> PyResult<StringList> {
        run(py, || self.paths(predicate, |to, path| to.push(&[path])))
    }

    #[pyo3(signature = (predicate = None))]
    fn file_uris(&self, py: Python<'_>, predicate: Option<&str>) -> PyResult<StringList> {
        let root = self.location()?;
        let absolute = |to: &mut StringList, path: &str| match path.starts_with('/') || path.contains("://") {
            true => to.push(&[path]),
            false => to.push(&[&root, "/", path]),
        };
        run(py, || self.paths(predicate, absolute))
    }

    fn num_files(&self, py: Python<'_>) -> PyResult<usize> {
        run(py, || {
            let plan = self.inner.plan(None, PlanColumns::Files);
            block_on(plan.try_fold(0, |n, b| async move { Ok(n + b.num_rows()) }))
        })
    }

    /// The number of rows, if every file's statistics tell: its physical rows without those that its vector deletes (P166).
    fn num_records(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        let of_batch = |sum: Option<i64>, batch: RecordBatch| {
            let rows = FileRows::new(&batch);
            (0..batch.num_rows()).try_fold(sum?, |sum: i64, row| sum.checked_add(rows.live_records(row)?))
        };
        run(py, || {
            let plan = self.inner.plan(None, PlanColumns::Logged);
            block_on(plan.try_fold(Some(0), |sum, batch| async move { Ok(of_batch(sum, batch)) }))
        })
    }

    fn add_actions(&self, statistics: bool) -> ArrowStream {
        self.view(AddView::new(self.inner.state(), statistics), None)
    }

    /// The files that may hold a matching row, with their statistics and deletion vectors.
    #[pyo3(signature = (predicate = None))]
    fn plan(&self, py: Python<'_>, predicate: Option<&str>) -> PyResult<ArrowStream> {
        let bound = run(py, || bind(&self.inner, predicate))?;
        Ok(self.view(
            AddView::new(self.inner.state(), true).with_vectors(),
            bound.map(|(_, p)| p),
        ))
    }

    /// What such a plan looks at.
    #[pyo3(signature = (predicate = None))]
    fn explain_json(&self, py: Python<'_>, predicate: Option<&str>) -> PyResult<String> {
        const ALL: &str = r#"{"op":"literal","value":"true","type":"boolean"}"#;
        let report = run(py, || {
            let bound = bind(&self.inner, Some(predicate.unwrap_or(ALL)))?;
            let (_, pruner) = bound.ok_or_else(|| Error::internal("a predicate that isn't one"))?;
            block_on(self.inner.explain(pruner))
        })?;
        Ok(json!(report).to_string())
    }

    fn deletion_vectors(&self) -> PyResult<ArrowStream> {
        let (schema, masks) = masks(&self.inner, &self.location()?);
        Ok(ArrowStream::new(schema, masks))
    }

    /// `members` are a column, a stream of values, and whether it may be null: only rows are shown that hold one of the values
    /// there. Values of some types aren't looked up; they leave nothing out.
    #[pyo3(signature = (columns = None, predicate = None, batch_rows = None, encoded_files = false, members = None))]
    fn scan(
        &self,
        py: Python<'_>,
        columns: Option<Vec<String>>,
        predicate: Option<&str>,
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
                predicate: predicate.map(Expr::from_json).transpose()?,
                batch_rows,
                encoded_files,
                members: members.transpose()?.flatten(),
            };
            Rows::new(&self.inner, request).map(Scan::from)
        })
    }

    /// Rows of a version that other files than those of another version hold, or that only its deletion vectors leave: what
    /// is new in this version since `base`, or with `gone` what went. Both come as this version's columns.
    fn unlike(&self, py: Python<'_>, base: &Snapshot, columns: Vec<String>, gone: bool) -> PyResult<Scan> {
        let (of, other) = if gone { (base, self) } else { (self, base) };
        run(py, || {
            let others = block_on(FileSet::of(&other.inner))?;
            Rows::of_rows_missing_in(&self.inner, &of.inner, others, columns).map(Scan::from)
        })
    }

    /// About so many rows, of at most so many files.
    fn sample(&self, py: Python<'_>, columns: Vec<String>, files: usize, rows: u64, seed: u64) -> PyResult<Scan> {
        run(py, || {
            let files = block_on(sampled(&self.inner, files, rows, seed))?;
            Rows::of_files(&self.inner, files, columns).map(Scan::from)
        })
    }

    /// What opening the version reads of the log, as JSON; without sidecars.
    fn log_json(&self) -> String {
        let log = self.inner.log_size();
        json!({
            "checkpoint": log.checkpoint, "checkpoint_bytes": log.checkpoint_bytes, "commits": log.commits,
            "commit_bytes": log.commit_bytes, "checkpoint_interval": log.checkpoint_interval,
        })
        .to_string()
    }

    /// What the versions from `first` up to this one changed, as rows.
    #[pyo3(signature = (first, columns = None, predicate = None))]
    fn changes(
        &self,
        py: Python<'_>,
        first: u64,
        columns: Option<Vec<String>>,
        predicate: Option<&str>,
    ) -> PyResult<Changes> {
        run(py, || {
            block_on(ChangedRows::new(&self.inner, first, columns, predicate)).map(Changes::from)
        })
    }

    /// The columns of these rows.
    fn change_schema_json(&self, py: Python<'_>) -> PyResult<String> {
        run(py, || Ok(feed_schema(self.inner.schema())?.to_json()))
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

    fn checkpoint(&self, py: Python<'_>) -> PyResult<String> {
        let r = run(py, || block_on(self.inner.checkpoint()))?;
        Ok(json!({
            "version": r.version, "kind": r.kind, "actions": r.actions, "adds": r.adds, "size_bytes": r.size_bytes,
            "sidecars": r.sidecars, "kept_sidecars": r.kept_sidecars,
        })
        .to_string())
    }

    fn cleanup_metadata(&self, py: Python<'_>) -> PyResult<String> {
        let r = run(py, || block_on(self.inner.cleanup_metadata()))?;
        Ok(json!({"kept_from": r.kept_from, "log_files": r.log_files, "sidecars": r.sidecars}).to_string())
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

    fn paths(&self, predicate: Option<&str>, push: impl Fn(&mut StringList, &str)) -> Result<StringList> {
        let pruner = bind(&self.inner, predicate)?.map(|(_, p)| p);
        let mut batches = self.inner.plan(pruner, PlanColumns::Files);
        block_on(async {
            let mut out = StringList::default();
            while let Some(b) = batches.try_next().await? {
                let rows = FileRows::new(&b);
                for row in 0..b.num_rows() {
                    push(&mut out, &paths::decoded(rows.path(row)?)?);
                }
            }
            Ok(out)
        })
    }
}
