//! Table properties (protocol appendix, P190): the known keys, their canonical spelling and the
//! typed values of those that this build acts on.

mod known;

use std::collections::BTreeMap;

use crate::{Error, Result};

pub use known::{
    BLOOM_FILTER_COLUMNS, BLOOM_FILTER_FPP, BLOOM_FILTER_NDV, BUILD_INDEXES_ON_WRITE, COLUMNS_WITHOUT_STATISTICS,
    HIDE_VALUES_IN_HISTORY, KNOWN, Known, OWN, Own, Values, find,
};

/// The stored spelling of a property's key: known `delta.` keys ignore case, other `delta.` keys
/// are refused, all others are the user's own (P190).
pub fn canonical_key(key: &str) -> Result<String> {
    let lower = key.to_lowercase();
    if !lower.starts_with("delta.") {
        return Ok(key.to_owned());
    }
    if let Some(name) = lower.strip_prefix("delta.constraints.") {
        return Ok(format!("delta.constraints.{name}"));
    }
    match find(key).map(|k| k.name) {
        // The old name of one property: the new one is stored.
        Some("enableChangeDataCapture") => Ok("delta.enableChangeDataFeed".to_owned()),
        Some(name) => Ok(format!("delta.{name}")),
        None => Err(unknown_key(key)),
    }
}

fn unknown_key(key: &str) -> Error {
    Error::invalid_argument(format!(
        "`{key}` isn't a table property that Delta knows: check the spelling, or use a name that doesn't start with `delta.`"
    ))
}

/// The properties that this build acts on, with their defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    /// Commits between checkpoints, when set.
    pub checkpoint_interval: Option<u64>,
    /// How long removed files stay in checkpoints, ms.
    pub deleted_file_retention_ms: i64,
    /// How long applications' versions are kept, ms; forever when absent (P045).
    pub transaction_retention_ms: Option<i64>,
    /// How many leading leaf columns get statistics; -1 for all (P161).
    pub num_indexed_columns: i64,
    /// The columns with statistics, when listed (P161).
    pub stats_columns: Option<Vec<String>>,
    /// The columns without statistics, whatever the other properties say, as stored
    /// (`deltaplane.columnsWithoutStatistics`).
    pub unmeasured_columns: Option<String>,
    /// Characters of a string that statistics keep (P162).
    pub string_prefix_length: usize,
    /// Target size of new files in bytes, if set.
    pub target_file_size_bytes: Option<u64>,
    /// A write to a clustered table sorts its rows if they have at least this many bytes in memory.
    /// A property of this project (`deltaplane.clusterFromBytes`).
    pub cluster_from_bytes: u64,
    /// The columns with Bloom filters, as stored (`deltaplane.parquet.bloomFilterColumns`).
    pub bloom_filter_columns: Option<String>,
    /// The probability of their false answers, as stored (`deltaplane.parquet.bloomFilterFpp`).
    pub bloom_filter_fpp: Option<String>,
    /// The most distinct values of a row group, as stored (`deltaplane.parquet.bloomFilterNdv`).
    pub bloom_filter_ndv: Option<String>,
    /// Whether small files are joined after a commit.
    pub auto_compact: bool,
    /// Whether indexes of keys are extended after a commit (`deltaplane.buildIndexesOnWrite`).
    pub build_indexes_on_write: bool,
    /// Whether tasks shuffle rows into files of a good size before they write them.
    pub optimize_write: bool,
    /// Codec of new files, when set.
    pub compression: Option<String>,
    /// Whether checkpoints hold statistics as JSON text (P051).
    pub stats_as_json: bool,
    /// Whether checkpoints have statistics and partition values as typed structs (P051); by default
    /// only if they would be lost otherwise.
    pub stats_as_struct: bool,
    /// Whether checkpoints keep file actions in sidecars (P062).
    pub v2_checkpoints: bool,
    /// How long log files are kept, ms (P063).
    pub log_retention_ms: i64,
    /// How long log files are kept when a feature is dropped together with its history, ms (P098).
    pub truncated_history_ms: i64,
    /// Whether old log files are deleted after a checkpoint (P065).
    pub cleanup_enabled: bool,
}

/// A smaller write makes less than half a file, and is sorted with others later.
const CLUSTER_FROM_BYTES: u64 = 64 << 20;
const WEEK_MS: i64 = 7 * 24 * 3600 * 1000;
const DAY_MS: i64 = 24 * 3600 * 1000;
/// 30 days.
const MONTH_MS: i64 = 30 * 24 * 3600 * 1000;

impl Properties {
    /// From a table's configuration; an unreadable value counts as the default, so that a table of
    /// another program stays readable.
    pub fn new(configuration: &BTreeMap<String, String>) -> Self {
        let get = |k: &str| configuration.get(&format!("delta.{k}")).map(|v| v.trim());
        let is = |k: &str, what: &str| get(k).is_some_and(|v| v.eq_ignore_ascii_case(what));
        Properties {
            checkpoint_interval: get("checkpointInterval")
                .and_then(|v| v.parse().ok())
                .filter(|n| *n > 0),
            deleted_file_retention_ms: get("deletedFileRetentionDuration")
                .and_then(parse_interval_ms)
                .unwrap_or(WEEK_MS),
            transaction_retention_ms: get("setTransactionRetentionDuration").and_then(parse_interval_ms),
            num_indexed_columns: get("dataSkippingNumIndexedCols")
                .and_then(|v| v.parse().ok())
                .filter(|n| *n >= -1)
                .unwrap_or(32),
            stats_columns: get("dataSkippingStatsColumns").map(split_columns),
            unmeasured_columns: configuration.get(COLUMNS_WITHOUT_STATISTICS).cloned(),
            string_prefix_length: get("dataSkippingStringPrefixLength")
                .and_then(|v| v.parse().ok())
                .unwrap_or(32),
            target_file_size_bytes: get("targetFileSize").and_then(parse_bytes).filter(|n| *n > 0),
            cluster_from_bytes: configuration
                .get("deltaplane.clusterFromBytes")
                .and_then(|v| parse_bytes(v.trim()))
                .unwrap_or(CLUSTER_FROM_BYTES),
            bloom_filter_columns: configuration.get(BLOOM_FILTER_COLUMNS).cloned(),
            bloom_filter_fpp: configuration.get(BLOOM_FILTER_FPP).cloned(),
            bloom_filter_ndv: configuration.get(BLOOM_FILTER_NDV).cloned(),
            auto_compact: get("autoOptimize.autoCompact")
                .or_else(|| get("autoOptimize"))
                .is_some_and(|v| v.eq_ignore_ascii_case("true") || v.eq_ignore_ascii_case("auto")),
            build_indexes_on_write: configuration
                .get(BUILD_INDEXES_ON_WRITE)
                .is_some_and(|v| v.trim().eq_ignore_ascii_case("true")),
            optimize_write: get("autoOptimize.optimizeWrite")
                .or_else(|| get("autoOptimize"))
                .is_some_and(|v| v.eq_ignore_ascii_case("true")),
            compression: get("parquet.compression.codec").map(str::to_lowercase),
            stats_as_json: get("checkpoint.writeStatsAsJson").is_none_or(|v| !v.eq_ignore_ascii_case("false")),
            stats_as_struct: !is("checkpoint.writeStatsAsStruct", "false"),
            v2_checkpoints: get("checkpointPolicy") == Some("v2"),
            log_retention_ms: get("logRetentionDuration")
                .and_then(parse_interval_ms)
                .unwrap_or(MONTH_MS),
            truncated_history_ms: get("dropFeatureTruncateHistory.retentionDuration")
                .and_then(parse_interval_ms)
                .unwrap_or(DAY_MS),
            cleanup_enabled: get("enableExpiredLogCleanup").is_none_or(|v| !v.eq_ignore_ascii_case("false")),
        }
    }

    /// The work that follows a commit: whether small files are joined, and whether indexes of keys
    /// are extended.
    pub fn follow_up(&self) -> (bool, bool) {
        (self.auto_compact, self.build_indexes_on_write)
    }

    /// Refuses stored switches, numbers and durations that are invalid. Enumerated words that this
    /// version doesn't know are left to the code that uses them: another program may know more.
    pub fn check_readable(configuration: &BTreeMap<String, String>) -> Result<()> {
        for (key, value) in configuration {
            let Some(known) = find(key).filter(|k| k.values.is_plain()) else {
                continue;
            };
            known.check(value).map_err(|e| {
                Error::invalid_argument(format!(
                    "{}; another program stored it: set it with alter.set_table_properties, or take it away with alter.unset_table_properties",
                    e.message()
                ))
            })?;
        }
        Ok(())
    }

    /// Refuses values of known properties that can't be read: for properties a user sets.
    pub fn validate(configuration: &BTreeMap<String, String>) -> Result<()> {
        Self::validate_each(configuration)?;
        check_together(configuration)
    }

    /// As `validate`, but each property on its own: for properties that a write ignores.
    pub fn validate_each(configuration: &BTreeMap<String, String>) -> Result<()> {
        for (key, value) in configuration {
            if let Some(known) = find(key) {
                known.check(value)?;
            }
        }
        Ok(())
    }
}

const LOG_RETENTION: &str = "delta.logRetentionDuration";
const FILE_RETENTION: &str = "delta.deletedFileRetentionDuration";

/// Whether values of this property can be legal alone but not together with another property's.
pub fn is_checked_together(key: &str) -> bool {
    [LOG_RETENTION, FILE_RETENTION]
        .iter()
        .any(|name| name.eq_ignore_ascii_case(key))
}

/// Values that are legal alone but not together: history must be retained as long as removed files
/// (section 11).
fn check_together(configuration: &BTreeMap<String, String>) -> Result<()> {
    let get = |k: &str| configuration.get(k).and_then(|v| parse_interval_ms(v));
    let (log, files) = (get(LOG_RETENTION), get(FILE_RETENTION));
    let log_ms = log.unwrap_or(30 * 24 * 3600 * 1000);
    if (log.is_some() || files.is_some()) && log_ms < files.unwrap_or(WEEK_MS) {
        return Err(Error::invalid_argument(
            "`delta.logRetentionDuration` must be at least `delta.deletedFileRetentionDuration`: set both together",
        ));
    }
    Ok(())
}

/// Column names separated by commas, each possibly in backticks.
fn split_columns(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let (mut here, mut quoted) = (String::new(), false);
    for c in text.chars() {
        match c {
            '`' => quoted = !quoted,
            ',' if !quoted => out.push(std::mem::take(&mut here)),
            c => here.push(c),
        }
    }
    out.push(here);
    out.into_iter()
        .map(|s| s.trim().to_owned())
        .filter(|s| !s.is_empty())
        .collect()
}

/// Milliseconds of an interval such as `interval 1 week` or `2 days 3 hours`; months and years have
/// no fixed length and are refused (P190).
pub fn parse_interval_ms(text: &str) -> Option<i64> {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split_whitespace().filter(|w| *w != "interval").collect();
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return None;
    }
    let mut total = 0i64;
    for pair in words.chunks_exact(2) {
        let [n, unit] = pair else { return None };
        let n: i64 = n.parse().ok().filter(|n| *n >= 0)?;
        let ms = match unit.strip_suffix('s').unwrap_or(unit) {
            "week" => WEEK_MS,
            "day" => 24 * 3600 * 1000,
            "hour" => 3600 * 1000,
            "minute" => 60 * 1000,
            "second" => 1000,
            "millisecond" => 1,
            "microsecond" => {
                total = total.checked_add(n / 1000)?;
                continue;
            }
            _ => return None,
        };
        total = total.checked_add(n.checked_mul(ms)?)?;
    }
    Some(total)
}

/// Bytes of a size such as `104857600`, `100mb` or `1g`.
fn parse_bytes(text: &str) -> Option<u64> {
    let lower = text.to_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = lower.get(digits.len()..)?;
    let factor: u64 = match unit.trim_end_matches('b') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn intervals() {
        assert_eq!(parse_interval_ms("interval 1 week"), Some(WEEK_MS));
        assert_eq!(parse_interval_ms("2 days 1 hour"), Some(49 * 3600 * 1000));
        for bad in ["1 month", "interval", "-1 day", "x days", "9223372036854775807 weeks"] {
            assert_eq!(parse_interval_ms(bad), None, "{bad}");
        }
    }

    #[test]
    fn keys_are_canonical() {
        // P190
        assert_eq!(canonical_key("DELTA.appendonly").unwrap(), "delta.appendOnly");
        assert_eq!(canonical_key("my.key").unwrap(), "my.key");
        assert!(
            canonical_key("delta.appendOnyl")
                .unwrap_err()
                .message()
                .contains("appendOnyl")
        );
    }

    #[test]
    fn every_known_property_has_one_legal_spelling_and_a_legal_default() {
        // P190
        for k in KNOWN {
            let stored = canonical_key(&k.key().to_uppercase()).unwrap();
            assert!(
                find(&stored).is_some_and(|f| f.name == k.name || k.name == "enableChangeDataCapture"),
                "{stored}"
            );
            if k.values != Values::Internal {
                k.default.map(|d| k.check(d)).transpose().unwrap();
            }
            if k.values != Values::Text {
                let e = k.check("12 parsecs").unwrap_err();
                assert!(e.message().contains(&k.key()), "{e}");
            }
        }
        assert!(
            KNOWN
                .windows(2)
                .all(|w| w[0].name.to_lowercase() < w[1].name.to_lowercase())
        );
    }

    #[test]
    fn values_that_clash_are_refused_together() {
        let set = |log: &str, files: &str| {
            Properties::validate(&BTreeMap::from([
                ("delta.logRetentionDuration".to_owned(), log.to_owned()),
                ("delta.deletedFileRetentionDuration".to_owned(), files.to_owned()),
            ]))
        };
        assert!(set("interval 1 day", "interval 2 days").is_err());
        set("interval 2 days", "interval 2 days").unwrap();
    }

    #[test]
    fn sizes_and_columns() {
        assert_eq!(parse_bytes("100mb"), Some(100 << 20));
        assert_eq!(parse_bytes("7"), Some(7));
        assert_eq!(parse_bytes("7q"), None);
        assert_eq!(split_columns("a, `b,c`,s.x"), ["a", "b,c", "s.x"]);
    }
}
