//! Assembles row groups while their chunks arrive. Written bytes go to the store at once, so that
//! neither a file is in memory twice nor all of its columns at a time.

use std::sync::Arc;

use deltaplane_error::{Error, Result};
use deltaplane_store::Upload;
use parquet::arrow::arrow_writer::ArrowColumnChunk;
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::ParquetMetaData;
use tokio::sync::mpsc;

use super::{Writer, blocking, failed};
use crate::read::{Input, filter_of};
use crate::write::bounds;
use crate::write::copied::CopiedColumn;

/// The chunk of a leaf.
pub(super) enum Chunk {
    /// Unchanged, to be read from this input.
    Unchanged(Input),
    Encoded(ArrowColumnChunk),
    Patched(CopiedColumn),
}

/// Appends a row group whose chunks come in order, one for each leaf.
///
/// # Errors
/// `Internal` if the chunks end too early: their maker reports the reason.
pub(super) async fn append_group(
    mut writer: Writer,
    footer: Arc<ParquetMetaData>,
    group: usize,
    mut chunks: mpsc::Receiver<Chunk>,
    upload: &mut Upload,
) -> Result<Writer> {
    let (sender, parts) = mpsc::channel(1);
    let appended = blocking(move || {
        let full = writer.inner().full();
        let send = |part| {
            sender
                .blocking_send(part)
                .map_err(|_| Error::internal("a data file's store went away"))
        };
        let mut next = || {
            let next = chunks.blocking_recv();
            next.ok_or_else(|| Error::internal("a data file's columns ended too early"))
        };
        append(&mut writer, &footer, group, &mut next, || {
            full.take().into_iter().try_for_each(send)
        })?;
        writer.inner_mut().take().into_iter().try_for_each(send)?;
        Ok(writer)
    });
    let uploaded = async move {
        // Dropped at an error, so that the maker of bytes doesn't wait.
        let mut parts = parts;
        while let Some(part) = parts.recv().await {
            upload.write(part).await?;
        }
        Ok(())
    };
    let (appended, uploaded) = futures::join!(appended, uploaded);
    uploaded.and(appended)
}

fn append(
    writer: &mut Writer,
    footer: &ParquetMetaData,
    group: usize,
    next: &mut impl FnMut() -> Result<Chunk>,
    mut hand_on: impl FnMut() -> Result<()>,
) -> Result<()> {
    let old = footer.row_group(group);
    let index = footer.page_index_for_row_group(group);
    let mut made = writer.next_row_group().map_err(failed)?;
    for (leaf, chunk) in old.columns().iter().enumerate() {
        match next()? {
            Chunk::Encoded(new) => new.append_to_row_group(&mut made).map_err(failed)?,
            Chunk::Patched(new) => new.append_to(&mut made).map_err(failed)?,
            Chunk::Unchanged(input) => {
                let mut close = ColumnCloseResult {
                    bytes_written: u64::try_from(chunk.compressed_size()).unwrap_or(0),
                    rows_written: u64::try_from(old.num_rows()).unwrap_or(0),
                    metadata: chunk.clone(),
                    bloom_filter: filter_of(footer, chunk, &input),
                    column_index: index.column_index(leaf).cloned(),
                    offset_index: index.offset_index(leaf).cloned(),
                };
                // An older file's bounds may leave NaN out.
                bounds::make_sound(&mut close).map_err(failed)?;
                made.append_column(&input, close).map_err(failed)?;
            }
        }
        hand_on()?;
    }
    made.close().map_err(failed)?;
    writer.flush().map_err(|e| failed(e.into()))
}
