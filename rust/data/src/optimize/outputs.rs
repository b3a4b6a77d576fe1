//! Writes new files one after the other: each is closed when it has its rows, and made durable
//! while the next ones are written.

use std::sync::Arc;

use arrow::array::RecordBatch;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::paths;
use deltaplane_sorting::Keyed;
use parquet::basic::CompressionCodec;
use parquet::schema::types::ColumnDescPtr;
use tokio::task::JoinHandle;

use super::row_lineage::{LineageWriter, taken_off};
use super::{OptimizeJob, OptimizedFile};
use crate::write::{CopiedColumn, RowSink, WriteSpec, Written};

/// Files whose last rows are encoded concurrently, at most: each holds a row group.
const MOST_ENDING: usize = 4;

/// The files of one job.
pub(super) struct Outputs<'a> {
    job: &'a OptimizeJob,
    sink: Option<RowSink>,
    /// Rows per file, and room left in the open one.
    most: u64,
    left: u64,
    begun: usize,
    /// The common key prefix of the open file.
    begins: Vec<u8>,
    /// The original positions of the open file's rows.
    lineage: LineageWriter,
    ending: Vec<(JoinHandle<Result<Written>>, LineageWriter)>,
    done: Vec<OptimizedFile>,
}

impl<'a> Outputs<'a> {
    pub(super) fn new(job: &'a OptimizeJob) -> Self {
        Outputs {
            job,
            sink: None,
            most: u64::MAX,
            left: u64::MAX,
            begun: 0,
            begins: Vec::new(),
            lineage: LineageWriter::default(),
            ending: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Closes each file after this many rows.
    pub(super) fn cut_after(&mut self, rows: u64) {
        self.most = rows.max(1);
        self.left = self.most;
    }

    pub(super) async fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let (rows, places) = taken_off(rows)?;
        let mut from = 0;
        while from < rows.num_rows() {
            let left = usize::try_from(self.left).unwrap_or(usize::MAX);
            let n = left.min(rows.num_rows() - from);
            self.sink()?.write(&rows.slice(from, n)).await?;
            if let Some(places) = &places {
                self.lineage.push(&places.slice(from, n));
            }
            self.left -= n as u64;
            from += n;
            if self.left == 0 {
                self.end().await?;
            }
        }
        Ok(())
    }

    /// Writes a row group with some copied columns.
    pub(super) async fn write_beside(
        &mut self,
        columns: Vec<(usize, CopiedColumn)>,
        batches: Vec<RecordBatch>,
    ) -> Result<()> {
        self.sink()?.write_beside(columns, batches).await
    }

    /// The columns that may be copied, as `FileWriter::copyable`.
    pub(super) fn copyable(&mut self) -> Result<(Vec<(usize, ColumnDescPtr)>, CompressionCodec)> {
        self.sink()?.copyable()
    }

    /// Writes sorted rows. A file ends exactly where the first `file_bytes` bytes of the key
    /// change.
    pub(super) async fn write_keyed(&mut self, slice: &Keyed, file_bytes: usize) -> Result<()> {
        let rows = RecordBatch::from(&slice.rows);
        if file_bytes == 0 {
            return self.write(&rows).await;
        }
        self.cut_after(u64::MAX);
        let begins = |row: usize| slice.keys.value(row).get(..file_bytes).unwrap_or_default();
        let mut from = 0;
        while from < rows.num_rows() {
            let here = begins(from);
            if here != self.begins.as_slice() {
                self.end().await?;
                self.begins = here.to_vec();
            }
            let n = slice
                .slice(from, rows.num_rows() - from)
                .place(|key| key.get(..file_bytes) == Some(here));
            self.write(&rows.slice(from, n)).await?;
            from += n;
        }
        Ok(())
    }

    fn sink(&mut self) -> Result<&mut RowSink> {
        match &mut self.sink {
            Some(sink) => Ok(sink),
            none => {
                let spec = WriteSpec {
                    target_file_size_bytes: u64::MAX,
                    first_file: self.begun,
                    ..self.job.write.clone()
                };
                self.begun += 1;
                Ok(none.insert(RowSink::new(&self.job.store, spec, self.job.ids.clone(), false)?))
            }
        }
    }

    async fn end(&mut self) -> Result<()> {
        self.left = self.most;
        let Some(sink) = self.sink.take() else { return Ok(()) };
        while self.ending.len() >= self.job.parallelism.clamp(1, MOST_ENDING) {
            self.collect_one().await?;
        }
        let lineage = std::mem::take(&mut self.lineage);
        self.ending.push((deltaplane_store::spawn_task(sink.finish()), lineage));
        Ok(())
    }

    async fn collect_one(&mut self) -> Result<()> {
        let (task, lineage) = self.ending.remove(0);
        let ended = task
            .await
            .map_err(|e| Error::internal(format!("ending a data file: {e}")))?;
        let adds = ended?.adds;
        // Rows of one partition, as OPTIMIZE's groups have, make one file.
        let mut lineage = match adds.len() {
            1 => lineage.end(&self.job.store, self.job.lineage).await,
            _ => None,
        };
        self.done.extend(adds.into_iter().map(|add| OptimizedFile {
            add,
            lineage: lineage.take().map(Arc::new),
        }));
        Ok(())
    }

    /// Closes the last file; returns all that were written.
    pub(super) async fn finish(mut self) -> Result<Vec<OptimizedFile>> {
        let ended = async {
            self.end().await?;
            while !self.ending.is_empty() {
                self.collect_one().await?;
            }
            Ok(())
        };
        match ended.await {
            Ok(()) => Ok(self.done),
            Err(e) => {
                self.abort().await;
                Err(e)
            }
        }
    }

    /// Deletes the written files, as far as the store permits.
    pub(super) async fn abort(mut self) {
        if let Some(sink) = self.sink.take() {
            sink.abort().await;
        }
        let mut adds: Vec<Add> = self.done.into_iter().map(|file| file.add).collect();
        for (task, _) in std::mem::take(&mut self.ending) {
            if let Ok(Ok(written)) = task.await {
                adds.extend(written.adds);
            }
        }
        for add in &adds {
            let deleted = match paths::decode(&add.path) {
                Ok(key) => self.job.store.delete(&key).await,
                Err(e) => Err(e),
            };
            if let Err(e) = deleted {
                tracing::warn!(file = %add.path, error = %e, "a data file of a failed command is left behind: vacuum removes it");
            }
        }
    }
}
