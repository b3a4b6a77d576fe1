//! OPTIMIZE, step by step: a plan, groups of files one after the other, several at a time, and commits of what is done.
//! What to write anew is the log's matter, how rows move the data crate's. Boundary.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deltaplane_boundary::boundary;
use deltaplane_data::{
    FileGroup, FileRead, LineageStorage, OptimizeJob, OptimizedFile, Order, RowLineage, carry_deletes,
};
use deltaplane_error::{Error, Result};
use deltaplane_log::{
    LayoutPlan, LayoutRequest, Moved, PlanColumns, ReappliedRows, RowConflictResolver, new_id, now_ms,
};
use deltaplane_protocol::actions::{Add, claimed_sum};
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::layout::{Bin, Candidate};
use deltaplane_protocol::paths;
use deltaplane_protocol::zorder::Curve;
use deltaplane_store::{Store, block_on};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::errors::run;
use crate::rewrite::all_columns;
use crate::rewrite_tasks::TaskSpec;
use crate::scan::{bind, read_spec};
use crate::snapshot::{Snapshot, store};
use crate::write::{Spec, delete_paths};

/// OPTIMIZE on one version of a table.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Layout {
    plan: LayoutPlan,
    state: Mutex<State>,
    stop: Arc<AtomicBool>,
}

/// Groups and their new files, as these are written.
type Moving = BoxStream<'static, Result<(Bin, Vec<OptimizedFile>)>>;

#[derive(Default)]
struct State {
    running: Option<Moving>,
    /// Files that aren't committed yet.
    moved: Vec<Moved>,
    /// Where rows of these files were, by their paths.
    lineages: HashMap<String, Arc<RowLineage>>,
}

impl State {
    fn hold(&mut self, bin: Bin, files: Vec<OptimizedFile>) {
        let mut adds = Vec::with_capacity(files.len());
        for OptimizedFile { add, lineage } in files {
            self.lineages.extend(lineage.map(|lineage| (add.path.clone(), lineage)));
            adds.push(add);
        }
        self.moved.push(Moved { bin, adds });
    }
}

#[boundary]
#[pymethods]
impl Layout {
    #[staticmethod]
    fn begin(py: Python<'_>, snapshot: &Snapshot, request: &str) -> PyResult<Self> {
        let plan = run(py, || {
            let request: LayoutRequest = serde_json::from_str(request)
                .map_err(|e| Error::invalid_argument(format!("not a request to optimize: {e}")))?;
            block_on(LayoutPlan::plan(&snapshot.inner, request))
        })?;
        Ok(Layout {
            plan,
            state: Mutex::default(),
            stop: Arc::default(),
        })
    }

    /// Whether an application's version in the request was committed already.
    #[getter]
    fn was_done(&self) -> bool {
        self.plan.rewrite().was_done()
    }

    /// What is to be done, as JSON.
    #[getter]
    fn summary(&self) -> String {
        let bins = self.plan.bins();
        let files: usize = bins.iter().map(|b| b.files.len()).sum();
        let mut partitions: Vec<_> = bins.iter().map(|b| &b.partition_values).collect();
        partitions.dedup();
        json!({
            "groups": bins.len(),
            "files": files,
            "bytes": claimed_sum(bins.iter().map(Bin::bytes)),
            "partitions": partitions.len(),
            "considered_files": self.plan.considered(),
            "most_files_in_group": bins.iter().map(|b| b.files.len()).max().unwrap_or(0),
            "target_bytes": self.plan.target_bytes(),
            "ordered": self.plan.order().is_some(),
            "strategy": self.plan.order().map_or("preserveLocality", |(_, curve)| strategy(curve)),
        })
        .to_string()
    }

    /// Files and bytes that a scan would read if each group were one file: one that may match makes its whole group match.
    #[pyo3(signature = (predicate = None))]
    fn read_after(&self, py: Python<'_>, predicate: Option<&str>) -> PyResult<(u64, i64)> {
        run(py, || {
            let base = self.plan.rewrite().base();
            let pruner = bind(base, predicate)?.map(|(_, pruner)| pruner);
            let bins = self.plan.bins();
            let of_bin = |(n, bin): (usize, &Bin)| {
                bin.files
                    .iter()
                    .map(move |f| (f.add.path.clone(), n))
                    .collect::<Vec<_>>()
            };
            let group: HashMap<String, usize> = bins.iter().enumerate().flat_map(of_bin).collect();
            let (mut met, mut files, mut bytes) = (HashSet::new(), 0_u64, 0_i64);
            let mut batches = base.plan(pruner, PlanColumns::Files);
            block_on(async {
                while let Some(batch) = batches.try_next().await? {
                    let rows = FileRows::new(&batch);
                    for row in 0..batch.num_rows() {
                        match group.get(rows.path(row)?) {
                            Some(n) => drop(met.insert(*n)),
                            None => {
                                files += 1;
                                bytes = bytes.saturating_add(rows.size(row));
                            }
                        }
                    }
                }
                Ok::<_, Error>(())
            })?;
            let merged = met.iter().filter_map(|n| bins.get(*n)).map(Bin::bytes);
            Ok((files + met.len() as u64, merged.fold(bytes, i64::saturating_add)))
        })
    }

    /// Begins: so many groups at a time, which hold so many bytes of rows while they are sorted.
    fn start(&self, py: Python<'_>, tasks: usize, memory_bytes: usize) -> PyResult<()> {
        run(py, || {
            let tasks = tasks.clamp(1, self.plan.bins().len().max(1));
            let way = self.job(tasks, memory_bytes)?;
            let jobs: Vec<_> = self
                .plan
                .bins()
                .iter()
                .map(|bin| (bin.clone(), self.plan.outputs(bin)))
                .collect();
            let moving = stream::iter(jobs).map(move |(bin, outputs)| {
                let way = way.clone();
                async move {
                    let reads = bin.files.iter().map(|f| FileRead::of(&f.add)).collect::<Result<_>>()?;
                    let files = way.run(reads, outputs).await?;
                    Ok((bin, files))
                }
            });
            self.locked().running = Some(moving.buffer_unordered(tasks).boxed());
            Ok(())
        })
    }

    /// What a task on another machine must know to move groups, as JSON.
    #[getter]
    fn task_spec(&self, py: Python<'_>) -> PyResult<String> {
        run(py, || {
            let rewrite = self.plan.rewrite();
            let write = Spec::of(&rewrite.target(), &[], rewrite.row_rules(), false);
            let order = self.plan.order();
            text(&GroupSpec {
                task: TaskSpec::of(rewrite, write, false)?,
                order: order.map(|(columns, curve)| (columns.to_vec(), curve.to_string())),
                lineage: rewrite.others_may_mark(),
            })
        })
    }

    /// The groups, each as JSON for `arrange_group`.
    fn groups(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        run(py, || {
            let group = |(number, bin): (usize, &Bin)| {
                text(&Group {
                    number,
                    files: bin.files.iter().map(|f| f.add.clone()).collect(),
                    outputs: self.plan.outputs(bin),
                })
            };
            self.plan.bins().iter().enumerate().map(group).collect()
        })
    }

    /// Takes over a group that a task moved, to be committed; the bytes of its old files.
    fn adopt(&self, py: Python<'_>, moved: &str) -> PyResult<i64> {
        run(py, || {
            let moved: MovedGroup = parsed(moved)?;
            let bin = self.plan.bins().get(moved.number);
            let bin = bin.ok_or_else(|| Error::internal("a task moved a group that wasn't planned"))?;
            let (bin, bytes) = (bin.clone(), bin.bytes());
            let files = moved
                .adds
                .into_iter()
                .zip(moved.lineages)
                .map(|(add, key)| OptimizedFile {
                    add,
                    lineage: key.map(|key| Arc::new(RowLineage::stored(self.store().clone(), key))),
                });
            self.locked().hold(bin, files.collect());
            Ok(bytes)
        })
    }

    /// Goes on until one more group is written; the bytes of its old files, `None` at the end.
    fn step(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        run(py, || {
            let mut state = self.locked();
            let Some(running) = &mut state.running else {
                return Ok(None);
            };
            let Some((bin, files)) = block_on(running.try_next())? else {
                return Ok(None);
            };
            let bytes = bin.bytes();
            state.hold(bin, files);
            Ok(Some(bytes))
        })
    }

    /// Commits the groups that were written since the last commit, but for those of which another writer took a file;
    /// returns version, delta-spark's metrics and the sizes of old and new files as JSON.
    fn commit(&self, py: Python<'_>) -> PyResult<String> {
        run(py, || {
            let mut state = self.locked();
            let row_conflicts = Arc::new(MovedRows::new(
                self.store().clone(),
                &state,
                self.plan.order().is_some(),
            ));
            let placed = block_on(self.plan.commit(state.moved.clone(), row_conflicts.clone()));
            let placed = placed.inspect_err(|_| row_conflicts.undo())?;
            state.moved.clear();
            self.forget(&mut state);
            if let Err(e) = delete_paths(self.store(), placed.lost.iter().map(|a| a.path.as_str())) {
                tracing::warn!(error = %e, "files of a group that another writer took are left behind: vacuum removes them");
            }
            let old = placed.moved.iter().flat_map(|m| &m.bin.files);
            let new = placed.moved.iter().flat_map(|m| &m.adds);
            Ok(json!({
                "version": placed.committed.version,
                "metrics": placed.metrics,
                "removed": old.map(|f| f.add.size).collect::<Vec<_>>(),
                "added": new.map(|a| a.size).collect::<Vec<_>>(),
            })
            .to_string())
        })
    }

    /// Deletes what was written for commits that didn't happen; with `committing` the last one may have happened.
    fn abort(&self, py: Python<'_>, committing: bool) -> PyResult<()> {
        run(py, || {
            self.stop.store(true, Ordering::Relaxed);
            let mut state = self.locked();
            self.forget(&mut state);
            let mut written: Vec<Add> = Vec::new();
            if !committing {
                written.extend(state.moved.drain(..).flat_map(|m| m.adds));
            }
            if let Some(mut running) = state.running.take() {
                block_on(async {
                    while let Some(done) = running.next().await {
                        written.extend(done.into_iter().flat_map(|(_, files)| files).map(|f| f.add));
                    }
                });
            }
            delete_paths(self.store(), written.iter().map(|a| a.path.as_str()))
        })
    }
}

/// The rows of groups that were moved, as far as it is known from where: what others mark of old files meanwhile is carried
/// over.
struct MovedRows {
    store: Store,
    groups: Vec<FileGroup>,
    marked: Mutex<MarkedMeanwhile>,
}

#[derive(Default)]
struct MarkedMeanwhile {
    /// Old files as others left them, by the path that they were read by.
    files: HashMap<String, Add>,
    vector_files: Vec<String>,
}

impl MovedRows {
    fn new(store: Store, state: &State, ordered: bool) -> Self {
        let optimized = |add: &Add| {
            let lineage = state.lineages.get(&add.path).cloned();
            (lineage.is_some() == ordered).then(|| OptimizedFile {
                add: add.clone(),
                lineage,
            })
        };
        let joined = |m: &Moved| {
            let new: Vec<OptimizedFile> = m.adds.iter().map(optimized).collect::<Option<_>>()?;
            if !ordered && new.len() != 1 {
                return None;
            }
            let rows = |c: &Candidate| Some((c.add.clone(), u64::try_from(c.records?).ok()?));
            Some(FileGroup {
                old: m.bin.files.iter().map(rows).collect::<Option<_>>()?,
                new,
            })
        };
        MovedRows {
            store,
            groups: state.moved.iter().filter_map(joined).collect(),
            marked: Mutex::default(),
        }
    }

    fn locked(&self) -> MutexGuard<'_, MarkedMeanwhile> {
        self.marked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn old(&self) -> impl Iterator<Item = &Add> {
        self.groups.iter().flat_map(|g| g.old.iter().map(|(add, _)| add))
    }

    /// Deletes the vectors of a commit that didn't happen.
    fn undo(&self) {
        let files = std::mem::take(&mut self.locked().vector_files);
        for file in files {
            if let Err(e) = block_on(self.store.delete(&file)) {
                tracing::warn!(%file, error = %e, "a file of deletion vectors is left behind: vacuum removes it");
            }
        }
    }
}

impl RowConflictResolver for MovedRows {
    fn paths(&self) -> HashSet<String> {
        self.old().filter_map(|add| paths::decode(&add.path).ok()).collect()
    }

    fn reapply(&self, files: Vec<Add>) -> BoxFuture<'_, Result<ReappliedRows>> {
        Box::pin(async move {
            let now = {
                let mut marked = self.locked();
                for file in files {
                    let path = paths::decode(&file.path)?;
                    let old = self.old().find(|old| paths::decode(&old.path).is_ok_and(|p| p == path));
                    let old = old.ok_or_else(|| Error::internal("rows were marked of a file that wasn't moved"))?;
                    marked.files.insert(old.path.clone(), file);
                }
                marked.files.clone()
            };
            let touched = |g: &&FileGroup| g.old.iter().any(|(old, _)| now.contains_key(&old.path));
            let groups: Vec<&FileGroup> = self.groups.iter().filter(touched).collect();
            let done = carry_deletes(&self.store, &groups, &now, now_ms(), new_id()).await?;
            self.locked().vector_files.extend(done.vector_file);
            let mut replaced = HashSet::new();
            let new = groups.iter().flat_map(|g| g.new.iter().map(|file| &file.add.path));
            for path in now.keys().chain(new) {
                replaced.insert(paths::decode(path)?);
            }
            let still = |add: Add| Add {
                data_change: false,
                ..add
            };
            Ok(ReappliedRows {
                replaced,
                removes: done.removes,
                adds: done.adds.into_iter().map(still).collect(),
            })
        })
    }
}

/// What a task must know of the table and of the new order of rows.
#[derive(Serialize, Deserialize)]
struct GroupSpec {
    task: TaskSpec,
    /// Paths of columns, and the curve's name.
    order: Option<(Vec<Vec<String>>, String)>,
    /// Whether others may mark rows of the files meanwhile.
    lineage: bool,
}

/// A group that one task moves.
#[derive(Serialize, Deserialize)]
struct Group {
    number: usize,
    files: Vec<Add>,
    /// How many files its rows make, about.
    outputs: u64,
}

/// What became of it.
#[derive(Serialize, Deserialize)]
struct MovedGroup {
    number: usize,
    adds: Vec<Add>,
    /// Of each of them the file that says where its rows were, if there is one.
    lineages: Vec<Option<String>>,
}

fn text(of: &impl Serialize) -> Result<String> {
    serde_json::to_string(of).map_err(|e| Error::internal(format!("can't write a group of files: {e}")))
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| Error::invalid_argument(format!("not a group of files: {e}")))
}

/// Moves the rows of one group to new files, on any machine, holding so many bytes of rows while they are sorted;
/// returns what `Layout.adopt` takes.
#[boundary]
#[pyfunction]
pub(crate) fn arrange_group(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    spec: &str,
    group: &str,
    memory_bytes: usize,
) -> PyResult<String> {
    run(py, || {
        let (spec, group): (GroupSpec, Group) = (parsed(spec)?, parsed(group)?);
        let order = spec.order.map(|(columns, curve)| {
            let curve = curve.parse()?;
            Ok(Order { columns, curve })
        });
        let way = OptimizeJob {
            store: store(location, options)?,
            read: Arc::new(spec.task.read_spec()?),
            write: spec.task.write.write_spec()?,
            ids: spec.task.ids.clone(),
            order: order.transpose()?,
            memory_bytes,
            // A Spark task has one core, and its siblings the others.
            parallelism: 1,
            lineage: match spec.lineage {
                true => LineageStorage::Stored,
                false => LineageStorage::No,
            },
            stop: Arc::default(),
        };
        let reads = group.files.iter().map(FileRead::of).collect::<Result<_>>()?;
        let files = block_on(way.run(reads, group.outputs))?;
        text(&MovedGroup {
            number: group.number,
            lineages: files
                .iter()
                .map(|file| file.lineage.as_ref()?.key().map(str::to_owned))
                .collect(),
            adds: files.into_iter().map(|file| file.add).collect(),
        })
    })
}

/// deltalake's name for an order of rows, where it has one.
fn strategy(curve: Curve) -> &'static str {
    match curve {
        Curve::ZOrder => "zOrder",
        Curve::Hilbert => "hilbert",
        Curve::KdTree => "kdTree",
    }
}

impl Layout {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self) -> &deltaplane_store::Store {
        self.plan.rewrite().base().store()
    }

    /// Nobody asks any more where rows were.
    fn forget(&self, state: &mut State) {
        for lineage in std::mem::take(&mut state.lineages).into_values() {
            let Some(key) = lineage.key() else { continue };
            if let Err(e) = block_on(self.store().delete(key)) {
                tracing::warn!(file = key, error = %e, "where rows were before they were sorted is left behind: vacuum removes it");
            }
        }
    }

    fn job(&self, tasks: usize, memory_bytes: usize) -> Result<OptimizeJob> {
        let rewrite = self.plan.rewrite();
        let cores = deltaplane_data::processors();
        let order = self.plan.order().map(|(columns, curve)| Order {
            columns: columns.to_vec(),
            curve,
        });
        Ok(OptimizeJob {
            store: self.store().clone(),
            read: Arc::new(read_spec(rewrite.base(), Some(all_columns(rewrite)?))?),
            write: Spec::of(&rewrite.target(), &[], rewrite.row_rules(), false).write_spec()?,
            ids: rewrite.stored_ids()?,
            order,
            memory_bytes: memory_bytes / tasks,
            parallelism: cores.div_ceil(tasks),
            lineage: match rewrite.others_may_mark() {
                true => LineageStorage::Here,
                false => LineageStorage::No,
            },
            stop: self.stop.clone(),
        })
    }
}
