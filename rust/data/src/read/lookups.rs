//! The equalities of a scan's predicate and of its set of values, with the columns' names in files:
//! what is looked up in Bloom filters. Knows no file.

use std::sync::Arc;

use deltaplane_error::{Error, Result};
use deltaplane_protocol::expr::{Lookups, Predicate};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Members, ReadSpec};

/// Most values that are looked up: with more, one of them nearly always seems to be there.
const MOST_VALUES: usize = 256;
/// Most bytes of a scan's filters in memory, in steps: many files are opened ahead. More take all
/// steps.
const MEMORY_STEPS: u32 = 1024;
const MEMORY_STEP_BYTES: u64 = 64 << 10;

/// What a scan looks up in filters.
pub(super) struct FilterLookups {
    pub(super) tree: Lookups,
    /// The physical path of each look-up's column; `None` if files don't decide.
    pub(super) paths: Vec<Option<Vec<String>>>,
    memory: Arc<Semaphore>,
}

impl FilterLookups {
    /// The look-ups of a read; `None` if it has none.
    pub(super) fn new(spec: &ReadSpec, predicate: Option<&Predicate>, members: Option<&Members>) -> Option<Self> {
        let by_predicate = predicate.map_or(Lookups::Unknown, |p| Lookups::of(p, MOST_VALUES));
        let by_members = members.map_or(Lookups::Unknown, |m| m.lookups(&spec.schema, MOST_VALUES));
        let tree = by_predicate.and(by_members);
        let each = tree.each();
        if each.is_empty() || each.iter().map(|l| l.values.len()).sum::<usize>() > MOST_VALUES {
            return None;
        }
        let is_partition = |name: &String| {
            let lower = name.to_lowercase();
            spec.partition_columns.iter().any(|p| p.to_lowercase() == lower)
        };
        let path = |column: &[String]| match column.first() {
            Some(top) if !is_partition(top) => spec.mapping.physical_path(&spec.schema, column),
            _ => None,
        };
        let paths = each.iter().map(|l| path(&l.column)).collect();
        Some(FilterLookups {
            paths,
            tree,
            memory: Arc::new(Semaphore::new(MEMORY_STEPS as usize)),
        })
    }

    /// Whether a row group may match, by which look-ups may find a value.
    pub(super) fn may_match(&self, mut may_have: impl FnMut(usize) -> bool) -> bool {
        self.tree.may_match(&mut may_have)
    }

    /// Room for this many bytes of filters, which ends with the permit.
    pub(super) async fn room_for(&self, bytes: u64) -> Result<OwnedSemaphorePermit> {
        let steps = u32::try_from(bytes.div_ceil(MEMORY_STEP_BYTES)).unwrap_or(MEMORY_STEPS);
        let room = self.memory.clone().acquire_many_owned(steps.min(MEMORY_STEPS));
        room.await
            .map_err(|e| Error::internal(format!("reading Bloom filters: {e}")))
    }
}
