//! BROTLI for the parquet crate, without an encoder: data files of this codec are read, and none is
//! ever written, because Spark has no decoder for it. The public crate of this name brings an
//! encoder of 1 MB that the parquet crate names and nobody here reaches
//! (docs/adr/0069-wheels.md). What the parquet crate uses of it is here: the decoder of the same
//! authors, and a writer that refuses.

use std::io::{Error, ErrorKind, Result, Write};

pub use brotli_decompressor::Decompressor;

/// A writer whose every call fails with [`ErrorKind::Unsupported`], in the encoder's place.
pub struct CompressorWriter<W> {
    _output: W,
}

impl<W: Write> CompressorWriter<W> {
    /// A writer in front of `output`. The settings of an encoder (the size of its buffer in bytes,
    /// its quality, the binary logarithm of its window in bytes) decide nothing.
    pub fn new(output: W, _buffer_size: usize, _quality: u32, _lg_window: u32) -> Self {
        Self { _output: output }
    }
}

impl<W: Write> Write for CompressorWriter<W> {
    fn write(&mut self, _bytes: &[u8]) -> Result<usize> {
        Err(refused())
    }

    fn flush(&mut self) -> Result<()> {
        Err(refused())
    }
}

fn refused() -> Error {
    let advice = "BROTLI is read and not written: use ZSTD, which Spark reads as well";
    Error::new(ErrorKind::Unsupported, advice)
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};

    use super::{CompressorWriter, Decompressor};

    /// RFC 7932, section 9.2: a stream of one uncompressed block, "hello", made by hand.
    #[test]
    fn a_stream_is_read() {
        // WBITS 16 (bit 0), then a block: not the last, MNIBBLES 4, MLEN - 1 = 4, uncompressed; its
        // bytes from the next whole byte; then the last and empty block.
        let stream = [
            0b0100_0000,
            0b0000_0000,
            0b0001_0000,
            b'h',
            b'e',
            b'l',
            b'l',
            b'o',
            0b11,
        ];
        let mut text = String::new();
        Decompressor::new(&stream[..], 4096).read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }

    #[test]
    fn writing_is_refused() {
        let mut output = Vec::new();
        let mut writer = CompressorWriter::new(&mut output, 4096, 1, 22);
        let errors = [writer.write_all(b"x").unwrap_err(), writer.flush().unwrap_err()];
        assert!(
            errors
                .iter()
                .all(|e| e.kind() == ErrorKind::Unsupported && e.to_string().contains("ZSTD"))
        );
        assert!(output.is_empty());
    }
}
