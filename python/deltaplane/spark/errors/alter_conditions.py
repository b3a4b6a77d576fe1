"""delta-spark's error conditions for declarations: properties, features, generated and identity
columns, and the options of readers and writers.
"""

from __future__ import annotations

from pyspark.errors import (
    IllegalArgumentException,
    ParseException,
    PySparkException,
    UnsupportedOperationException,
)

from deltaplane.exceptions import (
    InvalidArgumentError,
    SqlSyntaxError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)
from deltaplane.spark.errors.known_condition import Known

__all__ = ["DECLARATIONS"]

_ALTERS = r"(?i)^\s*alter\b"
_CREATES = r"(?i)^\s*(create|replace)\b"
_READER = r"^Reader\."
_WRITERS = r"^(Writer|WriterV2|StreamWriter)\."
_TWO_PATHS = r"the option path says .*, and the call .*: give the path once"

_VECTORS_AND_MANIFESTS = (
    "DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED.PERSISTENT_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION"
)

_PROPERTIES = (
    Known(
        _VECTORS_AND_MANIFESTS, InvalidArgumentError, _VECTORS_AND_MANIFESTS.replace(".", r"\."), spark=PySparkException
    ),
    Known(
        "UNSUPPORTED_FEATURE.SET_TABLE_PROPERTY",
        SqlSyntaxError,
        r"`(?P<property>\w+)` is a reserved table property; (?P<msg>.*)",
        spark=ParseException,
    ),
    # Errors without a condition in delta-spark.
    Known(
        "DELTA_UNKNOWN_CONFIGURATION",
        InvalidArgumentError,
        r"table property `(?P<config>delta\.(?:targetFileSize|parquet\.compression\.codec|rowTracking\.materialized\w+))`",
    ),
    Known(
        "DELTA_CANNOT_MODIFY_TABLE_PROPERTY",
        InvalidArgumentError,
        r"the table property `(?P<prop>[^`]*)` is kept by writers and can't be set",
    ),
    Known(
        "DELTA_INVALID_INTERVAL",
        InvalidArgumentError,
        r"`(?P<interval>[^`\d]*)` isn't a legal value of the table property .* takes an interval",
        spark=IllegalArgumentException,
    ),
    Known(
        "DELTA_INVALID_ISOLATION_LEVEL",
        InvalidArgumentError,
        r"`(?P<isolationLevel>(?!SnapshotIsolation|WriteSerializable)[^`]*)` isn't a legal value of the table property "
        r"`delta\.isolationLevel`",
        spark=IllegalArgumentException,
    ),
    Known(
        "UNSUPPORTED_TABLE_CHANGE",
        InvalidArgumentError,
        r"(?P<message>`[^`]*` isn't a (?:legal value of the table property `delta\.(?!columnMapping)|value of `delta\.min\w+Version`|format of the table property).*"
        r"|there is no protocol \(.*)",
        _ALTERS,
        spark=PySparkException,
    ),
    Known(
        "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
        InvalidArgumentError,
        r"`delta\.dataSkippingStatsColumns` names `(?P<columnName>[^`]*)`, which isn't a column of (?P<tableSchema>the table)",
    ),
    Known(
        "DELTA_UNSUPPORTED_FEATURE_STATUS",
        InvalidArgumentError,
        r"`(?P<status>[^`]*)` isn't a value of `delta\.feature\.(?P<feature>[^`]*)`",
        spark=PySparkException,
    ),
    Known(
        "DELTA_ICEBERG_COMPAT_VIOLATION.WRONG_REQUIRED_TABLE_PROPERTY",
        UnsupportedFeatureError,
        r"the table feature icebergCompatV(?P<version>\d), which needs column mapping",
        spark=UnsupportedOperationException,
    ),
    Known(
        "DELTA_ICEBERG_COMPAT_VIOLATION.DELETION_VECTORS_SHOULD_BE_DISABLED",
        UnsupportedFeatureError,
        r"the table feature icebergCompatV(?P<version>\d), which has no deletion vectors: set the table property",
        spark=UnsupportedOperationException,
    ),
)

_FEATURES = (
    Known(
        "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE",
        UnsupportedFeatureError,
        r"the feature (?P<feature>\S+) can't be dropped(?: by Spark's DROP FEATURE|: what the table holds)",
        spark=PySparkException,
    ),
    Known(
        "DELTA_FEATURE_DROP_DEPENDENT_FEATURE",
        InvalidArgumentError,
        r"the feature (?P<feature>\S+) can't be dropped while the table supports (?P<dependentFeatures>.*), which need it",
        spark=PySparkException,
    ),
    Known(
        "DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE",
        InvalidArgumentError,
        r"the feature checkConstraints is in use: drop (?P<constraints>every constraint)",
    ),
    Known(
        "DELTA_FEATURE_DROP_FEATURE_IS_DELTA_PROPERTY",
        InvalidArgumentError,
        r"`(?P<property>[^`]*)` is a table property and no table feature",
        spark=PySparkException,
    ),
)

_COLUMNS = (
    Known(
        "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED",
        InvalidArgumentError,
        r"`(?P<colName>[^`]*)` is an identity column, whose values can't be updated",
    ),
    Known(
        "IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE",
        InvalidArgumentError,
        r"the identity column `(?P<dataType>[^`]*)` isn't a long",
        r"(?i)^\s*(create|replace)\b(?!.*\b(int|integer|smallint|tinyint|short|byte)\s+generated\b)",
        spark=ParseException,
    ),
    Known("IDENTITY_COLUMNS_ILLEGAL_STEP", SqlSyntaxError, r"expected a step other than 0", spark=ParseException),
    Known(
        "IDENTITY_COLUMNS_DUPLICATED_SEQUENCE_GENERATOR_OPTION",
        SqlSyntaxError,
        r"expected (?P<sequenceGeneratorOption>START|INCREMENT) once in an identity column",
        spark=ParseException,
    ),
    Known(
        "IDENTITY_COLUMN_WITH_DEFAULT_VALUE",
        SqlSyntaxError,
        r"`(?P<colName>[^`]*)` is an identity column, so it has no default",
    ),
    Known(
        "GENERATED_COLUMN_WITH_DEFAULT_VALUE",
        SqlSyntaxError,
        r"`(?P<colName>[^`]*)` is generated, so it has no default",
        spark=ParseException,
    ),
    Known(
        "DELTA_READ_FEATURE_PROTOCOL_REQUIRES_WRITE",
        InvalidArgumentError,
        r"reader version 3 needs writer version (?P<writerVersion>7)",
    ),
    Known("PARSE_SYNTAX_ERROR", InvalidArgumentError, r"can't be added with `delta\.", _ALTERS, spark=ParseException),
    Known(
        "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        InvalidArgumentError,
        r"the generated column .* can't be declared: no column is called (?P<objectName>`[^`]*`) "
        r"\(there are (?P<proposal>[^)]*)\)",
        _CREATES,
    ),
    Known(
        "UNSUPPORTED_EXPRESSION_GENERATED_COLUMN",
        InvalidArgumentError,
        r"the generated column `(?P<fieldName>[^`]*)` can't be declared: `(?P<expressionStr>[^`]*)` refers to",
        _CREATES,
    ),
    Known(
        "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN",
        UnsupportedExpressionError,
        r"the generated column .* can't be declared: the expression uses (?P<expression>the current time)",
    ),
    Known(
        "UNSUPPORTED_EXPRESSION_GENERATED_COLUMN",
        UnsupportedExpressionError,
        r"the generated column `(?P<fieldName>[^`]*)` can't be declared: the expression uses the function "
        r"`(?P<expressionStr>(?!max|min|sum|avg|count)[^`]*)`",
        _CREATES,
    ),
)

_CONSTRAINTS = (
    Known(
        "UNSUPPORTED_FEATURE.TABLE_OPERATION",
        SqlSyntaxError,
        r"expected CHECK, the one kind of (?P<operation>constraint)|expected `\)`, found `(?:CHECK|UNIQUE|PRIMARY|REFERENCES)`",
    ),
    Known(
        "UNSUPPORTED_FEATURE.TABLE_OPERATION",
        SqlSyntaxError,
        r"(?i)CONSTRAINT or INDEX, found `(?P<operation>check)`|the end, found `enforced`",
        r"(?is)^\s*alter\b.*\badd\b.*\bcheck\b",
    ),
    Known(
        "UNSUPPORTED_CONSTRAINT_CHARACTERISTIC",
        SqlSyntaxError,
        r"(?i)expected the end, found `(?P<characteristic>not)`",
        r"(?is)^\s*alter\b.*\badd\b.*\bcheck\b.*\bnot\s+enforced\b",
    ),
    Known(
        "DELTA_INVALID_CONSTRAINT_NAME", InvalidArgumentError, r"`(?P<name>[^`]*)` can't be the name of a constraint"
    ),
)

_OPTIONS = (
    Known(
        "DELTA_CDC_READ_NULL_RANGE_BOUNDARY",
        InvalidArgumentError,
        r"takes no NULL for where changes begin or end",
        spark=IllegalArgumentException,
    ),
    Known(
        "DELTA_MULTIPLE_CDC_BOUNDARY",
        InvalidArgumentError,
        r"give (?P<startingOrEnding>starting|ending)_?[vV]ersion or \w+, not both",
    ),
    Known(
        "DELTA_VERSION_INVALID",
        InvalidArgumentError,
        r"the option \w+ingVersion is a number from 0 on, not '(?P<version>[^'\d]*)'",
        _READER,
    ),
    Known(
        "DELTA_VERSION_NOT_FOUND",
        InvalidArgumentError,
        r"the option versionAsOf is a number from 0 on, not '(?P<userVersion>-\d+)'",
        _READER,
    ),
    Known("DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS", InvalidArgumentError, r"a change feed has no version of its own"),
    Known(
        "DELTA_LOG_FILE_NOT_FOUND",
        InvalidArgumentError,
        r"the option startingVersion is a number from 0 on, not '(?P<version>-\d+)'",
        _READER,
        spark=PySparkException,
    ),
    Known(
        "_LEGACY_ERROR_TEMP_1196",
        InvalidArgumentError,
        r"no column (?P<columnName>.*) to partition by among (?P<validColumnNames>.*)",
        _WRITERS,
    ),
    Known(
        "DELTA_ILLEGAL_OPTION",
        InvalidArgumentError,
        r"the option (?P<name>\w+) is (?P<explain>true or false), not '(?P<input>[^']*)'",
        _READER,
        spark=IllegalArgumentException,
    ),
    Known("_LEGACY_ERROR_TEMP_1306", InvalidArgumentError, _TWO_PATHS, _READER),
    Known("_LEGACY_ERROR_TEMP_1307", InvalidArgumentError, _TWO_PATHS, r"^Writer\."),
    Known("_LEGACY_ERROR_TEMP_1188", InvalidArgumentError, _TWO_PATHS),
    Known(
        "DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS",
        InvalidArgumentError,
        r"a version stands behind .* and in an option",
        spark=IllegalArgumentException,
    ),
    Known(
        "DELTA_ILLEGAL_OPTION",
        InvalidArgumentError,
        r"the option (?P<name>\w+) is (?P<explain>a number|true or false).*, not '(?P<input>[^']*)'",
        _WRITERS,
        spark=IllegalArgumentException,
    ),
    Known(
        "DELTA_ILLEGAL_OPTION",
        InvalidArgumentError,
        r"(?P<name>partition_overwrite_mode) is (?P<explain>static or dynamic), not '(?P<input>[^']*)'",
        _WRITERS,
        spark=IllegalArgumentException,
    ),
    Known(
        "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS",
        InvalidArgumentError,
        r"(?P<reason>(?:the settings \S+)?txnAppId and \S*txnVersion go together)",
        spark=IllegalArgumentException,
    ),
    Known("SORT_BY_WITHOUT_BUCKETING", InvalidArgumentError, r"a Delta table has no buckets, so sortBy means nothing"),
    Known(
        "_LEGACY_ERROR_TEMP_1312",
        InvalidArgumentError,
        r"a Delta table has no buckets, so bucketBy means nothing",
        r"^Writer\.save$",
    ),
    Known(
        "DELTA_OPERATION_NOT_ALLOWED_DETAIL",
        InvalidArgumentError,
        r"a Delta table has no buckets, so (?P<operation>bucketBy) means nothing",
    ),
    Known(
        "CODEC_NOT_AVAILABLE.WITH_AVAILABLE_CODECS_SUGGESTION",
        InvalidArgumentError,
        r"no codec '(?P<codecName>[^']*)': use one of (?P<availableCodecs>.*)",
        _WRITERS,
        spark=IllegalArgumentException,
    ),
)

DECLARATIONS = (*_PROPERTIES, *_FEATURES, *_COLUMNS, *_CONSTRAINTS, *_OPTIONS)
