//! Plans: the live files of a snapshot as a stream, without those that a predicate rules out.

use std::sync::Arc;

use arrow::array::RecordBatch;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::files::seen::SeenFiles;
use deltaplane_protocol::prune::Pruner;
use deltaplane_protocol::replay::Replay;
use futures::channel::mpsc::{Sender, channel};
use futures::stream::{self, BoxStream};
use futures::{SinkExt, StreamExt, TryStreamExt};

use crate::checkpoint::part::FileActions;
use crate::checkpoint::reader::{CheckpointReader, PlanColumns};
use crate::checkpoint::row_filter::Skipping;
use crate::commit::reader::is_damage;
use crate::scan_report::{ScanCounters, ScanReport};
use crate::snapshot::{Snapshot, filter};

/// The number of files that a plan examined.
pub struct Considered(Option<Arc<ScanCounters>>);

impl Considered {
    /// The number, once the plan was read to its end; `None` if it returned every file.
    pub fn files(&self) -> Option<u64> {
        let seen = self.0.as_ref()?.report();
        Some((seen.in_commits + seen.in_checkpoint).saturating_sub(seen.replaced))
    }
}

impl Snapshot {
    /// Live files as batches of adds, the newest commits' first, then the checkpoint's: streamed,
    /// without the files that `pruner` rules out.
    pub fn plan(&self, pruner: Option<Arc<Pruner>>, columns: PlanColumns) -> BoxStream<'static, Result<RecordBatch>> {
        self.skipping_plan(pruner.map(|pruner| Skipping { pruner, counters: None }), columns)
    }

    /// As `plan`, with a count of the examined files.
    pub fn counted_plan(
        &self,
        pruner: Option<Arc<Pruner>>,
        columns: PlanColumns,
    ) -> (BoxStream<'static, Result<RecordBatch>>, Considered) {
        let counters = Arc::new(ScanCounters::default());
        let skipping = pruner.map(|pruner| Skipping {
            pruner,
            counters: Some(counters.clone()),
        });
        let considered = Considered(skipping.is_some().then_some(counters));
        (self.skipping_plan(skipping, columns), considered)
    }

    /// The plan's figures: the examined files, and why files are left out or stay.
    pub async fn explain(&self, pruner: Arc<Pruner>) -> Result<ScanReport> {
        let counters = Arc::new(ScanCounters::default());
        let skipping = Skipping {
            pruner: pruner.clone(),
            counters: Some(counters.clone()),
        };
        let mut batches = self.skipping_plan(Some(skipping), PlanColumns::Parsed);
        while let Some(batch) = batches.try_next().await? {
            counters.kept(&pruner, &batch)?;
        }
        Ok(counters.report())
    }

    fn skipping_plan(
        &self,
        skipping: Option<Skipping>,
        columns: PlanColumns,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let this = self.clone();
        fed(|mut send| async move {
            let with_table = |e: Error| {
                e.with_table(this.store().location().as_str())
                    .with_version(this.version())
            };
            let streamed = this.stream_plan(skipping.as_ref(), columns, &mut send).await;
            streamed.map_err(with_table)
        })
    }

    async fn stream_plan(
        &self,
        skipping: Option<&Skipping>,
        columns: PlanColumns,
        send: &mut Sender<Result<RecordBatch>>,
    ) -> Result<()> {
        let counters = skipping.and_then(|s| s.counters.as_deref());
        // Remembers the files that were sent before a checkpoint turns out damaged; another source
        // provides the rest.
        let (mut from, mut sent) = (self.clone(), Replay::new());
        loop {
            let tail = from.tail()?;
            for batch in &tail.live {
                let unsent = filter(batch, &sent.checkpoint(batch)?)?;
                counters.inspect(|t| t.in_commits(unsent.num_rows()));
                if !emit(send, prune(unsent, skipping)?).await {
                    return Ok(());
                }
            }
            let Some(checkpoint) = from.checkpoint_reader() else {
                return Ok(());
            };
            let mut files = CheckpointFiles {
                replay: &tail.replay,
                skipping,
                columns: &columns,
                send,
            };
            if skipping.is_some()
                && let Some(copied) = from.copied_checkpoint().await
            {
                // A predicate leaves few files to remember; a copy may be deleted as a whole.
                let mut replayed = Replay::new();
                match files.send(&copied.reader, &sent, Some(&mut replayed)).await? {
                    Ended::Well => return Ok(()),
                    Ended::Damaged(damage, _) => from.forget_copy(&copied, &damage).await,
                }
                sent.absorb(&replayed);
            }
            let (damage, done) = match files.send(checkpoint, &sent, None).await? {
                Ended::Well => return Ok(()),
                Ended::Damaged(damage, done) => (damage, done),
            };
            let other = from.beside_checkpoint(damage).await?;
            // As long as nothing is damaged, this costs no memory; afterwards the sound part is
            // read again.
            sent.absorb(&tail.replay);
            let mut again = checkpoint
                .files(FileActions::Adds, columns.clone(), skipping)
                .take(done);
            while let Some(batch) = again.try_next().await? {
                sent.remember(&batch)?;
            }
            drop(again);
            from = other;
        }
    }
}

/// How reading a checkpoint's files ended.
enum Ended {
    /// All were sent, or the receiver is gone.
    Well,
    /// The error, and how many batches were sent before it.
    Damaged(Error, usize),
}

/// A checkpoint's files on their way to a plan.
struct CheckpointFiles<'a> {
    /// The commits after it, reconciled.
    replay: &'a Replay,
    skipping: Option<&'a Skipping>,
    columns: &'a PlanColumns,
    send: &'a mut Sender<Result<RecordBatch>>,
}

impl CheckpointFiles<'_> {
    /// Sends the files of a checkpoint that weren't sent before; `replayed` collects them.
    async fn send(
        &mut self,
        checkpoint: &CheckpointReader,
        sent: &Replay,
        mut replayed: Option<&mut Replay>,
    ) -> Result<Ended> {
        let counters = self.skipping.and_then(|s| s.counters.as_deref());
        if let Err(e) = checkpoint.open_all().await {
            return match is_damage(&e) {
                true => Ok(Ended::Damaged(e, 0)),
                false => Err(e),
            };
        }
        // The checkpoint is a copy of another writer's.
        let repeats = replayed.is_some() || checkpoint.may_repeat().await?;
        let mut once = repeats.then(SeenFiles::default);
        let mut batches = checkpoint.files(FileActions::Adds, self.columns.clone(), self.skipping);
        let mut done = 0;
        loop {
            match batches.try_next().await {
                Ok(Some(batch)) => {
                    let untouched = filter(&batch, &self.replay.checkpoint(&batch)?)?;
                    counters.inspect(|t| t.replaced(batch.num_rows() - untouched.num_rows()));
                    let unsent = filter(&untouched, &sent.checkpoint(&untouched)?)?;
                    // Drops the other references, so that the receiver owns the rows alone.
                    drop((batch, untouched));
                    let mut selected = prune(unsent, self.skipping)?;
                    if let Some(once) = &mut once {
                        let first = filter(&selected, &once.first(&selected)?)?;
                        counters.inspect(|t| t.replaced(selected.num_rows() - first.num_rows()));
                        selected = first;
                    }
                    if let Some(replayed) = &mut replayed {
                        replayed.remember(&selected)?;
                    }
                    if !emit(self.send, selected).await {
                        return Ok(Ended::Well);
                    }
                    done += 1;
                }
                Ok(None) => return Ok(Ended::Well),
                Err(e) if is_damage(&e) => return Ok(Ended::Damaged(e, done)),
                Err(e) => return Err(e),
            }
        }
    }
}

/// A stream of what a future sends, followed by its error if it has one. Polling the stream drives
/// the future: no task outlives its reader, and what was sent is taken before more is made.
pub(crate) fn fed<T, Feeding>(feed: impl FnOnce(Sender<Result<T>>) -> Feeding) -> BoxStream<'static, Result<T>>
where
    T: Send + 'static,
    Feeding: Future<Output = Result<()>> + Send + 'static,
{
    let (send, receive) = channel(0);
    let mut last = send.clone();
    let feeding = feed(send);
    let task = async move {
        if let Err(e) = feeding.await {
            // If the receiver is gone, so is the reader of the error.
            let _ = last.send(Err(e)).await;
        }
    };
    stream::select(receive, stream::once(task).filter_map(|()| async { None })).boxed()
}

/// The files that aren't ruled out.
pub(crate) fn prune(batch: RecordBatch, skipping: Option<&Skipping>) -> Result<RecordBatch> {
    match skipping {
        Some(p) if batch.num_rows() > 0 => filter(&batch, &p.keep(&batch)?),
        _ => Ok(batch),
    }
}

/// Sends a batch unless it is empty; false if the receiver is gone.
pub(crate) async fn emit(send: &mut Sender<Result<RecordBatch>>, batch: RecordBatch) -> bool {
    batch.num_rows() == 0 || send.send(Ok(batch)).await.is_ok()
}
