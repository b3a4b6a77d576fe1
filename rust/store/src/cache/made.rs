//! Derived files of a location, such as copies of checkpoints, each under a name that its maker
//! chooses: complete while the cache has all blocks of it, otherwise absent. Knows bytes only.
//! `Store::made_files` returns it to callers that can work without these files.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use deltaplane_error::{Error, Kind, Result};
use object_store::ObjectStore;
use object_store::path::Path;
use uuid::Uuid;

use super::blocks::{BLOCK_BYTES, Wanted};
use super::cached::taken;
use super::entry::Name;
use super::place::Place;
use super::settings::Settings;
use super::shelf::Shelf;
use crate::backend::{Backend, Listing, ObjectInfo, PutOutcome, Sink};
use crate::runtime::blocking;

/// Separates names of derived files from those of objects.
const MADE: &str = "made";
/// Size of the entry that describes a whole file: the id of its blocks, and its length.
const COPY_INFO_BYTES: usize = 16 + 8;

/// The blocks of a file.
#[derive(Clone, Copy)]
struct CopyInfo {
    /// A random id, so that two processes that write one file at a time don't mix their blocks.
    making: u128,
    size_bytes: u64,
}

impl CopyInfo {
    fn to_bytes(self) -> Vec<u8> {
        [&self.making.to_le_bytes()[..], &self.size_bytes.to_le_bytes()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (making, size) = bytes.split_first_chunk::<16>()?;
        Some(CopyInfo {
            making: u128::from_le_bytes(*making),
            size_bytes: u64::from_le_bytes(size.try_into().ok()?),
        })
    }

    fn of(info: &ObjectInfo) -> Option<Self> {
        let making = u128::from_str_radix(info.etag.as_deref()?, 16).ok()?;
        Some(CopyInfo {
            making,
            size_bytes: info.size_bytes,
        })
    }
}

/// The shelf with the entries, and the prefix of their names.
struct Entries {
    shelf: Shelf,
    place: Place,
}

impl Entries {
    /// The entry that describes a whole file.
    fn whole(&self, key: &str) -> Name {
        Name::new([self.place.location.as_str(), &self.place.settings, MADE, key])
    }

    fn block(&self, making: u128, block: u64) -> Name {
        let (making, block) = (format!("{making:032x}"), block.to_string());
        Name::new([
            self.place.location.as_str(),
            &self.place.settings,
            MADE,
            &making,
            &block,
        ])
    }

    fn copy(&self, key: &str) -> Option<CopyInfo> {
        CopyInfo::from_bytes(&self.shelf.get(&self.whole(key), COPY_INFO_BYTES as u64)?)
    }

    fn parts(&self, copy: CopyInfo, ranges: &[Range<u64>]) -> Option<Vec<Bytes>> {
        let mut wanted = ranges.iter().cloned().map(Wanted::new).collect::<Option<Vec<_>>>()?;
        let name = |block| self.block(copy.making, block);
        let missing = taken(&self.shelf, copy.size_bytes, name, ranges, &mut wanted);
        missing
            .is_empty()
            .then(|| wanted.into_iter().map(Wanted::into_bytes).collect())
    }
}

pub(super) struct Made(Arc<Entries>);

impl Made {
    pub(super) fn new(place: Place, settings: &Settings) -> Self {
        let shelf = Shelf::new(&settings.dir, settings.bytes);
        Made(Arc::new(Entries { shelf, place }))
    }
}

#[async_trait]
impl Backend for Made {
    fn local_path(&self, _: &str) -> Option<PathBuf> {
        None
    }

    async fn list_from(&self, _: &str, _: &str) -> Result<Listing> {
        Err(not_done("listed"))
    }

    async fn list_all(&self, _: &str) -> Result<Listing> {
        Err(not_done("listed"))
    }

    async fn read(&self, key: &str) -> Result<Bytes> {
        self.read_range(key, 0..u64::MAX).await
    }

    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        self.read_part(&self.head(key).await?, range).await
    }

    async fn read_part(&self, object: &ObjectInfo, range: Range<u64>) -> Result<Bytes> {
        let parts = self.read_parts(object, std::slice::from_ref(&range)).await?;
        parts.into_iter().next().ok_or_else(gone)
    }

    async fn read_parts(&self, object: &ObjectInfo, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let copy = CopyInfo::of(object).ok_or_else(gone)?;
        let clip = |r: &Range<u64>| r.start..r.end.min(copy.size_bytes);
        let (here, ranges) = (Arc::clone(&self.0), ranges.iter().map(clip).collect::<Vec<_>>());
        blocking(move || here.parts(copy, &ranges).ok_or_else(gone)).await
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        let (here, key) = (Arc::clone(&self.0), key.to_owned());
        blocking(move || {
            let copy = here.copy(&key).ok_or_else(gone)?;
            Ok(ObjectInfo {
                key,
                size_bytes: copy.size_bytes,
                modified_ms: 0,
                etag: Some(format!("{:032x}", copy.making)),
            })
        })
        .await
    }

    async fn put(&self, _: &str, _: Bytes) -> Result<()> {
        Err(not_done("put"))
    }

    async fn put_if_absent(&self, _: &str, _: Bytes) -> Result<PutOutcome> {
        Err(not_done("put"))
    }

    /// Its blocks are evicted when they have been unused for the longest.
    async fn delete(&self, key: &str) -> Result<()> {
        let (here, key) = (Arc::clone(&self.0), key.to_owned());
        blocking(move || {
            here.shelf.forget(&here.whole(&key));
            Ok(())
        })
        .await
    }

    fn object(&self, _: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
        Err(not_done("an object"))
    }

    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>> {
        let here = Arc::clone(&self.0);
        let is_usable = blocking(move || Ok(here.shelf.is_usable())).await?;
        match is_usable {
            true => Ok(Box::new(Making {
                entries: Arc::clone(&self.0),
                key: key.to_owned(),
                making: Uuid::new_v4().as_u128(),
                held: BytesMut::new(),
                blocks: 0,
                size_bytes: 0,
            })),
            false => Err(Error::new(
                Kind::StoreUnavailable,
                "the cache can't be written at present: free space or correct its directory (cache_dir)",
            )),
        }
    }
}

/// A file being written, block by block. An unfinished one leaves blocks without a description,
/// which are evicted.
struct Making {
    entries: Arc<Entries>,
    key: String,
    making: u128,
    held: BytesMut,
    blocks: u64,
    size_bytes: u64,
}

impl Making {
    async fn keep(&mut self, body: Bytes) -> Result<()> {
        let (entries, name) = (Arc::clone(&self.entries), self.entries.block(self.making, self.blocks));
        self.blocks += 1;
        blocking(move || {
            entries.shelf.put(&name, &body);
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl Sink for Making {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.size_bytes += bytes.len() as u64;
        self.held.extend_from_slice(&bytes);
        let block = usize::try_from(BLOCK_BYTES).unwrap_or(usize::MAX);
        while self.held.len() >= block {
            let body = self.held.split_to(block).freeze();
            self.keep(body).await?;
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<()> {
        let rest = std::mem::take(&mut self.held).freeze();
        if !rest.is_empty() {
            self.keep(rest).await?;
        }
        let copy = CopyInfo {
            making: self.making,
            size_bytes: self.size_bytes,
        };
        blocking(move || {
            self.entries.shelf.put(&self.entries.whole(&self.key), &copy.to_bytes());
            Ok(())
        })
        .await
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

fn gone() -> Error {
    Error::new(
        Kind::ObjectNotFound,
        "the cache has this file no more, or never had it: it can be made again",
    )
}

fn not_done(what: &str) -> Error {
    Error::internal(format!("a file of the cache was to be {what}; please report this"))
}
