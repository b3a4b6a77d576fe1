//! Bytes of a file between the encoder and the store: kept in buffers of one size, so that none has to be copied as it grows.

use std::io::Write;

use bytes::Bytes;

/// Bytes of a buffer.
const PART_BYTES: usize = 1 << 20;

/// What was written and not taken yet.
#[derive(Default)]
pub(super) struct Parts {
    full: Vec<Bytes>,
    open: Vec<u8>,
}

impl Parts {
    /// Takes what was written, in order.
    pub(super) fn take(&mut self) -> Vec<Bytes> {
        let mut all = std::mem::take(&mut self.full);
        if !self.open.is_empty() {
            all.push(std::mem::take(&mut self.open).into());
        }
        all
    }
}

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.open.capacity() == 0 {
            self.open.reserve_exact(PART_BYTES);
        }
        let n = bytes.len().min(PART_BYTES.saturating_sub(self.open.len()));
        self.open.extend_from_slice(bytes.get(..n).unwrap_or_default());
        if self.open.len() >= PART_BYTES {
            self.full.push(std::mem::take(&mut self.open).into());
        }
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let bytes: Vec<u8> = (0..3 * PART_BYTES + 7)
            .map(|n| u8::try_from(n % 251).unwrap())
            .collect();
        let mut parts = Parts::default();
        let (first, second) = bytes.split_at(PART_BYTES / 2);
        parts.write_all(first).unwrap();
        parts.write_all(second).unwrap();
        let taken = parts.take();
        assert_eq!(taken.len(), 4);
        assert_eq!(taken.concat(), bytes);
        assert!(parts.take().is_empty());
    }
}
