//! One Parquet file of the log as the Parquet reader wants it: byte ranges of the store.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_store::Store;
use futures::FutureExt;
use futures::future::BoxFuture;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

/// How much of a file's end is read at once for its footer: most footers fit.
const FOOTER_BYTES: usize = 64 * 1024;

/// A file of the log.
#[derive(Clone)]
pub(crate) struct ParquetFile {
    store: Store,
    pub key: String,
    size_bytes: u64,
}

impl ParquetFile {
    /// Asks for the file's size.
    pub(crate) async fn open(store: &Store, key: String) -> Result<Self> {
        let size_bytes = store.head(&key).await?.size_bytes;
        Ok(ParquetFile {
            store: store.clone(),
            key,
            size_bytes,
        })
    }

    /// Reads the footer. The types come from the Parquet schema alone: writers differ in what
    /// Arrow schema they embed.
    pub(crate) async fn footer(&self) -> Result<ArrowReaderMetadata> {
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        ArrowReaderMetadata::load_async(&mut self.clone(), options)
            .await
            .map_err(|e| self.unreadable(e))
    }

    /// What a failure to read this file means: the store's own error, or a damaged file.
    pub(crate) fn unreadable(&self, e: ParquetError) -> Error {
        match e {
            ParquetError::External(inner) => match inner.downcast::<Error>() {
                // It was there when its size was asked for.
                Ok(own) if own.kind() == Kind::ObjectNotFound => Error::version_not_found(
                    "a checkpoint vanished while the table was being read: log cleanup removed it; open the table again",
                )
                .with_path(&self.key)
                .with_source(*own),
                Ok(own) => *own,
                Err(other) => damaged(&other).with_path(&self.key),
            },
            e => damaged(&e).with_path(&self.key),
        }
    }
}

fn damaged(e: &dyn std::fmt::Display) -> Error {
    Error::new(
        Kind::CorruptFile,
        format!(
            "the checkpoint file can't be read ({e}): restore it, or delete it if the commits before it still exist"
        ),
    )
}

fn external(e: Error) -> ParquetError {
    ParquetError::External(Box::new(e))
}

impl AsyncFileReader for ParquetFile {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        async move { self.store.read_range(&self.key, range).await.map_err(external) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        async move {
            let reads = ranges.into_iter().map(|r| self.store.read_range(&self.key, r));
            futures::future::try_join_all(reads).await.map_err(external)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        async move {
            let size = self.size_bytes;
            let reader = ParquetMetaDataReader::new().with_prefetch_hint(Some(FOOTER_BYTES));
            reader.load_and_finish(self, size).await.map(Arc::new)
        }
        .boxed()
    }
}
