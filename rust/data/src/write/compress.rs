//! How pages are compressed that get new values. Knows no page; called by `pages`.

use bytes::Bytes;
use parquet::basic::CompressionCodec;
use parquet::errors::Result;
use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, ParamSwitch};

use super::Compression;

/// Of levels above this one size counts for more than time.
const MOST_QUICK_LEVEL: i32 = 3;
/// zstd's largest step between the places where it looks for what was there before: it finds next to nothing.
const NO_SEARCH: u32 = 128 << 10;

/// Compresses the pages of one chunk.
pub(super) struct Codec {
    level: Option<Compressor<'static>>,
    /// Codes bytes by how often each comes, and looks for no repeated ones; `None` once it didn't suffice.
    quick: Option<Compressor<'static>>,
}

impl Codec {
    /// Whether a chunk's compression is spoken, and the one that files have now.
    pub(super) fn speaks(now: Compression, chunk: CompressionCodec) -> bool {
        matches!(
            (now, chunk),
            (Compression::Uncompressed, CompressionCodec::UNCOMPRESSED)
                | (Compression::Zstd(_), CompressionCodec::ZSTD)
        )
    }

    /// `None` for what it doesn't speak.
    pub(super) fn of(now: Compression, chunk: CompressionCodec) -> Result<Option<Codec>> {
        if !Codec::speaks(now, chunk) {
            return Ok(None);
        }
        Ok(Some(match now {
            Compression::Zstd(level) => Codec {
                level: Some(Compressor::new(level)?),
                quick: (level <= MOST_QUICK_LEVEL).then(quick).transpose()?,
            },
            _ => Codec {
                level: None,
                quick: None,
            },
        }))
    }

    pub(super) fn compress(&mut self, bytes: Vec<u8>) -> Result<Bytes> {
        Ok(match &mut self.level {
            Some(compressor) => compressor.compress(&bytes)?.into(),
            None => bytes.into(),
        })
    }

    /// Compresses numbers of a fixed width, which took so many bytes before one in some was replaced. Numbers that don't
    /// repeat share only their high bytes: to search them for more takes three times as long, and those who read them
    /// twice. Where it comes to an eighth more than before they are searched, as are all that follow.
    pub(super) fn compress_numbers(&mut self, bytes: Vec<u8>, before: usize) -> Result<Bytes> {
        if let Some(quick) = &mut self.quick {
            let made = quick.compress(&bytes)?;
            if made.len() <= before + before / 8 {
                return Ok(made.into());
            }
            self.quick = None;
        }
        self.compress(bytes)
    }
}

fn quick() -> Result<Compressor<'static>> {
    let mut made = Compressor::new(1)?;
    made.set_parameter(CParameter::TargetLength(NO_SEARCH))?;
    // Left to itself, such a step would leave it out.
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
        for (bytes, before, searches) in [
            (pages(scattered), 100_000, false),
            (pages(|n| n / 50), 10_000, true),
            (pages(scattered), 10, true),
        ] {
            let mut codec = Codec::of(Compression::Zstd(1), CompressionCodec::ZSTD)
                .unwrap()
                .unwrap();
            let made = codec.compress_numbers(bytes.clone(), before).unwrap();
            assert_eq!(zstd::bulk::decompress(&made, bytes.len()).unwrap(), bytes);
            assert_eq!(codec.quick.is_none(), searches);
        }
    }

    #[test]
    fn levels_for_size_always_search() {
        let codec = Codec::of(Compression::Zstd(9), CompressionCodec::ZSTD)
            .unwrap()
            .unwrap();
        assert!(codec.quick.is_none());
    }
}
