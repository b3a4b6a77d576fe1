//! All table properties of Delta (protocol.md section 11): spelling, legal values, default,
//! meaning. Data only, and the check of a value.

use super::{parse_bytes, parse_interval_ms};
use crate::{Error, Result};

/// The legal values of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// `true` or `false`, in any case.
    Bool,
    /// A whole number of at least this.
    AtLeast(i64),
    /// A length of time without months and years, such as `interval 2 days`.
    Interval,
    /// A number of bytes, with a unit or without.
    Bytes,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A codec of data files, in any case, perhaps with a level behind it.
    Codec,
    /// Any text.
    Text,
    /// No value: a writer sets it itself.
    Internal,
}

/// One property.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// Its canonical spelling, without `delta.`.
    pub name: &'static str,
    /// Its legal values.
    pub values: Values,
    /// The default; `None` if there is none.
    pub default: Option<&'static str>,
    /// Its meaning.
    pub meaning: &'static str,
}

impl Known {
    /// The key under which it is stored.
    pub fn key(&self) -> String {
        format!("delta.{}", self.name)
    }

    /// Refuses a value that the property can't have (P190).
    pub fn check(&self, value: &str) -> Result<()> {
        let v = value.trim();
        let legal = match self.values {
            Values::Bool => v.eq_ignore_ascii_case("true") || v.eq_ignore_ascii_case("false"),
            Values::AtLeast(least) => v.parse::<i64>().is_ok_and(|n| n >= least),
            Values::Interval => parse_interval_ms(v).is_some(),
            Values::Bytes => parse_bytes(v).is_some_and(|n| n > 0),
            Values::OneOf(words) => words.contains(&v),
            Values::Codec => is_codec(v),
            Values::Text => true,
            Values::Internal => {
                return Err(Error::invalid_argument(format!(
                    "the table property `{}` is kept by writers and can't be set by hand: leave it out",
                    self.key()
                )));
            }
        };
        if legal {
            return Ok(());
        }
        let default = self.default.map(|d| format!(" (default {d})")).unwrap_or_default();
        Err(Error::invalid_argument(format!(
            "`{value}` isn't a legal value of the table property `{}`, which takes {}{default}",
            self.key(),
            self.values.describe()
        )))
    }
}

impl Values {
    /// Whether all programs interpret a value in the same way: a switch, a number, a duration.
    pub fn is_plain(self) -> bool {
        matches!(self, Values::Bool | Values::AtLeast(_) | Values::Interval)
    }

    /// The legal values in words.
    pub fn describe(self) -> String {
        match self {
            Values::Bool => "true or false".to_owned(),
            Values::AtLeast(least) => format!("a whole number of at least {least}"),
            Values::Interval => "an interval without months and years, such as `interval 2 days`".to_owned(),
            Values::Bytes => "a size in bytes, such as 104857600 or 100mb".to_owned(),
            Values::OneOf(words) => words.join(", "),
            Values::Codec => {
                "zstd, snappy, gzip, lz4_raw or uncompressed, zstd also with a level such as zstd(3)".to_owned()
            }
            Values::Text => "any text".to_owned(),
            Values::Internal => "nothing: writers keep it".to_owned(),
        }
    }
}

/// Whether writers support this codec: an unsupported one would make every later write fail.
fn is_codec(text: &str) -> bool {
    let lower = text.to_lowercase();
    let (name, level) = match lower.split_once('(') {
        Some((name, rest)) => (name, rest.strip_suffix(')')),
        None => (lower.as_str(), Some("0")),
    };
    let known = ["none", "uncompressed", "snappy", "zstd", "gzip", "lz4", "lz4_raw"];
    known.contains(&name.trim()) && level.is_some_and(|l| l.trim().parse::<i32>().is_ok())
}

/// The columns with Bloom filters, by dotted names separated by commas.
pub const BLOOM_FILTER_COLUMNS: &str = "deltaplane.parquet.bloomFilterColumns";
/// The probability with which a Bloom filter takes an absent value for one of its own.
pub const BLOOM_FILTER_FPP: &str = "deltaplane.parquet.bloomFilterFpp";
/// The most distinct values of a row group for which a Bloom filter has room.
pub const BLOOM_FILTER_NDV: &str = "deltaplane.parquet.bloomFilterNdv";

/// Whether writers cover the files of each commit by the table's indexes of keys.
pub const BUILD_INDEXES_ON_WRITE: &str = "deltaplane.buildIndexesOnWrite";

/// The columns without statistics in new files, by dotted names separated by commas.
pub const COLUMNS_WITHOUT_STATISTICS: &str = "deltaplane.columnsWithoutStatistics";

/// Whether the history of commits has conditions without the values in them.
pub const HIDE_VALUES_IN_HISTORY: &str = "deltaplane.hideValuesInHistory";

/// A property of this project, which other programs keep and don't interpret.
#[derive(Debug, Clone, Copy)]
pub struct Own {
    /// The key under which it is stored; its case matters.
    pub key: &'static str,
    /// Its legal values, in words.
    pub values: &'static str,
    /// The default; `None` if there is none.
    pub default: Option<&'static str>,
    /// Its meaning.
    pub meaning: &'static str,
}

/// The properties of this project, in order of their keys.
pub static OWN: &[Own] = &[
    Own {
        key: BUILD_INDEXES_ON_WRITE,
        values: "true or false",
        default: Some("false"),
        meaning: "cover the files of each commit by the table's indexes of keys, right after it",
    },
    Own {
        key: "deltaplane.clusterFromBytes",
        values: "a size in bytes, such as 104857600 or 100mb",
        default: Some("64mb"),
        meaning: "least size in memory of a write to a clustered table that orders its rows",
    },
    Own {
        key: COLUMNS_WITHOUT_STATISTICS,
        values: "dotted names of columns, separated by commas",
        default: None,
        meaning: "columns of new data files that get no statistics, so that the log has none of their values",
    },
    Own {
        key: HIDE_VALUES_IN_HISTORY,
        values: "true or false",
        default: Some("false"),
        meaning: "conditions in the history have `?` instead of each value",
    },
    Own {
        key: BLOOM_FILTER_COLUMNS,
        values: "dotted names of columns, separated by commas",
        default: None,
        meaning: "columns of new data files that get a Parquet Bloom filter",
    },
    Own {
        key: BLOOM_FILTER_FPP,
        values: "a number between 0 and 1",
        default: Some("0.01"),
        meaning: "probability with which a Bloom filter takes an absent value for one of its own",
    },
    Own {
        key: BLOOM_FILTER_NDV,
        values: "a whole number of at least 1",
        default: None,
        meaning: "most distinct values of a row group for which a Bloom filter has room; unless set the rows of a row group",
    },
];

/// The property of this key, ignoring case; `None` for a key that no version of Delta knows.
pub fn find(key: &str) -> Option<&'static Known> {
    let lower = key.to_lowercase();
    let name = lower.strip_prefix("delta.")?;
    KNOWN.iter().find(|k| k.name.to_lowercase() == name)
}

const fn known(name: &'static str, values: Values, default: Option<&'static str>, meaning: &'static str) -> Known {
    Known {
        name,
        values,
        default,
        meaning,
    }
}

const OFF: Option<&str> = Some("false");
const ON: Option<&str> = Some("true");

/// All of them, in order of their names.
pub static KNOWN: &[Known] = &[
    known(
        "appendOnly",
        Values::Bool,
        OFF,
        "rows can be added, never removed or changed",
    ),
    known(
        "autoOptimize",
        Values::Bool,
        None,
        "old switch of both autoOptimize properties",
    ),
    known(
        "autoOptimize.autoCompact",
        Values::OneOf(&["true", "false", "auto"]),
        None,
        "small files put together after a commit",
    ),
    known(
        "autoOptimize.optimizeWrite",
        Values::Bool,
        None,
        "a shuffle before files are written",
    ),
    known(
        "castIcebergTimeType",
        Values::Bool,
        OFF,
        "Iceberg conversion turns times into numbers",
    ),
    known(
        "checkpoint.writeStatsAsJson",
        Values::Bool,
        ON,
        "checkpoints hold statistics as JSON text",
    ),
    known(
        "checkpoint.writeStatsAsStruct",
        Values::Bool,
        ON,
        "checkpoints hold statistics as columns",
    ),
    known(
        "checkpointInterval",
        Values::AtLeast(1),
        None,
        "commits between checkpoints; unless set ten, fifty while many writers commit at once, and up to a hundred where a checkpoint is large",
    ),
    known(
        "checkpointPolicy",
        Values::OneOf(&["classic", "v2"]),
        Some("classic"),
        "kind of checkpoints",
    ),
    known(
        "checkpointRetentionDuration",
        Values::Interval,
        Some("interval 2 days"),
        "how long checkpoints are kept",
    ),
    known(
        "columnMapping.maxColumnId",
        Values::Internal,
        Some("0"),
        "highest column id ever used",
    ),
    known(
        "columnMapping.mode",
        Values::OneOf(&["none", "name", "id"]),
        Some("none"),
        "how files name columns",
    ),
    known(
        "compatibility.symlinkFormatManifest.enabled",
        Values::Bool,
        OFF,
        "manifests of files after each commit",
    ),
    known(
        "coordinatedCommits.commitCoordinator-preview",
        Values::Internal,
        None,
        "superseded by catalogs",
    ),
    known(
        "coordinatedCommits.commitCoordinatorConf-preview",
        Values::Internal,
        None,
        "superseded by catalogs",
    ),
    known(
        "coordinatedCommits.tableConf-preview",
        Values::Internal,
        None,
        "superseded by catalogs",
    ),
    known(
        "dataSkippingNumIndexedCols",
        Values::AtLeast(-1),
        Some("32"),
        "leading columns with statistics, -1 for all",
    ),
    known(
        "dataSkippingStatsColumns",
        Values::Text,
        None,
        "columns with statistics, instead of the leading ones",
    ),
    known(
        "dataSkippingStringPrefixLength",
        Values::AtLeast(1),
        Some("32"),
        "characters of text that statistics keep",
    ),
    known(
        "deletedFileRetentionDuration",
        Values::Interval,
        Some("interval 1 week"),
        "how long removed files are kept",
    ),
    known(
        "dropFeatureTruncateHistory.retentionDuration",
        Values::Interval,
        Some("interval 24 hours"),
        "history that is kept when a feature is dropped with its history",
    ),
    known(
        "enableChangeDataCapture",
        Values::Bool,
        OFF,
        "old name of enableChangeDataFeed",
    ),
    known(
        "enableChangeDataFeed",
        Values::Bool,
        OFF,
        "changed rows can be read between versions",
    ),
    known(
        "enableDeletionVectors",
        Values::Bool,
        OFF,
        "deleted rows are listed beside files instead of rewriting them",
    ),
    known(
        "enableExpiredLogCleanup",
        Values::Bool,
        ON,
        "old log files are deleted after checkpoints",
    ),
    known(
        "enableFullRetentionRollback",
        Values::Bool,
        ON,
        "every version within logRetentionDuration can be restored",
    ),
    known(
        "enableIcebergCompatV1",
        Values::Bool,
        None,
        "files that Iceberg readers understand, version 1, and column mapping in new tables",
    ),
    known(
        "enableIcebergCompatV2",
        Values::Bool,
        None,
        "files that Iceberg readers understand, version 2, and column mapping in new tables",
    ),
    known(
        "enableIcebergCompatV3",
        Values::Bool,
        None,
        "files that Iceberg readers understand, version 3, and column mapping in new tables",
    ),
    known(
        "enableInCommitTimestamps",
        Values::Bool,
        OFF,
        "commits carry their own time",
    ),
    known(
        "enableMaterializePartitionColumnsFeature",
        Values::Bool,
        None,
        "files hold the partition columns too",
    ),
    known(
        "enableRowTracking",
        Values::Bool,
        OFF,
        "rows keep an id through rewrites",
    ),
    known(
        "enableTypeWidening",
        Values::Bool,
        OFF,
        "columns can get wider types without rewriting files",
    ),
    known(
        "enableVariantShredding",
        Values::Bool,
        OFF,
        "parts of variants are stored as columns",
    ),
    known(
        "ignoreIcebergBucketPartition",
        Values::Bool,
        OFF,
        "conversion from Iceberg leaves bucket partitions out",
    ),
    known(
        "inCommitTimestampEnablementTimestamp",
        Values::Internal,
        None,
        "time from which commits carry theirs",
    ),
    known(
        "inCommitTimestampEnablementVersion",
        Values::Internal,
        None,
        "version from which commits carry their time",
    ),
    known(
        "isolationLevel",
        Values::OneOf(&["Serializable"]),
        Some("Serializable"),
        "what concurrent writers may miss",
    ),
    known(
        "logRetentionDuration",
        Values::Interval,
        Some("interval 30 days"),
        "how long history is kept",
    ),
    known(
        "parquet.compression.codec",
        Values::Codec,
        Some("zstd"),
        "codec of data files",
    ),
    known(
        "parquet.format.version",
        Values::Text,
        Some("1.0.0"),
        "Parquet version of data files",
    ),
    known(
        "randomizeFilePrefixes",
        Values::Bool,
        OFF,
        "random directories instead of partitions'",
    ),
    known(
        "randomPrefixLength",
        Values::AtLeast(1),
        Some("2"),
        "characters of random directories",
    ),
    known(
        "redirectReaderWriter-preview",
        Values::Internal,
        None,
        "where readers and writers go instead",
    ),
    known(
        "redirectWriterOnly-preview",
        Values::Internal,
        None,
        "where writers go instead",
    ),
    known(
        "requireCheckpointProtectionBeforeVersion",
        Values::Internal,
        Some("0"),
        "version before which checkpoints must not be touched",
    ),
    known(
        "rowTracking.materializedRowCommitVersionColumnName",
        Values::Internal,
        None,
        "hidden column of row versions",
    ),
    known(
        "rowTracking.materializedRowIdColumnName",
        Values::Internal,
        None,
        "hidden column of row ids",
    ),
    known(
        "rowTrackingSuspended",
        Values::Bool,
        OFF,
        "new files get no row ids for now",
    ),
    known(
        "sampleRetentionDuration",
        Values::Interval,
        Some("interval 7 days"),
        "unused",
    ),
    known(
        "setTransactionRetentionDuration",
        Values::Interval,
        None,
        "how long applications' versions are kept",
    ),
    known("targetFileSize", Values::Bytes, None, "aimed size of data files"),
    known(
        "tuneFileSizesForRewrites",
        Values::Bool,
        None,
        "smaller files for tables that are rewritten often",
    ),
    known(
        "universalFormat.enabledFormats",
        Values::Text,
        Some(""),
        "other formats whose metadata follows commits",
    ),
    known(
        "universalFormat.iceberg.atomicConversion.supported",
        Values::Bool,
        OFF,
        "Iceberg metadata in the same commit",
    ),
    known(
        "writePartitionColumnsToParquet",
        Values::Bool,
        None,
        "files hold the partition columns too, where possible",
    ),
];
