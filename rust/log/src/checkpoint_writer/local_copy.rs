//! Copies of foreign checkpoints in the local cache with deltaplane's layout: sorted, with
//! statistics as columns. Plans with a predicate read them, and write them where the cache's
//! options ask for it; everything else reads the checkpoint itself.

use std::sync::Arc;

use deltaplane_error::{Error, Result};
use deltaplane_protocol::segment::{CheckpointFiles, LogSegment};
use deltaplane_store::Store;
use parquet::basic::{Compression, ZstdLevel};
use tracing::{info, warn};
use xxhash_rust::xxh3::Xxh3;

use crate::Snapshot;
use crate::checkpoint::copy_state::{Copied, Sought};
use crate::checkpoint::file::{CheckpointFile, Pages};
use crate::checkpoint::reader::CheckpointReader;
use crate::checkpoint_writer::live_files::Target;
use crate::checkpoint_writer::rows::{AddRows, adds_schema};
use crate::commit::reader::is_damage;
use crate::listing::listed;

/// A smaller checkpoint is planned directly in a moment.
const LEAST_BYTES: u64 = 1 << 20;
/// The number of the copies' layout.
const LAYOUT: u32 = 1;

impl Snapshot {
    /// The copy of its checkpoint for a plan with a predicate, written if it is missing; `None`
    /// where the checkpoint itself suffices or must be read.
    pub(crate) async fn copied_checkpoint(&self) -> Option<Copied> {
        let mut sought = self.copy().0.lock().await;
        if matches!(*sought, Sought::NotYet) {
            *sought = match self.find_or_make().await {
                Ok(Some(copied)) => Sought::Found(copied),
                Ok(None) => Sought::InVain,
                Err(e) => {
                    warn!(table = %self.store().location(), error = %e, "a checkpoint has no copy in the cache, going on without it");
                    Sought::InVain
                }
            };
        }
        match &*sought {
            Sought::Found(copied) => Some(copied.clone()),
            Sought::NotYet | Sought::InVain => None,
        }
    }

    /// Drops a copy that turned out damaged or missing; the next opening of the table writes it
    /// again.
    pub(crate) async fn forget_copy(&self, copied: &Copied, damage: &Error) {
        warn!(table = %self.store().location(), error = %damage, "the copy of a checkpoint can't be read, going on with the checkpoint itself");
        *self.copy().0.lock().await = Sought::InVain;
        if let Err(e) = copied.made.delete(&copied.key).await {
            warn!(error = %e, "what stands for a damaged copy of a checkpoint stays in the cache");
        }
    }

    async fn find_or_make(&self) -> Result<Option<Copied>> {
        let Some((files, checkpoint)) = self.base_checkpoint() else {
            return Ok(None);
        };
        checkpoint.open_all().await?;
        if checkpoint.is_own().await? {
            return Ok(None);
        }
        let bytes = self.known_checkpoint_bytes();
        let Some(key) = self.copy_key(files).filter(|_| bytes >= LEAST_BYTES) else {
            return Ok(None);
        };
        let Some(made) = self.store().made_files(bytes)? else {
            return Ok(None);
        };
        let copied_file = match CheckpointReader::copy(&made, &key).await {
            Err(e) if is_damage(&e) => {
                self.make_copy(files, &made, &key).await?;
                CheckpointReader::copy(&made, &key).await?
            }
            copied_file => copied_file?,
        };
        Ok(Some(Copied {
            reader: Arc::new(copied_file),
            made,
            key,
        }))
    }

    /// The copy's name: the exact files of the checkpoint, and how the table's statistics are laid
    /// out. `None` where the store can't identify the files' content.
    fn copy_key(&self, files: &CheckpointFiles) -> Option<String> {
        let mut hash = Xxh3::new();
        let mut add = |text: &str| {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        for file in &files.files {
            let shown = listed(file);
            add(&shown.key);
            add(shown.strong_tag()?);
            add(&shown.size_bytes.to_string());
        }
        let metadata = self.state().metadata();
        metadata.schema_string.iter().for_each(|text| add(text));
        metadata.partition_columns.iter().for_each(|text| add(text));
        metadata.configuration.iter().for_each(|(k, v)| {
            add(k);
            add(v);
        });
        Some(format!("checkpoint {LAYOUT} {:032x}", hash.digest128()))
    }

    async fn make_copy(&self, files: &CheckpointFiles, made: &Store, key: &str) -> Result<()> {
        let rows = AddRows::with_all(self.state());
        let schema = adds_schema(rows.schema());
        let packed = Compression::ZSTD(ZstdLevel::default());
        let mut out = CheckpointFile::create(made, key.to_owned(), schema, packed, Pages::Indexed).await?;
        let segment = LogSegment::build(&[], Some(files.clone()), Some(files.version))?;
        self.without_commits(segment)
            .write_sorted(&mut Target::File(&mut out), &rows)
            .await?;
        let written = out.finish().await?;
        info!(table = %self.store().location(), checkpoint = files.version, files = written.actions, bytes = written.size_bytes, "copied a checkpoint into the cache");
        Ok(())
    }
}
