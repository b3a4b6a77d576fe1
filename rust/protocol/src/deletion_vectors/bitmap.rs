//! The deleted rows of one file, and their serialised form: a magic number, then 64-bit Roaring,
//! "portable" as every writer has it, or "native" as only old ones have.

use std::io;
use std::ops::Range;

use roaring::{RoaringBitmap, RoaringTreemap};

use super::corrupt;
use crate::{Error, Result};

const PORTABLE: u32 = 1_681_511_377;
const NATIVE: u32 = 1_681_511_376;
/// Bytes of the smallest entry: a key and an empty bitmap, or a length and an empty bitmap.
const SMALLEST: usize = 12;

/// More rows than any data file has: larger claims are refused before memory is allocated for them.
pub const MOST_ROWS: u64 = 1 << 31;

/// Row positions in a data file: 0 is the first physical row (P124).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Positions(RoaringTreemap);

impl Positions {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many rows.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last row.
    pub fn max(&self) -> Option<u64> {
        self.0.max()
    }

    /// Whether this row is in the set.
    pub fn contains(&self, position: u64) -> bool {
        self.0.contains(position)
    }

    /// Adds a row.
    pub fn insert(&mut self, position: u64) {
        self.0.insert(position);
    }

    /// Adds these rows (P122: a newer vector holds all of the older one).
    pub fn union(&mut self, other: &Positions) {
        self.0 |= &other.0;
    }

    /// Keeps only rows that `other` has, too.
    pub fn intersect(&mut self, other: &Positions) {
        self.0 &= &other.0;
    }

    /// Whether the set has all rows of `other`.
    pub fn includes(&self, other: &Positions) -> bool {
        other.0.is_subset(&self.0)
    }

    /// All rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter()
    }

    /// Runs of consecutive rows within a range, ascending.
    pub fn runs(&self, within: Range<u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut positions = self.0.iter();
        positions.advance_to(within.start);
        for position in positions.take_while(|p| *p < within.end) {
            match runs.last_mut() {
                Some(run) if run.end == position => run.end = position + 1,
                _ => runs.push(position..position + 1),
            }
        }
        runs
    }

    /// One bit per row up to the last one, lowest bit first, in words of eight bytes.
    ///
    /// # Errors
    /// `CorruptFile` for a row beyond [`MOST_ROWS`].
    pub fn bits(&self) -> Result<Vec<u8>> {
        let last = self.max().filter(|last| *last >= MOST_ROWS);
        if let Some(last) = last {
            return Err(corrupt(format_args!(
                "it names row {last} of its file, and none has as many"
            )));
        }
        let words = self.max().map_or(0, |max| max / 64 + 1);
        let mut bits = vec![0_u8; usize::try_from(words * 8).unwrap_or(0)];
        for position in self.iter() {
            if let Some(byte) = usize::try_from(position / 8).ok().and_then(|i| bits.get_mut(i)) {
                *byte |= 1 << (position % 8);
            }
        }
        Ok(bits)
    }

    /// The portable form.
    pub fn serialise(&self) -> Result<Vec<u8>> {
        let mut map = self.0.clone();
        map.optimize();
        let mut out = PORTABLE.to_le_bytes().to_vec();
        map.serialize_into(&mut out)
            .map_err(|e| Error::internal(format!("a deletion vector can't be serialised: {e}")))?;
        Ok(out)
    }

    /// Parses the rows of a serialised vector and checks their number against the log's
    /// `cardinality`.
    ///
    /// # Errors
    /// `CorruptFile` for bytes that aren't a vector, and for a cardinality mismatch (P120).
    pub fn parse(bytes: &[u8], cardinality: i64) -> Result<Positions> {
        let mut rest = bytes;
        let map = match u32::from_le_bytes(take(&mut rest)?) {
            PORTABLE => portable(&mut rest)?,
            NATIVE => native(&mut rest)?,
            other => {
                return Err(corrupt(format_args!(
                    "it begins with {other}, which is the magic number of neither format"
                )));
            }
        };
        if !rest.is_empty() {
            return Err(corrupt(format_args!(
                "size mismatch: {} bytes are left over after its last bitmap",
                rest.len()
            )));
        }
        if i64::try_from(map.len()) != Ok(cardinality) {
            return Err(corrupt(format_args!(
                "cardinality mismatch: the log says {cardinality} rows, it holds {}",
                map.len()
            )));
        }
        Ok(Positions(map))
    }
}

impl FromIterator<u64> for Positions {
    fn from_iter<I: IntoIterator<Item = u64>>(positions: I) -> Self {
        Positions(positions.into_iter().collect())
    }
}

/// The next bytes.
fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    let (head, tail) = rest
        .split_first_chunk::<N>()
        .ok_or_else(|| corrupt("size mismatch: its bytes end too early"))?;
    *rest = tail;
    Ok(*head)
}

fn bitmap(rest: &mut &[u8]) -> Result<RoaringBitmap> {
    RoaringBitmap::deserialize_from(rest).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => corrupt("size mismatch: its bytes end inside of a bitmap"),
        _ => corrupt(format_args!("a bitmap of it is damaged ({e})")),
    })
}

/// A count that the remaining bytes can hold.
fn count(claimed: u64, rest: &[u8]) -> Result<usize> {
    let most = rest.len() / SMALLEST;
    usize::try_from(claimed).ok().filter(|n| *n <= most).ok_or_else(|| {
        corrupt(format_args!(
            "size mismatch: it claims {claimed} bitmaps in {} bytes",
            rest.len()
        ))
    })
}

fn portable(rest: &mut &[u8]) -> Result<RoaringTreemap> {
    let bitmaps = count(u64::from_le_bytes(take(rest)?), rest)?;
    let mut bitmaps_by_key: Vec<(u32, RoaringBitmap)> = Vec::with_capacity(bitmaps);
    for _ in 0..bitmaps {
        let key = u32::from_le_bytes(take(rest)?);
        let ascending = bitmaps_by_key.last().is_none_or(|(before, _)| *before < key);
        if !ascending || key >= 1 << 31 {
            return Err(corrupt(format_args!(
                "its bitmaps aren't in order: the key {key} stands where it can't"
            )));
        }
        bitmaps_by_key.push((key, bitmap(rest)?));
    }
    Ok(RoaringTreemap::from_bitmaps(bitmaps_by_key))
}

fn native(rest: &mut &[u8]) -> Result<RoaringTreemap> {
    let bitmaps = count(u64::from(u32::from_le_bytes(take(rest)?)), rest)?;
    let mut bitmaps_by_key = Vec::with_capacity(bitmaps);
    for key in 0..bitmaps {
        let size = u32::from_le_bytes(take(rest)?) as usize;
        let (mut own, tail) = rest
            .split_at_checked(size)
            .ok_or_else(|| corrupt("size mismatch: its bytes end inside of a bitmap"))?;
        let bitmap = bitmap(&mut own)?;
        if !own.is_empty() {
            return Err(corrupt("size mismatch: a bitmap of it is shorter than its length says"));
        }
        *rest = tail;
        let key = u32::try_from(key).map_err(|_| corrupt("it has too many bitmaps"))?;
        bitmaps_by_key.push((key, bitmap));
    }
    Ok(RoaringTreemap::from_bitmaps(bitmaps_by_key))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_possible_wrap)]
    use super::*;
    use proptest::prelude::*;

    /// What delta-spark wrote for {3, 4, 5, 7, 9, 50}.
    const SAMPLE: &str = "d1d3396401000000000000000000 00003a3000000100000000000500 10000000030004000500070009003200";

    fn sample() -> Vec<u8> {
        let hex: Vec<char> = SAMPLE.chars().filter(|c| !c.is_whitespace()).collect();
        let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
        hex.chunks(2).map(byte).collect()
    }

    fn positions() -> impl Strategy<Value = Positions> {
        let sparse = proptest::collection::vec(0_u64..1 << 40, 0..50);
        let dense = (0_u64..1 << 34, 0_u64..70_000).prop_map(|(from, n)| (from..from + n).collect::<Vec<_>>());
        prop_oneof![sparse, dense].prop_map(|all| all.into_iter().collect())
    }

    #[test]
    fn the_reference_bytes() {
        // P120
        let rows: Positions = [3, 4, 5, 7, 9, 50].into_iter().collect();
        assert_eq!(Positions::parse(&sample(), 6).unwrap(), rows);
        assert_eq!(rows.serialise().unwrap(), sample());
    }

    #[test]
    fn the_native_form_is_read_too() {
        let own = &sample()[16..];
        let mut bytes = NATIVE.to_le_bytes().to_vec();
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend((own.len() as u32).to_le_bytes());
        bytes.extend(own);
        assert_eq!(Positions::parse(&bytes, 6).unwrap().len(), 6);
        bytes[8] += 1;
        assert!(
            Positions::parse(&bytes, 6)
                .unwrap_err()
                .message()
                .contains("size mismatch")
        );
    }

    #[test]
    fn a_mismatch_is_named() {
        // P120
        let message = |bytes: &[u8], n| Positions::parse(bytes, n).unwrap_err().message().to_owned();
        assert!(message(&sample(), 5).contains("cardinality mismatch"));
        assert!(message(&sample()[..20], 6).contains("size mismatch"));
        assert!(message(&[sample(), vec![0]].concat(), 6).contains("size mismatch"));
        assert!(message(&[0; 12], 0).contains("magic number"));
        let mut claims = sample();
        claims[4..12].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(message(&claims, 6).contains("size mismatch"));
    }

    #[test]
    fn no_memory_is_made_for_rows_that_no_file_has() {
        let far: Positions = [1 << 62].into_iter().collect();
        assert!(far.bits().unwrap_err().message().contains("4611686018427387904"));
        let last: Positions = [MOST_ROWS - 1].into_iter().collect();
        assert_eq!(last.bits().unwrap().len() as u64, MOST_ROWS / 8);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn round_trip(rows in positions()) {
            let bytes = rows.serialise().unwrap();
            prop_assert_eq!(&Positions::parse(&bytes, rows.len() as i64).unwrap(), &rows);
            for cut in [1, bytes.len() / 2, bytes.len() - 1] {
                prop_assert!(Positions::parse(&bytes[..cut], rows.len() as i64).is_err());
            }
        }

        #[test]
        fn damaged_bytes_are_read_or_refused(rows in positions(), index in any::<prop::sample::Index>(), with: u8) {
            let mut bytes = rows.serialise().unwrap();
            let index = index.index(bytes.len());
            bytes[index] = with;
            let _ = Positions::parse(&bytes, rows.len() as i64);
        }

        #[test]
        fn runs_and_bits_say_what_contains_says(
            rows in proptest::collection::btree_set(0_u64..300, 0..80), start in 0_u64..300, length in 0_u64..300,
        ) {
            let all: Positions = rows.iter().copied().collect();
            let from_runs: Vec<u64> = all.runs(start..start + length).into_iter().flatten().collect();
            let expected: Vec<u64> = rows.iter().copied().filter(|p| (start..start + length).contains(p)).collect();
            prop_assert_eq!(from_runs, expected);
            let bits = all.bits().unwrap();
            prop_assert_eq!(bits.len() % 8, 0);
            for p in 0..bits.len() * 8 {
                prop_assert_eq!(bits[p / 8] >> (p % 8) & 1 == 1, rows.contains(&(p as u64)));
            }
        }
    }
}
