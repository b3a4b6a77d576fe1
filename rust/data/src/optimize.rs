//! Rewrites the live rows of some files to new files, in their order or sorted along a curve, split
//! by size. Streams; holds at most `memory_bytes` of rows while sorting.

mod carry_deletes;
mod clustered;
mod copy;
mod outputs;
mod row_lineage;
mod sort;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deltaplane_error::{Error, Result};
use deltaplane_protocol::features::StoredIds;
use deltaplane_protocol::zorder::Curve;
use deltaplane_store::Store;
use futures::{StreamExt, stream};

use crate::read::{FileRead, ReadSpec, scan};
use crate::write::WriteSpec;
pub use carry_deletes::{CarriedDeletes, FileGroup, OptimizedFile, carry_deletes};
pub use clustered::ClusteredWriter;
use outputs::Outputs;
pub use row_lineage::{LineageStorage, RowLineage};

/// The sort order of rows.
#[derive(Debug, Clone)]
pub struct Order {
    /// Paths of columns, by the schema's names.
    pub columns: Vec<Vec<String>>,
    /// The curve.
    pub curve: Curve,
}

/// Moves rows to new files.
#[derive(Clone)]
pub struct OptimizeJob {
    /// The store with the files.
    pub store: Store,
    /// All columns of the table, with row ids if rows have them.
    pub read: Arc<ReadSpec>,
    /// The form of new files, except their size.
    pub write: WriteSpec,
    /// The columns that store row ids (P142).
    pub ids: Option<StoredIds>,
    /// The new order; without it rows keep their order.
    pub order: Option<Order>,
    /// About how many bytes of rows are in memory during the sort; others go to temporary files.
    pub memory_bytes: usize,
    /// Files that are read concurrently.
    pub parallelism: usize,
    /// Whether the original positions of sorted rows are stored, so that concurrent deletes can be
    /// carried over.
    pub lineage: LineageStorage,
    /// Set when the caller has given up: the job then ends soon.
    pub stop: Arc<AtomicBool>,
}

impl OptimizeJob {
    /// Writes the live rows of these files to about `outputs` new ones, which are invisible until
    /// they are committed.
    ///
    /// # Errors
    /// As [`scan`] and the writer; `StoreUnavailable` if temporary files have no room. New files
    /// are then deleted, as far as the store permits.
    pub async fn run(&self, files: Vec<FileRead>, outputs: u64) -> Result<Vec<OptimizedFile>> {
        let mut out = Outputs::new(self);
        let moved = match &self.order {
            None => copy::copy(self, files, &mut out).await,
            Some(order) => self.sort(files, order, outputs, &mut out).await,
        };
        match moved {
            Ok(()) => out.finish().await,
            Err(e) => {
                out.abort().await;
                Err(e)
            }
        }
    }

    async fn sort(&self, files: Vec<FileRead>, order: &Order, outputs: u64, out: &mut Outputs<'_>) -> Result<()> {
        let mut sorted = sort::sorted(self, files, order, outputs).await?;
        out.cut_after(sorted.rows.div_ceil(outputs.max(1)));
        while let Some(slice) = sorted.slices.next().await {
            self.go_on()?;
            out.write_keyed(&slice?, sorted.file_bytes).await?;
        }
        Ok(())
    }

    fn scan(
        &self,
        files: Vec<FileRead>,
        spec: Arc<ReadSpec>,
    ) -> stream::BoxStream<'static, Result<arrow::array::RecordBatch>> {
        let files = stream::iter(files.into_iter().map(Ok)).boxed();
        scan(self.store.clone(), files, spec, self.parallelism)
    }

    fn go_on(&self) -> Result<()> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(Error::internal("another file of the command failed")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
