//! A scan plan as bytes, in the order in which `Found.java` reads them: partition rows, URIs,
//! sizes, times. Numbers are big-endian. Knows bytes only.

use deltaplane_error::{Error, Result};

/// A file as Spark sees it.
pub struct SparkFile {
    /// ASCII URI.
    pub uri: String,
    /// Bytes.
    pub size: i64,
    /// Milliseconds since the epoch.
    pub modified_ms: i64,
}

/// The files of one partition tuple.
pub struct Directory {
    /// The partition values as an `UnsafeRow`.
    pub row: Vec<u8>,
    /// How many values.
    pub fields: usize,
    /// At least one file.
    pub files: Vec<SparkFile>,
}

/// These directories, one after the other.
pub fn encode(directories: &[Directory]) -> Result<Vec<u8>> {
    let of_files = directories.iter().flat_map(|d| &d.files).map(|f| f.uri.len() + 20);
    let of_rows = directories.iter().map(|d| d.row.len() + 12);
    let mut out = Vec::with_capacity(4 + of_files.chain(of_rows).sum::<usize>());
    out.extend_from_slice(&java_int(directories.len())?);
    for directory in directories {
        out.extend_from_slice(&java_int(directory.fields)?);
        block(&mut out, &directory.row)?;
        out.extend_from_slice(&java_int(directory.files.len())?);
        for file in &directory.files {
            out.extend_from_slice(&file.size.to_be_bytes());
            out.extend_from_slice(&file.modified_ms.to_be_bytes());
            block(&mut out, file.uri.as_bytes())?;
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
