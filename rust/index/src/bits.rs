//! Numbers of a few bits, and unary numbers, packed from each byte's lowest bit on.

/// Most bits of one number.
pub(crate) const MOST_BITS: u32 = 56;

/// Packs numbers.
#[derive(Debug, Default)]
pub(crate) struct BitWriter {
    bytes: Vec<u8>,
    /// Bits that fill no byte yet.
    word: u64,
    held: u32,
}

impl BitWriter {
    /// The lowest `bits` bits of a number, at most [`MOST_BITS`].
    pub(crate) fn write(&mut self, value: u64, bits: u32) {
        self.word |= (value & mask(bits)) << self.held;
        self.held += bits;
        let whole = self.held / 8;
        if whole > 0 {
            let bytes = self.word.to_le_bytes();
            self.bytes
                .extend_from_slice(bytes.get(..whole as usize).unwrap_or(&bytes));
            self.word = self.word.checked_shr(whole * 8).unwrap_or(0);
            self.held -= whole * 8;
        }
    }

    /// A number by Rice's code: the part above its lowest `rice` bits unary, then these bits.
    pub(crate) fn write_rice(&mut self, value: u64, rice: u32) {
        let high = value >> rice;
        let bits = high.saturating_add(u64::from(rice) + 1);
        if bits <= u64::from(MOST_BITS) {
            self.write((((value & mask(rice)) << 1) | 1) << high, bits as u32);
        } else {
            self.write_unary(high);
            self.write(value, rice);
        }
    }

    /// As many zeros as the number says, and a one.
    fn write_unary(&mut self, mut value: u64) {
        while value >= u64::from(MOST_BITS) {
            self.write(0, MOST_BITS);
            value -= u64::from(MOST_BITS);
        }
        self.write(1 << value, value as u32 + 1);
    }

    /// The bytes; the last one is filled with zeros.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if self.held > 0 {
            self.bytes.push((self.word & 0xff) as u8);
        }
        self.bytes
    }
}

/// Reads what a [`BitWriter`] packed; `None` behind its end.
pub(crate) struct BitReader<'a> {
    bytes: std::slice::Iter<'a, u8>,
    word: u64,
    held: u32,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        BitReader {
            bytes: bytes.iter(),
            word: 0,
            held: 0,
        }
    }

    fn fill(&mut self) -> Option<()> {
        self.word |= u64::from(*self.bytes.next()?) << self.held;
        self.held += 8;
        Some(())
    }

    /// A number of `bits` bits, at most [`MOST_BITS`].
    pub(crate) fn read(&mut self, bits: u32) -> Option<u64> {
        while self.held < bits {
            self.fill()?;
        }
        let value = self.word & mask(bits);
        self.word >>= bits;
        self.held -= bits;
        Some(value)
    }

    /// How many zeros are before the next one.
    pub(crate) fn read_unary(&mut self) -> Option<u64> {
        let mut zeros = 0;
        loop {
            let here = self.word.trailing_zeros();
            if here < self.held {
                self.word >>= here + 1;
                self.held -= here + 1;
                return Some(zeros + u64::from(here));
            }
            zeros += u64::from(self.held);
            self.word = 0;
            self.held = 0;
            self.fill()?;
        }
    }
}

fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(
            numbers in prop::collection::vec((any::<u64>(), 0..=MOST_BITS, 0_u64..300, 0_u64..1 << 20, 12_u32..30), 0..200)
        ) {
            let mut writer = BitWriter::default();
            for (value, bits, unary, coded, rice) in &numbers {
                writer.write(*value, *bits);
                writer.write_unary(*unary);
                writer.write_rice(*coded, *rice);
            }
            let bytes = writer.finish();
            let mut reader = BitReader::new(&bytes);
            for (value, bits, unary, coded, rice) in &numbers {
                prop_assert_eq!(reader.read(*bits), Some(value & mask(*bits)));
                prop_assert_eq!(reader.read_unary(), Some(*unary));
                let high = reader.read_unary().unwrap();
                prop_assert_eq!((high << rice) | reader.read(*rice).unwrap(), *coded);
            }
            prop_assert_eq!(reader.read(8), None);
            prop_assert_eq!(reader.read_unary(), None);
        }
    }
}
