//! Writes a segment from sorted entries, bucket by bucket.

use bytes::Bytes;
use deltaplane_error::{Error, Result};
use deltaplane_store::Store;
use xxhash_rust::xxh3::xxh3_64;

use super::{Description, MAGIC, bucket_checksum};
use crate::bucket::Coding;
use crate::entries::Entries;
use crate::keys::KeyColumn;
use crate::manifest::SegmentInfo;

/// Bytes that are collected before they are handed to the store.
const PART_BYTES: usize = 1 << 20;

/// The files of a segment, whose numbers are their places, and what is indexed of them.
pub struct SegmentFiles<'a> {
    /// The table's id.
    pub table: &'a str,
    /// The columns that keys are made of.
    pub columns: &'a [KeyColumn],
    /// Decoded paths, and sizes in bytes.
    pub files: &'a [(String, i64)],
    /// The first bits of hashes that entries have, if they are those of other segments.
    pub known_bits: Option<u32>,
}

/// Writes a segment under this key, which must be new; returns its entry in a manifest, or `None`
/// if more bits of the hashes are needed than are known. Memory: a bucket, the directory, and the
/// covered paths.
///
/// # Errors
/// Those of the entries and of the store.
pub async fn write_segment(
    store: &Store,
    key: &str,
    covered: &SegmentFiles<'_>,
    entries: Entries,
) -> Result<Option<SegmentInfo>> {
    let (files, count) = (covered.files.len(), entries.most());
    let data_bytes = covered.files.iter().map(|(_, size)| size.unsigned_abs()).sum();
    let coding = match covered.known_bits {
        None => Some(Coding::of(count, files, data_bytes)),
        Some(known) => Coding::of_known(known, count, files, data_bytes),
    };
    let Some(coding) = coding else {
        return Ok(None);
    };
    let mut upload = store.upload(key).await?;
    let mut buckets = Buckets::new(coding);
    let mut count = 0;
    for entry in entries {
        let (hash, file) = entry?;
        let (bucket, stored) = coding.cut(hash);
        buckets.end_until(bucket)?;
        buckets.entries.push((stored, file));
        count += 1;
        if buckets.bytes.len() >= PART_BYTES {
            upload.write(Bytes::from(std::mem::take(&mut buckets.bytes))).await?;
        }
    }
    buckets.end_until(coding.buckets())?;
    if !buckets.bytes.is_empty() {
        upload.write(Bytes::from(buckets.bytes)).await?;
    }
    let description = Description {
        table: covered.table.to_owned(),
        columns: covered.columns.to_vec(),
        coding,
        entries: count,
        files: covered.files.len() as u64,
    };
    let tail = tail(&buckets.directory, covered.files, &description)?;
    let tail_bytes = tail.len() as u64;
    upload.write(Bytes::from(tail)).await?;
    let size_bytes = upload.finish().await?;
    Ok(Some(SegmentInfo {
        path: key.to_owned(),
        columns: description.columns,
        files: description.files,
        entries: count,
        size_bytes,
        tail_bytes,
    }))
}

struct Buckets {
    coding: Coding,
    /// The bucket that is being filled.
    number: u64,
    entries: Vec<(u64, u32)>,
    bytes: Vec<u8>,
    directory: Vec<u8>,
}

impl Buckets {
    fn new(coding: Coding) -> Self {
        Buckets {
            coding,
            number: 0,
            entries: Vec::new(),
            bytes: Vec::new(),
            directory: Vec::new(),
        }
    }

    /// Ends all buckets before this one.
    fn end_until(&mut self, bucket: u64) -> Result<()> {
        while self.number < bucket {
            let bytes = match self.entries.is_empty() {
                true => Vec::new(),
                false => self.coding.encode(&self.entries),
            };
            self.entries.clear();
            self.directory.extend(length(bytes.len())?.to_le_bytes());
            self.directory.extend(bucket_checksum(&bytes).to_le_bytes());
            self.bytes.extend(bytes);
            self.number += 1;
        }
        Ok(())
    }
}

fn tail(directory: &[u8], files: &[(String, i64)], description: &Description) -> Result<Vec<u8>> {
    let mut listed = Vec::new();
    for (path, size) in files {
        listed.extend(length(path.len())?.to_le_bytes());
        listed.extend(path.as_bytes());
        listed.extend(size.to_le_bytes());
    }
    let description = serde_json::to_vec(description)
        .map_err(|e| Error::internal(format!("a description of an index can't be written: {e}")))?;
    let mut tail = [directory, &listed, &description].concat();
    for part in [directory, &listed, &description] {
        tail.extend(length(part.len())?.to_le_bytes());
    }
    tail.extend(xxh3_64(&tail).to_le_bytes());
    tail.extend(MAGIC);
    Ok(tail)
}

fn length(bytes: usize) -> Result<u32> {
    u32::try_from(bytes).map_err(|_| Error::internal("a part of an index has more than 4 GiB"))
}
