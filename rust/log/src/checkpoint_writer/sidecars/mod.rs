//! Writes the sidecars of a V2 checkpoint (P056, P062): files of bounded size, of sorted live files
//! or of tombstones, each with its range for skipping.

pub(crate) mod compaction;

use arrow::array::{Array, StructArray};
use arrow::datatypes::SchemaRef;
use deltaplane_error::Result;
use deltaplane_protocol::files::order::FileOrder;
use deltaplane_protocol::paths;
use deltaplane_sorting::{Keyed, Run};
use deltaplane_store::Store;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use futures::{FutureExt, TryStreamExt};
use parquet::basic::Compression;

use crate::checkpoint::file::{CheckpointFile, Pages};
use crate::checkpoint::path_range::PathBounds;
use crate::checkpoint::sidecar_stats::{SidecarFile, SidecarRange, Span};
use crate::environment::new_id;

/// Tombstones of one sidecar, as many file actions as the reference writes.
const TOMBSTONES: u64 = 50_000;

/// Files that are closed concurrently, to overlap the store's latencies; fewer if each holds many
/// actions, to bound memory.
const ENDED_TOGETHER: u64 = 8;
const HELD_ACTIONS: u64 = 16 * 1024;

/// Streams file actions into sidecars.
pub(crate) struct SidecarWriter {
    store: Store,
    schema: SchemaRef,
    compression: Compression,
    /// Live files per sidecar, `u64::MAX` for sidecars of tombstones.
    full: u64,
    open: Option<Open>,
    /// Files that are being closed, in their order.
    ending: FuturesOrdered<BoxFuture<'static, Result<SidecarFile>>>,
    done: Vec<SidecarFile>,
    adds: u64,
    removes: u64,
}

struct Open {
    file: CheckpointFile,
    path: String,
    /// The span of its live files so far.
    sorted: Option<(FileOrder, Span)>,
    /// Their paths.
    paths: PathBounds,
}

/// What was written.
pub(crate) struct WrittenSidecars {
    pub files: Vec<SidecarFile>,
    pub adds: u64,
    pub removes: u64,
}

impl SidecarWriter {
    /// Without a file yet.
    pub(crate) fn new(store: &Store, schema: SchemaRef, compression: Compression) -> Self {
        SidecarWriter {
            store: store.clone(),
            schema,
            compression,
            full: TOMBSTONES,
            open: None,
            ending: FuturesOrdered::new(),
            done: Vec::new(),
            adds: 0,
            removes: 0,
        }
    }

    /// Starts new sidecar files, each with this many live files.
    pub(crate) async fn begin(&mut self, full: u64) -> Result<()> {
        self.end_file().await?;
        self.full = full.max(1);
        Ok(())
    }

    /// Writes live files in their order.
    pub(crate) async fn write_run(&mut self, order: &FileOrder, mut run: Run<'_>) -> Result<()> {
        while let Some(Keyed { rows, keys }) = run.try_next().await? {
            let mut row = 0;
            while row < rows.len() {
                let mut open = self.take_open().await?;
                let room = usize::try_from(self.full.saturating_sub(open.file.actions())).unwrap_or(usize::MAX);
                let take = room.min(rows.len() - row);
                let some = rows.slice(row, take);
                open.paths.add(&some)?;
                open.file.write("add", some).await?;
                let (first, last) = (keys.value(row), keys.value((row + take).saturating_sub(1)));
                match &mut open.sorted {
                    Some((_, span)) => span.last = last.to_vec(),
                    none => {
                        let span = Span {
                            first: first.to_vec(),
                            last: last.to_vec(),
                        };
                        *none = Some((order.clone(), span));
                    }
                }
                row += take;
                self.adds += take as u64;
                self.open = Some(open);
                if take == room {
                    self.end_file().await?;
                }
            }
        }
        Ok(())
    }

    /// Writes tombstones.
    pub(crate) async fn write_removes(&mut self, rows: StructArray) -> Result<()> {
        let mut row = 0;
        while row < rows.len() {
            let mut open = self.take_open().await?;
            let room = usize::try_from(TOMBSTONES.saturating_sub(open.file.actions())).unwrap_or(usize::MAX);
            let take = room.min(rows.len() - row);
            open.file.write("remove", rows.slice(row, take)).await?;
            row += take;
            self.removes += take as u64;
            self.open = Some(open);
            if take == room {
                self.end_file().await?;
            }
        }
        Ok(())
    }

    async fn take_open(&mut self) -> Result<Open> {
        if let Some(open) = self.open.take() {
            return Ok(open);
        }
        let path = format!("{}.parquet", new_id());
        let (key, schema) = (paths::sidecar(&path), self.schema.clone());
        let paths = if self.full == u64::MAX { 0 } else { self.full };
        let pages = Pages::WithoutIndex { paths };
        let file = CheckpointFile::create(&self.store, key, schema, self.compression, pages).await?;
        Ok(Open {
            file,
            path,
            sorted: None,
            paths: PathBounds::default(),
        })
    }

    /// Closes the open file, concurrently with others.
    async fn end_file(&mut self) -> Result<()> {
        if let Some(open) = self.open.take() {
            self.ending.push_back(open.ended(self.store.clone()).boxed());
            let most = (HELD_ACTIONS / self.full).clamp(1, ENDED_TOGETHER);
            while self.ending.len() as u64 >= most {
                self.done.extend(self.ending.try_next().await?);
            }
        }
        Ok(())
    }

    /// The files, and the number of their actions.
    pub(crate) async fn finish(mut self) -> Result<WrittenSidecars> {
        self.end_file().await?;
        while let Some(file) = self.ending.try_next().await? {
            self.done.push(file);
        }
        Ok(WrittenSidecars {
            files: self.done,
            adds: self.adds,
            removes: self.removes,
        })
    }
}

impl Open {
    /// The finished file's name and range.
    async fn ended(self, store: Store) -> Result<SidecarFile> {
        let Open {
            file,
            path,
            sorted,
            paths: held,
        } = self;
        let written = file.finish().await?;
        let key = paths::sidecar(&path);
        let filter = written.footer.as_ref().and_then(|footer| held.filter_bytes(footer));
        let content = async {
            match &filter {
                Some(bytes) => store.read_range(&key, bytes.clone()).await.map(Some),
                None => Ok(None),
            }
        };
        let (info, content) = futures::try_join!(store.head(&key), content)?;
        let mut named = SidecarFile {
            path,
            size_in_bytes: i64::try_from(written.size_bytes).unwrap_or(i64::MAX),
            modification_time: info.modified_ms,
            tags: None,
        };
        if let Some(footer) = &written.footer {
            let rows = match sorted {
                Some(_) => (written.actions, 0),
                None => (0, written.actions),
            };
            let sorted = sorted.as_ref().map(|(order, span)| (order, span));
            let held = held.range(filter.zip(content.as_deref()));
            named.tags = Some(SidecarRange::of(&named, footer, rows, sorted, held)?.tags()?);
        }
        Ok(named)
    }
}
