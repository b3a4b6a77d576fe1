//! The file that holds deletion vectors: a version byte, then for each vector its size, its bytes
//! and their CRC-32, both numbers big-endian.

use super::{Positions, corrupt};
use crate::actions::DeletionVector;
use crate::{Error, Result};

const VERSION: u8 = 1;
/// Bytes of a frame beyond those of its vector.
pub const FRAME_BYTES: u64 = 8;

/// The vector's bytes inside a frame; checks their number against the log's `size_bytes`.
///
/// # Errors
/// `CorruptFile` for a size or checksum mismatch (P120).
pub fn unframe(frame: &[u8], size_bytes: usize) -> Result<&[u8]> {
    let parts = frame.split_first_chunk::<4>().and_then(|(size, rest)| {
        let (bytes, sum) = rest.split_last_chunk::<4>()?;
        Some((u32::from_be_bytes(*size), bytes, u32::from_be_bytes(*sum)))
    });
    let Some((size, bytes, sum)) = parts.filter(|(_, bytes, _)| bytes.len() == size_bytes) else {
        return Err(corrupt(format_args!(
            "size mismatch: the log says {size_bytes} bytes, its file has only {} there",
            frame.len().saturating_sub(8)
        )));
    };
    if u64::from(size) != size_bytes as u64 {
        return Err(corrupt(format_args!(
            "size mismatch: the log says {size_bytes} bytes, its file says {size}"
        )));
    }
    let computed = crc32(bytes);
    if sum != computed {
        return Err(corrupt(format_args!(
            "checksum mismatch: its file says {sum:08x}, its bytes give {computed:08x}"
        )));
    }
    Ok(bytes)
}

/// A file of vectors being built.
#[derive(Debug)]
pub struct VectorFile {
    bytes: Vec<u8>,
}

impl Default for VectorFile {
    fn default() -> Self {
        VectorFile { bytes: vec![VERSION] }
    }
}

impl VectorFile {
    /// Appends a vector; its descriptor lacks only the file's name (`pathOrInlineDv`).
    pub fn append(&mut self, rows: &Positions) -> Result<DeletionVector> {
        let too_long = || {
            Error::invalid_argument(
                "the deletion vectors of one commit take more than 2 GiB: delete fewer rows at a time",
            )
        };
        let bytes = rows.serialise()?;
        let size_in_bytes = i32::try_from(bytes.len()).map_err(|_| too_long())?;
        let offset = i32::try_from(self.bytes.len()).map_err(|_| too_long())?;
        self.bytes.extend(size_in_bytes.to_be_bytes());
        self.bytes.extend(&bytes);
        self.bytes.extend(crc32(&bytes).to_be_bytes());
        Ok(DeletionVector {
            storage_type: "u".to_owned(),
            offset: Some(offset),
            size_in_bytes,
            cardinality: i64::try_from(rows.len()).map_err(|_| too_long())?,
            ..DeletionVector::default()
        })
    }

    /// The whole file.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0xEDB8_8320 } else { sum >> 1 };
            bit += 1;
        }
        #[allow(clippy::indexing_slicing, reason = "checked while compiling")]
        {
            table[byte] = sum;
        }
        byte += 1;
    }
    table
};

/// CRC-32 as in zlib.
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        let slot = (sum ^ u32::from(*byte)) & 0xFF;
        sum >> 8 ^ CRC_TABLE.get(slot as usize).copied().unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn frame(bytes: &[u8], dv: &DeletionVector) -> Vec<u8> {
        let start = dv.offset.unwrap() as usize;
        bytes[start..start + dv.size_in_bytes as usize + 8].to_vec()
    }

    #[test]
    fn the_published_checksum() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn vectors_of_one_file() {
        let sets: [Positions; 2] = [[1, 5].into_iter().collect(), (10..90_000).collect()];
        let mut file = VectorFile::default();
        let vectors: Vec<DeletionVector> = sets.iter().map(|s| file.append(s).unwrap()).collect();
        assert_eq!(vectors[0].offset, Some(1));
        let bytes = file.into_bytes();
        for (set, dv) in sets.iter().zip(&vectors) {
            let frame = frame(&bytes, dv);
            let own = unframe(&frame, dv.size_in_bytes as usize).unwrap();
            assert_eq!(&Positions::parse(own, dv.cardinality).unwrap(), set);
        }
    }

    #[test]
    fn a_mismatch_is_named() {
        // P120
        let mut file = VectorFile::default();
        let dv = file.append(&[1, 5].into_iter().collect()).unwrap();
        let good = frame(&file.into_bytes(), &dv);
        let size = dv.size_in_bytes as usize;
        let message = |frame: &[u8], size| unframe(frame, size).unwrap_err().message().to_owned();
        assert!(message(&good[..good.len() - 1], size).contains("size mismatch"));
        assert!(message(&good, size - 1).contains("size mismatch"));
        assert!(message(&[], size).contains("size mismatch"));
        for index in 0..good.len() {
            let mut bad = good.clone();
            bad[index] ^= 1;
            let named = if index < 4 {
                "size mismatch"
            } else {
                "checksum mismatch"
            };
            assert!(message(&bad, size).contains(named), "{index}");
        }
    }
}
