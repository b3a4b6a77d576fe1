//! Table properties (protocol appendix, P190): the known keys, their canonical spelling and the
//! typed values of those that this build acts on.

use std::collections::BTreeMap;

use crate::{Error, Result};

/// Keys of the form `delta.…` that a user may set. Prefixes end in a dot.
const KNOWN: &[&str] = &[
    "delta.appendOnly",
    "delta.autoOptimize",
    "delta.autoOptimize.autoCompact",
    "delta.autoOptimize.optimizeWrite",
    "delta.checkpoint.writeStatsAsJson",
    "delta.checkpoint.writeStatsAsStruct",
    "delta.checkpointInterval",
    "delta.checkpointPolicy",
    "delta.checkpointRetentionDuration",
    "delta.columnMapping.mode",
    "delta.compatibility.symlinkFormatManifest.enabled",
    "delta.dataSkippingNumIndexedCols",
    "delta.dataSkippingStatsColumns",
    "delta.dataSkippingStringPrefixLength",
    "delta.deletedFileRetentionDuration",
    "delta.enableChangeDataFeed",
    "delta.enableDeletionVectors",
    "delta.enableExpiredLogCleanup",
    "delta.enableFullRetentionRollback",
    "delta.enableIcebergCompatV1",
    "delta.enableIcebergCompatV2",
    "delta.enableIcebergCompatV3",
    "delta.enableInCommitTimestamps",
    "delta.enableMaterializePartitionColumnsFeature",
    "delta.enableRowTracking",
    "delta.enableTypeWidening",
    "delta.enableVariantShredding",
    "delta.isolationLevel",
    "delta.logRetentionDuration",
    "delta.parquet.compression.codec",
    "delta.parquet.format.version",
    "delta.randomizeFilePrefixes",
    "delta.randomPrefixLength",
    "delta.rowTrackingSuspended",
    "delta.sampleRetentionDuration",
    "delta.setTransactionRetentionDuration",
    "delta.targetFileSize",
    "delta.tuneFileSizesForRewrites",
    "delta.universalFormat.enabledFormats",
    "delta.writePartitionColumnsToParquet",
];

/// The spelling under which a property is stored: known `delta.` keys are found ignoring case,
/// other `delta.` keys are refused, the rest is the user's own (P190).
pub fn canonical_key(key: &str) -> Result<String> {
    let lower = key.to_lowercase();
    if !lower.starts_with("delta.") {
        return Ok(key.to_owned());
    }
    if let Some(name) = lower.strip_prefix("delta.constraints.") {
        return Ok(format!("delta.constraints.{name}"));
    }
    KNOWN.iter().find(|k| k.to_lowercase() == lower).map(|k| (*k).to_owned()).ok_or_else(|| {
        Error::invalid_argument(format!(
            "`{key}` isn't a table property that Delta knows: check the spelling, or use a name that doesn't start with `delta.`"
        ))
    })
}

/// The properties that this build acts on, with their defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    /// Commits between checkpoints.
    pub checkpoint_interval: u64,
    /// How long removed files stay in checkpoints, ms.
    pub deleted_file_retention_ms: i64,
    /// How long applications' versions are kept, ms; forever when absent (P045).
    pub transaction_retention_ms: Option<i64>,
    /// How many leading leaf columns get statistics; -1 for all (P161).
    pub num_indexed_columns: i64,
    /// The columns with statistics, when listed (P161).
    pub stats_columns: Option<Vec<String>>,
    /// Characters of a string that statistics keep (P162).
    pub string_prefix_length: usize,
    /// Aimed size of new files in bytes, when set.
    pub target_file_size_bytes: Option<u64>,
    /// Codec of new files, when set.
    pub compression: Option<String>,
    /// Whether checkpoints hold statistics as JSON text (P051).
    pub stats_as_json: bool,
}

const WEEK_MS: i64 = 7 * 24 * 3600 * 1000;

impl Properties {
    /// Reads them from a table's configuration; a value that can't be read counts as the default,
    /// so that a table that another program wrote stays readable.
    pub fn new(configuration: &BTreeMap<String, String>) -> Self {
        let get = |k: &str| configuration.get(&format!("delta.{k}")).map(|v| v.trim());
        Properties {
            checkpoint_interval: get("checkpointInterval")
                .and_then(|v| v.parse().ok())
                .filter(|n| *n > 0)
                .unwrap_or(10),
            deleted_file_retention_ms: get("deletedFileRetentionDuration")
                .and_then(parse_interval_ms)
                .unwrap_or(WEEK_MS),
            transaction_retention_ms: get("setTransactionRetentionDuration").and_then(parse_interval_ms),
            num_indexed_columns: get("dataSkippingNumIndexedCols")
                .and_then(|v| v.parse().ok())
                .filter(|n| *n >= -1)
                .unwrap_or(32),
            stats_columns: get("dataSkippingStatsColumns").map(split_columns),
            string_prefix_length: get("dataSkippingStringPrefixLength")
                .and_then(|v| v.parse().ok())
                .unwrap_or(32),
            target_file_size_bytes: get("targetFileSize").and_then(parse_bytes).filter(|n| *n > 0),
            compression: get("parquet.compression.codec").map(str::to_lowercase),
            stats_as_json: get("checkpoint.writeStatsAsJson").is_none_or(|v| !v.eq_ignore_ascii_case("false")),
        }
    }

    /// Refuses values of known properties that can't be read: for properties a user sets.
    pub fn validate(configuration: &BTreeMap<String, String>) -> Result<()> {
        for (key, value) in configuration {
            let name = key.strip_prefix("delta.").unwrap_or_default();
            let v = value.trim();
            let legal = match name {
                "checkpointInterval" => v.parse::<u64>().is_ok_and(|n| n > 0),
                "dataSkippingNumIndexedCols" => v.parse::<i64>().is_ok_and(|n| n >= -1),
                "dataSkippingStringPrefixLength" => v.parse::<usize>().is_ok(),
                "targetFileSize" => parse_bytes(v).is_some_and(|n| n > 0),
                "isolationLevel" => v == "Serializable",
                "checkpointPolicy" => matches!(v, "classic" | "v2"),
                "columnMapping.mode" => matches!(v, "none" | "name" | "id"),
                n if n.ends_with("Duration") => parse_interval_ms(v).is_some(),
                n if n == "appendOnly" || n.starts_with("enable") || n.starts_with("checkpoint.writeStats") => {
                    v.eq_ignore_ascii_case("true") || v.eq_ignore_ascii_case("false")
                }
                _ => true,
            };
            if !legal {
                return Err(Error::invalid_argument(format!(
                    "`{value}` isn't a legal value of the table property `{key}`"
                )));
            }
        }
        Ok(())
    }
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
    #![allow(clippy::unwrap_used)]
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
    fn sizes_and_columns() {
        assert_eq!(parse_bytes("100mb"), Some(100 << 20));
        assert_eq!(parse_bytes("7"), Some(7));
        assert_eq!(parse_bytes("7q"), None);
        assert_eq!(split_columns("a, `b,c`,s.x"), ["a", "b,c", "s.x"]);
    }
}
