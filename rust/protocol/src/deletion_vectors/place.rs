//! The location of a vector, from the log's descriptor (P042): in the log itself, in a file named
//! relative to the table, or at an absolute path.

use uuid::Uuid;

use super::corrupt;
use crate::actions::DeletionVector;
use crate::{Error, Result, paths, z85};

/// Characters of a file's name in Z85.
const NAME_CHARS: usize = 20;
/// The offset of a file's first vector: after the version byte.
const FIRST: i32 = 1;

/// The location of a vector's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The bytes themselves, from the log.
    Inline(Vec<u8>),
    /// In a file, framed.
    File {
        /// Decoded path: relative to the table's root, or absolute.
        path: String,
        /// The offset of the frame.
        offset: u64,
        /// Size of the vector without its frame.
        size_bytes: usize,
    },
}

impl Place {
    /// The location of this vector.
    ///
    /// # Errors
    /// `CorruptFile` for an invalid descriptor, `UnsupportedFeature` for another storage type
    /// (P125).
    pub fn of(dv: &DeletionVector) -> Result<Place> {
        let size_bytes = usize::try_from(dv.size_in_bytes)
            .map_err(|_| corrupt(format_args!("size mismatch: the log says {} bytes", dv.size_in_bytes)))?;
        let text = &dv.path_or_inline_dv;
        let path = match dv.storage_type.as_str() {
            "i" => {
                let mut bytes = z85::decode(text).map_err(corrupt)?;
                if bytes.len() < size_bytes || bytes.len() - size_bytes >= 4 {
                    return Err(corrupt(format_args!(
                        "size mismatch: the log says {size_bytes} bytes and holds {}",
                        bytes.len()
                    )));
                }
                bytes.truncate(size_bytes);
                return Ok(Place::Inline(bytes));
            }
            "u" => relative(text)?,
            "p" => paths::decode(text)?,
            other => {
                return Err(Error::unsupported_feature(format!(
                    "a deletion vector is stored as {other:?}, a kind of storage that this version doesn't know: use a newer deltaplane"
                )));
            }
        };
        let offset = u64::try_from(dv.offset.unwrap_or(FIRST)).ok().filter(|o| *o > 0);
        Ok(Place::File {
            path,
            offset: offset.ok_or_else(|| corrupt("its offset lies before its file's first vector"))?,
            size_bytes,
        })
    }
}

fn file_name(id: Uuid) -> String {
    format!("deletion_vector_{}.bin", id.hyphenated())
}

/// Prefix, then the file's id.
fn relative(text: &str) -> Result<String> {
    let split = text
        .len()
        .checked_sub(NAME_CHARS)
        .and_then(|end| text.split_at_checked(end));
    let (prefix, name) = split.ok_or_else(|| {
        corrupt(format_args!(
            "the name of its file, {text:?}, is shorter than {NAME_CHARS} characters"
        ))
    })?;
    let id = Uuid::from_slice(&z85::decode(name).map_err(corrupt)?)
        .map_err(|e| corrupt(format_args!("the name of its file, {text:?}, is no id: {e}")))?;
    Ok(match prefix {
        "" => file_name(id),
        prefix => format!("{prefix}/{}", file_name(id)),
    })
}

/// A new file in the table's root: its name, and its id in the log's descriptors.
pub fn name_file(id: Uuid) -> (String, String) {
    (file_name(id), z85::encode(id.as_bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn dv(storage: &str, text: &str, offset: Option<i32>, size: i32) -> DeletionVector {
        DeletionVector {
            storage_type: storage.to_owned(),
            path_or_inline_dv: text.to_owned(),
            offset,
            size_in_bytes: size,
            cardinality: 1,
        }
    }

    fn file(path: &str, offset: u64) -> Place {
        Place::File {
            path: path.to_owned(),
            offset,
            size_bytes: 40,
        }
    }

    #[test]
    fn files_are_found() {
        // The protocol's own examples
        let place = |d| Place::of(&d).unwrap();
        let name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin";
        assert_eq!(
            place(dv("u", "ab^-aqEH.-t@S}K{vb[*k^", Some(4), 40)),
            file(&format!("ab/{name}"), 4)
        );
        assert_eq!(place(dv("u", "^-aqEH.-t@S}K{vb[*k^", None, 40)), file(name, 1));
        let absolute = dv("p", "s3://mytable/a%20b.bin", Some(4), 40);
        assert_eq!(place(absolute), file("s3://mytable/a b.bin", 4));
    }

    #[test]
    fn names_are_read_back() {
        let id = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let (path, text) = name_file(id);
        assert_eq!(Place::of(&dv("u", &text, Some(1), 40)).unwrap(), file(&path, 1));
    }

    #[test]
    fn inline_bytes_are_cut_to_their_size() {
        let text = z85::encode(&[1, 2, 3, 4, 5]);
        assert_eq!(
            Place::of(&dv("i", &text, None, 5)).unwrap(),
            Place::Inline(vec![1, 2, 3, 4, 5])
        );
        for size in [3, 9] {
            assert!(
                Place::of(&dv("i", &text, None, size))
                    .unwrap_err()
                    .message()
                    .contains("size mismatch")
            );
        }
    }

    #[test]
    fn what_names_no_place_is_refused() {
        // P125
        let kind = |d| Place::of(&d).unwrap_err().kind();
        assert_eq!(kind(dv("x", "", None, 1)), crate::Kind::UnsupportedFeature);
        for bad in [
            dv("u", "short", None, 1),
            dv("u", "ä", None, 1),
            dv("u", &"ü".repeat(15), None, 1),
            dv("i", "", None, -1),
        ] {
            assert_eq!(kind(bad), crate::Kind::CorruptFile);
        }
        assert!(Place::of(&dv("p", "/a", Some(-1), 1)).is_err());
        assert!(Place::of(&dv("p", "/a", Some(0), 1)).is_err());
    }
}
