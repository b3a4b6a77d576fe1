//! Whole pieces at once, without dictionaries, as in the public crate's module of this name.

use std::cell::RefCell;
use std::io::{Error, ErrorKind, Result};
use std::marker::PhantomData;

use zstd_safe::{CCtx, CParameter, DCtx, WriteBuf};

thread_local! {
    /// A call leaves nothing in it that the next one could see: each begins with a new frame.
    static DECOMPRESSOR: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// Compresses one piece after the other.
pub struct Compressor<'a> {
    settings: Vec<CParameter>,
    /// Absent before the first piece.
    context: Option<CCtx<'a>>,
}

impl Compressor<'_> {
    /// A compressor of this level.
    ///
    /// # Errors
    /// None: a level outside of zstd's range is an error of the first piece.
    pub fn new(level: i32) -> Result<Self> {
        Ok(Compressor {
            settings: vec![CParameter::CompressionLevel(level)],
            context: None,
        })
    }

    /// Sets a parameter of all later pieces.
    ///
    /// # Errors
    /// A value that zstd refuses, if a piece was compressed already; otherwise of the first piece.
    pub fn set_parameter(&mut self, parameter: CParameter) -> Result<()> {
        if let Some(context) = &mut self.context {
            context.set_parameter(parameter).map_err(refused)?;
        }
        self.settings.push(parameter);
        Ok(())
    }

    /// Compresses a piece into a frame of its own; returns its number of bytes. The capacity of
    /// `destination` has to suffice.
    ///
    /// # Errors
    /// Those of zstd: a capacity that is too small, a setting that it refuses, no memory.
    pub fn compress_to_buffer<W: WriteBuf + ?Sized>(&mut self, source: &[u8], destination: &mut W) -> Result<usize> {
        let context = match &mut self.context {
            Some(context) => context,
            none => {
                let mut context = CCtx::try_create().ok_or_else(no_memory)?;
                for setting in &self.settings {
                    context.set_parameter(*setting).map_err(refused)?;
                }
                none.insert(context)
            }
        };
        context.compress2(destination, source).map_err(refused)
    }

    /// As [`Self::compress_to_buffer`], into a new buffer.
    ///
    /// # Errors
    /// As [`Self::compress_to_buffer`].
    pub fn compress(&mut self, source: &[u8]) -> Result<Vec<u8>> {
        let mut frame = Vec::with_capacity(zstd_safe::compress_bound(source.len()));
        self.compress_to_buffer(source, &mut frame)?;
        Ok(frame)
    }
}

/// Decompresses one piece after the other, by the one decompressor of the calling thread.
#[derive(Debug, Default)]
pub struct Decompressor<'a>(PhantomData<&'a ()>);

impl Decompressor<'_> {
    /// A decompressor.
    ///
    /// # Errors
    /// None: a lack of memory is an error of the first piece.
    pub fn new() -> Result<Self> {
        Ok(Decompressor(PhantomData))
    }

    /// Decompresses a frame; returns its number of bytes. The capacity of `destination` has to
    /// suffice.
    ///
    /// # Errors
    /// Those of zstd: bytes that aren't a frame, a capacity that is too small, no memory.
    pub fn decompress_to_buffer<W: WriteBuf + ?Sized>(&mut self, source: &[u8], destination: &mut W) -> Result<usize> {
        DECOMPRESSOR.with_borrow_mut(|own| {
            let context = match own {
                Some(context) => context,
                none => none.insert(DCtx::try_create().ok_or_else(no_memory)?),
            };
            context.decompress(destination, source).map_err(refused)
        })
    }
}

/// Decompresses a frame of at most `capacity` bytes.
///
/// # Errors
/// As [`Decompressor::decompress_to_buffer`].
pub fn decompress(source: &[u8], capacity: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(capacity);
    Decompressor::new()?.decompress_to_buffer(source, &mut bytes)?;
    Ok(bytes)
}

fn refused(code: usize) -> Error {
    Error::other(zstd_safe::get_error_name(code))
}

fn no_memory() -> Error {
    Error::from(ErrorKind::OutOfMemory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(seed: usize) -> Vec<u8> {
        (0..10_000 + seed)
            .map(|n| (n * n / (seed + 7) % 251).to_le_bytes()[0])
            .collect()
    }

    #[test]
    fn pieces_come_back_whatever_came_before_them() -> Result<()> {
        let mut compressors = Vec::new();
        for level in [-3, 1, 3, 19] {
            compressors.push(Compressor::new(level)?);
        }
        for round in 0..3 {
            for (number, compressor) in compressors.iter_mut().enumerate() {
                let bytes = piece(10 * round + number);
                let frame = compressor.compress(&bytes)?;
                assert_eq!(decompress(&frame, bytes.len())?, bytes);
                // Damage, a cut and too small a buffer leave the thread's decompressor usable.
                assert!(decompress(&frame[1..], bytes.len()).is_err());
                assert!(decompress(&frame[..frame.len() - 1], bytes.len()).is_err());
                assert!(decompress(&frame, bytes.len() - 1).is_err());
                assert_eq!(decompress(&frame, bytes.len() + 9)?, bytes);
            }
        }
        Ok(())
    }

    #[test]
    fn threads_decompress_beside_each_other() {
        let repeated = |seed| -> Result<()> {
            let bytes = piece(seed);
            let frame = Compressor::new(1)?.compress(&bytes)?;
            for _ in 0..50 {
                assert_eq!(decompress(&frame, bytes.len())?, bytes);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|seed| scope.spawn(move || repeated(seed))).collect();
            for thread in threads {
                assert!(matches!(thread.join(), Ok(Ok(()))));
            }
        });
    }

    #[test]
    fn settings_hold_for_all_pieces_and_wrong_ones_are_errors() -> Result<()> {
        let bytes = piece(1);
        let mut plain = Compressor::new(1)?;
        let mut summed = Compressor::new(1)?;
        summed.set_parameter(CParameter::ChecksumFlag(true))?;
        for _ in 0..2 {
            let (without, with) = (plain.compress(&bytes)?, summed.compress(&bytes)?);
            assert_eq!(without.len() + 4, with.len());
        }
        plain.set_parameter(CParameter::ChecksumFlag(true))?;
        assert_eq!(plain.compress(&bytes)?, summed.compress(&bytes)?);
        assert!(plain.set_parameter(CParameter::WindowLog(99)).is_err());
        let mut wrong = Compressor::new(1)?;
        wrong.set_parameter(CParameter::WindowLog(99))?;
        assert!(wrong.compress(&bytes).is_err());
        Ok(())
    }
}
