//! Sorts rows of files by their keys: a sample of the sort columns determines the keys, runs that
//! fit into memory are sorted, and the rest is spilled to temporary files until all runs are
//! merged.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch, StructArray};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::zorder::{RowOrder, Sample, columns_of};
use deltaplane_sorting::{Keyed, Run, Sorted, SpilledRun, merge};
use futures::executor::block_on_stream;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::row_lineage::{LineageStorage, Places};
use super::{OptimizeJob, Order};
use crate::read::{FileRead, ReadSpec};

/// A run is sorted when it fills one part in this many of the memory; as many again may be in
/// flight, and half of all is for sorted runs.
const RUN_PART: usize = 8;
/// A larger run would only delay the sort of its rows.
const RUN_BYTES: usize = 256 << 20;
/// Runs that are merged at once.
const MOST_RUNS: usize = 64;
/// Slices that are merged ahead of the writer.
const MERGED_AHEAD: usize = 4;
/// If there are more files, only this many are sampled.
const SAMPLED_FILES: usize = 1_000;

/// Rows in order.
pub(super) struct SortedRows {
    pub(super) slices: Run<'static>,
    pub(super) rows: u64,
    /// Length of the common key prefix of one file's rows.
    pub(super) file_bytes: usize,
}

pub(super) async fn sorted(job: &OptimizeJob, files: Vec<FileRead>, order: &Order, outputs: u64) -> Result<SortedRows> {
    let Some(sample) = sample(job, &files, order).await? else {
        return Ok(SortedRows {
            slices: stream::empty().boxed(),
            rows: 0,
            file_bytes: 0,
        });
    };
    let row_order = Arc::new(RowOrder::choose(&sample.columns()?, order.curve, outputs)?);
    let (places, read) = match Places::of(&files, &job.read).filter(|_| job.lineage != LineageStorage::No) {
        Some((places, read)) => (Some(Arc::new(places)), Arc::new(read)),
        None => (None, job.read.clone()),
    };
    let file_bytes = row_order.file_bytes();
    let keys = Keys {
        by: row_order,
        paths: Arc::new(order.columns.clone()),
        places,
    };
    let rows = job.scan(files, read);
    let (slices, rows) = in_order(rows, &keys, job.memory_bytes, job.parallelism, || job.go_on()).await?;
    Ok(SortedRows {
        slices,
        rows,
        file_bytes,
    })
}

/// Computes keys of rows.
#[derive(Clone)]
pub(super) struct Keys {
    pub(super) by: Arc<RowOrder>,
    /// Paths of the sort columns.
    pub(super) paths: Arc<Vec<Vec<String>>>,
    /// Set if rows carry their places.
    pub(super) places: Option<Arc<Places>>,
}

impl Keys {
    fn key(&self, batch: RecordBatch) -> Result<Keyed> {
        let batch = match &self.places {
            Some(places) => places.put(&batch)?,
            None => batch,
        };
        Ok(Keyed {
            keys: self.by.keys(&columns_of(&batch, &self.paths)?)?,
            rows: StructArray::from(batch),
        })
    }
}

/// All rows sorted by key, and their number. Holds about `memory_bytes` of them, computes the keys
/// of some batches concurrently, and calls `go_on` before each batch.
pub(super) async fn in_order(
    rows: impl Stream<Item = Result<RecordBatch>>,
    keys: &Keys,
    memory_bytes: usize,
    parallelism: usize,
    go_on: impl Fn() -> Result<()>,
) -> Result<(Run<'static>, u64)> {
    let keyed = rows.map(|batch| {
        let keys = keys.clone();
        async move {
            let batch = batch?;
            blocking(move || keys.key(batch)).await
        }
    });
    let mut keyed = std::pin::pin!(keyed.buffered(parallelism.max(1)));
    let mut runs = Runs::new(memory_bytes);
    let mut count = 0;
    while let Some(batch) = keyed.try_next().await? {
        go_on()?;
        count += batch.rows.len() as u64;
        runs.hold(batch).await?;
    }
    Ok((ahead(merge(runs.take().await?)), count))
}

/// A sample of the sort columns; `None` without rows.
async fn sample(job: &OptimizeJob, files: &[FileRead], order: &Order) -> Result<Option<Sample>> {
    let mut names: Vec<String> = order.columns.iter().filter_map(|path| path.first().cloned()).collect();
    names.sort_unstable();
    names.dedup();
    let spec = ReadSpec {
        columns: Some(names),
        ..job.read.as_ref().clone()
    };
    let some = files
        .iter()
        .step_by(files.len().div_ceil(SAMPLED_FILES).max(1))
        .cloned();
    let mut batches = job.scan(some.collect(), Arc::new(spec));
    let mut sample: Option<Sample> = None;
    while let Some(batch) = batches.try_next().await? {
        job.go_on()?;
        if batch.num_rows() > 0 {
            sample
                .get_or_insert_default()
                .add(&columns_of(&batch, &order.columns)?)?;
        }
    }
    Ok(sample)
}

/// The sorted runs so far.
struct Runs {
    run_bytes: usize,
    /// Bytes of memory left for sorted runs.
    room: usize,
    held: Vec<Keyed>,
    bytes: usize,
    sorting: Vec<JoinHandle<Result<Sorted>>>,
    spilling: Option<JoinHandle<Result<Option<SpilledRun>>>>,
    spilled: Levels,
}

/// Runs in temporary files. A full level is merged into one run of the next level, which bounds the
/// open files and the rows in memory during a merge; each row is rewritten as often as there are
/// levels.
#[derive(Default)]
struct Levels(Vec<Vec<SpilledRun>>);

impl Levels {
    async fn add(&mut self, mut run: SpilledRun) -> Result<()> {
        for level in 0.. {
            if level == self.0.len() {
                self.0.push(Vec::new());
            }
            let Some(runs) = self.0.get_mut(level) else { break };
            runs.push(run);
            if runs.len() < MOST_RUNS {
                break;
            }
            let full = std::mem::take(runs)
                .into_iter()
                .map(SpilledRun::read)
                .collect::<Result<_>>()?;
            let merged = blocking(move || SpilledRun::write(block_on_stream(merge(full)), 0)).await?;
            let Some(merged) = merged else { break };
            run = merged;
        }
        Ok(())
    }

    fn read(self) -> Result<Vec<Run<'static>>> {
        self.0.into_iter().flatten().map(SpilledRun::read).collect()
    }
}

impl Runs {
    fn new(memory_bytes: usize) -> Self {
        Runs {
            run_bytes: (memory_bytes / RUN_PART).min(RUN_BYTES),
            room: memory_bytes / 2,
            held: Vec::new(),
            bytes: 0,
            sorting: Vec::new(),
            spilling: None,
            spilled: Levels::default(),
        }
    }

    async fn hold(&mut self, rows: Keyed) -> Result<()> {
        self.bytes += bytes(&rows.rows) + bytes(&rows.keys);
        self.held.push(rows);
        if self.bytes >= self.run_bytes {
            self.end_run().await
        } else {
            Ok(())
        }
    }

    async fn end_run(&mut self) -> Result<()> {
        let (held, bytes) = (std::mem::take(&mut self.held), std::mem::take(&mut self.bytes));
        if let Some(room) = self.room.checked_sub(bytes) {
            self.room = room;
            self.sorting.push(tokio::task::spawn_blocking(move || Sorted::of(held)));
            return Ok(());
        }
        self.end_spilling().await?;
        let spill = move || SpilledRun::write(Sorted::of(held)?, 0);
        self.spilling = Some(tokio::task::spawn_blocking(spill));
        Ok(())
    }

    async fn end_spilling(&mut self) -> Result<()> {
        let Some(task) = self.spilling.take() else {
            return Ok(());
        };
        match task.await.map_err(died)?? {
            Some(run) => self.spilled.add(run).await,
            None => Ok(()),
        }
    }

    async fn take(mut self) -> Result<Vec<Run<'static>>> {
        self.end_spilling().await?;
        let held = std::mem::take(&mut self.held);
        self.sorting.push(tokio::task::spawn_blocking(move || Sorted::of(held)));
        let mut runs = Vec::with_capacity(self.sorting.len());
        for task in std::mem::take(&mut self.sorting) {
            runs.push(stream::iter(task.await.map_err(died)??).boxed());
        }
        runs.extend(self.spilled.read()?);
        Ok(runs)
    }
}

pub(super) fn bytes(array: &dyn Array) -> usize {
    // Counts only these rows' part of shared buffers.
    let data = array.to_data();
    data.get_slice_memory_size()
        .unwrap_or_else(|_| array.get_array_memory_size())
}

/// The same slices, merged while others are written.
fn ahead(mut slices: Run<'static>) -> Run<'static> {
    let (send, receive) = mpsc::channel(MERGED_AHEAD);
    deltaplane_store::spawn_task(async move {
        while let Some(slice) = slices.next().await {
            if send.send(slice).await.is_err() {
                return;
            }
        }
    });
    stream::unfold(receive, |mut r| async move { r.recv().await.map(|slice| (slice, r)) }).boxed()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(died)?
}

fn died(e: tokio::task::JoinError) -> Error {
    Error::internal(format!("sorting rows: {e}"))
}
