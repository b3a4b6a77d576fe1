//! Which paths the live files of a sidecar have, so that a new checkpoint finds the sidecars that
//! commits touched without reading the others: bounds of the paths, and where the sidecar's own
//! filter of them is.

use std::ops::Range;

use arrow::array::{Array, AsArray, StructArray};
use deltaplane_error::Result;
use deltaplane_protocol::deletion_vectors::crc32;
use deltaplane_protocol::paths;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::bloom_filter::Sbbf;
use serde::{Deserialize, Serialize};

/// Most characters of a bound: the directories of most partitions, and little of a file every plan
/// reads.
const LONGEST_BOUND: usize = 40;
/// Share of absent paths that a filter doesn't rule out. Ten commits look for some twenty paths in
/// each sidecar.
pub(crate) const FALSE_ANSWERS: f64 = 0.001;
/// Most bytes of a filter: with room for far more files than a sidecar has.
const MOST_FILTER_BYTES: u64 = 1 << 20;
/// Most paths that are looked up in a filter: of more, one is a false answer.
const MOST_LOOKUPS: usize = 1_000;

/// The paths of a sidecar's live files, percent-decoded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PathRange {
    /// The beginnings of the first and the last path in the order of their bytes.
    min: String,
    max: String,
    /// The Parquet filter of the paths. Absent if some path isn't stored as it is decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filter: Option<Filter>,
}

/// Where a filter is in its file, in bytes, and its CRC-32: a damaged filter would rule a path out
/// that the file has, so that a removed file would stay in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Filter {
    start: u64,
    length: u64,
    crc32: u32,
}

impl PathRange {
    /// Those of these paths, which are sorted, that lie between the bounds.
    pub(crate) fn near<'a, 'p>(&self, paths: &'a [&'p str]) -> &'a [&'p str] {
        let from = paths.partition_point(|p| *p < self.min.as_str());
        let until = paths.partition_point(|p| beginning(p) <= self.max.as_str());
        paths.get(from..until).unwrap_or_default()
    }

    /// The filter, if it pays to look these paths up.
    pub(crate) fn filter_for(&self, near: &[&str]) -> Option<Filter> {
        let filter = self.filter.filter(|_| near.len() <= MOST_LOOKUPS)?;
        (1..=MOST_FILTER_BYTES).contains(&filter.length).then_some(filter)
    }
}

impl Filter {
    /// The range of its bytes; `None` if there is no such range.
    pub(crate) fn bytes(self) -> Option<Range<u64>> {
        Some(self.start..self.start.checked_add(self.length)?)
    }

    /// Whether it rules all of these paths out. A damaged one, by its content, rules none out.
    pub(crate) fn excludes(self, content: &[u8], paths: &[&str]) -> bool {
        crc32(content) == self.crc32 && excludes(content, paths)
    }
}

fn excludes(filter: &[u8], paths: &[&str]) -> bool {
    match Sbbf::from_bytes(filter) {
        // A filter without a single bit was never filled.
        Ok(filter) if filter.num_blocks() == 0 || filter.estimated_fpp() <= 0.0 => false,
        Ok(filter) => !paths.iter().any(|p| filter.check(p.as_bytes())),
        Err(_) => false,
    }
}

/// Collects the paths of a sidecar while it is written.
#[derive(Debug, Default)]
pub(crate) struct PathBounds {
    bounds: Option<(String, String)>,
    /// Whether a path is stored otherwise than it is decoded.
    encoded: bool,
    /// Whether rows had no paths.
    unknown: bool,
}

impl PathBounds {
    /// Takes these live files in.
    pub(crate) fn add(&mut self, adds: &StructArray) -> Result<()> {
        let Some(stored) = adds.column_by_name("path").and_then(|c| c.as_string_opt::<i32>()) else {
            self.unknown = true;
            return Ok(());
        };
        self.unknown |= stored.null_count() > 0;
        for text in stored.iter().flatten() {
            let path = paths::decoded(text)?;
            self.encoded |= *path != *text;
            let path = beginning(&path);
            match &mut self.bounds {
                None => self.bounds = Some((path.to_owned(), path.to_owned())),
                Some((min, _)) if path < min.as_str() => path.clone_into(min),
                Some((_, max)) if path > max.as_str() => path.clone_into(max),
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Where the finished file has the filter that its range names.
    pub(crate) fn filter_bytes(&self, footer: &ArrowReaderMetadata) -> Option<Range<u64>> {
        filter_of(footer).filter(|_| !self.encoded && !self.unknown && self.bounds.is_some())
    }

    /// The range of the finished file, with the filter of which this is the content; `None` if it
    /// isn't known.
    pub(crate) fn range(&self, filter: Option<(Range<u64>, &[u8])>) -> Option<PathRange> {
        let (min, max) = self.bounds.clone().filter(|_| !self.unknown)?;
        let filter = filter.map(|(bytes, content)| Filter {
            start: bytes.start,
            length: bytes.end - bytes.start,
            crc32: crc32(content),
        });
        Some(PathRange { min, max, filter })
    }
}

/// Where the filter of the paths is in a file with one row group.
fn filter_of(footer: &ArrowReaderMetadata) -> Option<Range<u64>> {
    let [group] = footer.metadata().row_groups() else {
        return None;
    };
    let paths = group
        .columns()
        .iter()
        .find(|c| c.column_path().parts() == ["add", "path"])?;
    let start = u64::try_from(paths.bloom_filter_offset()?).ok()?;
    let length = u64::try_from(paths.bloom_filter_length()?).ok()?;
    Some(start..start.checked_add(length)?)
}

/// The first characters of a path. Beginnings are in the order of their paths.
fn beginning(path: &str) -> &str {
    match path.char_indices().nth(LONGEST_BOUND) {
        Some((end, _)) => path.split_at_checked(end).map_or(path, |(first, _)| first),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};
    use arrow::datatypes::{DataType, Field};
    use proptest::prelude::*;

    use super::*;

    fn bounds(paths: &[&str]) -> PathBounds {
        let mut bounds = PathBounds::default();
        let field = Arc::new(Field::new("path", DataType::Utf8, true));
        let column: ArrayRef = Arc::new(StringArray::from(paths.to_vec()));
        bounds.add(&StructArray::from(vec![(field, column)])).unwrap();
        bounds
    }

    fn range(paths: &[&str]) -> PathRange {
        let (min, max) = bounds(paths).bounds.unwrap();
        PathRange { min, max, filter: None }
    }

    #[test]
    fn only_paths_between_the_bounds_are_near() {
        let range = range(&["day=2/b", "day=2/a", "day=3/c"]);
        let paths = ["day=1/z", "day=2/", "day=2/a", "day=2/x", "day=3/c", "day=3/d"];
        assert_eq!(range.near(&paths), ["day=2/a", "day=2/x", "day=3/c"]);
        assert!(range.near(&["day=1/a", "day=4/a"]).is_empty());
        assert!(range.near(&[]).is_empty());
    }

    #[test]
    fn bounds_are_of_decoded_paths() {
        // P021: `a%20b` and `a b` are one path.
        let encoded = bounds(&["a%20b"]);
        assert_eq!(
            (encoded.bounds.clone().unwrap().0, encoded.encoded),
            ("a b".to_owned(), true)
        );
        assert!(!bounds(&["a b"]).encoded);
        assert_eq!(range(&["a%20b"]).near(&["a b"]), ["a b"]);
    }

    #[test]
    fn a_filter_is_asked_for_few_paths_and_must_be_sound() {
        let range_with = |filter| PathRange {
            min: String::new(),
            max: "z".to_owned(),
            filter,
        };
        let placed = |start, length| Filter {
            start,
            length,
            crc32: 0,
        };
        let bytes = |range: PathRange, paths: &[&str]| range.filter_for(paths).and_then(Filter::bytes);
        assert_eq!(bytes(range_with(Some(placed(7, 32))), &["a"]), Some(7..39));
        assert_eq!(bytes(range_with(None), &["a"]), None);
        assert_eq!(
            bytes(range_with(Some(placed(7, 32))), &vec!["a"; MOST_LOOKUPS + 1]),
            None
        );
        for wrong in [placed(7, 0), placed(u64::MAX, 1), placed(0, MOST_FILTER_BYTES + 1)] {
            assert_eq!(bytes(range_with(Some(wrong)), &["a"]), None, "{wrong:?}");
        }
        let (mut filter, mut bytes) = (Sbbf::new_with_num_of_bytes(1024), Vec::new());
        filter.insert("day=1/a".as_bytes());
        filter.write(&mut bytes).unwrap();
        assert!(excludes(&bytes, &["day=1/b", "b"]));
        // Each bit that flips makes the whole filter unusable.
        let sound = Filter {
            crc32: crc32(&bytes),
            ..placed(0, bytes.len() as u64)
        };
        assert!(sound.excludes(&bytes, &["day=1/b"]));
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!sound.excludes(&flipped, &["day=1/b"]), "bit {bit}");
        }
        assert!(!excludes(&bytes, &["day=1/b", "day=1/a"]));
        let mut empty = Vec::new();
        Sbbf::new_with_num_of_bytes(1024).write(&mut empty).unwrap();
        assert!(!excludes(&empty, &["day=1/b"]));
        for damaged in [&bytes[..bytes.len() - 1], &bytes[1..], b"", b"\x15"] {
            assert!(!excludes(damaged, &["day=1/b"]));
        }
    }

    proptest! {
        #[test]
        fn a_path_of_the_sidecar_is_always_near(
            paths in proptest::collection::vec("[aé日😀/=]{0,60}", 1..20),
            others in proptest::collection::vec("[aé日😀/=]{0,60}", 0..20),
        ) {
            let texts: Vec<&str> = paths.iter().map(String::as_str).collect();
            let range = range(&texts);
            let mut all: Vec<&str> = texts.iter().copied().chain(others.iter().map(String::as_str)).collect();
            all.sort_unstable();
            let near = range.near(&all);
            prop_assert!(texts.iter().all(|t| near.contains(t)));
        }
    }
}
