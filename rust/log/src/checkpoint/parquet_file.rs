//! One Parquet file of the log for the Parquet reader: byte ranges of the store.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_store::{ObjectInfo, Store};
use futures::FutureExt;
use futures::future::BoxFuture;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMask, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};

/// Bytes at a file's end that are read at once for its footer: most footers fit.
pub(crate) const FOOTER_BYTES: usize = 64 * 1024;

/// A file of the log.
#[derive(Clone)]
pub(crate) struct ParquetFile {
    store: Store,
    pub key: String,
    /// The object as it was when the file was opened: reads of a later object under the same name
    /// would mix two files.
    shown: ObjectInfo,
}

impl ParquetFile {
    /// Asks the store for the file's size.
    pub(crate) async fn open(store: &Store, key: String) -> Result<Self> {
        Ok(Self::listed(store, store.head(&key).await?))
    }

    /// The object's key, size and tag.
    pub(crate) fn info(&self) -> &ObjectInfo {
        &self.shown
    }

    /// The exact file that a listing or another process saw, without asking the store.
    pub(crate) fn listed(store: &Store, shown: ObjectInfo) -> Self {
        ParquetFile {
            store: store.clone(),
            key: shown.key.clone(),
            shown,
        }
    }

    /// Its length.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.shown.size_bytes
    }

    /// Reads the footer.
    pub(crate) async fn footer(&self) -> Result<ArrowReaderMetadata> {
        ArrowReaderMetadata::load_async(&mut self.clone(), options())
            .await
            .map_err(|e| self.unreadable(e))
    }

    /// The footer with page indexes where they exist: the bounds of some columns' pages, and the
    /// offsets of some.
    pub(crate) async fn page_index(
        &self,
        footer: &ArrowReaderMetadata,
        bounds: ColumnChunkMask,
        places: ColumnChunkMask,
    ) -> Result<ArrowReaderMetadata> {
        let mut reader = ParquetMetaDataReader::new_with_metadata(footer.metadata().as_ref().clone())
            .with_page_index_policy(PageIndexPolicy::Optional)
            .with_column_index_mask(bounds)
            .with_offset_index_mask(places);
        let loaded = reader.load_page_index(&mut self.clone()).await;
        let loaded = loaded.and_then(|()| reader.finish()).map_err(|e| self.unreadable(e))?;
        ArrowReaderMetadata::try_new(Arc::new(loaded), options()).map_err(|e| self.unreadable(e))
    }

    /// A range of bytes.
    pub(crate) async fn bytes(&self, range: Range<u64>) -> Result<Bytes> {
        self.clone().get_bytes(range).await.map_err(|e| self.unreadable(e))
    }

    /// Converts a failure to read this file: the store's own error, or a damaged file.
    pub(crate) fn unreadable(&self, e: ParquetError) -> Error {
        match e {
            ParquetError::External(inner) => match inner.downcast::<Error>() {
                // It existed when its size was asked for.
                Ok(own) if own.kind() == Kind::ObjectNotFound => Error::version_not_found(
                    "a checkpoint vanished or was replaced while the table was being read, by log cleanup or another writer: open the table again",
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

/// The types come from the Parquet schema alone: writers differ in what Arrow schema they embed.
pub(crate) fn options() -> ArrowReaderOptions {
    ArrowReaderOptions::new().with_skip_arrow_metadata(true)
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
        async move { self.store.read_part(&self.shown, range).await.map_err(external) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        async move {
            let read = self.store.read_parts(&self.shown, &ranges).await;
            read.map_err(external)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        async move {
            let size = self.shown.size_bytes;
            let reader = ParquetMetaDataReader::new().with_prefetch_hint(Some(FOOTER_BYTES));
            reader.load_and_finish(self, size).await.map(Arc::new)
        }
        .boxed()
    }
}
