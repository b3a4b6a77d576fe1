//! Dictionary indexes in the encoding of pages: runs of one number, and packed bits. Knows no page
//! and no dictionary.

/// Numbers that are packed together.
const PACKED: usize = 8;
/// Most numbers behind one header: more would need a longer header, which other writers don't make.
const MOST_PACKED: usize = 63 * PACKED;

/// How many bits the largest of these numbers needs.
pub(super) fn bits_of(numbers: &[u32]) -> u8 {
    let most = numbers.iter().copied().max().unwrap_or(0);
    u8::try_from(u32::BITS - most.leading_zeros()).unwrap_or(0)
}

/// Unpacks this many numbers of this width; `None` if the bytes don't have them.
pub(super) fn unpack(bytes: &[u8], width: u8, count: usize) -> Option<Vec<u32>> {
    let (width, mut bytes) = (usize::from(width), bytes);
    if width > 32 {
        return None;
    }
    let mut numbers = Vec::with_capacity(count);
    while numbers.len() < count {
        let (header, rest) = varint(bytes)?;
        let left = count - numbers.len();
        if header & 1 == 0 {
            let (value, rest) = rest.split_at_checked(width.div_ceil(8))?;
            let number = value.iter().rev().fold(0, |n, byte| n << 8 | u32::from(*byte));
            numbers.extend(std::iter::repeat_n(number, left.min(header >> 1)));
            bytes = rest;
        } else {
            let (packed, rest) = rest.split_at_checked((header >> 1).checked_mul(width)?)?;
            take_bits(
                packed,
                width,
                left.min((header >> 1).checked_mul(PACKED)?),
                &mut numbers,
            );
            bytes = rest;
        }
        if header < 2 {
            // An empty run makes no progress.
            return None;
        }
    }
    Some(numbers)
}

/// A variable-length number of seven bits per byte, and the bytes after it.
fn varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0;
    for (i, byte) in bytes.iter().enumerate().take(5) {
        value |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(i + 1..)?));
        }
    }
    None
}

fn take_bits(packed: &[u8], width: usize, count: usize, into: &mut Vec<u32>) {
    let (mut held, mut bits, mut bytes) = (0_u64, 0, packed.iter());
    let mask = (1_u64 << width) - 1;
    for _ in 0..count {
        while bits < width {
            held |= u64::from(bytes.next().copied().unwrap_or(0)) << bits;
            bits += 8;
        }
        into.push(u32::try_from(held & mask).unwrap_or(0));
        held >>= width;
        bits -= width;
    }
}

/// Appends these numbers, which must fit into the width.
pub(super) fn pack(numbers: &[u32], width: u8, out: &mut Vec<u8>) {
    let width = usize::from(width);
    let (mut position, mut packed_from) = (0, 0);
    while let Some(number) = numbers.get(position) {
        let same = numbers.iter().skip(position).take_while(|n| *n == number).count();
        if same < PACKED {
            position += PACKED;
            continue;
        }
        put_packed(numbers.get(packed_from..position).unwrap_or_default(), width, out);
        put_varint(same << 1, out);
        out.extend(number.to_le_bytes().iter().take(width.div_ceil(8)));
        position += same;
        packed_from = position;
    }
    put_packed(numbers.get(packed_from..).unwrap_or_default(), width, out);
}

fn put_varint(mut value: usize, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(u8::try_from(value & 0x7f).unwrap_or(0) | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or(0));
}

fn put_packed(numbers: &[u32], width: usize, out: &mut Vec<u8>) {
    for part in numbers.chunks(MOST_PACKED) {
        put_bits(part, width, out);
    }
}

fn put_bits(numbers: &[u32], width: usize, out: &mut Vec<u8>) {
    let groups = numbers.len().div_ceil(PACKED);
    put_varint(groups << 1 | 1, out);
    let end = out.len() + groups * width;
    let (mut held, mut bits) = (0_u64, 0);
    for number in numbers {
        held |= u64::from(*number) << bits;
        bits += width;
        while bits >= 8 {
            out.push(u8::try_from(held & 0xff).unwrap_or(0));
            held >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(u8::try_from(held & 0xff).unwrap_or(0));
    }
    out.resize(end, 0);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_out_as_they_went_in(
            runs in proptest::collection::vec((0_u32..5_000, 1_usize..40), 0..30),
            wider in 0_u8..4,
        ) {
            let numbers: Vec<u32> = runs.iter().flat_map(|(n, times)| std::iter::repeat_n(*n, *times)).collect();
            let width = bits_of(&numbers) + wider;
            let mut bytes = Vec::new();
            pack(&numbers, width, &mut bytes);
            prop_assert_eq!(unpack(&bytes, width, numbers.len()).unwrap(), numbers);
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..40), width in 0_u8..40) {
            let numbers = unpack(&bytes, width, 100);
            prop_assert!(numbers.is_none_or(|n| n.len() == 100));
        }
    }

    #[test]
    fn repeated_numbers_take_few_bytes() {
        let mut bytes = Vec::new();
        pack(&[7; 20_000], 3, &mut bytes);
        assert_eq!(bytes.len(), 4);
        assert!(unpack(&bytes, 3, 20_001).is_none());
    }
}
