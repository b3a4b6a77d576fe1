//! Runs a scan: files are opened ahead, their units decoded on worker threads, batches returned in
//! order. Parallelism bounds the work in flight, which ends when the stream is dropped.

use std::sync::Arc;

use arrow::array::RecordBatch;
use deltaplane_error::{Error, Result};
use deltaplane_store::Store;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::decode::{SharedPlan, Unit, decode, ranges};
use super::decoders::Decoders;
use super::joined::{JoinedBatches, with_joined};
use super::opening::{Opened, Opener, grouped, until_error};
use super::plan::{FilePlan, Prepared};
use super::row_groups::RowGroups;
use super::source::{Input, unpanicking};
use super::vectors::LiveRows;
use super::{FileRead, ReadSpec, SourceFile};
use crate::processors::processors;

/// A unit's batches, and the permit that it holds until all of them are taken.
type Batches = (mpsc::Receiver<Result<RecordBatch>>, Option<OwnedSemaphorePermit>);

/// A whole unit counts as this many shares at most.
const SHARES: u32 = 4;
/// Decoded bytes of a share, about: of small units more are in flight, since each ends soon, and a
/// decoder that has to wait for the next one sleeps.
const SHARE_BYTES: usize = 4 << 20;

/// Files of an object store that are opened ahead, and units that are fetched ahead: requests wait
/// for the store and not for a processor.
const REMOTE_AHEAD: usize = 64;
/// Most fetched bytes of a scan that wait for their decoder, in steps; a larger unit takes all.
const FETCHED_STEPS: u32 = 2048;
const FETCHED_STEP_BYTES: u64 = 64 << 10;

/// The limits for units in flight.
struct Limits {
    /// A thread for each processor. More units are in flight, since the batches of one are taken
    /// while others are decoded; with more decoders than processors all would finish later,
    /// including the one that the reader waits for.
    decoders: Arc<Decoders>,
    /// Room for units, in shares of one: a unit decoded before its turn is held in memory. A short
    /// unit takes fewer shares, otherwise a long one before it would keep the decoders waiting.
    room: Arc<Semaphore>,
}

impl Limits {
    fn new(parallelism: usize) -> Limits {
        Limits {
            decoders: Decoders::new(parallelism),
            room: Arc::new(Semaphore::new(parallelism.saturating_add(1) * SHARES as usize)),
        }
    }
}

/// The rows of these files in the files' order, as batches of [`ReadSpec::output_schema`].
///
/// Up to `parallelism` row groups are decoded at a time. As many files, or groups of small files,
/// are opened ahead on a local disk, and up to 64 files in an object store, whose fetched bytes are
/// bounded by 128 MiB. Batches of one row group or of one group of small files are joined up to
/// [`ReadSpec::batch_rows`]; a batch of fewer than 1,024 rows waits at most 10 ms for others.
/// Memory is proportional to the batches in flight. The stream must be polled inside a tokio
/// runtime; the first error ends it.
///
/// # Errors
/// `FileMissing`, `CorruptFile`, `UnsupportedFeature` with the file's path, and the store's errors.
pub fn scan(
    store: Store,
    files: BoxStream<'static, Result<FileRead>>,
    spec: Arc<ReadSpec>,
    parallelism: usize,
) -> BoxStream<'static, Result<RecordBatch>> {
    let most_rows = spec.batch_rows;
    let start = async move {
        let prepared = Arc::new(Prepared::new(&spec)?);
        let (out, receivers) = mpsc::unbounded_channel();
        deltaplane_store::spawn_task(drive(store, files, prepared, parallelism.max(1), out));
        Ok(in_order(receivers))
    };
    stop_at_error(with_joined(stream::once(start).try_flatten().boxed(), most_rows))
}

/// Counts the row groups of files that may have a row for which the spec's predicate is true.
/// Reads the files' footers, some at a time.
///
/// # Errors
/// Those of [`scan`] while files are opened.
pub async fn row_groups(
    store: &Store,
    files: BoxStream<'static, Result<FileRead>>,
    spec: &Arc<ReadSpec>,
) -> Result<RowGroups> {
    let prepared = Arc::new(Prepared::new(spec)?);
    let counts = files.map(|file| {
        let (store, prepared) = (store.clone(), prepared.clone());
        async move {
            let file = file?;
            let opened = SourceFile::open(&store, &file, false).await?;
            let plan = FilePlan::new(prepared, &file, opened.footer)?;
            RowGroups::of(&plan, &file)
        }
    });
    let sum = |sum: RowGroups, of_file: RowGroups| std::future::ready(Ok(sum.with(of_file)));
    counts.buffered(processors()).try_fold(RowGroups::default(), sum).await
}

/// The rows of one file; footer and schema are checked before this returns.
pub async fn read_file(
    store: &Store,
    file: &FileRead,
    spec: &Arc<ReadSpec>,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let (prepared, parallelism) = (Arc::new(Prepared::new(spec)?), processors());
    let opened = Opener::new(store.clone(), prepared, parallelism).open(file).await?;
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
    let ahead = match opened.source.is_remote() {
        true => REMOTE_AHEAD,
        false => parallelism,
    };
    let opened = stream::iter([vec![Ok(opened)]]).boxed();
    deltaplane_store::spawn_task(async move { deliver(opened, ahead, parallelism, &out).await });
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
    let ahead = match store.is_local() {
        true => parallelism,
        false => REMOTE_AHEAD.max(parallelism),
    };
    let groups = grouped(&store, files);
    let opener = Opener::new(store, prepared, parallelism);
    let opening = groups.map(move |files| {
        let opener = opener.clone();
        let task = deltaplane_store::spawn_task(async move { opener.open_together(files).await });
        async move {
            let failed = |e| vec![Err(Error::internal(format!("opening a data file: {e}")))];
            task.await.unwrap_or_else(failed)
        }
    });
    deliver(opening.buffered(ahead).boxed(), ahead, parallelism, &out).await;
}

/// Fetches the units of opened files, up to `ahead` of them before their turn, and starts them.
async fn deliver(
    opened: BoxStream<'static, Vec<Result<Opened>>>,
    ahead: usize,
    parallelism: usize,
    out: &mpsc::UnboundedSender<Batches>,
) {
    let (fetching, mut fetched) = mpsc::channel(ahead);
    deltaplane_store::spawn_task(fetch_ahead(opened, fetching));
    let limits = Limits::new(parallelism);
    while let Some(units) = fetched.recv().await {
        let going = match units {
            Ok(units) => start_units(units, &limits, out).await,
            Err(e) => {
                fail(e, out).await;
                false
            }
        };
        if !going {
            return;
        }
    }
}

/// A unit whose bytes are being fetched, or the units of small local files.
struct Fetching {
    units: Vec<(SharedPlan, Unit)>,
    /// Their part of the room for units.
    shares: u32,
    inputs: BoxFuture<'static, Result<Fetched>>,
}

/// The input of each unit's decoder, and the permit for their bytes in memory.
struct Fetched(Vec<Input>, Option<OwnedSemaphorePermit>);

/// Starts to fetch one unit after the other, until the receiver is gone or a file can't be opened.
/// Units get their permits in their order, so that the first one never waits for a later one.
async fn fetch_ahead(mut opened: BoxStream<'static, Vec<Result<Opened>>>, fetching: mpsc::Sender<Result<Fetching>>) {
    let memory = Arc::new(Semaphore::new(FETCHED_STEPS as usize));
    while let Some(files) = opened.next().await {
        let (files, error) = until_error(files);
        let going = match files.as_slice() {
            [_, _, ..] if files.iter().all(|file| !file.source.is_remote()) => {
                let together = read_together(files);
                together.units.is_empty() || fetching.send(Ok(together)).await.is_ok()
            }
            _ => fetch_each(files, &memory, &fetching).await,
        };
        if !going {
            return;
        }
        if let Some(e) = error {
            let _ = fetching.send(Err(e)).await;
            return;
        }
    }
}

/// All units of local files as one piece of work.
fn read_together(files: Vec<Opened>) -> Fetching {
    let (mut units, mut sources) = (Vec::new(), Vec::new());
    for file in files {
        sources.extend(file.units.iter().map(|_| file.source.clone()));
        units.extend(file.units.into_iter().map(|unit| (file.plan.clone(), unit)));
    }
    let inputs = async move {
        // Local files are read in place by their decoders, whatever the ranges.
        let inputs = sources.iter().map(|source| source.fetch(Vec::new()));
        Ok(Fetched(futures::future::try_join_all(inputs).await?, None))
    };
    Fetching {
        shares: shares_of(units.iter().map(|(plan, unit)| (plan, unit))),
        units,
        inputs: inputs.boxed(),
    }
}

/// The part of the room that units take by their decoded bytes.
fn shares_of<'a>(units: impl IntoIterator<Item = (&'a SharedPlan, &'a Unit)>) -> u32 {
    let bytes = units
        .into_iter()
        .map(|(plan, unit)| unit.rows.saturating_mul(plan.row_bytes));
    let bytes = bytes.fold(0, usize::saturating_add);
    u32::try_from(bytes.div_ceil(SHARE_BYTES)).map_or(SHARES, |shares| shares.clamp(1, SHARES))
}

/// Starts to fetch the units of files; false when the receiver is gone.
async fn fetch_each(files: Vec<Opened>, memory: &Arc<Semaphore>, fetching: &mpsc::Sender<Result<Fetching>>) -> bool {
    for file in files {
        let longest = file.units.iter().map(|unit| unit.rows).max().unwrap_or(1).max(1);
        for unit in file.units {
            let shares = (unit.rows * SHARES as usize).div_ceil(longest);
            let shares = shares_of([(&file.plan, &unit)]).min(u32::try_from(shares).unwrap_or(SHARES));
            let wanted = ranges(&file.plan, &unit);
            let source = file.source.clone();
            let inputs = match file.source.is_remote() {
                false => async move { Ok(Fetched(vec![source.fetch(wanted).await?], None)) }.boxed(),
                true => {
                    let bytes = wanted.iter().map(|range| range.end - range.start).sum::<u64>();
                    let steps = u32::try_from(bytes.div_ceil(FETCHED_STEP_BYTES)).unwrap_or(FETCHED_STEPS);
                    let permit = memory.clone().acquire_many_owned(steps.min(FETCHED_STEPS));
                    let permit = tokio::select! {
                        permit = permit => permit.ok(),
                        () = fetching.closed() => return false,
                    };
                    let task =
                        deltaplane_store::spawn_task(
                            async move { Ok(Fetched(vec![source.fetch(wanted).await?], permit)) },
                        );
                    task.map(|done| done.map_err(|e| Error::internal(format!("fetching a data file: {e}")))?)
                        .boxed()
                }
            };
            let unit = Fetching {
                units: vec![(file.plan.clone(), unit)],
                shares,
                inputs,
            };
            if fetching.send(Ok(unit)).await.is_err() {
                return false;
            }
        }
    }
    true
}

async fn fail(e: Error, out: &mpsc::UnboundedSender<Batches>) {
    let (tx, rx) = mpsc::channel(1);
    // There is room for one message, so this never waits.
    let _ = tx.send(Err(e)).await;
    let _ = out.send((rx, None));
}

/// Starts units as soon as there is room for them; false when the receiver is gone.
async fn start_units(units: Fetching, limits: &Limits, out: &mpsc::UnboundedSender<Batches>) -> bool {
    // First room, then a decoder: the work in flight stays bounded.
    let room = limits.room.clone().acquire_many_owned(units.shares);
    let taken = tokio::select! {
        taken = room => taken.ok(),
        () = out.closed() => return false,
    };
    out.send((start(units, limits.decoders.clone()), taken)).is_ok()
}

fn start(fetching: Fetching, decoders: Arc<Decoders>) -> mpsc::Receiver<Result<RecordBatch>> {
    let Fetching { units, mut inputs, .. } = fetching;
    // Room for all batches and an error: a decoder that waits for the reader would be one fewer at
    // work.
    let batches = units
        .iter()
        .map(|(plan, unit)| (unit.rows / plan.batch_rows).saturating_add(1));
    let (tx, rx) = mpsc::channel(batches.sum::<usize>().saturating_add(1));
    // Local files are there already.
    match (&mut inputs).now_or_never() {
        Some(inputs) => decoders.submit(move || run(inputs, units, tx)),
        None => {
            deltaplane_store::spawn_task(async move {
                let inputs = inputs.await;
                decoders.submit(move || run(inputs, units, tx));
            });
        }
    }
    rx
}

/// Decodes the units one after the other, up to the first error, which a panic is, too: otherwise
/// the rows that are missing then would go unnoticed.
fn run(inputs: Result<Fetched>, units: Vec<(SharedPlan, Unit)>, tx: mpsc::Sender<Result<RecordBatch>>) {
    let mut path = units.first().map(|(plan, _)| plan.path.clone()).unwrap_or_default();
    let decoded = unpanicking(|| {
        let Fetched(inputs, memory) = inputs?;
        let mut out = JoinedBatches::new(tx.clone());
        for ((plan, unit), input) in units.into_iter().zip(inputs) {
            if out.is_closed() {
                break;
            }
            path.clone_from(&plan.path);
            decode(&plan, unit, input, |batch| out.send(batch, plan.batch_rows))?;
        }
        drop((out, memory));
        Ok(())
    });
    if let Err(e) = decoded {
        let _ = tx.blocking_send(Err(e.with_path(path)));
    }
}
