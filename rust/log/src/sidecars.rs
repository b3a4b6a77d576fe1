//! Writing the sidecars of a V2 checkpoint (P056, P062): bounded files of file actions. A sidecar of the checkpoint
//! before, none of whose files the commits since touched, is referenced again instead of being written anew.

use arrow::array::{Array, StructArray};
use arrow::datatypes::SchemaRef;
use deltaplane_error::Result;
use deltaplane_protocol::paths;
use deltaplane_store::Store;
use parquet::basic::Compression;

use crate::checkpoint_file::CheckpointFile;
use crate::checkpoint_reader::SidecarFile;
use crate::surroundings::new_id;

/// File actions of one sidecar, as many as the reference writes.
pub(crate) const SIDECAR_ACTIONS: usize = 50_000;
/// Sidecars with fewer actions are merged into new ones, so that small ones don't pile up.
pub(crate) const KEPT_ACTIONS: usize = SIDECAR_ACTIONS / 2;

/// Streams file actions into sidecars.
pub(crate) struct SidecarWriter {
    store: Store,
    schema: SchemaRef,
    compression: Compression,
    open: Option<(CheckpointFile, String)>,
    done: Vec<SidecarFile>,
    actions: u64,
}

impl SidecarWriter {
    /// Begins with no file.
    pub(crate) fn new(store: &Store, schema: SchemaRef, compression: Compression) -> Self {
        SidecarWriter {
            store: store.clone(),
            schema,
            compression,
            open: None,
            done: Vec::new(),
            actions: 0,
        }
    }

    /// Writes rows of `add` or `remove`, into a new file where the last one is full.
    pub(crate) async fn write(&mut self, name: &str, rows: StructArray) -> Result<()> {
        let mut at = 0;
        while at < rows.len() {
            let (mut file, path) = match self.open.take() {
                Some(open) => open,
                None => {
                    let path = format!("{}.parquet", new_id());
                    let key = paths::sidecar(&path);
                    (
                        CheckpointFile::create(&self.store, key, self.schema.clone(), self.compression).await?,
                        path,
                    )
                }
            };
            let room = SIDECAR_ACTIONS.saturating_sub(usize::try_from(file.actions()).unwrap_or(usize::MAX));
            let take = room.min(rows.len() - at);
            file.write(name, rows.slice(at, take)).await?;
            at += take;
            self.open = Some((file, path));
            if take == room {
                self.end_file().await?;
            }
        }
        Ok(())
    }

    async fn end_file(&mut self) -> Result<()> {
        let Some((file, path)) = self.open.take() else {
            return Ok(());
        };
        let written = file.finish().await?;
        let info = self.store.head(&paths::sidecar(&path)).await?;
        self.actions += written.actions;
        self.done.push(SidecarFile {
            path,
            size_in_bytes: i64::try_from(written.size_bytes).unwrap_or(i64::MAX),
            modification_time: info.modified_ms,
        });
        Ok(())
    }

    /// The files and the number of their actions.
    pub(crate) async fn finish(mut self) -> Result<(Vec<SidecarFile>, u64)> {
        self.end_file().await?;
        Ok((self.done, self.actions))
    }
}
