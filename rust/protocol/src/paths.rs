//! Names in a table's folder (protocol section "File Types"): log file names, and the two encodings
//! of data paths: Hive escaping of directories, then URI encoding in the log (P021, P171).

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::{Error, Result};

/// The folder of the log below the table root.
pub const LOG_DIR: &str = "_delta_log";
/// The folder of the sidecars below the log.
pub const SIDECAR_DIR: &str = "_sidecars";
/// The folder of staged commits below the log, which only tables of catalogs have (P014).
pub const STAGED_DIR: &str = "_staged_commits";
/// The hint's name in the log folder.
pub const LAST_CHECKPOINT: &str = "_last_checkpoint";
/// The folder of the files of changed rows below the table root (P131).
pub const CHANGE_DIR: &str = "_change_data/";
/// The file in the log folder that records up to which version VACUUM has processed the log.
pub const LAST_VACUUM: &str = "_last_vacuum_info";
/// The name of a partition directory for null.
pub const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// A file of the log with a known kind of name (P001); every other name is ignored (P002).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogFile {
    /// `%020d.json`.
    Commit,
    /// `%020d.checkpoint.parquet`.
    ClassicCheckpoint,
    /// Part `part` (from 1) of `parts`.
    MultipartCheckpoint {
        /// From 1.
        part: u32,
        /// In all.
        parts: u32,
    },
    /// `%020d.checkpoint.<uuid>.(json|parquet)`.
    UuidCheckpoint {
        /// Whether the manifest is JSON rather than Parquet.
        json: bool,
    },
    /// `%020d.%020d.compacted.json`, up to and including this version.
    Compaction {
        /// Last version inside, inclusive.
        to: u64,
    },
    /// `%020d.crc`.
    Checksum,
}

/// Version and kind of a file name in the log folder; `None` for any other name.
pub fn parse_log_name(name: &str) -> Option<(u64, LogFile)> {
    let (version, rest) = name.split_once('.')?;
    let version = version_digits(version)?;
    let kind = match rest {
        "json" => LogFile::Commit,
        "crc" => LogFile::Checksum,
        "checkpoint.parquet" => LogFile::ClassicCheckpoint,
        _ => parse_long_name(rest)?,
    };
    Some((version, kind))
}

fn parse_long_name(rest: &str) -> Option<LogFile> {
    let parts: Vec<&str> = rest.split('.').collect();
    match parts.as_slice() {
        ["checkpoint", part, parts, "parquet"] => {
            let part = u32::try_from(digits(part, 10)?).ok()?;
            let parts = u32::try_from(digits(parts, 10)?).ok()?;
            (part >= 1 && part <= parts).then_some(LogFile::MultipartCheckpoint { part, parts })
        }
        ["checkpoint", uuid, ext @ ("json" | "parquet")] if uuid.len() == 36 => {
            Some(LogFile::UuidCheckpoint { json: *ext == "json" })
        }
        [to, "compacted", "json"] => Some(LogFile::Compaction {
            to: version_digits(to)?,
        }),
        _ => None,
    }
}

/// A version is a signed 64-bit integer: larger names are ignored, and a version's successor always
/// exists.
fn version_digits(s: &str) -> Option<u64> {
    digits(s, 20).filter(|v| *v <= i64::MAX.unsigned_abs())
}

fn digits(s: &str, width: usize) -> Option<u64> {
    (s.len() == width && s.bytes().all(|b| b.is_ascii_digit()))
        .then(|| s.parse().ok())
        .flatten()
}

/// Key of a commit relative to the table root.
pub fn commit(version: u64) -> String {
    format!("{LOG_DIR}/{version:020}.json")
}

/// Key of a classic checkpoint relative to the table root.
pub fn classic_checkpoint(version: u64) -> String {
    format!("{LOG_DIR}/{version:020}.checkpoint.parquet")
}

/// Key of a version checksum relative to the table root.
pub fn checksum(version: u64) -> String {
    format!("{LOG_DIR}/{version:020}.crc")
}

/// Key of a UUID-named checkpoint relative to the table root.
pub fn uuid_checkpoint(version: u64, uuid: &str) -> String {
    format!("{LOG_DIR}/{version:020}.checkpoint.{uuid}.parquet")
}

/// Key of a sidecar by its bare name, relative to the table root.
pub fn sidecar(name: &str) -> String {
    format!("{LOG_DIR}/{SIDECAR_DIR}/{name}")
}

/// Bare name of a staged commit of this version.
pub fn staged_name(version: u64, uuid: &str) -> String {
    format!("{version:020}.{uuid}.json")
}

/// The version of a staged commit by its bare name; `None` for any other name.
pub fn staged_version(name: &str) -> Option<u64> {
    let (version, rest) = name.split_once('.')?;
    let uuid = rest.strip_suffix(".json")?;
    let is_uuid = uuid.len() == 36 && uuid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    is_uuid.then(|| version_digits(version)).flatten()
}

/// Key of a staged commit by its bare name, relative to the table root.
pub fn staged_commit(name: &str) -> String {
    format!("{LOG_DIR}/{STAGED_DIR}/{name}")
}

/// Key of a log compaction of these versions, both inclusive, relative to the table root.
pub fn compaction(from: u64, to: u64) -> String {
    format!("{LOG_DIR}/{from:020}.{to:020}.compacted.json")
}

/// Key of the hint relative to the table root.
pub fn last_checkpoint() -> String {
    format!("{LOG_DIR}/{LAST_CHECKPOINT}")
}

/// Characters that a URI's path must escape (RFC 2396 and Java's `URI`).
const URI_UNSAFE: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A decoded path in the form of `add.path` (P022): encoded exactly once.
pub fn encode(path: &str) -> String {
    let mut out = utf8_percent_encode(path, URI_UNSAFE).to_string();
    // A colon in the first segment would read as a scheme: `a:b` is an opaque URI (P022).
    if let Some(colon) = out.find(':')
        && !out.get(..colon).is_some_and(|head| head.contains('/'))
    {
        let first_end = out.find('/').unwrap_or(out.len());
        let first = out.get(..first_end).unwrap_or_default().replace(':', "%3A");
        out.replace_range(..first_end, &first);
    }
    out
}

/// The decoded form of `add.path` (P021), by which files are found and compared.
pub fn decode(path: &str) -> Result<String> {
    decoded(path).map(Cow::into_owned)
}

/// As `decode`, without a copy if the path needs no decoding.
pub fn decoded(path: &str) -> Result<Cow<'_, str>> {
    if !path.as_bytes().contains(&b'%') {
        return Ok(Cow::Borrowed(path));
    }
    percent_decode_str(path).decode_utf8().map_err(|_| {
        Error::corrupt_log(format!(
            "the path `{path}` in the log isn't UTF-8 once percent-decoded: it can't name a file"
        ))
    })
}

/// The name of a partition directory, `column=value`, both Hive-escaped (P171).
pub fn partition_dir(column: &str, value: Option<&str>) -> String {
    let value = value
        .filter(|v| !v.is_empty())
        .map_or_else(|| NULL_PARTITION.to_owned(), hive_escape);
    format!("{}={value}", hive_escape(column))
}

/// The prefix of the folders for the files of Spark's own writer, including those of unfinished
/// tasks: files that remain after a crash of the driver are garbage like any other.
pub const SPARK_DIR: &str = "spark-";
const UNDER_WAY: &str = "_temporary";

/// Whether a key is hidden from VACUUM (P200): a part of it begins with `_` or `.` and is neither a
/// folder of change files or of an index nor a partition's directory; Iceberg's `metadata` folder
/// is hidden, too. `partition_columns` are names as in directories.
pub fn is_hidden(key: &str, partition_columns: &[String]) -> bool {
    let hidden = |part: &str| {
        let partition = || {
            let column = part.split_once('=').map(|(column, _)| column);
            column.is_some_and(|c| partition_columns.iter().any(|p| p == c || hive_escape(p) == c))
        };
        part.starts_with(['_', '.'])
            && !part.starts_with(CHANGE_DIR.trim_end_matches('/'))
            && !part.starts_with("_delta_index")
            && !partition()
            && (part != UNDER_WAY || !key.starts_with(SPARK_DIR))
    };
    key.starts_with("metadata/") || key.split('/').any(hidden)
}

fn hive_escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(
            c,
            '\u{1}'
                ..='\u{1f}'
                    | '\u{7f}'
                    | '"'
                    | '#'
                    | '%'
                    | '\''
                    | '*'
                    | '/'
                    | ':'
                    | '='
                    | '?'
                    | '\\'
                    | '{'
                    | '['
                    | ']'
                    | '^'
        ) {
            out.push_str(&format!("%{:02X}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn log_names() {
        // P001, P002
        assert_eq!(parse_log_name("00000000000000000010.json"), Some((10, LogFile::Commit)));
        assert_eq!(
            parse_log_name("00000000000000000010.crc"),
            Some((10, LogFile::Checksum))
        );
        assert_eq!(
            parse_log_name("00000000000000000010.checkpoint.0000000001.0000000002.parquet"),
            Some((10, LogFile::MultipartCheckpoint { part: 1, parts: 2 }))
        );
        assert_eq!(
            parse_log_name("00000000000000000010.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"),
            Some((10, LogFile::UuidCheckpoint { json: true }))
        );
        assert_eq!(
            parse_log_name("00000000000000000004.00000000000000000006.compacted.json"),
            Some((4, LogFile::Compaction { to: 6 }))
        );
        for ignored in [
            "0.json",
            ".00000000000000000010.json.crc",
            "_last_checkpoint",
            "00000000000000000010.json.tmp",
            "00000000000000000010.checkpoint.0000000003.0000000002.parquet",
            "000000000000000000é0.json",
            "09223372036854775808.json",
            "18446744073709551615.checkpoint.parquet",
            "00000000000000000000.18446744073709551615.compacted.json",
        ] {
            assert_eq!(parse_log_name(ignored), None, "{ignored}");
        }
    }

    #[test]
    fn paths_are_encoded_twice() {
        // P021, P171: the values of the checklist
        for (value, logged) in [
            ("a/b", "p=a%252Fb"),
            ("a%b", "p=a%2525b"),
            ("a b", "p=a%20b"),
            ("}", "p=%7D"),
            ("x%20y", "p=x%252520y"),
        ] {
            let dir = partition_dir("p", Some(value));
            assert_eq!(encode(&dir), logged);
            assert_eq!(decode(logged).unwrap(), dir);
        }
        assert_eq!(partition_dir("p", None), "p=__HIVE_DEFAULT_PARTITION__");
    }

    #[test]
    fn what_is_hidden() {
        // P200
        let columns = ["_day".to_owned(), "_a b=c".to_owned()];
        for key in [
            "_delta_log/00000000000000000000.json",
            ".x.parquet.crc",
            "p=1/.part.crc",
            "_symlink_format_manifest/manifest",
            "_month=1/a.parquet",
            "_day=1/_tmp/a.parquet",
            "metadata/v1.metadata.json",
            "of-spark/_temporary/0/task_1/a.parquet",
            "spark-1/_day/a.parquet",
        ] {
            assert!(is_hidden(key, &columns), "{key}");
        }
        for key in [
            "a.parquet",
            "_day=1/a.parquet",
            "_a b%3Dc=1/a.parquet",
            "_change_data/cdc-1.parquet",
            "p=_x/a.parquet",
            "deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin",
            "metadata.parquet",
            "spark-1/_temporary/0/_temporary/attempt_1/_day=1/a.parquet",
        ] {
            assert!(!is_hidden(key, &columns), "{key}");
        }
    }

    #[test]
    fn no_path_reads_as_a_scheme() {
        assert_eq!(encode("a:b/c:d"), "a%3Ab/c:d");
        assert_eq!(encode("k=v/c:d"), "k=v/c:d");
    }
}
