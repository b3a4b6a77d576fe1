//! A file's bytes between the encoder and the store: in buffers of one size, so that growth never
//! copies.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Bytes of a buffer.
const PART_BYTES: usize = 1 << 20;

/// Bytes that were written and not taken yet.
#[derive(Default)]
pub(super) struct Parts {
    full: FullParts,
    open: Vec<u8>,
}

/// The full buffers, readable while a writer holds the parts.
#[derive(Default, Clone)]
pub(super) struct FullParts(Arc<Mutex<Vec<Bytes>>>);

impl FullParts {
    /// Takes them, in order.
    pub(super) fn take(&self) -> Vec<Bytes> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, part: Vec<u8>) {
        let mut full = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        full.push(part.into());
    }
}

impl Parts {
    /// Takes what was written, in order.
    pub(super) fn take(&mut self) -> Vec<Bytes> {
        let mut all = self.full.take();
        if !self.open.is_empty() {
            all.push(std::mem::take(&mut self.open).into());
        }
        all
    }

    /// The full buffers, now and later.
    pub(super) fn full(&self) -> FullParts {
        self.full.clone()
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
            self.full.push(std::mem::take(&mut self.open));
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
        let mut taken = parts.full().take();
        assert_eq!(taken.len(), 3);
        taken.extend(parts.take());
        assert_eq!(taken.len(), 4);
        assert_eq!(taken.concat(), bytes);
        assert!(parts.take().is_empty());
    }
}
