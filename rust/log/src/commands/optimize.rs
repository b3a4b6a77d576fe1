//! OPTIMIZE as the log sees it: plans which files are rewritten together, and commits their
//! replacements. No row changes, so files that other writers add don't conflict. The caller moves
//! the rows.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{Add, PartitionValues, claimed_sum};
use deltaplane_protocol::conflict::marked_files;
use deltaplane_protocol::features::clustering;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::layout::{Bin, Candidate, Ordering, PROVIDER, Rules, automatic_target, compacted, ordered};
use deltaplane_protocol::paths;
use deltaplane_protocol::zorder::{self, Curve};
use futures::TryStreamExt;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::committer::{Maintenance, check_permitted};
use crate::environment::new_id;
use crate::history::as_other;
use crate::transaction::{Committed, RowConflictResolver};
use crate::{Rewrite, RewriteRequest, Rewritten, Snapshot, now_ms};

/// Target size of files for compaction after a commit, which must be quick.
const AFTER_COMMIT_TARGET: i64 = 128 << 20;

/// How often a commit is repeated without the groups that other writers took files from.
const MOST_LOSSES: usize = 10;

/// Arguments of OPTIMIZE.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutRequest {
    /// Which partitions, how files are written, what commits carry. Includes the target size of
    /// files.
    pub rewrite: RewriteRequest,
    /// Columns to order rows by; empty to join small files, or to cluster a clustered table.
    #[serde(default)]
    pub columns: Vec<String>,
    /// How rows are ordered: `zorder`, `hilbert` or `kdtree`.
    #[serde(default)]
    pub curve: Option<String>,
    /// Whether files that are already in order are ordered again.
    #[serde(default)]
    pub full: bool,
    /// Files with a larger share of deleted rows are rewritten.
    pub most_deleted: f64,
    /// Only partitions that this version wrote to and that have at least this many small files:
    /// compaction after a commit.
    #[serde(default)]
    pub auto_min_files: Option<usize>,
    /// Rewrites at most this many bytes of old files; groups that save most files per byte come
    /// first.
    #[serde(default)]
    pub most_bytes: Option<i64>,
}

/// A plan, checked against one version.
pub struct LayoutPlan {
    rewrite: Rewrite,
    order: Option<Wanted>,
    bins: Vec<Bin>,
    target: i64,
    considered: usize,
}

/// An order of rows and where it comes from.
struct Wanted {
    ordering: Ordering,
    paths: Vec<Vec<String>>,
    clusters: bool,
}

/// New files that replace others.
#[derive(Clone)]
pub struct Moved {
    /// The old files.
    pub bin: Bin,
    /// The new ones.
    pub adds: Vec<Add>,
}

/// The result of a commit.
pub struct Placed {
    /// The commit.
    pub committed: Committed,
    /// Its metrics, with delta-spark's names.
    pub metrics: BTreeMap<String, Value>,
    /// The moves that are committed.
    pub moved: Vec<Moved>,
    /// New files of groups that were left out.
    pub lost: Vec<Add>,
}

impl LayoutPlan {
    /// Finds the files to rewrite.
    ///
    /// # Errors
    /// `InvalidArgument` for columns by which rows can't be ordered, and for columns on a clustered
    /// table; `UnsupportedExpression` for a condition on other columns than partition columns; as
    /// [`Rewrite::plan`].
    pub async fn plan(base: &Snapshot, request: LayoutRequest) -> Result<Self> {
        check_permitted(base.store(), Maintenance::Optimize)?;
        let planned = Self::find(base, request).await;
        planned.map_err(|e| e.with_table(base.store().location().as_str()))
    }

    async fn find(base: &Snapshot, mut request: LayoutRequest) -> Result<Self> {
        let order = wanted(base, &request).await?;
        say(&mut request, order.as_ref());
        let rewrite = Rewrite::plan(base, request.rewrite.clone()).await?;
        if !rewrite.selects_files() {
            return Err(Error::unsupported_expression(
                "files are chosen by partition columns alone: leave others out",
            ));
        }
        let asked = rewrite.target();
        let asked = asked
            .request
            .target_file_size
            .or(asked.properties.target_file_size_bytes);
        let asked = asked.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        let mut rules = Rules {
            // The largest possible target until the table's size is known: a file that is no
            // candidate for it is none for a smaller one.
            target: asked.unwrap_or(automatic_target(i64::MAX)),
            most_deleted: request.most_deleted,
            full: request.full,
        };
        let all = Considered::of(&rewrite, &rules, order.is_some()).await?;
        rules.target = asked.unwrap_or_else(|| match request.auto_min_files {
            Some(_) => AFTER_COMMIT_TARGET,
            None => automatic_target(all.bytes),
        });
        let mut bins = match &order {
            None => compacted(all.files, &rules),
            Some(wanted) => ordered(all.files, &wanted.ordering, &rules, wanted.clusters),
        };
        if let Some(least) = request.auto_min_files {
            let (small, written) = (small_files(&bins), partitions_written(base).await?);
            bins.retain(|bin| {
                small.get(&bin.partition_values).is_some_and(|n| *n >= least) && written.contains(&bin.partition_values)
            });
        }
        if let Some(most) = request.most_bytes {
            bins = affordable(bins, most);
        }
        Ok(LayoutPlan {
            rewrite,
            order,
            bins,
            target: rules.target,
            considered: all.count,
        })
    }

    /// The requirements of new files, and the version that is read.
    pub fn rewrite(&self) -> &Rewrite {
        &self.rewrite
    }

    /// The files to rewrite, group by group.
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// Paths of the columns to order rows by, and the curve; `None` if rows keep their order.
    pub fn order(&self) -> Option<(&[Vec<String>], Curve)> {
        self.order.as_ref().map(|w| (w.paths.as_slice(), w.ordering.curve))
    }

    /// Target size of files, in bytes.
    pub fn target_bytes(&self) -> i64 {
        self.target
    }

    /// Number of files that were considered.
    pub fn considered(&self) -> usize {
        self.considered
    }

    /// Number of files that the rows of a group make.
    pub fn outputs(&self, bin: &Bin) -> u64 {
        match self.order {
            None => 1,
            Some(_) => u64::try_from(bin.bytes())
                .unwrap_or(0)
                .div_ceil(self.target.unsigned_abs().max(1))
                .max(1),
        }
    }

    /// Replaces old files by new ones in one commit. Leaves out groups of which another writer
    /// removed a file meanwhile. If other writers only deleted rows by vectors, `row_conflicts`
    /// applies these deletions to the new files.
    ///
    /// # Errors
    /// `ConcurrentDeleteDelete` if no group is left; nothing is visible then.
    pub async fn commit(&self, mut moved: Vec<Moved>, row_conflicts: Arc<dyn RowConflictResolver>) -> Result<Placed> {
        let mut lost = Vec::new();
        for _ in 0..MOST_LOSSES {
            let error = match self.place(&moved, row_conflicts.clone()).await {
                Ok(committed) => {
                    let metrics = metrics(&moved);
                    return Ok(Placed {
                        committed,
                        metrics,
                        moved,
                        lost,
                    });
                }
                Err(e) if e.kind() == Kind::ConcurrentDeleteDelete => e,
                Err(e) => return Err(e),
            };
            let taken = self.taken(&row_conflicts.paths()).await?;
            let stands = |m: &Moved| {
                let mut paths = m.bin.files.iter().map(|f| paths::decode(&f.add.path));
                paths.all(|path| path.is_ok_and(|path| !taken.contains(&path)))
            };
            let (left, gone): (Vec<_>, Vec<_>) = moved.into_iter().partition(stands);
            if left.is_empty() || gone.is_empty() {
                return Err(error);
            }
            lost.extend(gone.into_iter().flat_map(|m| m.adds));
            moved = left;
        }
        Err(Error::new(
            Kind::ConcurrentDeleteDelete,
            "other writers changed files of OPTIMIZE at each of its attempts: run it again, or on fewer partitions",
        ))
    }

    async fn place(&self, moved: &[Moved], row_conflicts: Arc<dyn RowConflictResolver>) -> Result<Committed> {
        let (now, mut done) = (now_ms(), Rewritten::default());
        done.row_conflicts = Some(row_conflicts);
        for Moved { bin, adds } in moved {
            let removes = bin.files.iter().map(|f| f.add.to_remove(now, false));
            done.removes.extend(removes);
            let tags = self.order.as_ref().map(|w| w.ordering.tags(&new_id().to_string()));
            let provider = self.order.as_ref().filter(|w| w.clusters).map(|_| PROVIDER.to_owned());
            done.adds.extend(adds.iter().map(|add| Add {
                tags: tags.clone(),
                clustering_provider: provider.clone(),
                ..add.clone()
            }));
        }
        let metrics = metrics(moved).into_iter();
        done.metrics = metrics.map(|(k, v)| (k, json!(v.to_string()))).collect();
        self.rewrite.commit(done).await
    }

    /// Decoded paths of the files that commits removed since the version that was read; without
    /// files in which they only deleted rows that can be applied to the new files.
    async fn taken(&self, resolvable: &HashSet<String>) -> Result<HashSet<String>> {
        let base = self.rewrite.base();
        let mut overlapping = HashSet::new();
        for commit in base.update().await?.commits_after(Some(base.version())).await? {
            let files = commit.files()?;
            let operation = as_other(&commit, &commit.info()?).operation.unwrap_or_default();
            let marked = marked_files(&operation, &files.adds, &files.removes)?;
            let rows = FileRows::new(&files.removes);
            for row in 0..files.removes.num_rows() {
                let path = paths::decode(rows.path(row)?)?;
                if !(marked.contains(&path) && resolvable.contains(&path)) {
                    overlapping.insert(path);
                }
            }
        }
        Ok(overlapping)
    }
}

/// The order for rows: the caller's, or the table's clustering.
async fn wanted(base: &Snapshot, request: &LayoutRequest) -> Result<Option<Wanted>> {
    let state = base.state();
    let clustered = clustered_by(base).await?;
    let clusters = !clustered.is_empty();
    if clusters && !request.columns.is_empty() {
        return Err(Error::invalid_argument(format!(
            "the table is clustered by {}, which OPTIMIZE keeps to: leave ZORDER BY out, or change the columns by ALTER TABLE … CLUSTER BY",
            clustered.join(", ")
        )));
    }
    let columns = if clusters { clustered } else { request.columns.clone() };
    if columns.is_empty() {
        if request.full {
            return Err(Error::invalid_argument(
                "OPTIMIZE FULL orders all files again, but the table isn't clustered and no columns are given: leave FULL out, or say ZORDER BY",
            ));
        }
        return Ok(None);
    }
    let curve = match &request.curve {
        Some(name) => name.parse()?,
        None if clusters => Curve::Hilbert,
        None => Curve::ZOrder,
    };
    let paths = zorder::paths(state.schema(), state.partition_columns(), &columns)?;
    let columns = match clusters {
        true => columns,
        false => paths.iter().map(|path| path.join(".")).collect(),
    };
    Ok(Some(Wanted {
        ordering: Ordering { columns, curve },
        paths,
        clusters,
    }))
}

async fn clustered_by(base: &Snapshot) -> Result<Vec<String>> {
    let state = base.state();
    let domains = base.domains().await?;
    let Some(domain) = domains.iter().find(|d| d.domain == clustering::DOMAIN) else {
        return Ok(Vec::new());
    };
    let columns = clustering::columns(domain)?;
    let name = |path: &Vec<String>| clustering::logical_name(state.metadata(), state.schema(), path);
    columns.iter().map(name).collect()
}

/// The parameters in delta-spark's history.
fn say(request: &mut LayoutRequest, order: Option<&Wanted>) {
    let list = |columns: Option<&Vec<String>>| json!(json!(columns.cloned().unwrap_or_default()).to_string());
    let columns = |clusters: bool| list(order.filter(|w| w.clusters == clusters).map(|w| &w.ordering.columns));
    let auto = json!(request.auto_min_files.is_some());
    let said = [
        ("zOrderBy", columns(false)),
        ("clusterBy", columns(true)),
        ("auto", auto),
    ];
    let full = order.filter(|w| w.clusters).map(|_| ("isFull", json!(request.full)));
    let parameters = &mut request.rewrite.operation_parameters;
    parameters.extend(said.into_iter().chain(full).map(|(k, v)| (k.to_owned(), v)));
}

/// Files that may have to be rewritten.
struct Considered {
    files: Vec<Candidate>,
    count: usize,
    bytes: i64,
}

impl Considered {
    async fn of(rewrite: &Rewrite, rules: &Rules, all: bool) -> Result<Self> {
        let (mut files, mut count, mut bytes) = (Vec::new(), 0, 0_i64);
        let mut batches = rewrite.candidates();
        while let Some(batch) = batches.try_next().await? {
            let rows = FileRows::new(&batch);
            for row in 0..batch.num_rows() {
                count += 1;
                bytes = bytes.saturating_add(rows.size(row));
                let file = Candidate {
                    records: rows.num_records(row),
                    add: Add {
                        stats: None,
                        ..rows.add(row)?
                    },
                };
                if all || rules.is_compacted(&file) {
                    files.push(file);
                }
            }
        }
        Ok(Considered { files, count, bytes })
    }
}

/// Groups with at most this many bytes together, those with the smallest files first.
fn affordable(mut bins: Vec<Bin>, most: i64) -> Vec<Bin> {
    let file_bytes = |bin: &Bin| bin.bytes() / i64::try_from(bin.files.len()).unwrap_or(i64::MAX).max(1);
    bins.sort_by_key(file_bytes);
    let mut left = most;
    bins.retain(|bin| {
        let fits = bin.bytes() <= left;
        left -= if fits { bin.bytes() } else { 0 };
        fits
    });
    bins
}

fn small_files(bins: &[Bin]) -> BTreeMap<PartitionValues, usize> {
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for bin in bins {
        *counts.entry(bin.partition_values.clone()).or_default() += bin.files.len();
    }
    counts
}

/// The partitions to which the version's own commit added files.
async fn partitions_written(base: &Snapshot) -> Result<BTreeSet<PartitionValues>> {
    let mut partitions = BTreeSet::new();
    for commit in base.commits_after(base.version().checked_sub(1)).await? {
        let adds = &commit.files()?.adds;
        let rows = FileRows::new(adds);
        partitions.extend((0..adds.num_rows()).map(|row| rows.partition_values(row)));
    }
    Ok(partitions)
}

/// Metrics, with delta-spark's names.
fn metrics(moved: &[Moved]) -> BTreeMap<String, Value> {
    let old = || moved.iter().flat_map(|m| &m.bin.files);
    let new = || moved.iter().flat_map(|m| &m.adds);
    let mut sizes: Vec<i64> = new().map(|a| a.size).collect();
    sizes.sort_unstable();
    let quantile = |quarter: usize| {
        sizes
            .get((sizes.len().saturating_sub(1)) * quarter / 4)
            .copied()
            .unwrap_or(0)
    };
    let vectors = old().filter(|f| f.add.deletion_vector.is_some()).count();
    [
        ("numRemovedFiles", json!(old().count())),
        ("numRemovedBytes", json!(claimed_sum(old().map(|f| f.add.size)))),
        ("numAddedFiles", json!(sizes.len())),
        ("numAddedBytes", json!(claimed_sum(sizes.iter().copied()))),
        ("minFileSize", json!(quantile(0))),
        ("p25FileSize", json!(quantile(1))),
        ("p50FileSize", json!(quantile(2))),
        ("p75FileSize", json!(quantile(3))),
        ("maxFileSize", json!(quantile(4))),
        ("numDeletionVectorsRemoved", json!(vectors)),
    ]
    .map(|(k, v)| (k.to_owned(), v))
    .into()
}
