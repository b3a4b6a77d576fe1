//! OPTIMIZE: groups of files are rewritten, several at a time, and committed as often as the caller
//! likes. Which files are rewritten is decided by the log, how rows move by the data crate. Methods
//! block the calling thread. Knows no Python.

pub mod groups;
mod moved_rows;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by it")]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deltaplane_data::{FileRead, LineageStorage, OptimizeJob, OptimizedFile, Order, RowLineage};
use deltaplane_error::{Error, Result};
use deltaplane_log::{AFTER_COMMIT, LayoutPlan, LayoutRequest, Moved, PlanColumns, Snapshot};
use deltaplane_protocol::actions::{Add, claimed_sum};
use deltaplane_protocol::expr::Expr;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::layout::Bin;
use deltaplane_protocol::zorder::Curve;
use deltaplane_store::{Store, block_on, with_retry_limit};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::groups::{Group, GroupSpec, MovedGroup};
use self::moved_rows::MovedRows;
use crate::rewrite::all_columns;
use crate::rewrite::tasks::TaskSpec;
use crate::scan::{bind, read_spec};
use crate::write_job::{Spec, delete_paths};

/// OPTIMIZE on one version of a table.
pub struct Optimize {
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

/// What is to be done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OptimizeSummary {
    /// Groups of files whose rows are moved together.
    pub groups: usize,
    /// Files in them.
    pub files: usize,
    /// Bytes of these files.
    pub bytes: i64,
    /// Partitions that have a group.
    pub partitions: usize,
    /// Files that the plan looked at.
    pub considered_files: usize,
    /// Files of the largest group.
    pub most_files_in_group: usize,
    /// Bytes that new files have, about.
    pub target_bytes: i64,
    /// Whether rows are sorted.
    pub ordered: bool,
    /// The order of rows, under deltalake's names.
    pub strategy: &'static str,
}

/// A commit of groups.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OptimizeCommit {
    /// Its version.
    pub version: u64,
    /// Its metrics, under delta-spark's names.
    pub metrics: BTreeMap<String, Value>,
    /// Bytes of each old file.
    pub removed: Vec<i64>,
    /// Bytes of each new file.
    pub added: Vec<i64>,
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

impl Optimize {
    /// Plans OPTIMIZE on this version.
    ///
    /// # Errors
    /// As [`LayoutPlan::plan`].
    pub fn begin(snapshot: &Snapshot, request: LayoutRequest) -> Result<Self> {
        Ok(Optimize {
            plan: block_on(LayoutPlan::plan(snapshot, request))?,
            state: Mutex::default(),
            stop: Arc::default(),
        })
    }

    /// Whether the request names an application's version that was committed before (P076).
    pub fn was_done(&self) -> bool {
        self.plan.rewrite().was_done()
    }

    /// What is to be done.
    pub fn summary(&self) -> OptimizeSummary {
        let bins = self.plan.bins();
        let mut partitions: Vec<_> = bins.iter().map(|b| &b.partition_values).collect();
        partitions.dedup();
        OptimizeSummary {
            groups: bins.len(),
            files: bins.iter().map(|b| b.files.len()).sum(),
            bytes: claimed_sum(bins.iter().map(Bin::bytes)),
            partitions: partitions.len(),
            considered_files: self.plan.considered(),
            most_files_in_group: bins.iter().map(|b| b.files.len()).max().unwrap_or(0),
            target_bytes: self.plan.target_bytes(),
            ordered: self.plan.order().is_some(),
            strategy: self
                .plan
                .order()
                .map_or("preserveLocality", |(_, curve)| strategy(curve)),
        }
    }

    /// Files and bytes that a scan with this predicate would read if each group were one file: one
    /// file of a group that may match makes its whole group match.
    pub fn read_after(&self, predicate: Option<&Expr>) -> Result<(u64, i64)> {
        let base = self.plan.rewrite().base();
        let pruner = bind(base, predicate)?.map(|(_, pruner)| pruner);
        let bins = self.plan.bins();
        let numbered = bins.iter().enumerate();
        let group: HashMap<&str, usize> = numbered
            .flat_map(|(n, bin)| bin.files.iter().map(move |f| (f.add.path.as_str(), n)))
            .collect();
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
    }

    /// Begins to move groups: `tasks` of them at a time, which together hold up to `memory_bytes`
    /// of rows in a sort.
    pub fn start(&self, tasks: usize, memory_bytes: usize) -> Result<()> {
        let tasks = tasks.clamp(1, self.plan.bins().len().max(1));
        let job = self.job(tasks, memory_bytes)?;
        let bins = self.plan.bins().iter();
        let groups: Vec<_> = bins.map(|bin| (bin.clone(), self.plan.outputs(bin))).collect();
        let moving = stream::iter(groups).map(move |(bin, outputs)| {
            let job = job.clone();
            async move {
                let reads = bin.files.iter().map(|f| FileRead::of(&f.add)).collect::<Result<_>>()?;
                let files = job.run(reads, outputs).await?;
                Ok((bin, files))
            }
        });
        self.locked().running = Some(moving.buffer_unordered(tasks).boxed());
        Ok(())
    }

    /// Waits until one more group is moved; returns the bytes of its old files, `None` at the end.
    pub fn step(&self) -> Result<Option<i64>> {
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
    }

    /// What a task on another machine must know to move groups.
    pub fn task_spec(&self) -> Result<GroupSpec> {
        let rewrite = self.plan.rewrite();
        let write = Spec::of(&rewrite.target(), &[], rewrite.row_rules(), false)?;
        let order = self.plan.order();
        Ok(GroupSpec {
            task: TaskSpec::of(rewrite, write, false)?,
            order: order.map(|(columns, curve)| (columns.to_vec(), curve.to_string())),
            lineage: rewrite.others_may_mark(),
        })
    }

    /// The groups, for tasks on other machines.
    pub fn groups(&self) -> Vec<Group> {
        let group = |(number, bin): (usize, &Bin)| Group {
            number,
            files: bin.files.iter().map(|f| f.add.clone()).collect(),
            outputs: self.plan.outputs(bin),
        };
        self.plan.bins().iter().enumerate().map(group).collect()
    }

    /// Takes over a group that a task moved, to be committed; returns the bytes of its old files.
    pub fn adopt(&self, moved: MovedGroup) -> Result<i64> {
        let bin = self.plan.bins().get(moved.number);
        let bin = bin.ok_or_else(|| Error::internal("a task moved a group that wasn't planned"))?;
        let store = self.store();
        let stored = |key| Arc::new(RowLineage::stored(store.clone(), key));
        let files = moved.adds.into_iter().zip(moved.lineages);
        let files = files.map(|(add, key)| OptimizedFile {
            add,
            lineage: key.map(stored),
        });
        self.locked().hold(bin.clone(), files.collect());
        Ok(bin.bytes())
    }

    /// Commits the groups that were moved since the last commit, except those of which another
    /// writer took a file.
    ///
    /// # Errors
    /// Errors of the commit; the groups can be committed again then.
    pub fn commit(&self) -> Result<OptimizeCommit> {
        let mut state = self.locked();
        let ordered = self.plan.order().is_some();
        let row_conflicts = MovedRows::new(self.store().clone(), &state.moved, &state.lineages, ordered);
        let row_conflicts = Arc::new(row_conflicts);
        let placed = block_on(self.plan.commit(state.moved.clone(), row_conflicts.clone()));
        let placed = placed.inspect_err(|e| {
            if e.kind().rules_out_commit() {
                row_conflicts.undo();
            }
        })?;
        state.moved.clear();
        self.forget(&mut state);
        let lost = placed.lost.iter().map(|a| a.path.as_str());
        if let Err(e) = block_on(with_retry_limit(AFTER_COMMIT, delete_paths(self.store(), lost))) {
            tracing::warn!(error = %e, "files of a group that another writer took are left behind: vacuum removes them");
        }
        let old = placed.moved.iter().flat_map(|m| &m.bin.files);
        let new = placed.moved.iter().flat_map(|m| &m.adds);
        Ok(OptimizeCommit {
            version: placed.committed.version,
            removed: old.map(|f| f.add.size).collect(),
            added: new.map(|a| a.size).collect(),
            metrics: placed.metrics,
        })
    }

    /// Stops moving rows and deletes the files that no commit names. With `committing` the last
    /// commit may have happened, so its files stay.
    pub fn abort(&self, committing: bool) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let mut state = self.locked();
        self.forget(&mut state);
        let mut written: Vec<Add> = Vec::new();
        if !committing {
            written.extend(state.moved.drain(..).flat_map(|m| m.adds));
        }
        block_on(async {
            if let Some(mut running) = state.running.take() {
                while let Some(done) = running.next().await {
                    written.extend(done.into_iter().flat_map(|(_, files)| files).map(|f| f.add));
                }
            }
            delete_paths(self.store(), written.iter().map(|a| a.path.as_str())).await
        })
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self) -> &Store {
        self.plan.rewrite().base().store()
    }

    /// Deletes what says where rows were: no commit needs it any more.
    fn forget(&self, state: &mut State) {
        for lineage in std::mem::take(&mut state.lineages).into_values() {
            let Some(key) = lineage.key() else { continue };
            if let Err(e) = block_on(with_retry_limit(AFTER_COMMIT, self.store().delete(key))) {
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
            write: Spec::of(&rewrite.target(), &[], rewrite.row_rules(), false)?.write_spec()?,
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

/// deltalake's name for an order of rows, where it has one.
fn strategy(curve: Curve) -> &'static str {
    match curve {
        Curve::ZOrder => "zOrder",
        Curve::Hilbert => "hilbert",
        Curve::KdTree => "kdTree",
    }
}
