//! Commands that change rows, step by step: find the rows, write what becomes of them, take the old ones out, commit.
//! The checks and the commit are the log's, files the data crate's. Boundary.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use deltaplane_boundary::boundary;
use deltaplane_data::{
    FILE, FileRead, IdentityValues, Marked, Patcher, ROW, ROW_COMMIT_VERSION, ROW_ID, ReadSpec, RowSink, SelectedFile,
    Written, delete_rows, is_outdated,
};
use deltaplane_error::{Error, Result};
use deltaplane_log::{Rewrite as Plan, RewriteRequest, Rewritten, new_id, now_ms};
use deltaplane_operations::rewrite::row_conflicts::MarkedRows;
use deltaplane_protocol::actions::{Add, Remove, claimed_sum};
use deltaplane_protocol::deletion_vectors::{Positions, num_records};
use deltaplane_protocol::features::identity_columns;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_store::block_on;
use futures::{StreamExt, TryStreamExt, stream};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::errors::run;
use crate::incoming::reader_of;
use crate::patches::Patches;
use crate::rewrite_tasks::{Outcome, TaskSpec};
use crate::scan::{Rows, Scan, read_spec};
use crate::snapshot::Snapshot;
use crate::spark_plan::by_uri;
use crate::write::{Spec, delete_paths, dry_run_json, protocols_text};

/// A command on one version of a table.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Rewrite {
    plan: Plan,
    by_vector: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: Vec<SelectedFile>,
    sink: Option<RowSink>,
    written: Written,
    taken_out: Marked,
    /// What tasks on other machines marked: files as they were, and with their new vectors.
    adopted: Vec<(Add, Add)>,
    /// Files of vectors that tasks wrote, or that were written for later attempts of the commit.
    vector_files: Vec<String>,
    copied_rows: usize,
    /// What gives columns of some of the files new values, which these are, by their paths in the log.
    patcher: Option<Arc<Patcher>>,
    patched: HashSet<String>,
    /// Of a dry run: the rows that would be copied, as files of their bytes.
    copies: Vec<Add>,
    added_rows: usize,
    identity: Option<IdentityValues>,
}

impl State {
    /// Whether columns of the file get new values where they are.
    fn is_patched(&self, file: &SelectedFile) -> bool {
        self.patched.contains(&file.add.path)
    }

    /// The files of which rows are read and written.
    fn rewritten(&self) -> impl Iterator<Item = &SelectedFile> {
        self.files.iter().filter(|f| !self.is_patched(f))
    }
}

/// Footers that are read at once.
const PARALLEL_FOOTERS: usize = 16;

/// Rows by the decoded path of their file.
type Found = HashMap<String, Positions>;

/// A file as tasks need it: Spark's URI, the decoded path, the add action as JSON, the first row's id, and whether it
/// takes a vector.
type Located = (String, String, String, Option<i64>, bool);

#[boundary]
#[pymethods]
impl Rewrite {
    #[staticmethod]
    fn begin(py: Python<'_>, snapshot: &Snapshot, request: &str) -> PyResult<Self> {
        let plan = run(py, || {
            let request: RewriteRequest = serde_json::from_str(request)
                .map_err(|e| Error::invalid_argument(format!("not a request to rewrite rows: {e}")))?;
            block_on(Plan::plan(&snapshot.inner, request))
        })?;
        Ok(Rewrite {
            by_vector: plan.may_mark(),
            plan,
            state: Mutex::default(),
        })
    }

    #[getter]
    fn skip(&self) -> Option<&'static str> {
        self.plan.was_done().then_some("txn")
    }

    /// The number of files with picked rows.
    #[getter]
    fn picked_files(&self) -> usize {
        self.locked().files.len()
    }

    /// The bytes of these files.
    #[getter]
    fn picked_bytes(&self) -> i64 {
        claimed_sum(self.locked().files.iter().map(|f| f.add.size))
    }

    /// Whether other rows of the picked rows' files have to be written anew.
    #[getter]
    fn copies_rows(&self) -> bool {
        self.locked().rewritten().any(|f| self.is_rewritten(f))
    }

    /// The rows that were written, without copied ones.
    #[getter]
    fn written_rows(&self) -> usize {
        self.locked().added_rows
    }

    /// Whether changed rows are to be recorded.
    #[getter]
    fn records_changes(&self) -> bool {
        self.plan.records_changes()
    }

    /// The protocol before and after, as JSON.
    #[getter]
    fn protocols(&self) -> String {
        let (before, after) = self.plan.protocols();
        protocols_text(&before, &after)
    }

    #[getter]
    fn selects_files(&self) -> bool {
        self.plan.selects_files()
    }

    /// Whether rows are deleted by vectors, in files that take one.
    #[getter]
    fn marks_rows(&self) -> bool {
        self.by_vector
    }

    /// What tasks on other machines must know, as text.
    #[getter]
    fn task_spec(&self, py: Python<'_>) -> PyResult<String> {
        run(py, || {
            let spec = TaskSpec::of(&self.plan, self.spec_of(), self.by_vector)?;
            spec.to_json()
        })
    }

    /// The live files that Spark shows under these URIs: each with its URI, decoded path, add action as JSON, first row
    /// id, and whether it takes a vector.
    fn located(&self, py: Python<'_>, uris: Vec<String>) -> PyResult<Vec<Located>> {
        run(py, || {
            let mut wanted = HashMap::with_capacity(uris.len());
            for uri in uris {
                wanted.insert(plain_uri(&uri)?, uri);
            }
            let mut found = Vec::with_capacity(wanted.len());
            block_on(async {
                let mut batches = self.plan.candidates();
                while let Some(batch) = batches.try_next().await? {
                    for (uri, add) in by_uri(self.plan.base(), &batch)? {
                        let Some(shown) = wanted.remove(&plain_uri(&uri)?) else {
                            continue;
                        };
                        let text = serde_json::to_string(&add)
                            .map_err(|e| Error::internal(format!("can't write an add action: {e}")))?;
                        let marked = self.by_vector && num_records(&add).is_ok();
                        found.push((shown, paths::decode(&add.path)?, text, add.base_row_id, marked));
                    }
                }
                match wanted.into_values().next() {
                    None => Ok(found),
                    Some(uri) => Err(not_of_version().with_path(uri)),
                }
            })
        })
    }

    /// Takes over what tasks on other machines did, each as JSON.
    fn adopt(&self, py: Python<'_>, outcomes: Vec<String>) -> PyResult<()> {
        run(py, || {
            let mut state = self.locked();
            for text in outcomes {
                let done = Outcome::parse(&text)?;
                state.written.adds.extend(done.adds);
                state.written.cdc.extend(done.cdc);
                state.vector_files.extend(done.vector_file);
                state.copied_rows += done.copied_rows;
                state.copies.extend(done.copies);
                state.added_rows += done.written_rows;
                for new in &done.marked {
                    if let Some(before) = done.removes.iter().find(|r| r.path == new.path) {
                        let old = Add {
                            deletion_vector: before.deletion_vector.clone(),
                            ..new.clone()
                        };
                        state.adopted.push((old, new.clone()));
                    }
                }
                state.taken_out.adds.extend(done.marked);
                state.taken_out.removes.extend(done.removes);
            }
            Ok(())
        })
    }

    #[getter]
    fn spec(&self, py: Python<'_>) -> PyResult<String> {
        run(py, || self.spec_of().to_json())
    }

    /// Picks the rows that a stream names by `_file` and `_row`; returns how many.
    fn select_rows(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<u64> {
        let reader = reader_of(rows)?;
        run(py, || {
            let mut found = Found::new();
            for batch in reader {
                collect(&batch?, &mut found)?;
            }
            let rows = found.values().map(Positions::len).sum();
            self.locked().files = block_on(self.files_of(found))?;
            Ok(rows)
        })
    }

    /// Picks all rows of the files that the command's condition selects; returns how many, if the log tells.
    fn pick_files(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        run(py, || {
            let (files, rows) = block_on(self.plan.candidates().try_fold(
                (Vec::new(), Some(0)),
                |(mut files, mut sum), batch| async move {
                    let adds = FileRows::new(&batch);
                    for row in 0..batch.num_rows() {
                        sum = sum.zip(adds.live_records(row)).map(|(s, n): (i64, i64)| s + n);
                        files.push(SelectedFile {
                            add: adds.add(row)?,
                            rows: None,
                        });
                    }
                    Ok((files, sum))
                },
            ))?;
            self.locked().files = files;
            Ok(rows)
        })
    }

    /// Picks no row of the files that still hold what the table has no more, so that all their rows are copied;
    /// returns the number of files.
    fn pick_outdated(&self, py: Python<'_>) -> PyResult<usize> {
        run(py, || {
            let base = self.plan.base();
            let spec = read_spec(base, None)?;
            let adds = self.plan.candidates().map(|b| adds_of(&b?));
            let adds = adds.map_ok(|adds| stream::iter(adds.into_iter().map(Ok))).try_flatten();
            let judged = adds.map(async |add: Result<Add>| {
                let add = add?;
                let outdated = is_outdated(base.store(), &FileRead::of(&add)?, &spec).await?;
                Result::Ok(outdated.then(|| SelectedFile {
                    add,
                    rows: Some(Arc::default()),
                }))
            });
            let found = judged.buffered(PARALLEL_FOOTERS).try_filter_map(async |f| Ok(f));
            let found = block_on(found.try_collect())?;
            let mut state = self.locked();
            state.files = found;
            Ok(state.files.len())
        })
    }

    /// Picks no row of any file where the command leaves other names for their columns, so that all rows are copied;
    /// returns the number of files.
    fn pick_renamed(&self, py: Python<'_>) -> PyResult<usize> {
        run(py, || {
            if !self.plan.renames_columns() {
                return Ok(0);
            }
            let whole = |add| SelectedFile {
                add,
                rows: Some(Arc::default()),
            };
            let found = self.plan.candidates().try_fold(Vec::new(), async |mut files, batch| {
                files.extend(adds_of(&batch)?.into_iter().map(whole));
                Ok(files)
            });
            let mut state = self.locked();
            state.files = block_on(found)?;
            Ok(state.files.len())
        })
    }

    /// The picked rows, with their ids where they have some.
    fn picked(&self, py: Python<'_>) -> PyResult<Scan> {
        run(py, || self.picked_with(all_columns(&self.plan)?))
    }

    /// These columns of the picked rows, with their ids where they have some, and where they stand.
    fn picked_places(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<Scan> {
        run(py, || {
            let ids = id_columns(&self.plan)?.iter().map(|c| (*c).to_owned());
            let places = [FILE, ROW].map(str::to_owned);
            self.picked_with(columns.into_iter().chain(ids).chain(places).collect())
        })
    }

    /// Writes the rows that stand in the picked rows' files and stay, where their files are written anew. A dry run
    /// doesn't read them: nothing is wrong with rows of the table.
    fn copy_others(&self, py: Python<'_>) -> PyResult<()> {
        run(py, || {
            let mut state = self.locked();
            if self.plan.is_dry_run() {
                return self.count_others(&mut state);
            }
            let mut copied = 0;
            let rewritten = state.rewritten().filter(|f| self.is_rewritten(f));
            let reads = rewritten.map(SelectedFile::others);
            let reads = reads.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
            let mut rows = Rows::of_files(self.plan.base(), reads, all_columns(&self.plan)?)?.stream();
            block_on(async {
                while let Some(batch) = rows.try_next().await? {
                    copied += batch.num_rows();
                    self.sink(&mut state)?.write(&batch).await?;
                }
                Result::Ok(())
            })?;
            state.copied_rows += copied;
            Ok(())
        })
    }

    /// Chooses the files of picked rows that keep their other columns as they are, byte for byte, where these get new
    /// values; returns how many. Their rows are no more among those of `picked`, `copy_others` and `write`. Files of fewer
    /// bytes than `at_least` are none of them.
    fn patch_columns(&self, py: Python<'_>, columns: Vec<String>, at_least: i64) -> PyResult<usize> {
        run(py, || {
            let plain = self.plan.stored_ids()?.is_none()
                && !self.plan.records_changes()
                && !self.plan.is_dry_run()
                && self.plan.row_rules().generated.is_empty();
            let mut state = self.locked();
            if !plain {
                return Ok(0);
            }
            let Some(patcher) = Patcher::new(self.plan.store(), &self.spec_of().write_spec()?, &columns)? else {
                return Ok(0);
            };
            let worth = |f: &&SelectedFile| f.add.size >= at_least && (f.rows.is_none() || self.is_rewritten(f));
            let files: Vec<_> = state.files.iter().filter(worth).cloned().collect();
            let patcher = Arc::new(patcher);
            let judged =
                stream::iter(files).map(async |f| Result::Ok(patcher.takes(&f.add).await?.then_some(f.add.path)));
            let found: Vec<_> = block_on(judged.buffered(PARALLEL_FOOTERS).try_collect())?;
            state.patched = found.into_iter().flatten().collect();
            state.patcher = Some(patcher);
            Ok(state.patched.len())
        })
    }

    /// The decoded paths of the chosen files.
    #[getter]
    fn patched_paths(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        run(py, || {
            let state = self.locked();
            state.patched.iter().map(|path| paths::decode(path)).collect()
        })
    }

    /// The picked rows of the chosen files, with these columns and where they stand.
    fn patched_places(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<Scan> {
        run(py, || {
            let state = self.locked();
            let files = state.files.iter().filter(|f| state.is_patched(f));
            let reads = files.map(SelectedFile::selected).collect::<Result<_>>()?;
            let places = [FILE, ROW].map(str::to_owned);
            Rows::of_files(self.plan.base(), reads, columns.into_iter().chain(places).collect()).map(Scan::from)
        })
    }

    /// Writes the chosen files with new values in their picked rows, which come in the files' order, named as
    /// `patched_places` does; returns how many rows.
    fn patch(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<usize> {
        let reader = reader_of(rows)?;
        run(py, || {
            let patches = {
                let state = self.locked();
                let Some(patcher) = state.patcher.clone() else {
                    return Ok(0);
                };
                Patches::of(patcher, state.files.iter().filter(|f| state.is_patched(f)))?
            };
            let (done, written) = patches.write(reader);
            let mut state = self.locked();
            state.written.adds.extend(done.adds);
            state.copied_rows += done.copied_rows;
            state.added_rows += done.rows;
            written.map(|()| done.rows)
        })
    }

    /// Writes rows that the table has from now on, and records them as this change.
    #[pyo3(signature = (rows, change = None))]
    fn write(&self, py: Python<'_>, rows: &Bound<'_, PyAny>, change: Option<&str>) -> PyResult<()> {
        let reader = reader_of(rows)?;
        run(py, || {
            let mut state = self.locked();
            for batch in reader {
                let batch = batch?;
                state.added_rows += batch.num_rows();
                self.write_rows(&mut state, &batch, change)?;
            }
            Ok(())
        })
    }

    /// Writes rows that are new in the table; columns that they lack get what the table gives them. Returns how many.
    #[pyo3(signature = (rows, change = None))]
    fn insert(&self, py: Python<'_>, rows: &Bound<'_, PyAny>, change: Option<&str>) -> PyResult<usize> {
        let reader = reader_of(rows)?;
        run(py, || {
            let mut state = self.locked();
            let mut identity = match state.identity.take() {
                Some(identity) => identity,
                None => IdentityValues::new(self.plan.fills().to_vec(), 0),
            };
            let mut inserted = 0;
            for batch in reader {
                let batch = identity.fill(batch?)?;
                inserted += batch.num_rows();
                self.write_rows(&mut state, &batch, change)?;
            }
            state.identity = Some(identity);
            Ok(inserted)
        })
    }

    /// Records rows as this change, where changes are recorded.
    fn record(&self, py: Python<'_>, rows: &Bound<'_, PyAny>, change: &str) -> PyResult<()> {
        let reader = reader_of(rows)?;
        run(py, || {
            let mut state = self.locked();
            for batch in reader {
                let batch = batch?;
                block_on(self.sink(&mut state)?.record(&batch, change))?;
            }
            Ok(())
        })
    }

    /// Records the picked rows as this change.
    fn record_picked(&self, py: Python<'_>, change: &str) -> PyResult<()> {
        if !self.plan.records_changes() {
            return Ok(());
        }
        let mut rows = self.picked(py)?.rows().stream();
        run(py, || {
            let mut state = self.locked();
            block_on(async {
                while let Some(batch) = rows.try_next().await? {
                    self.sink(&mut state)?.record(&batch, change).await?;
                }
                Ok(())
            })
        })
    }

    /// Ends the new files and takes the picked rows out of the old ones; returns what that comes to.
    fn finish(&self, py: Python<'_>) -> PyResult<String> {
        run(py, || {
            let mut state = self.locked();
            if let Some(sink) = state.sink.take() {
                let mut written = block_on(sink.finish())?;
                if let Some(identity) = state.identity.take() {
                    identity_columns::stamp(&mut written.adds, &identity.last()?);
                }
                state.written.adds.extend(written.adds);
                state.written.cdc.extend(written.cdc);
            }
            let out = delete_rows(self.plan.store(), &state.files, self.by_vector, now_ms(), new_id());
            let out = block_on(out)?;
            state.taken_out.adds.extend(out.adds);
            state.taken_out.removes.extend(out.removes);
            state.vector_files.extend(out.vector_file);
            Ok(summary(&state).to_string())
        })
    }

    /// What the commit with these metrics would be, as JSON.
    fn dry_run(&self, py: Python<'_>, metrics: &str) -> PyResult<String> {
        run(py, || {
            let state = self.locked();
            let (done, _) = self.done(&state, metrics)?;
            let target = self.spec_of().write_spec()?.target_file_size_bytes;
            dry_run_json(&block_on(self.plan.dry_run(done, &state.copies, target))?)
        })
    }

    /// Commits with these metrics; returns the version.
    fn commit(&self, py: Python<'_>, metrics: &str) -> PyResult<u64> {
        run(py, || {
            let mut state = self.locked();
            let (done, row_conflicts) = self.done(&state, metrics)?;
            let committed = block_on(self.plan.commit(done));
            state.vector_files.extend(row_conflicts.take_vector_files());
            Ok(committed?.version)
        })
    }

    /// Deletes what was written for a commit that didn't happen.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        run(py, || {
            let mut state = self.locked();
            if let Some(sink) = state.sink.take() {
                block_on(sink.abort());
            }
            let store = self.plan.store();
            for file in &state.vector_files {
                block_on(store.delete(file))?;
            }
            delete_paths(store, state.written.adds.iter().map(|a| a.path.as_str()))?;
            delete_paths(store, state.written.cdc.iter().map(|a| a.path.as_str()))
        })
    }
}

impl Rewrite {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a file's other rows move to new files.
    fn is_rewritten(&self, file: &SelectedFile) -> bool {
        file.rows.is_some() && !(self.by_vector && file.takes_vector())
    }

    /// What the log is told, and the rows that are marked.
    fn done(&self, state: &State, metrics: &str) -> Result<(Rewritten, Arc<MarkedRows>)> {
        let metrics: BTreeMap<String, Value> =
            serde_json::from_str(metrics).map_err(|e| Error::invalid_argument(format!("not metrics: {e}")))?;
        let row_conflicts = Arc::new(MarkedRows::new(
            self.plan.store().clone(),
            &state.files,
            &state.taken_out.adds,
            state.adopted.clone(),
            self.row_ids()?,
        ));
        let done = Rewritten {
            adds: [state.written.adds.as_slice(), &state.taken_out.adds].concat(),
            removes: state.taken_out.removes.clone(),
            cdc: state.written.cdc.clone(),
            row_conflicts: Some(row_conflicts.clone()),
            metrics,
        };
        Ok((done, row_conflicts))
    }

    /// How to read the ids of rows and their places, where rows have ids that moved ones keep.
    fn row_ids(&self) -> Result<Option<ReadSpec>> {
        let columns = vec![ROW_ID.to_owned(), ROW.to_owned()];
        match self.plan.stored_ids()? {
            Some(_) => read_spec(self.plan.base(), Some(columns)).map(Some),
            None => Ok(None),
        }
    }

    /// Notes what would be copied, as far as the log tells; else by counting the rows.
    fn count_others(&self, state: &mut State) -> Result<()> {
        let mut uncounted = Vec::new();
        for file in state.files.iter().filter(|f| self.is_rewritten(f)) {
            let (others, size) = file.others_by_the_log();
            match others {
                Some(n) => state.copied_rows += usize::try_from(n).unwrap_or(usize::MAX),
                None => uncounted.extend(file.others()?),
            }
            if others != Some(0) {
                state.copies.push(Add {
                    size,
                    ..file.add.clone()
                });
            }
        }
        let mut rows = Rows::of_files(self.plan.base(), uncounted, vec![ROW.to_owned()])?.stream();
        block_on(async {
            while let Some(batch) = rows.try_next().await? {
                state.copied_rows += batch.num_rows();
            }
            Ok(())
        })
    }

    fn spec_of(&self) -> Spec {
        Spec::of(&self.plan.target(), self.plan.fills(), self.plan.row_rules(), false)
    }

    fn picked_with(&self, columns: Vec<String>) -> Result<Scan> {
        let reads = self
            .locked()
            .rewritten()
            .map(SelectedFile::selected)
            .collect::<Result<_>>()?;
        Rows::of_files(self.plan.base(), reads, columns).map(Scan::from)
    }

    fn sink<'a>(&self, state: &'a mut State) -> Result<&'a mut RowSink> {
        match &mut state.sink {
            Some(sink) => Ok(sink),
            empty => {
                let store = self.plan.store();
                let spec = self.spec_of().write_spec()?;
                let ids = self.plan.stored_ids()?;
                Ok(empty.insert(RowSink::new(store, spec, ids, self.plan.records_changes())?))
            }
        }
    }

    /// Writes rows, and records them as this change.
    fn write_rows(&self, state: &mut State, rows: &RecordBatch, change: Option<&str>) -> Result<()> {
        let sink = self.sink(state)?;
        block_on(async {
            sink.write(rows).await?;
            match change {
                Some(change) => sink.record(rows, change).await,
                None => Ok(()),
            }
        })
    }

    /// The live files of these rows.
    async fn files_of(&self, mut found: Found) -> Result<Vec<SelectedFile>> {
        let mut files = Vec::with_capacity(found.len());
        let mut batches = self.plan.candidates();
        while let Some(batch) = batches.try_next().await? {
            let adds = FileRows::new(&batch);
            for row in 0..batch.num_rows() {
                if let Some(rows) = found.remove(&paths::decode(adds.path(row)?)?) {
                    files.push(SelectedFile::new(adds.add(row)?, rows));
                }
            }
        }
        match found.into_keys().next() {
            None => Ok(files),
            Some(path) => Err(not_of_version().with_path(path)),
        }
    }
}

/// The columns of rows that are written anew.
pub(crate) fn all_columns(plan: &Plan) -> Result<Vec<String>> {
    let fields = plan.base().schema().fields().iter();
    let ids = id_columns(plan)?.iter().map(|c| (*c).to_owned());
    Ok(fields.map(|f| f.name.clone()).chain(ids).collect())
}

/// The columns of ids that rows keep when they are written anew.
fn id_columns(plan: &Plan) -> Result<&'static [&'static str]> {
    let kept = plan.stored_ids()?.is_some();
    Ok(if kept { &[ROW_ID, ROW_COMMIT_VERSION] } else { &[] })
}

fn not_of_version() -> Error {
    Error::invalid_argument("rows can be changed only in files of the version that the command reads")
}

/// A URI without what its writers differ in: escapes, and slashes after the scheme.
fn plain_uri(uri: &str) -> Result<String> {
    let decoded = paths::decode(uri)?;
    Ok(match decoded.strip_prefix("file:") {
        Some(path) => format!("file:/{}", path.trim_start_matches('/')),
        None => decoded,
    })
}

fn adds_of(batch: &RecordBatch) -> Result<Vec<Add>> {
    let adds = FileRows::new(batch);
    (0..batch.num_rows()).map(|row| adds.add(row)).collect()
}

/// Adds the rows that a batch names.
fn collect(batch: &RecordBatch, found: &mut Found) -> Result<()> {
    let wrong = || {
        Error::invalid_argument(format!(
            "rows are picked by the columns {FILE} (string) and {ROW} (long)"
        ))
    };
    let column = |name: &str| batch.column_by_name(name).ok_or_else(wrong);
    // Paths are long and repeat: numbers of them are compared.
    let encoded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let files = arrow::compute::cast(column(FILE)?, &encoded).map_err(|_| wrong())?;
    let files = files.as_dictionary::<Int32Type>();
    let (numbers, paths) = (files.keys(), files.values().as_string::<i32>());
    let rows = column(ROW)?.as_primitive_opt::<Int64Type>().ok_or_else(wrong)?;
    if files.is_nullable() || rows.null_count() > 0 {
        return Err(wrong());
    }
    let mut places = numbers.values().iter().zip(rows.values()).peekable();
    while let Some((number, _)) = places.peek().copied() {
        // Rows of a file stand together: one look-up for each run.
        let path = usize::try_from(*number).map_err(|_| wrong())?;
        let positions = found.entry(paths.value(path).to_owned()).or_default();
        while let Some((_, row)) = places.next_if(|(n, _)| *n == number) {
            positions.insert(u64::try_from(*row).map_err(|_| wrong())?);
        }
    }
    Ok(())
}

/// What a command did to files and rows, under delta-spark's names.
fn summary(state: &State) -> Value {
    let out = &state.taken_out;
    let bytes = |adds: &[Add]| claimed_sum(adds.iter().map(|a| a.size));
    let marked: HashSet<&str> = out.adds.iter().map(|a| a.path.as_str()).collect();
    let (kept, gone): (Vec<_>, Vec<_>) = out.removes.iter().partition(|r| marked.contains(r.path.as_str()));
    let with_vector = |removes: &[&Remove]| removes.iter().filter(|r| r.deletion_vector.is_some()).count();
    let updated = with_vector(&kept);
    json!({
        "numRemovedFiles": gone.len(),
        "numRemovedBytes": claimed_sum(gone.iter().filter_map(|r| r.size)),
        "numAddedFiles": state.written.adds.len(),
        "numAddedBytes": bytes(&state.written.adds),
        "numAddedChangeFiles": state.written.cdc.len(),
        // As in delta-spark, one that takes another one's place counts as all three.
        "numDeletionVectorsAdded": marked.len(),
        "numDeletionVectorsUpdated": updated,
        "numDeletionVectorsRemoved": with_vector(&gone) + updated,
        "numCopiedRows": state.copied_rows,
    })
}
