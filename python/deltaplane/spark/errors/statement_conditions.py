"""Error conditions of Spark and delta-spark for statements whose text decides which one applies:
definitions, changes of columns, and rows without a value."""

from __future__ import annotations

from pyspark.errors import (
    IllegalArgumentException,
    ParseException,
    PySparkException,
)

from deltaplane.exceptions import (
    DeltaError,
    InvalidArgumentError,
    SchemaMismatchError,
    SqlSyntaxError,
    TableNotFoundError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)
from deltaplane.spark.errors.known_condition import Known

__all__ = ["STATEMENTS"]

_CREATES = r"(?is)^\s*(create|replace)\b"
_ALTERS = r"(?is)^\s*alter\b"
_UPDATES = r"(?is)^\s*(with\b.*)?(update|merge)\b"

# Types of a generated column to which Spark's analysis casts no value of the expression's type, so
# that it refuses the column before Delta's turn.
_NO_UP_CAST = "|".join(
    rf"{own}, the column is (?!{others})"
    for own, others in {
        "string": "string",
        "double": "string|double",
        "float": "string|double|float",
        "long": "string|double|float|decimal|long",
        "integer": "string|double|float|decimal|long|integer",
        "short": "string|double|float|decimal|long|integer|short",
        "boolean": "string|boolean",
    }.items()
)

_DEFINITIONS = (
    Known(
        "_LEGACY_ERROR_TEMP_3060",
        InvalidArgumentError,
        r"the partition column `(?P<i>[^`]*)` isn't a column of the data, which has: (?P<schema>[^\[]*[^\[ ])",
        rf"{_CREATES}.*\bpartitioned\s+by\b",
        spark=PySparkException,
    ),
    Known(
        "UNSUPPORTED_FEATURE.PARTITION_WITH_NESTED_COLUMN_IS_UNSUPPORTED",
        InvalidArgumentError,
        r"(?P<cols>`[^`]*`) isn't a column of the table",
        rf"{_CREATES}.*\bcluster\s+by\b",
    ),
    Known(
        "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE",
        UnsupportedFeatureError,
        r"the schema has a column of the type `(?P<columnType>interval[^`]*)`, which no Delta table has",
        r"^Writer\.save$",
    ),
    Known(
        "_LEGACY_ERROR_TEMP_3058",
        InvalidArgumentError,
        r"the partition column `(?P<columnName>[^`]*)` is given twice",
        _CREATES,
        spark=PySparkException,
    ),
    Known(
        "_LEGACY_ERROR_TEMP_0035",
        InvalidArgumentError,
        r"a table is either (?P<message>partitioned or clustered)",
        _CREATES,
        spark=ParseException,
    ),
    Known(
        "FIELD_NOT_FOUND",
        InvalidArgumentError,
        r"the generated column .* can't be declared: `the field (?P<fieldName>[^`]*)` doesn't take",
        _CREATES,
    ),
    Known(
        "PARSE_SYNTAX_ERROR",
        DeltaError,
        r"the constraint .* can't be declared: not an expression of Spark SQL",
        _CREATES,
        spark=ParseException,
    ),
    Known(
        "WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED",
        InvalidArgumentError,
        r"only whole columns have defaults",
        _ALTERS,
    ),
    Known(
        "AMBIGUOUS_COLUMN_OR_FIELD",
        InvalidArgumentError,
        r"two columns of the query have one name",
        rf"{_CREATES}.*\b(partitioned|cluster)\s+by\b.*\bas\b",
    ),
    Known("COLUMN_ALREADY_EXISTS", InvalidArgumentError, r"two columns of the query have one name", _CREATES),
    Known(
        "DELTA_OPERATION_NOT_ALLOWED",
        SqlSyntaxError,
        r"expected a type, found `\.`",
        rf"{_CREATES}.*\bpartitioned\s+by\b",
    ),
    Known(
        "UNSUPPORTED_FEATURE.TABLE_OPERATION",
        SqlSyntaxError,
        r"expected a column or CONSTRAINT name CHECK \(condition\), found `(?i:primary|unique|foreign)`",
        _CREATES,
    ),
    Known(
        "UNSUPPORTED_EXPRESSION_GENERATED_COLUMN",
        InvalidArgumentError,
        r"the generated column `(?P<fieldName>[^`]*)` can't be declared: `(?P<expressionStr>[^`]*)` is "
        rf"(?:{_NO_UP_CAST})(?P<reason>\w+)",
        _CREATES,
    ),
    Known(
        "DELTA_ICEBERG_COMPAT_VIOLATION.WRONG_REQUIRED_TABLE_PROPERTY",
        UnsupportedFeatureError,
        r"table feature (?P<version>icebergCompatV\d), but delta\.enableIcebergCompat\S+ and \S+ are both on",
        _ALTERS,
        spark=PySparkException,
    ),
    Known(
        "DELTA_ICEBERG_COMPAT_VIOLATION.VERSION_MUTUAL_EXCLUSIVE",
        UnsupportedFeatureError,
        r"table feature (?P<version>icebergCompatV\d), but delta\.enableIcebergCompat\S+ and \S+ are both on",
        spark=PySparkException,
    ),
    Known(
        "DELTA_INVALID_INTERVAL",
        InvalidArgumentError,
        r"`(?P<interval>\d+)` isn't a legal value of the table property .* takes an interval",
        spark=IllegalArgumentException,
    ),
)

_CHANGES = (
    Known(
        "_LEGACY_ERROR_TEMP_2330",
        UnsupportedFeatureError,
        r"column '(?P<fieldName>[^']*)' can't become NOT NULL in a table that exists",
        _ALTERS,
    ),
    Known(
        "UNSUPPORTED_TABLE_CHANGE",
        InvalidArgumentError,
        r"(?P<message>`[^`]*` isn't a legal list of columns for `delta\.dataSkippingStatsColumns`.*)",
        _ALTERS,
        spark=PySparkException,
    ),
    Known(
        "UNSUPPORTED_TABLE_CHANGE",
        InvalidArgumentError,
        r"(?P<message>`delta\.logRetentionDuration` must be at least `delta\.deletedFileRetentionDuration`)",
        _ALTERS,
        spark=PySparkException,
    ),
    Known(
        "_LEGACY_ERROR_TEMP_0035",
        SqlSyntaxError,
        r"expected a value: text, a number, TRUE or FALSE, found `\)`",
        rf"{_ALTERS}.*\btblproperties\b",
        spark=ParseException,
    ),
    Known(
        "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE",
        SqlSyntaxError,
        r"expected TBLPROPERTIES, found `(?i:serdeproperties)`",
        _ALTERS,
    ),
    Known(
        "PARSE_SYNTAX_ERROR",
        SqlSyntaxError,
        r"expected a type, found `(?i:not)`",
        rf"{_ALTERS}.*\badd\s+columns?\s+if\s+not\b",
        spark=ParseException,
    ),
    Known(
        "FIELD_ALREADY_EXISTS",
        InvalidArgumentError,
        r"two columns have the same name when case is ignored: (?P<fieldNames>`[^`]*`)",
        rf"{_ALTERS}.*\brename\s+column\b",
    ),
    Known(
        "DELTA_UNSUPPORTED_SUBQUERY",
        UnsupportedExpressionError,
        r"the expression uses a subquery",
        rf"{_ALTERS}.*\bcheck\b",
    ),
)

_OTHERS = (
    Known(
        "DUPLICATE_KEY",
        SqlSyntaxError,
        r"expected each property once: `(?P<keyColumn>[^`]*)` comes twice",
        spark=ParseException,
    ),
    Known(
        "INVALID_STATEMENT_OR_CLAUSE",
        SqlSyntaxError,
        r"INSERT with a PARTITION takes no IF NOT EXISTS",
        r"(?i)^\s*insert\s+into\b",
        spark=ParseException,
    ),
    Known(
        "DELTA_UNSUPPORTED_NON_EMPTY_CLONE",
        InvalidArgumentError,
        r"a table can't be cloned onto itself",
        r"(?is)^\s*(create\s+or\s+)?replace\b",
        spark=PySparkException,
    ),
    Known(
        "_LEGACY_ERROR_TEMP_1060",
        SqlSyntaxError,
        r"expected the end, found `\.`",
        r"(?is)^\s*desc(ribe)?\s+(table\s+)?(extended\s+)?\w+\s+\w+\.",
    ),
    Known(
        "PATH_NOT_FOUND", DeltaError, r"there are no files to load below `(?P<path>[^`]*)`", r"(?i)^\s*copy\s+into\b"
    ),
    Known(
        "DELTA_MISSING_ICEBERG_CLASS",
        SqlSyntaxError,
        r"expected PURGE, found `UPGRADE`",
        r"(?i)^\s*reorg\b",
        spark=PySparkException,
    ),
    Known(
        "DELTA_MISSING_ICEBERG_CLASS",
        TableNotFoundError,
        r"no table or view `iceberg\.",
        r"(?i)^\s*convert\b",
        spark=PySparkException,
    ),
    Known(
        "DEFAULT_PLACEMENT_INVALID",
        SqlSyntaxError,
        r"expected the end, found `(?:\|\||[-+*/])`",
        r"(?is)^\s*update\b.*=\s*default\s*(?:\|\||[-+*/])",
    ),
    Known(
        "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN",
        InvalidArgumentError,
        r"selected by `(?P<filter>[^`]*)`, which isn't a boolean",
        r"^Writer\.",
    ),
    Known("_LEGACY_ERROR_TEMP_1109", InvalidArgumentError, r"selected by `(?P<f>[^`]*)`, which isn't a boolean"),
    Known(
        "INVALID_PARTITION_OPERATION.PARTITION_MANAGEMENT_IS_UNSUPPORTED",
        DeltaError,
        r"SHOW TABLE isn't a statement of this version",
        r"(?is)^\s*show\s+table\s+extended\b.*\bpartition\b",
    ),
    Known(
        "INVALID_PARTITION_OPERATION.PARTITION_MANAGEMENT_IS_UNSUPPORTED",
        SqlSyntaxError,
        r"expected the end, found `\(`",
        r"(?is)^\s*desc(ribe)?\s+(table\s+)?(extended\s+)?\S+\s+partition\s*\(",
    ),
    Known(
        "DELTA_MISSING_DELTA_TABLE",
        TableNotFoundError,
        r"no Delta table here",
        r"(?is)^\s*desc(ribe)?\s+(table\s+)?(?!history|detail)delta\.",
        "tableName",
    ),
)

_ROWS = (
    Known(
        "UNSUPPORTED_FEATURE.INSERT_PARTITION_SPEC_IF_NOT_EXISTS",
        SqlSyntaxError,
        r"INSERT with a PARTITION takes no IF NOT EXISTS",
        r"(?i)^\s*insert\s+overwrite\b",
    ),
    Known(
        "DELTA_INSERT_COLUMN_MISMATCH",
        SchemaMismatchError,
        r"the data lacks the column `(?P<columnName>[^`]*)`, which is NOT NULL",
        r"(?i)^\s*insert\b",
    ),
    Known(
        "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
        SchemaMismatchError,
        r"the data lacks the column `(?P<columnName>[^`]*)`, which is NOT NULL",
        r"(?is)^\s*(with\b.*)?merge\b",
        spark=PySparkException,
    ),
    Known(
        "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION",
        DeltaError,
        r"`[^`]*` of type (?P<targetType>struct|array|map) doesn't take an? (?P<srcType>\w+)",
        _UPDATES,
    ),
)

# The first matching row applies.
STATEMENTS = (*_DEFINITIONS, *_CHANGES, *_OTHERS, *_ROWS)
