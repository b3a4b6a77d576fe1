//! The entries of a segment, (hash, file), in their order and without duplicates, in bounded
//! memory: sorted runs in temporary files, which are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use deltaplane_error::{Error, Result};

/// Bits of a file's number.
const FILE_BITS: u32 = 14;
/// Files of a segment at most.
pub const MOST_FILES: usize = 1 << FILE_BITS;
/// The first bits of a hash, which entries have: enough for 2^47 of them. An entry is one number.
pub(crate) const HASH_BITS: u32 = 64 - FILE_BITS;
/// Entries that are sorted in memory: 128 MiB.
const IN_MEMORY: usize = 16 << 20;
/// Bytes of an entry in a file.
const ENTRY_BYTES: usize = 8;
/// Bytes that are read ahead of each file.
const BUFFER_BYTES: usize = 256 << 10;

/// Collects entries.
pub struct EntrySorter {
    held: Vec<u64>,
    most: usize,
    runs: Vec<Run>,
    spilled: u64,
}

impl Default for EntrySorter {
    fn default() -> Self {
        Self::with_room(IN_MEMORY)
    }
}

impl EntrySorter {
    /// With memory for this many entries.
    pub fn with_room(entries: usize) -> Self {
        EntrySorter {
            held: Vec::new(),
            most: entries.max(1),
            runs: Vec::new(),
            spilled: 0,
        }
    }

    /// One more entry: a key's hash, of which the first 50 bits count, and the number of a file
    /// with the key, less than [`MOST_FILES`].
    ///
    /// # Errors
    /// `Internal` for a larger number, or if temporary files can't be written.
    pub fn push(&mut self, hash: u64, file: u32) -> Result<()> {
        let file = u64::from(file);
        if file >= MOST_FILES as u64 {
            return Err(Error::internal(format!("a segment has at most {MOST_FILES} files")));
        }
        let entry = hash >> FILE_BITS << FILE_BITS | file;
        // Rows with the same key are often neighbours.
        if self.held.last() == Some(&entry) {
            return Ok(());
        }
        if self.held.len() >= self.most {
            self.sort();
            // Many files may have the same few keys.
            if self.held.len() > self.most / 2 {
                self.spill().map_err(no_room)?;
            }
        }
        self.held.push(entry);
        Ok(())
    }

    fn sort(&mut self) {
        self.held.sort_unstable();
        self.held.dedup();
    }

    fn spill(&mut self) -> std::io::Result<()> {
        let mut file = BufWriter::with_capacity(BUFFER_BYTES, tempfile::tempfile()?);
        let left = self.held.len() as u64;
        for entry in self.held.drain(..) {
            file.write_all(&entry.to_le_bytes())?;
        }
        let mut file = file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        self.spilled += left;
        self.runs.push(Run {
            file: BufReader::with_capacity(BUFFER_BYTES, file),
            left,
        });
        Ok(())
    }

    /// The entries in their order.
    ///
    /// # Errors
    /// `Internal` if temporary files can't be read.
    pub fn finish(mut self) -> Result<Entries> {
        self.sort();
        let most = self.spilled + self.held.len() as u64;
        let mut entries = Entries {
            held: self.held.into_iter(),
            runs: self.runs,
            next: BinaryHeap::new(),
            last: None,
            most,
        };
        let sources = if entries.runs.is_empty() {
            0
        } else {
            entries.runs.len() + 1
        };
        for source in 0..sources {
            let first = next_of(&mut entries.runs, &mut entries.held, source)?;
            entries.next.extend(first.map(|entry| Reverse((entry, source))));
        }
        Ok(entries)
    }
}

/// A sorted temporary file, and how many of its entries aren't read yet.
struct Run {
    file: BufReader<File>,
    left: u64,
}

impl Run {
    fn next(&mut self) -> std::io::Result<Option<u64>> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut bytes = [0; ENTRY_BYTES];
        self.file.read_exact(&mut bytes)?;
        self.left -= 1;
        Ok(Some(u64::from_le_bytes(bytes)))
    }
}

/// The next entry of a source: one of the runs, or behind them the memory.
fn next_of(runs: &mut [Run], held: &mut std::vec::IntoIter<u64>, source: usize) -> Result<Option<u64>> {
    match runs.get_mut(source) {
        Some(run) => run.next().map_err(no_room),
        None => Ok(held.next()),
    }
}

/// Sorted entries, each once: the first bits of a hash, followed by zeros, and a file's number.
pub struct Entries {
    held: std::vec::IntoIter<u64>,
    runs: Vec<Run>,
    /// The first entry of each source: the runs, and behind them the memory.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    last: Option<u64>,
    most: u64,
}

impl Entries {
    /// How many entries there are at most: duplicates in different runs count.
    pub fn most(&self) -> u64 {
        self.most
    }

    fn take(&mut self) -> Result<Option<(u64, u32)>> {
        if self.runs.is_empty() {
            // What is in memory has no duplicates.
            return Ok(self.held.next().map(split));
        }
        while let Some(mut first) = self.next.peek_mut() {
            let Reverse((entry, source)) = *first;
            match next_of(&mut self.runs, &mut self.held, source)? {
                Some(following) => *first = Reverse((following, source)),
                None => drop(PeekMut::pop(first)),
            }
            if self.last != Some(entry) {
                self.last = Some(entry);
                return Ok(Some(split(entry)));
            }
        }
        Ok(None)
    }
}

/// The bits of the hash, and the file's number.
fn split(entry: u64) -> (u64, u32) {
    let file = entry & (MOST_FILES as u64 - 1);
    (entry - file, file as u32)
}

impl Iterator for Entries {
    type Item = Result<(u64, u32)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take().transpose()
    }
}

fn no_room(e: std::io::Error) -> Error {
    Error::internal(format!(
        "an index can't be built, since its temporary files can't be written or read ({e}): free space in the directory of temporary files, or name another one (TMPDIR)"
    ))
    .with_source(e)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_come_sorted_and_once_whatever_the_memory(
            entries in prop::collection::vec((0_u64..40, 0_u32..4), 0..300),
            room in 1_usize..64,
        ) {
            let entries: Vec<(u64, u32)> = entries.into_iter().map(|(hash, file)| (hash << FILE_BITS, file)).collect();
            let mut sorter = EntrySorter::with_room(room);
            for (hash, file) in &entries {
                // The last bits of a hash don't count.
                sorter.push(*hash | 5, *file).unwrap();
                prop_assert!(sorter.held.len() <= room);
            }
            let sorted = sorter.finish().unwrap();
            let most = sorted.most();
            let sorted: Vec<(u64, u32)> = sorted.map(Result::unwrap).collect();
            let expected: Vec<(u64, u32)> = entries.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
            prop_assert!(most >= expected.len() as u64);
            prop_assert_eq!(sorted, expected);
        }
    }

    #[test]
    fn a_number_beyond_the_files_of_a_segment_is_refused() {
        let mut sorter = EntrySorter::default();
        assert!(sorter.push(1, MOST_FILES as u32 - 1).is_ok());
        assert!(sorter.push(1, MOST_FILES as u32).is_err());
    }
}
