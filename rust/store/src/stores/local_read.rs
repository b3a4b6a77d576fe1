//! Reads files of the local disk into memory without clearing it first, and checks how much the
//! system has read.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;

use bytes::Bytes;

/// Appends a whole file to `to`. `bytes` is its expected size: if that is right, this takes one
/// system call.
pub(super) fn whole(mut file: File, bytes: usize, to: &mut Vec<u8>) -> io::Result<()> {
    // Room for one more byte, so that reading exactly `bytes` proves that the file ends there.
    to.reserve(bytes.saturating_add(1));
    if some(&file, None, to)? != bytes {
        file.read_to_end(to)?;
    }
    Ok(())
}

/// Bytes of a file from a position, without moving a shared cursor.
pub(super) fn part(file: &File, range: Range<u64>) -> io::Result<Bytes> {
    let length = usize::try_from(range.end.saturating_sub(range.start)).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let offset = range
            .start
            .saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if some(file, Some(offset), &mut bytes)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    bytes.truncate(length);
    Ok(bytes.into())
}

/// Appends the bytes of one system call, from this position or the cursor on, within the spare
/// room; returns their number.
#[cfg(target_os = "linux")]
fn some(file: &File, offset: Option<u64>, to: &mut Vec<u8>) -> io::Result<usize> {
    use rustix::buffer::spare_capacity;
    use rustix::io::{pread, read, retry_on_intr};

    Ok(match offset {
        Some(offset) => retry_on_intr(|| pread(file, spare_capacity(to), offset))?,
        None => retry_on_intr(|| read(file, spare_capacity(to)))?,
    })
}

#[cfg(not(target_os = "linux"))]
fn some(mut file: &File, offset: Option<u64>, to: &mut Vec<u8>) -> io::Result<usize> {
    if let Some(offset) = offset {
        io::Seek::seek(&mut file, io::SeekFrom::Start(offset))?;
    }
    let room = u64::try_from(to.capacity() - to.len()).unwrap_or(u64::MAX);
    file.take(room).read_to_end(to)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    #[test]
    fn what_is_read_is_what_is_there() {
        let path = tempfile::tempdir().unwrap().keep().join("x");
        fs::write(&path, "0123456789").unwrap();
        let open = || File::open(&path).unwrap();
        let mut all = Vec::new();
        // With any expected size, and after existing bytes.
        for bytes in [0, 9, 10, 11, 1 << 20, 10] {
            let before = all.len();
            whole(open(), bytes, &mut all).unwrap();
            assert_eq!(&all[before..], b"0123456789", "{bytes}");
        }
        let file = open();
        for range in [0..10, 3..4, 9..10, 4..4, 0..1] {
            let (from, to) = (range.start as usize, range.end as usize);
            assert_eq!(part(&file, range).unwrap(), b"0123456789"[from..to]);
        }
        let none = |range| part(&file, range).map_err(|e| e.kind());
        assert_eq!(none(5..11), Err(io::ErrorKind::UnexpectedEof));
        assert_eq!(none(10..11), Err(io::ErrorKind::UnexpectedEof));
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
