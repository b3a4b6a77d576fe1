//! A scan plan in Java's serialisation: constant pieces cut from samples of the running JVM, and
//! between them what differs: rows, URIs, sizes, times. Knows bytes only. Called by `spark_plan`.

use deltaplane_error::{Error, Result};

/// The pieces in the order in which the Python side cuts them; names say what stands around them.
pub struct Template {
    head: Vec<u8>,
    first_directory: Vec<u8>,
    first_file: Vec<u8>,
    size_modified: Vec<u8>,
    modified_uri: Vec<u8>,
    later_size_modified: Vec<u8>,
    later_modified_uri: Vec<u8>,
    file_after_first: Vec<u8>,
    file_after_later: Vec<u8>,
    row_after_first: Vec<u8>,
    row_after_later: Vec<u8>,
    later_row: Vec<u8>,
    directory: Vec<u8>,
    file: Vec<u8>,
    end: Vec<u8>,
}

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

impl Template {
    /// From the pieces.
    pub fn new(pieces: Vec<Vec<u8>>) -> Result<Self> {
        let pieces: [Vec<u8>; 15] = pieces
            .try_into()
            .map_err(|_| Error::internal("a scan plan's template has another number of pieces"))?;
        let [
            head,
            first_directory,
            first_file,
            size_modified,
            modified_uri,
            later_size_modified,
            later_modified_uri,
            file_after_first,
            file_after_later,
            row_after_first,
            row_after_later,
            later_row,
            directory,
            file,
            end,
        ] = pieces;
        Ok(Template {
            head,
            first_directory,
            first_file,
            size_modified,
            modified_uri,
            later_size_modified,
            later_modified_uri,
            file_after_first,
            file_after_later,
            row_after_first,
            row_after_later,
            later_row,
            directory,
            file,
            end,
        })
    }

    /// The stream for these directories, none of them empty.
    pub fn assemble(&self, directories: &[Directory]) -> Result<Vec<u8>> {
        let files: usize = directories.iter().map(|d| d.files.len()).sum();
        let mut out = Vec::with_capacity(4096 + 256 * files + 128 * directories.len());
        out.extend_from_slice(&self.head);
        out.extend_from_slice(&java_int(directories.len())?);
        for (d, directory) in directories.iter().enumerate() {
            out.extend_from_slice(if d == 0 { &self.first_directory } else { &self.directory });
            out.extend_from_slice(&java_int(directory.files.len())?);
            for (f, file) in directory.files.iter().enumerate() {
                self.file(&mut out, d, f, file)?;
            }
            out.extend_from_slice(match (d, directory.files.len()) {
                (0, 1) => &self.row_after_first,
                (0, _) => &self.row_after_later,
                _ => &self.later_row,
            });
            row_block(&mut out, &directory.row, directory.fields)?;
        }
        out.extend_from_slice(&self.end);
        Ok(out)
    }

    fn file(&self, out: &mut Vec<u8>, d: usize, f: usize, file: &SparkFile) -> Result<()> {
        let (before, size_modified, modified_uri) = match (d, f) {
            (0, 0) => (&self.first_file, &self.size_modified, &self.modified_uri),
            (_, 0) => (&self.file, &self.later_size_modified, &self.later_modified_uri),
            (0, 1) => (
                &self.file_after_first,
                &self.later_size_modified,
                &self.later_modified_uri,
            ),
            _ => (
                &self.file_after_later,
                &self.later_size_modified,
                &self.later_modified_uri,
            ),
        };
        let length = u16::try_from(file.uri.len()).map_err(|_| {
            Error::unsupported_feature("the URI of a data file is longer than the 65,535 bytes that Spark takes")
        })?;
        out.extend_from_slice(before);
        out.extend_from_slice(&file.size.to_be_bytes());
        out.extend_from_slice(size_modified);
        out.extend_from_slice(&file.modified_ms.to_be_bytes());
        out.extend_from_slice(modified_uri);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(file.uri.as_bytes());
        Ok(())
    }
}

fn java_int(n: usize) -> Result<[u8; 4]> {
    i32::try_from(n)
        .map(i32::to_be_bytes)
        .map_err(|_| Error::unsupported_feature("more than 2^31 files in one Spark scan: filter by partition"))
}

/// What `UnsafeRow.writeExternal` writes, as one block of data.
fn row_block(out: &mut Vec<u8>, row: &[u8], fields: usize) -> Result<()> {
    const BLOCK: u8 = 0x77;
    const LONG_BLOCK: u8 = 0x7a;
    let length = row.len() + 8;
    match u8::try_from(length) {
        Ok(short) => out.extend_from_slice(&[BLOCK, short]),
        Err(_) => {
            out.push(LONG_BLOCK);
            out.extend_from_slice(&java_int(length)?);
        }
    }
    out.extend_from_slice(&java_int(row.len())?);
    out.extend_from_slice(&java_int(fields)?);
    out.extend_from_slice(row);
    Ok(())
}
