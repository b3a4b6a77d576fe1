//! Compresses pages with new values. Knows no page.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use parquet::basic::CompressionCodec;
use parquet::errors::Result;
use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, ParamSwitch};

use super::Compression;

/// Above this level, size matters more than time.
const MOST_QUICK_LEVEL: i32 = 3;
/// zstd's largest step between searches for repeated bytes: it then finds next to nothing.
const NO_SEARCH: u32 = 128 << 10;

/// Compresses the pages of several chunks concurrently. A compressor is reused for the next chunk:
/// its tables take a megabyte, which the allocator would otherwise hold per thread.
pub(super) struct Codecs {
    now: Compression,
    at_rest: Mutex<Vec<Compressors>>,
}

/// Compressors for one chunk at a time; `None` without compression.
#[derive(Default)]
struct Compressors {
    level: Option<Compressor<'static>>,
    /// Entropy coding without a search for repeated bytes.
    quick: Option<Compressor<'static>>,
}

/// Compresses the pages of one chunk.
pub(super) struct Codec<'a> {
    codecs: &'a Codecs,
    with: Compressors,
    /// Whether numbers are searched for repeated bytes too: from the first page on for which
    /// entropy coding alone was not enough.
    searches: bool,
}

impl Codecs {
    /// For chunks with this compression.
    pub(super) fn new(now: Compression) -> Codecs {
        Codecs {
            now,
            at_rest: Mutex::default(),
        }
    }

    /// Whether a chunk's compression is supported, and the one that files have now.
    pub(super) fn speak(&self, chunk: CompressionCodec) -> bool {
        matches!(
            (self.now, chunk),
            (Compression::Uncompressed, CompressionCodec::UNCOMPRESSED)
                | (Compression::Zstd(_), CompressionCodec::ZSTD)
        )
    }

    /// For the pages of a chunk; `None` for an unsupported compression.
    pub(super) fn of_chunk(&self, chunk: CompressionCodec) -> Result<Option<Codec<'_>>> {
        if !self.speak(chunk) {
            return Ok(None);
        }
        let rested = self.at_rest.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let with = match (rested, self.now) {
            (Some(rested), _) => rested,
            (None, Compression::Zstd(level)) => Compressors {
                level: Some(Compressor::new(level)?),
                quick: (level <= MOST_QUICK_LEVEL).then(quick).transpose()?,
            },
            (None, _) => Compressors::default(),
        };
        Ok(Some(Codec {
            codecs: self,
            searches: with.quick.is_none(),
            with,
        }))
    }
}

impl Codec<'_> {
    pub(super) fn compress(&mut self, bytes: Vec<u8>) -> Result<Bytes> {
        Ok(match &mut self.with.level {
            Some(compressor) => compressor.compress(&bytes)?.into(),
            None => bytes.into(),
        })
    }

    /// Compresses numbers of a fixed width; `before` is the size of the old page. Numbers that
    /// don't repeat share only their high bytes: searching them takes three times as long to write
    /// and twice as long to read. If the result is an eighth larger than before, this page and all
    /// later ones are searched.
    pub(super) fn compress_numbers(&mut self, bytes: Vec<u8>, before: usize) -> Result<Bytes> {
        if let (false, Some(quick)) = (self.searches, &mut self.with.quick) {
            let made = quick.compress(&bytes)?;
            if made.len() <= before + before / 8 {
                return Ok(made.into());
            }
            self.searches = true;
        }
        self.compress(bytes)
    }
}

impl Drop for Codec<'_> {
    fn drop(&mut self) {
        let mut at_rest = self.codecs.at_rest.lock().unwrap_or_else(PoisonError::into_inner);
        at_rest.push(std::mem::take(&mut self.with));
    }
}

fn quick() -> Result<Compressor<'static>> {
    let mut made = Compressor::new(1)?;
    made.set_parameter(CParameter::TargetLength(NO_SEARCH))?;
    // By default this step would disable entropy coding of literals.
    made.set_parameter(CParameter::LiteralCompressionMode(ParamSwitch::Enable))?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pages(value: impl Fn(u64) -> u64) -> Vec<u8> {
        (0..20_000).flat_map(|n| value(n).to_le_bytes()).collect()
    }

    fn scattered(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44
    }

    #[test]
    fn numbers_come_back_and_are_searched_only_where_it_pays() {
        let codecs = Codecs::new(Compression::Zstd(1));
        for (bytes, before, searches) in [
            (pages(scattered), 100_000, false),
            (pages(|n| n / 50), 10_000, true),
            (pages(scattered), 10, true),
            (pages(scattered), 100_000, false),
        ] {
            let mut codec = codecs.of_chunk(CompressionCodec::ZSTD).unwrap().unwrap();
            let made = codec.compress_numbers(bytes.clone(), before).unwrap();
            assert_eq!(zstd::bulk::decompress(&made, bytes.len()).unwrap(), bytes);
            assert_eq!(codec.searches, searches);
        }
        assert_eq!(codecs.at_rest.lock().unwrap().len(), 1);
    }

    #[test]
    fn levels_for_size_always_search() {
        let codecs = Codecs::new(Compression::Zstd(9));
        assert!(codecs.of_chunk(CompressionCodec::ZSTD).unwrap().unwrap().searches);
    }

    #[test]
    fn other_compressions_are_not_spoken() {
        let codecs = Codecs::new(Compression::Uncompressed);
        assert!(codecs.of_chunk(CompressionCodec::ZSTD).unwrap().is_none());
        let mut codec = codecs.of_chunk(CompressionCodec::UNCOMPRESSED).unwrap().unwrap();
        assert_eq!(codec.compress_numbers(vec![1; 8], 8).unwrap(), vec![1; 8]);
    }
}
