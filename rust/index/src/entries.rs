//! The entries of a segment, (hash, file), in their order and without duplicates, in bounded
//! memory: sorted runs in temporary files, which are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use deltaplane_error::{Error, Result};

/// Entries that are sorted in memory: 128 MiB.
const IN_MEMORY: usize = 8 << 20;
/// Bytes of an entry in a file.
const ENTRY_BYTES: usize = 12;
/// Bytes that are read ahead of each file.
const BUFFER_BYTES: usize = 256 << 10;

/// A key's hash, and the number of a file with the key.
type Entry = (u64, u32);

/// Collects entries.
pub struct EntrySorter {
    held: Vec<Entry>,
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

    /// One more entry.
    ///
    /// # Errors
    /// `Internal` if temporary files can't be written.
    pub fn push(&mut self, hash: u64, file: u32) -> Result<()> {
        if self.held.len() >= self.most {
            self.sort();
            // Many files may have the same few keys.
            if self.held.len() > self.most / 2 {
                self.spill().map_err(no_room)?;
            }
        }
        self.held.push((hash, file));
        Ok(())
    }

    fn sort(&mut self) {
        self.held.sort_unstable();
        self.held.dedup();
    }

    fn spill(&mut self) -> std::io::Result<()> {
        let mut file = BufWriter::new(tempfile::tempfile()?);
        for (hash, number) in self.held.drain(..) {
            file.write_all(&hash.to_le_bytes())?;
            file.write_all(&number.to_le_bytes())?;
            self.spilled += 1;
        }
        let mut file = file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        self.runs.push(Run(BufReader::with_capacity(BUFFER_BYTES, file)));
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
        for source in 0..=entries.runs.len() {
            entries.refill(source)?;
        }
        Ok(entries)
    }
}

struct Run(BufReader<File>);

impl Run {
    fn next(&mut self) -> std::io::Result<Option<Entry>> {
        let mut bytes = [0; ENTRY_BYTES];
        let mut there = 0;
        while there < ENTRY_BYTES {
            match self.0.read(bytes.get_mut(there..).unwrap_or_default())? {
                0 if there == 0 => return Ok(None),
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                n => there += n,
            }
        }
        let [a, b, c, d, e, f, g, h, file @ ..] = bytes;
        let hash = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        Ok(Some((hash, u32::from_le_bytes(file))))
    }
}

/// Sorted entries, each once.
pub struct Entries {
    held: std::vec::IntoIter<Entry>,
    runs: Vec<Run>,
    /// The first entry of each source: the runs, and behind them the memory.
    next: BinaryHeap<Reverse<(Entry, usize)>>,
    last: Option<Entry>,
    most: u64,
}

impl Entries {
    /// How many entries there are at most: duplicates in different runs count.
    pub fn most(&self) -> u64 {
        self.most
    }

    fn refill(&mut self, source: usize) -> Result<()> {
        let entry = match self.runs.get_mut(source) {
            Some(run) => run.next().map_err(no_room)?,
            None => self.held.next(),
        };
        self.next.extend(entry.map(|entry| Reverse((entry, source))));
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Entry>> {
        while let Some(Reverse((entry, source))) = self.next.pop() {
            self.refill(source)?;
            if self.last != Some(entry) {
                self.last = Some(entry);
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

impl Iterator for Entries {
    type Item = Result<Entry>;

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
            let mut sorter = EntrySorter::with_room(room);
            for (hash, file) in &entries {
                sorter.push(*hash, *file).unwrap();
                prop_assert!(sorter.held.len() <= room);
            }
            let sorted = sorter.finish().unwrap();
            let most = sorted.most();
            let sorted: Vec<Entry> = sorted.map(Result::unwrap).collect();
            let expected: Vec<Entry> = entries.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
            prop_assert!(most >= expected.len() as u64);
            prop_assert_eq!(sorted, expected);
        }
    }
}
