//! Groups of files that tasks on other machines move: what a task must know, and what it returns.
//! All of them serialize.

use std::sync::Arc;

use deltaplane_data::{FileRead, LineageStorage, OptimizeJob, Order};
use deltaplane_error::Result;
use deltaplane_protocol::actions::Add;
use deltaplane_store::{Store, block_on};
use serde::{Deserialize, Serialize};

use crate::rewrite::tasks::TaskSpec;

/// What a task must know of the table and of the new order of rows.
#[derive(Serialize, Deserialize)]
pub struct GroupSpec {
    pub(super) task: TaskSpec,
    /// Paths of columns, and the curve's name.
    pub(super) order: Option<(Vec<Vec<String>>, String)>,
    /// Whether others may mark rows of the files meanwhile.
    pub(super) lineage: bool,
}

/// A group that one task moves.
#[derive(Serialize, Deserialize)]
pub struct Group {
    pub(super) number: usize,
    pub(super) files: Vec<Add>,
    /// How many files its rows make, about.
    pub(super) outputs: u64,
}

/// A group whose rows a task moved.
#[derive(Clone, Serialize, Deserialize)]
pub struct MovedGroup {
    pub(super) number: usize,
    pub(super) adds: Vec<Add>,
    /// Of each of them the file that says where its rows were, if there is one.
    pub(super) lineages: Vec<Option<String>>,
}

/// Moves the rows of one group to new files, holding up to `memory_bytes` of rows while they are
/// sorted. Returns what [`Optimize::adopt`](super::Optimize::adopt) takes.
///
/// # Errors
/// What reading, sorting and writing the files raises; the new files are deleted then.
pub fn move_group(store: Store, spec: &GroupSpec, group: &Group, memory_bytes: usize) -> Result<MovedGroup> {
    let order = spec.order.clone().map(|(columns, curve)| {
        let curve = curve.parse()?;
        Result::Ok(Order { columns, curve })
    });
    let job = OptimizeJob {
        store,
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
    let files = block_on(job.run(reads, group.outputs))?;
    let key = |lineage: &deltaplane_data::RowLineage| lineage.key().map(str::to_owned);
    Ok(MovedGroup {
        number: group.number,
        lineages: files.iter().map(|file| key(file.lineage.as_ref()?)).collect(),
        adds: files.into_iter().map(|file| file.add).collect(),
    })
}
