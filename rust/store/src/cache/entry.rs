//! One entry as a file: a block of an object with its unique name, and a checksum over both. Knows
//! bytes only; `shelf` reads and writes the files.

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// The first bytes of an entry; another layout or another block size gets another number.
pub(super) const MAGIC: [u8; 8] = *b"DPCACHE1";
/// The magic number, the checksum, the lengths of name and body.
pub(super) const HEAD_BYTES: usize = 8 + 16 + 4 + 8;
/// Names above this length are damaged: no object has one.
const LONGEST_NAME: usize = 64 << 10;

/// The name of an entry: arbitrary texts, of which the first is the location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name(Vec<u8>);

impl Name {
    /// Writes each text after its length, so that different lists have different names.
    pub(super) fn new<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        Name(bytes)
    }

    /// A hash of the name, which names the file. Two names may share one; the file contains the
    /// full name.
    pub(super) fn id(&self) -> u128 {
        xxh3_128(&self.0)
    }

    /// The length of the file for a body of this length.
    pub(super) fn file_bytes(&self, body_bytes: u64) -> u64 {
        (HEAD_BYTES as u64 + self.0.len() as u64).saturating_add(body_bytes)
    }

    /// The bytes before the body; `None` if the name is too long for an entry.
    pub(super) fn head(&self, body: &[u8]) -> Option<Vec<u8>> {
        let lengths = lengths(&self.0, body)?;
        let mut out = Vec::with_capacity(HEAD_BYTES + self.0.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&checksum(&lengths, &self.0, body));
        out.extend_from_slice(&lengths);
        out.extend_from_slice(&self.0);
        Some(out)
    }

    /// The offset of the body, if the file is undamaged and has this name.
    pub(super) fn body_of(&self, file: &[u8]) -> Option<usize> {
        let (head, rest) = file.split_at_checked(HEAD_BYTES)?;
        let (name, body) = rest.split_at_checked(self.0.len())?;
        let lengths = lengths(name, body)?;
        let expected = [&MAGIC[..], &checksum(&lengths, name, body), &lengths].concat();
        (name == self.0 && head == expected).then_some(HEAD_BYTES + name.len())
    }
}

fn lengths(name: &[u8], body: &[u8]) -> Option<[u8; 12]> {
    let name = u32::try_from(name.len()).ok().filter(|_| name.len() <= LONGEST_NAME)?;
    let mut out = [0; 12];
    let (a, b) = out.split_at_mut(4);
    a.copy_from_slice(&name.to_le_bytes());
    b.copy_from_slice(&(body.len() as u64).to_le_bytes());
    Some(out)
}

fn checksum(lengths: &[u8], name: &[u8], body: &[u8]) -> [u8; 16] {
    let mut hash = Xxh3::new();
    hash.update(lengths);
    hash.update(name);
    hash.update(body);
    hash.digest128().to_le_bytes()
}

/// The location in the first bytes of an entry's file, unverified: for counting only.
pub(super) fn location_in(file_start: &[u8]) -> Option<&str> {
    let rest = file_start.strip_prefix(&MAGIC)?.get(HEAD_BYTES - MAGIC.len()..)?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    std::str::from_utf8(rest.get(..length)?).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn file(name: &Name, body: &[u8]) -> Vec<u8> {
        [&name.head(body).unwrap(), body].concat()
    }

    #[test]
    fn what_was_written_is_read_back() {
        let name = Name::new(["s3://b/t", "k", "tag", "5", "0"]);
        for body in [&b""[..], b"hello"] {
            let file = file(&name, body);
            assert_eq!(file.len() as u64, name.file_bytes(body.len() as u64));
            assert_eq!(&file[name.body_of(&file).unwrap()..], body);
            assert_eq!(location_in(&file), Some("s3://b/t"));
        }
    }

    #[test]
    fn no_changed_bit_and_no_cut_passes() {
        let name = Name::new(["s3://b/t", "k", "tag"]);
        let sound = file(&name, b"some bytes of a log");
        for index in 0..sound.len() {
            for bit in 0..8 {
                let mut bad = sound.clone();
                bad[index] ^= 1 << bit;
                assert_eq!(name.body_of(&bad), None, "bit {bit} of byte {index}");
            }
            assert_eq!(name.body_of(&sound[..index]), None, "cut to {index}");
        }
        assert_eq!(name.body_of(&[&sound[..], b"x"].concat()), None);
    }

    #[test]
    fn an_entry_under_another_name_is_not_taken() {
        let (first, two) = (Name::new(["a", "bc"]), Name::new(["ab", "c"]));
        assert_ne!((first.id(), &first), (two.id(), &two));
        assert_eq!(two.body_of(&file(&first, b"x")), None);
    }

    #[test]
    fn names_without_bounds_are_not_kept() {
        assert_eq!(Name::new(["x".repeat(LONGEST_NAME).as_str()]).head(b""), None);
    }
}
