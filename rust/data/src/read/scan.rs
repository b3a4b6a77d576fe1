//! Runs a scan: files are opened ahead, their units decoded on worker threads, batches returned in
//! order. Parallelism bounds the work in flight, which ends when the stream is dropped.

use std::sync::Arc;

use arrow::array::RecordBatch;
use deltaplane_error::{Error, Result};
use deltaplane_store::Store;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::decode::{SharedPlan, Unit, decode, ranges};
use super::plan::{FilePlan, Prepared};
use super::row_groups::units;
use super::source::{self, Source, blocking};
use super::vectors::{LiveRows, Vectors};
use super::{FileRead, ReadSpec, SourceFile};
use crate::processors::processors;

/// A unit's batches, and the permit that it holds until all of them are taken.
type Batches = (mpsc::Receiver<Result<RecordBatch>>, Option<OwnedSemaphorePermit>);

/// A whole unit counts as this many shares.
const SHARES: u32 = 4;

/// The limits for units in flight.
struct Limits {
    /// Permits to decode: one per processor. More units are in flight, since the batches of one are
    /// taken while others are decoded; with more decoders than processors all would finish later,
    /// including the one that the reader waits for.
    workers: Arc<Semaphore>,
    /// Room for units, in shares of one: a unit decoded before its turn is held in memory. A short
    /// unit takes fewer shares, otherwise a long one before it would keep the workers waiting.
    room: Arc<Semaphore>,
}

impl Limits {
    fn new(parallelism: usize) -> Limits {
        Limits {
            workers: Arc::new(Semaphore::new(parallelism)),
            room: Arc::new(Semaphore::new(parallelism.saturating_add(1) * SHARES as usize)),
        }
    }
}

/// The rows of these files in the files' order, as batches of [`ReadSpec::output_schema`].
///
/// Up to `parallelism` files are opened and row groups decoded at a time; memory is proportional to
/// the batches in flight. The stream must be polled inside a tokio runtime; the first error ends
/// it.
///
/// # Errors
/// `FileMissing`, `CorruptFile`, `UnsupportedFeature` with the file's path, and the store's errors.
pub fn scan(
    store: Store,
    files: BoxStream<'static, Result<FileRead>>,
    spec: Arc<ReadSpec>,
    parallelism: usize,
) -> BoxStream<'static, Result<RecordBatch>> {
    let start = async move {
        let prepared = Arc::new(Prepared::new(&spec)?);
        let (out, receivers) = mpsc::unbounded_channel();
        tokio::spawn(drive(store, files, prepared, parallelism.max(1), out));
        Ok(in_order(receivers))
    };
    stop_at_error(stream::once(start).try_flatten().boxed())
}

/// The rows of one file; footer and schema are checked before this returns.
pub async fn read_file(
    store: &Store,
    file: &FileRead,
    spec: &Arc<ReadSpec>,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let (prepared, parallelism) = (Arc::new(Prepared::new(spec)?), processors());
    let vectors = Arc::new(Vectors::new(store.clone()));
    let opened = open(store.clone(), file.clone(), prepared, vectors, parallelism).await?;
    Ok(rows_of(opened, parallelism))
}

/// The rows of one file that is open already and has no vectors. Must be called inside a tokio
/// runtime.
pub(crate) fn read_opened(
    source: SourceFile,
    file: &FileRead,
    spec: &ReadSpec,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let (prepared, parallelism) = (Arc::new(Prepared::new(spec)?), processors());
    let opened = Opened::new(source, prepared, file, &LiveRows::default(), parallelism)?;
    Ok(rows_of(opened, parallelism))
}

fn rows_of(opened: Opened, parallelism: usize) -> BoxStream<'static, Result<RecordBatch>> {
    let (out, receivers) = mpsc::unbounded_channel();
    tokio::spawn(async move { start_units(opened, &Limits::new(parallelism), &out).await });
    stop_at_error(in_order(receivers))
}

fn in_order(receivers: mpsc::UnboundedReceiver<Batches>) -> BoxStream<'static, Result<RecordBatch>> {
    let receivers = stream::unfold(
        receivers,
        |mut r| async move { r.recv().await.map(|batches| (batches, r)) },
    );
    receivers
        .flat_map(|unit| {
            stream::unfold(unit, |mut unit| async move {
                unit.0.recv().await.map(|batch| (batch, unit))
            })
        })
        .boxed()
}

fn stop_at_error(batches: BoxStream<'static, Result<RecordBatch>>) -> BoxStream<'static, Result<RecordBatch>> {
    batches
        .scan(false, |failed, batch| {
            let ended = *failed;
            *failed |= batch.is_err();
            std::future::ready((!ended).then_some(batch))
        })
        .boxed()
}

/// Opens files ahead and starts their units, as fast as `out` takes them.
async fn drive(
    store: Store,
    files: BoxStream<'static, Result<FileRead>>,
    prepared: Arc<Prepared>,
    parallelism: usize,
    out: mpsc::UnboundedSender<Batches>,
) {
    let vectors = Arc::new(Vectors::new(store.clone()));
    let opening = files.map(|file| {
        let (store, prepared, vectors) = (store.clone(), prepared.clone(), vectors.clone());
        let task = tokio::spawn(async move { open(store, file?, prepared, vectors, parallelism).await });
        async move {
            task.await
                .map_err(|e| Error::internal(format!("opening a data file: {e}")))?
        }
    });
    let mut opened = opening.buffered(parallelism);
    let limits = Limits::new(parallelism);
    while let Some(file) = opened.next().await {
        let going = match file {
            Ok(file) => start_units(file, &limits, &out).await,
            Err(e) => {
                fail(e, &out).await;
                false
            }
        };
        if !going {
            return;
        }
    }
}

async fn fail(e: Error, out: &mpsc::UnboundedSender<Batches>) {
    let (tx, rx) = mpsc::channel(1);
    // There is room for one message, so this never waits.
    let _ = tx.send(Err(e)).await;
    let _ = out.send((rx, None));
}

/// A file that is ready to be decoded.
struct Opened {
    source: Source,
    plan: SharedPlan,
    units: Vec<Unit>,
}

impl Opened {
    fn new(
        opened: SourceFile,
        prepared: Arc<Prepared>,
        file: &FileRead,
        live: &LiveRows,
        parallelism: usize,
    ) -> Result<Self> {
        let plan = FilePlan::new(prepared, file, opened.footer)?;
        let units = units(&plan, file, live, opened.source.is_remote(), parallelism)?;
        Ok(Opened {
            source: opened.source,
            plan: Arc::new(plan),
            units,
        })
    }
}

async fn open(
    store: Store,
    file: FileRead,
    prepared: Arc<Prepared>,
    vectors: Arc<Vectors>,
    parallelism: usize,
) -> Result<Opened> {
    let name = |e: Error| e.with_path(file.path.clone()).with_table(store.location().as_str());
    let source = source::open(&store, &file).await.map_err(name)?;
    let footer = source.footer(prepared.pruner.is_some());
    let (footer, live) = futures::try_join!(footer, vectors.rows(&file)).map_err(name)?;
    Opened::new(SourceFile { source, footer }, prepared, &file, &live, parallelism).map_err(name)
}

/// Starts the units one after the other; false when the receiver is gone.
async fn start_units(file: Opened, limits: &Limits, out: &mpsc::UnboundedSender<Batches>) -> bool {
    let longest = file.units.iter().map(|unit| unit.rows).max().unwrap_or(1).max(1);
    for unit in file.units {
        let shares = (unit.rows * SHARES as usize).div_ceil(longest);
        // First room, then a worker: the work in flight stays bounded.
        let room = limits
            .room
            .clone()
            .acquire_many_owned(u32::try_from(shares).unwrap_or(SHARES));
        let taken = tokio::select! {
            taken = room => taken.ok(),
            () = out.closed() => return false,
        };
        let batches = start(file.source.clone(), file.plan.clone(), unit, limits.workers.clone());
        if out.send((batches, taken)).is_err() {
            return false;
        }
    }
    true
}

fn start(source: Source, plan: SharedPlan, unit: Unit, workers: Arc<Semaphore>) -> mpsc::Receiver<Result<RecordBatch>> {
    // Room for all of its batches: a worker that waits for the reader would be one fewer at work.
    let (tx, rx) = mpsc::channel((unit.rows / plan.batch_rows).saturating_add(1));
    tokio::spawn(async move {
        let result = run(source, plan.clone(), unit, &workers, tx.clone()).await;
        if let Err(e) = result {
            let _ = tx.send(Err(e.with_path(plan.path.clone()))).await;
        }
    });
    rx
}

async fn run(
    source: Source,
    plan: SharedPlan,
    unit: Unit,
    workers: &Semaphore,
    tx: mpsc::Sender<Result<RecordBatch>>,
) -> Result<()> {
    let input = source.fetch(ranges(&plan, &unit)).await?;
    let _at_work = workers
        .acquire()
        .await
        .map_err(|e| Error::internal(format!("decoding a data file: {e}")))?;
    blocking(move || decode(&plan, unit, input, |batch| tx.blocking_send(Ok(batch)).is_ok())).await?
}
