"""delta-spark's error conditions for columns and their types, partitions, clustering and
subqueries."""

from __future__ import annotations

from pyspark.errors import (
    ArithmeticException,
    IllegalArgumentException,
    ParseException,
    UnsupportedOperationException,
)

from deltaplane.exceptions import (
    InvalidArgumentError,
    SchemaMismatchError,
    SqlSyntaxError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)
from deltaplane.spark.errors.known_condition import Known

__all__ = ["COLUMNS"]

_ALTERS = r"(?i)^\s*alter\b"
_ADDS = r"(?i)^\s*alter\b.*\badd\s+columns?\b"
_CREATES = r"(?i)^\s*(create|replace)\b"
_INSERTS = r"(?i)^\s*insert\b"
_MERGES = r"(?i)^\s*(with\b.*)?merge\b"

_DECLARES = r"(?i)^\s*(create|replace|alter)\b"

_TYPES = (
    Known(
        "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE",
        SchemaMismatchError,
        r"the column `(?P<columName>[^`]*)` is an? (?P<dataType>array|map) of the type void",
    ),
    Known(
        "DELTA_CANNOT_WRITE_EMPTY_SCHEMA.STRUCT_ALL_VOID_FIELDS",
        SchemaMismatchError,
        r"the column `(?P<columnPath>[^`]*)` is a struct of fields of the type void",
    ),
    Known("UNSUPPORTED_TIME_TYPE", SqlSyntaxError, r"(?i)expected a type, found `time`", _DECLARES),
    Known(
        "UNSUPPORTED_DATATYPE",
        SqlSyntaxError,
        r"(?i)expected a type, found `(?P<typeName>(?!interval\b|geo)[a-z_]\w*)`",
        _DECLARES,
        spark=ParseException,
    ),
    Known(
        "DELTA_GEOSPATIAL_NOT_SUPPORTED",
        SqlSyntaxError,
        r"(?i)expected a type, found `geo(?:metry|graphy)`",
        r"(?i)\bgeo(metry|graphy)\s*\(",
        spark=UnsupportedOperationException,
    ),
    Known(
        "UNSUPPORTED_DATATYPE",
        SqlSyntaxError,
        r"(?i)expected a type, found `(?P<typeName>geo(?:metry|graphy))`",
        _DECLARES,
        spark=ParseException,
    ),
    Known(
        "DELTA_UNSUPPORTED_DATA_TYPES",
        SqlSyntaxError,
        r"(?i)expected a type, found `(?P<dataTypeList>interval)`",
        r"(?i)\binterval\s+(year|month|day|hour|minute|second)\b",
    ),
    Known(
        "DELTA_UNSUPPORTED_DATA_TYPES",
        InvalidArgumentError,
        r"no Delta type is called '(?P<dataTypeList>interval [^']*)'",
    ),
    Known(
        "DELTA_UNSUPPORTED_DATA_TYPES",
        UnsupportedFeatureError,
        r"the schema has a column of the type `(?P<dataTypeList>[^`]*)`, which no Delta table has",
    ),
    Known(
        "_LEGACY_ERROR_TEMP_2242",
        InvalidArgumentError,
        r"a temporary view USING delta takes no list of columns",
        spark=UnsupportedOperationException,
    ),
    Known(
        "_LEGACY_ERROR_TEMP_2242",
        InvalidArgumentError,
        r"a Delta table knows its columns",
        r"^Reader\.",
        spark=UnsupportedOperationException,
    ),
    Known(
        "_LEGACY_ERROR_TEMP_1189",
        InvalidArgumentError,
        r"a (?P<operation>schema) isn't supported with table\(\)",
        r"^Reader\.",
    ),
    Known("_LEGACY_ERROR_TEMP_0032", SqlSyntaxError, r"expected one location: OPTIONS", spark=ParseException),
    Known(
        "_LEGACY_ERROR_TEMP_1165",
        SqlSyntaxError,
        r"expected columns in parentheses",
        r"(?is)^\s*create\b.*\b(partitioned|cluster)\s+by\b",
    ),
    Known("_LEGACY_ERROR_TEMP_1183", SqlSyntaxError, r"(?i)expected a type, found `interval`", _DECLARES),
    Known(
        "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
        SqlSyntaxError,
        r"expected no collation but UTF8_BINARY, found `(?P<newField>[^`]*)`",
        r"(?i)^\s*alter\b.*\bcolumn\s+\S+\s+type\b",
    ),
    Known(
        "DELTA_UNSUPPORTED_DATA_TYPES",
        SqlSyntaxError,
        r"expected no collation but UTF8_BINARY, found `(?P<dataTypeList>[^`]*)`",
    ),
    Known(
        "DELTA_UNSUPPORTED_DATA_TYPES",
        SqlSyntaxError,
        r"expected the end, found `(?i:DEFAULT)`",
        r"(?i)^\s*create\b.*\bdefault\s+collation\s+(?!utf8_binary\b)",
    ),
    *(
        Known(
            f"INCOMPLETE_TYPE_DEFINITION.{kind}",
            SqlSyntaxError,
            rf"expected `<` and the types of its parts behind {kind}\b",
            spark=ParseException,
        )
        for kind in ("ARRAY", "MAP", "STRUCT")
    ),
    Known(
        "_LEGACY_ERROR_TEMP_1228",
        SqlSyntaxError,
        r"expected DECIMAL with a scale up to (?P<precision>\d+), not (?P<scale>\d+)",
        _DECLARES,
        spark=ParseException,
    ),
    Known(
        "UNSUPPORTED_DATATYPE",
        SqlSyntaxError,
        r"expected (?P<typeName>DECIMAL)\(precision, scale\)",
        r"(?i)\bdec(imal)?\s*\([^)]*,[^)]*,",
        spark=ParseException,
    ),
    Known(
        "UNSUPPORTED_DATATYPE",
        SqlSyntaxError,
        r"expected no size behind (?P<typeName>\w+)",
        _DECLARES,
        spark=ParseException,
    ),
    Known(
        "DATATYPE_MISSING_SIZE",
        SqlSyntaxError,
        r"expected a length in parentheses behind (?P<type>\w+)",
        _DECLARES,
        spark=ParseException,
    ),
    Known(
        "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION",
        SqlSyntaxError,
        r"expected DECIMAL with up to (?P<maxPrecision>38) digits, not (?P<precision>\d+)",
        _DECLARES,
        spark=ArithmeticException,
    ),
)

_NESTED = (
    Known(
        "DELTA_UNSUPPORTED_COMMENT_MAP_ARRAY",
        InvalidArgumentError,
        r"`(?P<fieldPath>[^`]*\.(?:element|key|value))` leads through a (?:map|array)",
        r"(?i)^\s*alter\b.*\bcomment\b",
    ),
    Known(
        "DELTA_UNSUPPORTED_DROP_NESTED_COLUMN_FROM_NON_STRUCT_TYPE",
        InvalidArgumentError,
        r"`[^`]*\.(?:element|key|value)` leads through a (?P<struct>(?:array|map)<.*>), not a struct",
        r"(?i)^\s*alter\b.*\bdrop\s+columns?\b",
    ),
    Known("INVALID_FIELD_NAME", InvalidArgumentError, r"(?P<fieldName>`[^`]*`) leads through a ", _ALTERS),
    Known(
        "FIELD_NOT_FOUND",
        InvalidArgumentError,
        r"there is no column `(?:[^`]*\.)?(?P<fieldName>[^`.]*)`: its place has (?P<fields>[^\[]*[^\[ ])",
        r"(?i)^\s*alter\b.*\badd\s+columns?\b.*\bafter\b",
    ),
    Known(
        "CANNOT_UPDATE_FIELD.ARRAY_TYPE",
        UnsupportedFeatureError,
        r"(?P<fieldName>\S+) can't become array(?:<.*>)?: change the type of a field",
        _ALTERS,
    ),
    Known(
        "CANNOT_UPDATE_FIELD.STRUCT_TYPE",
        UnsupportedFeatureError,
        r"(?P<fieldName>\S+) can't become struct<.*>: change the type of a field",
        _ALTERS,
    ),
    Known(
        "CANNOT_UPDATE_FIELD.MAP_TYPE",
        UnsupportedFeatureError,
        r"(?P<fieldName>\S+) can't become map<.*>: change the type of a field",
        _ALTERS,
    ),
    Known(
        "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP",
        InvalidArgumentError,
        r"(?P<details>column `[^`]*` stays .*, it can't become .*) so: ALTER COLUMN",
        _ALTERS,
    ),
    Known(
        "DELTA_DUPLICATE_COLUMNS_FOUND.ADDING_COLUMNS",
        InvalidArgumentError,
        r"two columns have the same name when case is ignored: `(?P<duplicateCols>[^`]*)`",
        _ADDS,
    ),
    Known(
        "COLUMN_ALREADY_EXISTS",
        InvalidArgumentError,
        r"two columns have the same name when case is ignored: (?P<columnName>`[^`]*`)",
        _CREATES,
    ),
    Known(
        "DELTA_UNSUPPORTED_NESTED_FIELD_IN_UPDATE",
        InvalidArgumentError,
        r"`[^`]*` isn't a struct, so `(?P<cols>[^`]*)` is no field of it",
    ),
    Known(
        "FIELD_NOT_FOUND",
        InvalidArgumentError,
        r"the table has no column `[^`]*\.(?P<fieldName>[^`.]*)` that could be updated",
        _MERGES,
    ),
    Known(
        "DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION",
        InvalidArgumentError,
        r"the table has no column `(?P<field>[^`]*\.[^`]*)` that a new row could give a value to",
    ),
    Known(
        "NOT_SUPPORTED_CHANGE_COLUMN",
        InvalidArgumentError,
        r"the column `(?P<originName>[^`]*)` is of type (?P<originType>.*): only the type of a primitive column",
        _ALTERS,
    ),
    Known(
        "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP",
        InvalidArgumentError,
        r"(?P<details>column `[^`]*` can't be left out): DROP COLUMN",
        _ALTERS,
    ),
)

_DEPENDENTS = (
    Known(
        "DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE",
        InvalidArgumentError,
        r"column `(?P<columnName>[^`]*)` can't be (?:dropped|renamed): column `(?P<generatedColumns>[^`]*)` uses it",
    ),
    Known(
        "DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN",
        InvalidArgumentError,
        r"the table is clustered by `(?P<columnList>[^`]*)`, which the new columns don't have",
    ),
)

_LAYOUT = (
    Known("DELTA_OPERATION_NOT_ALLOWED_DETAIL", SqlSyntaxError, r"found `(?P<operation>CLUSTERED)`", _CREATES),
    Known(
        "DELTA_OPERATION_NOT_ALLOWED_DETAIL",
        UnsupportedExpressionError,
        r"(?:a partition|partitioned by columns, not) by (?P<operation>bucket)\(",
    ),
    Known("DELTA_OPERATION_NOT_ALLOWED", UnsupportedExpressionError, r"a (?P<operation>partition by \w+)\(…\) isn't"),
    Known(
        "INVALID_PARTITION_COLUMN_DATA_TYPE",
        InvalidArgumentError,
        r"a table can't be partitioned by `[^`]*`: its type (?P<type>.*) has no partition values",
    ),
    Known(
        "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
        InvalidArgumentError,
        r"the clustering column `(?P<columnName>[^`]*)` isn't a column of (?P<tableSchema>the table)",
    ),
    Known(
        "DELTA_DUPLICATE_COLUMNS_FOUND.CLUSTER_BY",
        InvalidArgumentError,
        r"the (?:clustering )?column `(?P<duplicateCols>[^`]*)` is given twice",
    ),
    Known(
        "DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS",
        InvalidArgumentError,
        r"clustered by at most (?P<numColumnsLimit>\d+) columns, not by (?P<actualNumColumns>\d+)",
    ),
    Known(
        "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED",
        InvalidArgumentError,
        r"a table can't be clustered by `(?P<columnsWithDataTypes>[^`]*)`: the type .* has no smallest and largest",
    ),
    Known("ALL_PARTITION_COLUMNS_NOT_ALLOWED", InvalidArgumentError, r"partitioned by all of its columns", _CREATES),
    Known(
        "INVALID_PARTITION_OPERATION.PARTITION_MANAGEMENT_IS_UNSUPPORTED",
        SqlSyntaxError,
        r"",
        r"(?i)^\s*alter\s+table\s+\S+\s+(add\s+|drop\s+)?(if\s+(not\s+)?exists\s+)?partition\b",
    ),
    Known(
        "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE",
        SqlSyntaxError,
        r"",
        r"(?i)^\s*(load\s+data\b|alter\s+table\s+\S+\s+(recover\s+partitions|set\s+serde)\b)",
    ),
    Known(
        "DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE",
        InvalidArgumentError,
        r"the table isn't partitioned",
        r"(?i)^\s*show\s+partitions\b",
    ),
    Known(
        "DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_COLUMN",
        InvalidArgumentError,
        r"`(?P<badCols>[^`]*)` is no column by which the table is partitioned",
        r"(?i)^\s*show\s+partitions\b",
    ),
    Known("DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED", SqlSyntaxError, r"found `PARTITION`", r"(?i)^\s*truncate\b"),
    Known(
        "DELTA_SET_LOCATION_SCHEMA_MISMATCH",
        SchemaMismatchError,
        r"can't mean .*: the table there has other (?:columns|partitions)",
    ),
    Known(
        "DELTA_CANNOT_SET_LOCATION_ON_PATH_IDENTIFIER",
        SqlSyntaxError,
        r"found `LOCATION`",
        r"(?i)^\s*alter\s+table\s+delta\.`",
    ),
)

_QUERIES = (
    Known(
        "UNSUPPORTED_FEATURE.OVERWRITE_BY_SUBQUERY",
        UnsupportedExpressionError,
        r"a subquery can't stand here",
        rf"{_INSERTS}|^WriterV2\.",
    ),
    Known(
        "DELTA_UNSUPPORTED_SUBQUERY",
        UnsupportedExpressionError,
        r"a subquery can't stand in (?P<operation>replaceWhere) \(condition = (?P<cond>.*)\)",
    ),
    Known(
        "DELTA_UNSUPPORTED_SUBQUERY_IN_PARTITION_PREDICATES",
        UnsupportedExpressionError,
        r"a subquery can't stand here",
        r"(?i)^\s*(optimize|reorg)\b",
    ),
    Known(
        "INVALID_DEFAULT_VALUE.SUBQUERY_EXPRESSION",
        UnsupportedExpressionError,
        r"a subquery can't stand here",
        r"(?i)^\s*(create|replace|alter)\b.*\bdefault\b",
    ),
    Known(
        "UNSUPPORTED_EXPRESSION_GENERATED_COLUMN",
        UnsupportedExpressionError,
        r"a subquery can't stand here",
        r"(?i)^\s*(create|replace)\b.*\bgenerated\b",
    ),
    Known(
        "INVALID_DEFAULT_VALUE.NOT_CONSTANT",
        InvalidArgumentError,
        r"the default of `(?P<colName>[^`]*)` can't be declared: no column is called",
    ),
    Known(
        "EXCEED_LIMIT_LENGTH",
        InvalidArgumentError,
        r"the default of `[^`]*` can't be declared: `[^`]*` has no value as (?:var)?char\((?P<limit>\d+)\): it is longer",
    ),
    Known(
        "INVALID_DEFAULT_VALUE.DATA_TYPE",
        InvalidArgumentError,
        r"the default of `(?P<colName>[^`]*)` can't be declared: `(?P<defaultValue>[^`]*)` has no value as (?P<expectedType>\w+)",
    ),
    Known(
        "INVALID_DEFAULT_VALUE.DATA_TYPE",
        InvalidArgumentError,
        r"the default of `(?P<colName>[^`]*)` can't be declared: `(?P<defaultValue>[^`]*)` is (?P<actualType>.*), "
        r"which doesn't go into (?P<expectedType>\w+)",
    ),
    Known(
        "WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED",
        InvalidArgumentError,
        r"can't be added with `CURRENT_DEFAULT`",
    ),
    Known(
        "DELTA_DUPLICATE_COLUMNS_FOUND.READ_SCHEMA", InvalidArgumentError, r"a column comes twice: BY NAME", _INSERTS
    ),
    Known(
        "DELTA_METADATA_MISMATCH",
        InvalidArgumentError,
        r"the table has no column `[^`]*`",
        r"(?i)^\s*insert\b.*\bby\s+name\b",
    ),
    Known("COLUMN_ALREADY_EXISTS", SqlSyntaxError, r"expected each column once", _INSERTS, spark=ParseException),
    Known(
        "STATIC_PARTITION_COLUMN_IN_INSERT_COLUMN_LIST",
        SqlSyntaxError,
        r"expected other columns: (?P<staticName>.*) has a value in PARTITION",
        _INSERTS,
    ),
    Known("MERGE_WITHOUT_WHEN", SqlSyntaxError, r"expected WHEN, found the end", _MERGES, spark=ParseException),
    Known(
        "MERGE_INSERT_VALUE_COUNT_MISMATCH",
        SqlSyntaxError,
        r"expected (?P<columnCount>\d+) values, found (?P<valueCount>\d+)",
        _MERGES,
        spark=ParseException,
    ),
    Known(
        "DELTA_DUPLICATE_COLUMNS_ON_INSERT", InvalidArgumentError, r"gets two values", r"(?i)^\s*merge\b.*\binsert\b"
    ),
    Known(
        "DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS",
        InvalidArgumentError,
        r"a version stands behind .* and in an option",
        spark=IllegalArgumentException,
    ),
    Known(
        "DELTA_TIMESTAMP_INVALID", InvalidArgumentError, r"(?P<expr>'[^']*') is no ISO 8601 date", r"(?i)^\s*restore\b"
    ),
    Known("DELTA_ADD_CONSTRAINTS", InvalidArgumentError, r"is a constraint, which existing rows must meet"),
    Known(
        "DELTA_MODE_NOT_SUPPORTED",
        SqlSyntaxError,
        r"expected `symlink_format_manifest`, found `(?P<mode>[^`]*)`",
        spark=IllegalArgumentException,
    ),
    Known(
        "UNSUPPORTED_FEATURE.TABLE_OPERATION",
        SqlSyntaxError,
        r"expected DELTA, found `(?P<operation>\w+)`",
        r"(?i)^\s*(create\s+or\s+)?replace\s+table\s+(?!delta\.`)",
    ),
)

COLUMNS = (*_TYPES, *_NESTED, *_DEPENDENTS, *_LAYOUT, *_QUERIES)
