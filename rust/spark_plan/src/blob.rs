//! A scan plan as bytes, in the order in which `Found.java` reads them: partition rows, URIs,
//! sizes, times, and what row tracking says of files. Numbers are big-endian. Knows bytes only.

use deltaplane_error::{Error, Result};

/// A file as Spark sees it.
pub struct SparkFile {
    /// ASCII URI.
    pub uri: String,
    /// Bytes.
    pub size: i64,
    /// Milliseconds since the epoch.
    pub modified_ms: i64,
    /// The id of the first row, and the version that added the file (P143), where the log has them.
    pub base_row_id: Option<i64>,
    pub default_row_commit_version: Option<i64>,
}

/// Represents a number that the log lacks: row ids and versions are never negative.
const NO_NUMBER: i64 = -1;

/// The files of one partition tuple.
pub struct Directory {
    /// The partition values as an `UnsafeRow`.
    pub row: Vec<u8>,
    /// How many values.
    pub fields: usize,
    /// At least one file.
    pub files: Vec<SparkFile>,
}

/// These directories, one after the other, behind the question whether files have row tracking's
/// numbers: where none has, none takes room for them.
pub fn encode(directories: &[Directory]) -> Result<Vec<u8>> {
    let files = || directories.iter().flat_map(|d| &d.files);
    let tracked = files().any(|f| f.base_row_id.is_some() || f.default_row_commit_version.is_some());
    let of_file = if tracked { 36 } else { 20 };
    let of_files = files().map(|f| f.uri.len() + of_file);
    let of_rows = directories.iter().map(|d| d.row.len() + 12);
    let mut out = Vec::with_capacity(8 + of_files.chain(of_rows).sum::<usize>());
    out.extend_from_slice(&i32::from(tracked).to_be_bytes());
    out.extend_from_slice(&java_int(directories.len())?);
    for directory in directories {
        out.extend_from_slice(&java_int(directory.fields)?);
        block(&mut out, &directory.row)?;
        out.extend_from_slice(&java_int(directory.files.len())?);
        for file in &directory.files {
            out.extend_from_slice(&file.size.to_be_bytes());
            out.extend_from_slice(&file.modified_ms.to_be_bytes());
            block(&mut out, file.uri.as_bytes())?;
            if tracked {
                for number in [file.base_row_id, file.default_row_commit_version] {
                    out.extend_from_slice(&number.unwrap_or(NO_NUMBER).to_be_bytes());
                }
            }
        }
    }
    Ok(out)
}

/// These bytes after their length.
pub(crate) fn block(out: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    out.extend_from_slice(&java_int(bytes.len())?);
    out.extend_from_slice(bytes);
    Ok(())
}

fn java_int(n: usize) -> Result<[u8; 4]> {
    i32::try_from(n)
        .map(i32::to_be_bytes)
        .map_err(|_| Error::unsupported_feature("more than 2^31 files in one Spark scan: filter by partition"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(numbers: &[Option<i64>]) -> Directory {
        let file = |n: &Option<i64>| SparkFile {
            uri: "file:/f".to_owned(),
            size: 1,
            modified_ms: 2,
            base_row_id: *n,
            default_row_commit_version: n.map(|n| n + 1),
        };
        Directory {
            row: Vec::new(),
            fields: 0,
            files: numbers.iter().map(file).collect(),
        }
    }

    #[test]
    fn only_files_with_row_ids_take_room_for_them() {
        let without = encode(&[directory(&[None, None])]).expect("small");
        let with = encode(&[directory(&[Some(7), None])]).expect("small");
        assert_eq!(
            (without.get(..4), with.get(..4)),
            (Some(&[0; 4][..]), Some(&[0, 0, 0, 1][..]))
        );
        assert_eq!(with.len(), without.len() + 2 * 16);
        let last = with.get(with.len() - 16..).expect("two numbers");
        assert_eq!(last, [NO_NUMBER.to_be_bytes(), NO_NUMBER.to_be_bytes()].concat());
    }
}
