"""delta-spark's error conditions with their SQL states, and the mapping from deltaplane's errors to
them.

deltaplane's errors keep their classes and texts, which together with the operation determine the
condition. Named groups in a pattern yield the condition's parameters. Uses no Spark session.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    PySparkException,
    UnsupportedOperationException,
)

from deltaplane.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    ConstraintViolationError,
    CorruptLogError,
    DeltaError,
    InvalidArgumentError,
    MetadataChangedException,
    ProtocolChangedException,
    SchemaMismatchError,
    SqlSyntaxError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from deltaplane.spark.errors.alter_conditions import DECLARATIONS
from deltaplane.spark.errors.column_conditions import COLUMNS
from deltaplane.spark.errors.condition_of import condition_of
from deltaplane.spark.errors.known_condition import Known
from deltaplane.spark.errors.name_conditions import NAMES
from deltaplane.spark.errors.parquet_conditions import PARQUET
from deltaplane.spark.errors.sql_states import SQL_STATES
from deltaplane.spark.errors.statement_conditions import STATEMENTS
from deltaplane.spark.errors.stream_conditions import STREAMS

__all__ = ["SparkCondition", "known_conditions", "spark_condition"]


_NAME = r"`[^`]*`"
_RESTORES = r"(?i)^\s*restore\b|\.restoreTo"
_INSERTS_NAMED = (
    rf"(?i)^\s*insert\s+(into|overwrite)\s+(table\s+)?({_NAME}|[\w.])+\s*\(\s*(?!select\b|values\b|with\b|from\b)"
)
_MERGES = r"(?i)^\s*(with\b.*)?merge\b|MergeBuilder|^MergeWriter\."

# Types that hold no value of the other ones for sure. `_narrows_decimal` decides about changes from
# and to decimals by their digits.
_NARROWER = {
    "short": "byte",
    "integer": "byte|short",
    "long": "byte|short|integer",
    "float": "byte|short|integer|long",
    "double": "byte|short|integer|long|float",
    "string": r"(?!string)\w+",
    "variant": r"(?!variant)\w+",
    "boolean": r"(?!string|boolean)\w+",
}

# The first matching row applies.
_KNOWN = (
    *STATEMENTS,
    *STREAMS,
    *NAMES,
    *DECLARATIONS,
    *COLUMNS,
    *PARQUET,
    # Tables that exist or are missing.
    Known(
        "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS",
        TableNotFoundError,
        r"the view's (?P<schemaDiff>table was deleted(?: and another one made in its place)?)",
    ),
    Known("DELTA_MISSING_DELTA_TABLE", TableNotFoundError, f"catalog has no table (?P<tableName>{_NAME})"),
    Known("DELTA_MISSING_DELTA_TABLE", TableNotFoundError, r"no Delta table is here: create one", "", "tableName"),
    Known(
        "DELTA_CANNOT_REPLACE_MISSING_TABLE",
        TableNotFoundError,
        r"REPLACE TABLE needs a table",
        r"(?is)^\s*replace\s+table\b.*\bclone\b",
        "tableName",
    ),
    Known("TABLE_OR_VIEW_NOT_FOUND", TableNotFoundError, r"no table to be replaced|REPLACE TABLE needs a table"),
    Known(
        "TABLE_OR_VIEW_NOT_FOUND",
        TableNotFoundError,
        r"there is no Delta table (?P<relationName>`[^`]*`) to be (?:replaced|written to)",
    ),
    Known("DELTA_TABLE_ONLY_OPERATION", TableNotFoundError, "", r"(?i)^\s*desc(ribe)?\s+history\b", "tableName"),
    Known(
        "DELTA_MISSING_DELTA_TABLE",
        TableNotFoundError,
        "",
        r"(?i)^\s*(optimize|vacuum|alter|reorg|generate|desc(ribe)?\s+detail|show\s+(columns|partitions))\b",
        "tableName",
    ),
    Known("DELTA_SCHEMA_NOT_SET", TableNotFoundError, "", r"^StreamReader\."),
    Known("DELTA_TABLE_NOT_FOUND", TableNotFoundError, "", "", "tableName", in_folder=True),
    Known("PATH_NOT_FOUND", TableNotFoundError, "", "", "path"),
    Known("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", TableAlreadyExistsError, r"or clone to", "", "tableLocation"),
    Known(
        "DELTA_CREATE_EXTERNAL_TABLE_WITHOUT_TXN_LOG",
        TableAlreadyExistsError,
        r"the location isn't empty, and the statement declares no columns",
        "",
        "path",
    ),
    Known(
        "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
        TableAlreadyExistsError,
        r"the location isn't empty",
        "",
        "tableLocation",
    ),
    Known(
        "DELTA_TABLE_LOCATION_MISMATCH",
        InvalidArgumentError,
        r"the table (?P<tableName>\S+) is at (?P<existingTableLocation>.*), and the (?:statement|builder|writer) says (?P<tableLocation>.*): leave",
    ),
    Known(
        "DELTA_CREATE_TABLE_SCHEME_MISMATCH",
        TableAlreadyExistsError,
        r"other columns than the statement: (?P<schemaDifferences>.*)\. Say",
        "",
        "path",
    ),
    Known(
        "DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING",
        TableAlreadyExistsError,
        r"is partitioned by \((?P<existingColumns>.*)\), not by \((?P<specifiedColumns>.*)\)\. Say",
        "",
        "path",
    ),
    Known(
        "DELTA_CREATE_TABLE_WITH_DIFFERENT_CLUSTERING",
        TableAlreadyExistsError,
        r"is clustered by \((?P<existingColumns>.*)\), not by \((?P<specifiedColumns>.*)\)\. Say",
        "",
        "path",
    ),
    Known(
        "DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY",
        TableAlreadyExistsError,
        r"has the properties \((?P<existingProperties>.*)\), not \((?P<specifiedProperties>.*)\)\. Say",
        "",
        "path",
    ),
    Known("DELTA_CANNOT_WRITE_INTO_VIEW", TableAlreadyExistsError, r"(?P<name>\S+) is no Delta table but a view, so"),
    Known(
        "DELTA_NOT_A_DELTA_TABLE", TableAlreadyExistsError, r"(?P<tableName>\S+) is no Delta table but .*, so a Delta"
    ),
    Known(
        "DELTA_ILLEGAL_USAGE",
        InvalidArgumentError,
        r"The usage of (?P<option>\S+) is not allowed when (?P<operation>replacing)",
        spark=IllegalArgumentException,
    ),
    Known("DELTA_PATH_EXISTS", TableAlreadyExistsError, "", r"^Writer\.save$", "path"),
    Known("TABLE_OR_VIEW_ALREADY_EXISTS", TableAlreadyExistsError, "", "", "relationName"),
    # Versions and timestamps.
    Known(
        "DELTA_CANNOT_RESTORE_TABLE_VERSION",
        VersionNotFoundError,
        r"version (?P<version>\d+) doesn't exist(?:: the newest version is (?P<endVersion>\d+))?",
        _RESTORES,
    ),
    Known(
        "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER",
        VersionNotFoundError,
        r"as old as (?P<requestedTimestamp>\S+):",
        _RESTORES,
    ),
    Known(
        "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
        VersionNotFoundError,
        r"no version is as old as (?P<userTimestamp>\S+):(?:.* committed at (?P<commitTs>[^\s\[]+))?",
    ),
    Known(
        "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER",
        VersionNotFoundError,
        r"(?P<requestedTimestamp>\S+) is after the newest commit: .* committed at (?P<latestTimestamp>[^\s;]+)",
        _RESTORES,
    ),
    Known(
        "DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
        VersionNotFoundError,
        r"(?P<providedTimestamp>\S+) is after the newest commit: .* committed at (?P<lastCommitTimestamp>[^\s;]+)",
    ),
    Known(
        "DELTA_CDC_START_VERSION_AFTER_LATEST",
        VersionNotFoundError,
        r"no version is in the range: the newest version is (?P<latest>\d+)",
        spark=IllegalArgumentException,
    ),
    Known(
        "DELTA_VERSION_NOT_FOUND",
        VersionNotFoundError,
        r"version (?P<userVersion>\d+)(?: doesn't exist: the newest version is (?P<latest>\d+))?",
    ),
    Known("DELTA_TIMESTAMP_INVALID", InvalidArgumentError, r"The provided timestamp \((?P<expr>'.*')\) cannot be"),
    Known(
        "DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE",
        InvalidArgumentError,
        r"the option (?P<timeTravelKey>versionAsOf) is a number",
        spark=IllegalArgumentException,
    ),
    Known(
        "DELTA_ONEOF_IN_TIMETRAVEL",
        InvalidArgumentError,
        r"give a version or a timestamp, not both",
        spark=IllegalArgumentException,
    ),
    # Columns.
    Known(
        "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS",
        SchemaMismatchError,
        r"the view shows version .* columns changed by version \d+: (?P<schemaDiff>.*)\. Read it again",
    ),
    Known(
        "DELTA_METADATA_MISMATCH",
        SchemaMismatchError,
        r"the data has the column|the frame has the columns|has no type in the table yet",
    ),
    Known(
        "DELTA_METADATA_MISMATCH",
        SchemaMismatchError,
        r"a value has the field `",
        r"(?i)^\s*(with\b.*)?insert\b|^Writer\.insertInto$",
    ),
    Known("DELTA_METADATA_MISMATCH", InvalidArgumentError, r"the table is partitioned by .*, not by"),
    Known(
        "DELTA_FAILED_TO_MERGE_FIELDS",
        SchemaMismatchError,
        r"column `(?P<currentField>[^`]*)`: expected .* as in the table, found",
    ),
    Known(
        "DELTA_MISSING_NOT_NULL_COLUMN_VALUE",
        SchemaMismatchError,
        r"the data lacks the column `(?P<columnName>[^`]*)`, which is NOT NULL",
    ),
    Known(
        "DELTA_PARTITION_COLUMN_NOT_FOUND",
        InvalidArgumentError,
        f"partition column (?P<columnName>{_NAME}) isn't a column of the data, which has: (?P<schemaMap>[^\\[]*[^\\[ ])",
    ),
    Known("DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION", InvalidArgumentError, r"partitioned by all of its columns"),
    Known(
        "COLUMN_ALREADY_EXISTS",
        InvalidArgumentError,
        f"same name when case is ignored: (?P<columnName>{_NAME})",
        r"TableBuilder|saveAsTable",
    ),
    Known("COLUMN_ALREADY_EXISTS", InvalidArgumentError, f"the new column (?P<columnName>{_NAME}) comes twice"),
    Known("COLUMN_ALREADY_EXISTS", SqlSyntaxError, f"expected another name: (?P<columnName>{_NAME}) is taken"),
    Known(
        "DELTA_DUPLICATE_COLUMNS_FOUND.DATA",
        InvalidArgumentError,
        r"two columns have the same name when case is ignored: `(?P<duplicateCols>[^`]*)`",
    ),
    Known(
        "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
        InvalidArgumentError,
        r"the column name `(?P<invalidColumnNames>[^`]*)` holds .*without column mapping",
    ),
    Known("DELTA_EMPTY_DATA", InvalidArgumentError, r"a table needs at least one column: the data has none"),
    Known("DELTA_MERGE_INTO_EMPTY_SCHEMA_TARGET", InvalidArgumentError, r"the table has no columns to merge into"),
    Known(
        "DELTA_CANNOT_WRITE_EMPTY_SCHEMA.TABLE_ALL_VOID_COLUMNS",
        InvalidArgumentError,
        r"every column .* of the type void",
    ),
    Known(
        "DELTA_CANNOT_WRITE_EMPTY_SCHEMA.TABLE_ALL_VOID_COLUMNS",
        SchemaMismatchError,
        r"no column that a data file could hold",
    ),
    Known(
        "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS",
        InvalidArgumentError,
        r"\d+ values are given for only \d+ columns",
        _INSERTS_NAMED,
    ),
    Known(
        "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS",
        InvalidArgumentError,
        r"\d+ values are given for \d+ columns",
        _INSERTS_NAMED,
    ),
    Known("DELTA_METADATA_MISMATCH", InvalidArgumentError, r"\d+ values are given for only \d+ columns"),
    Known(
        "DELTA_INSERT_COLUMN_ARITY_MISMATCH",
        InvalidArgumentError,
        r"(?P<insertColumns>\d+) values are given for (?P<numColumns>\d+) columns",
    ),
    Known(
        "DELTA_INSERT_COLUMN_ARITY_MISMATCH",
        SchemaMismatchError,
        r"a value of `(?P<columnName>.*)` has (?P<insertColumns>\d+) fields for the (?P<numColumns>\d+) fields of its column",
    ),
    Known(
        "DELTA_INSERT_COLUMN_ARITY_MISMATCH",
        InvalidArgumentError,
        r"insertInto .*: the table has (?P<numColumns>\d+), the frame (?P<insertColumns>\d+)",
    ),
    Known(
        "DELTA_INVALID_GENERATED_COLUMN_REFERENCES",
        InvalidArgumentError,
        r"the generated column .* can't be declared: no column is called",
    ),
    Known(
        "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN",
        UnsupportedExpressionError,
        r"the generated column .* can't be declared: the expression uses the function `(?P<expr>rand|randn|uuid)`",
    ),
    Known(
        "DELTA_NON_PARTITION_COLUMN_REFERENCE",
        InvalidArgumentError,
        r"the predicate names the column `(?P<columnName>[^`]*)`",
        r"(?i)^\s*(optimize|reorg)\b",
    ),
    Known(
        "DELTA_NON_PARTITION_COLUMN_REFERENCE",
        InvalidArgumentError,
        r"the predicate names the column `(?P<columnName>[^`]*)`, which isn't a partition column",
    ),
    Known(
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        InvalidArgumentError,
        r"the (?:table|source) has no column `(?P<sqlExpr>[^`]*)`",
        _MERGES,
    ),
    Known(
        "FIELD_NOT_FOUND",
        InvalidArgumentError,
        r"the table has no column `[^`]*\.(?P<fieldName>[^`.]*)` that could be updated",
    ),
    Known(
        "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        InvalidArgumentError,
        f"(?:the table has no column|no column is called|names the column|there is no column) (?P<objectName>{_NAME})"
        r"(?:.*(?:there are|did you mean|its place has) (?P<proposal>[^()\[?]*[^()\[? ]))?",
    ),
    Known(
        "DELTA_CONFLICT_SET_COLUMN",
        InvalidArgumentError,
        r"`?(?P<columnList>[^\s`]+)`? (?:is assigned twice|gets two values)",
    ),
    # MERGE.
    Known(
        "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
        InvalidArgumentError,
        r"DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
        spark=UnsupportedOperationException,
    ),
    Known("NO_MERGE_ACTION_SPECIFIED", InvalidArgumentError, r"a merge needs at least one clause", r"^MergeWriter\."),
    Known("DELTA_MERGE_MISSING_WHEN", InvalidArgumentError, r"a merge needs at least one clause"),
    Known(
        "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION",
        InvalidArgumentError,
        r"for rows matched has no condition, so those after it",
    ),
    Known(
        "DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION",
        InvalidArgumentError,
        r"for rows not matched has no condition, so those after it",
    ),
    Known(
        "DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION",
        InvalidArgumentError,
        r"for rows not matched by source has no condition, so those after it",
    ),
    # Rows that violate rules.
    Known("DELTA_NEW_CHECK_CONSTRAINT_VIOLATION", ConstraintViolationError, r"DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"),
    Known(
        "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
        ConstraintViolationError,
        r"NOT NULL constraint violated for column `(?P<columnName>[^`]*)`",
        spark=PySparkException,
    ),
    Known(
        "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
        ConstraintViolationError,
        r"DELTA_VIOLATE_CONSTRAINT_WITH_VALUES\] CHECK constraint (?P<constraintName>\S+) "
        r"\((?P<expression>.*)\) violated by row with values:(?P<values>(?:.|\n)*)",
        spark=PySparkException,
    ),
    Known(
        "DELTA_CANNOT_MODIFY_APPEND_ONLY",
        InvalidArgumentError,
        r"the table is append-only \((?P<config>delta\.appendOnly)",
        spark=UnsupportedOperationException,
    ),
    Known(
        "DELTA_REPLACE_WHERE_MISMATCH",
        InvalidArgumentError,
        r"the data has rows that `(?P<replaceWhere>.*)` doesn't select",
    ),
    Known(
        "DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE",
        InvalidArgumentError,
        r"columns can't be replaced \((?:schema_mode=\"overwrite\"|CREATE OR REPLACE TABLE), overwriteSchema\) where only the partitions",
        spark=IllegalArgumentException,
    ),
    Known(
        "DELTA_PARTITION_COLUMN_NOT_FOUND",
        SchemaMismatchError,
        f"the data lacks the partition column (?P<columnName>{_NAME})",
    ),
    Known("DELTA_NON_PARTITION_COLUMN_ABSENT", SchemaMismatchError, r"only partition columns"),
    Known(
        "DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE",
        InvalidArgumentError,
        r"the partitions that rows are written to are replaced in mode overwrite, without a predicate",
        spark=IllegalArgumentException,
    ),
    Known(
        "DELTA_DATA_CHANGE_FALSE", InvalidArgumentError, r"the write would (?P<op>.*), and says that it changes nothing"
    ),
    Known(
        "DELTA_REPLACE_WHERE_WITH_FILTER_DATA_CHANGE_UNSET",
        InvalidArgumentError,
        r"`(?P<dataFilters>.*)` selects rows, and a write without a change",
    ),
    Known(
        "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED",
        InvalidArgumentError,
        r"OPTIMIZE FULL orders all files again",
        spark=UnsupportedOperationException,
    ),
    Known(
        "DELTA_OPERATION_NOT_ALLOWED", UnsupportedFeatureError, r"(?P<operation>SHOW CREATE TABLE) isn't a statement"
    ),
    Known(
        "DELTA_OPERATION_NOT_ALLOWED",
        UnsupportedFeatureError,
        r"(?P<operation>INSERT OVERWRITE DIRECTORY) writes files",
    ),
    Known("NOT_SUPPORTED_COMMAND_FOR_V2_TABLE", UnsupportedFeatureError, r"(?P<cmd>ANALYZE|MSCK) isn't a statement"),
    Known(
        "CAST_INVALID_INPUT",
        InvalidArgumentError,
        r"\[CAST_INVALID_INPUT\] (?P<expression>'.*') is no",
        spark=NumberFormatException,
    ),
    Known(
        "INVALID_NON_DETERMINISTIC_EXPRESSIONS",
        InvalidArgumentError,
        r"DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED",
        r"(?i)^\s*(delete|update)\b|^DeltaTable\.(delete|update)$",
    ),
    Known("UNSUPPORTED_EXPR_FOR_OPERATOR", InvalidArgumentError, r"UNSUPPORTED_EXPR_FOR_OPERATOR"),
    Known("UNSUPPORTED_GENERATOR.OUTSIDE_SELECT", InvalidArgumentError, r"UNSUPPORTED_GENERATOR\.OUTSIDE_SELECT"),
    Known(
        "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.UNSUPPORTED_IN_EXISTS_SUBQUERY",
        InvalidArgumentError,
        r"UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY\.UNSUPPORTED_IN_EXISTS_SUBQUERY",
    ),
    Known("DELTA_AGGREGATION_NOT_SUPPORTED", InvalidArgumentError, r"DELTA_AGGREGATION_NOT_SUPPORTED"),
    Known(
        "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE",
        InvalidArgumentError,
        r"DELTA_CAST_OVERFLOW_IN_TABLE_WRITE\] a value of the type (?P<sourceType>.*) is out of the range (?P<targetType>.*) of "
        r"the column (?P<columnName>.*): cast",
        spark=ArithmeticException,
    ),
    Known(
        "DELTA_FAILED_TO_MERGE_FIELDS",
        SchemaMismatchError,
        r"a value doesn't fit its column",
        r"(?i)^\s*merge\s+with\s+schema\s+evolution\b",
    ),
    # Changes of the table.
    Known(
        "DELTA_CONSTRAINT_ALREADY_EXISTS",
        InvalidArgumentError,
        r"there is a constraint `(?P<constraintName>[^`]*)` already(?: \(`(?P<oldConstraint>.*)`\))?",
    ),
    Known(
        "DELTA_CONSTRAINT_DOES_NOT_EXIST", InvalidArgumentError, r"there is no constraint `(?P<constraintName>[^`]*)`"
    ),
    Known("FIELD_ALREADY_EXISTS", InvalidArgumentError, f"there is a column (?P<fieldNames>{_NAME}) already"),
    Known("FIELD_ALREADY_EXISTS", InvalidArgumentError, f"renamed to (?P<fieldNames>{_NAME}): there is such a column"),
    Known(
        "DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN",
        InvalidArgumentError,
        r"the table is partitioned by `(?P<columnList>[^`]*)`, which can't be dropped",
    ),
    # Spark's analysis refuses what no value could be cast to without a loss, before Delta's turn.
    Known(
        "NOT_SUPPORTED_CHANGE_COLUMN",
        InvalidArgumentError,
        r"the type of the column `(?P<originName>[^`]*)` can't change from "
        rf"(?:{'|'.join(f'{old} to (?:{new})' for old, new in _NARROWER.items())}):",
    ),
    Known(
        "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
        InvalidArgumentError,
        r"the type of the column `(?P<fieldPath>[^`]*)` can't change from (?P<oldField>.*) to (?P<newField>.*):",
    ),
    Known(
        "DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA",
        InvalidArgumentError,
        r"is the only column there and can't be dropped",
    ),
    Known("DELTA_OPERATION_NOT_ALLOWED", InvalidArgumentError, r"can't be added as NOT NULL"),
    Known(
        "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT",
        InvalidArgumentError,
        r"`(?P<expr>.*)` is no condition: its type is",
        r"(?i)^\s*alter\b",
    ),
    Known(
        "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED",
        InvalidArgumentError,
        r"rows can't be ordered by `(?P<columnsWithDataTypes>[^`]*)`",
        r"(?i)^\s*(create|replace|alter)\b|TableBuilder",
    ),
    Known(
        "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
        InvalidArgumentError,
        r"delta\.columnMapping\.mode can't change from `(?P<oldMode>[^`]*)` to `(?P<newMode>[^`]*)`",
        spark=UnsupportedOperationException,
    ),
    Known(
        "DELTA_UNKNOWN_CONFIGURATION", InvalidArgumentError, r"`(?P<config>(?i:delta)\.[^`]*)` isn't a table property"
    ),
    Known(
        "DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED",
        InvalidArgumentError,
        r"a table is either partitioned or clustered",
        r"(?i)^\s*alter\b",
    ),
    Known(
        "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT",
        InvalidArgumentError,
        r"the table doesn't support the feature (?P<feature>\S+): there is nothing to drop",
        spark=PySparkException,
    ),
    Known(
        "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE",
        UnsupportedFeatureError,
        r"`(?P<feature>[^`]*)` isn't a table feature that this version",
        r"(?i)\bdrop\s+feature\b|\.dropFeature",
        spark=PySparkException,
    ),
    Known(
        "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG",
        UnsupportedFeatureError,
        r"`(?P<configs>[^`]*)` isn't a table feature that this version",
        spark=PySparkException,
    ),
    Known(
        "DELTA_UNSUPPORTED_FEATURES_FOR_READ",
        UnsupportedFeatureError,
        r"can't read this table: it uses the table feature\S* (?P<unsupported>.*), which this",
        "",
        "tableNameOrPath",
        spark=PySparkException,
    ),
    Known(
        "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
        UnsupportedFeatureError,
        r"can't write this table: it uses the table feature\S* (?P<unsupported>.*), which this",
        "",
        "tableNameOrPath",
        spark=PySparkException,
    ),
    # Maintenance.
    Known(
        "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT",
        InvalidArgumentError,
        r"below the table's (?P<configuredRetentionHours>[\d.]+) \(",
        spark=IllegalArgumentException,
    ),
    Known(
        "DELTA_ZORDERING_ON_PARTITION_COLUMN",
        InvalidArgumentError,
        r"`?(?P<colName>[^\s`]+)`? is a partition column(?:\. Z-Ordering|, which has one value in each file)",
        spark=IllegalArgumentException,
    ),
    Known(
        "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST",
        InvalidArgumentError,
        r"`(?P<columnName>[^`]*)` isn't a column of the table",
        r"(?i)^\s*optimize\b|\.executeZOrderBy$",
        spark=IllegalArgumentException,
    ),
    Known(
        "DELTA_NON_PARTITION_COLUMN_REFERENCE",
        InvalidArgumentError,
        r"references non-partition column '(?P<columnName>.*)'.*referenced: \[(?P<columnList>.*)\]",
    ),
    Known(
        "DELTA_NON_PARTITION_COLUMN_REFERENCE",
        UnsupportedExpressionError,
        r"files are chosen by partition columns alone",
    ),
    Known(
        "DELTA_CLUSTERING_WITH_ZORDER_BY",
        InvalidArgumentError,
        r"the table is clustered by (?P<zOrderBy>.*), which OPTIMIZE",
    ),
    # Reading the change data feed.
    Known(
        "DELTA_MISSING_CHANGE_DATA",
        InvalidArgumentError,
        r"the change data feed was off \((?P<key>[\w.]+)\) in version (?P<version>\d+)",
    ),
    Known("DELTA_NO_START_FOR_CDC_READ", InvalidArgumentError, r"say where the changes begin"),
    Known(
        "DELTA_INVALID_CDC_RANGE",
        InvalidArgumentError,
        r"the range ends with version (?P<end>\d+), before its start (?P<start>\d+)",
        spark=IllegalArgumentException,
    ),
    # Conflicts with other writers.
    Known("DELTA_CONCURRENT_APPEND", ConcurrentAppendException, spark=PySparkException),
    Known("DELTA_CONCURRENT_DELETE_DELETE", ConcurrentDeleteDeleteException, spark=PySparkException),
    Known("DELTA_CONCURRENT_DELETE_READ", ConcurrentDeleteReadException, spark=PySparkException),
    Known("DELTA_CONCURRENT_TRANSACTION", ConcurrentTransactionException, spark=PySparkException),
    Known("DELTA_CONCURRENT_WRITE", ConcurrentWriteException, spark=PySparkException),
    Known("DELTA_METADATA_CHANGED", MetadataChangedException, spark=PySparkException),
    Known("DELTA_PROTOCOL_CHANGED", ProtocolChangedException, spark=PySparkException),
    # The log, and SQL texts.
    Known("DELTA_VERSIONS_NOT_CONTIGUOUS", CorruptLogError, r"the log has a gap", spark=PySparkException),
    Known(
        "UNSUPPORTED_EXPR_FOR_OPERATOR", UnsupportedExpressionError, r"uses the function `(?:max|min|sum|avg|count)`"
    ),
    Known(
        "NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION",
        SqlSyntaxError,
        r"only the last WHEN MATCHED may be without",
        spark=ParseException,
    ),
    Known(
        "NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION",
        SqlSyntaxError,
        r"only the last WHEN NOT MATCHED BY SOURCE may be without",
        spark=ParseException,
    ),
    Known(
        "NON_LAST_NOT_MATCHED_BY_TARGET_CLAUSE_OMIT_CONDITION",
        SqlSyntaxError,
        r"only the last WHEN NOT MATCHED may be without",
        spark=ParseException,
    ),
    Known(
        "PARTITION_BY_NOT_ALLOWED_WITH_INSERT_INTO",
        InvalidArgumentError,
        r"partitionBy and insertInto don't go together: the table (?P<tableName>.*) knows",
    ),
    Known(
        "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE",
        UnsupportedExpressionError,
        r"a clustered table is arranged as a whole, without partitions: leave WHERE (?P<predicates>.*) out",
        spark=UnsupportedOperationException,
    ),
    Known("DELTA_SCHEMA_NOT_PROVIDED", InvalidArgumentError, r"what replaces a table has columns"),
    Known(
        "DELTA_MODE_NOT_SUPPORTED",
        InvalidArgumentError,
        r"'(?P<mode>.*)' is no kind of manifest",
        spark=IllegalArgumentException,
    ),
    # Spark's own parser accepts INT and BIGINT and refuses other types; delta-spark refuses INT,
    # and refuses every type from the builder.
    Known(
        "DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE",
        InvalidArgumentError,
        r"the identity column `.*` is of type (?P<dataType>integer):",
        spark=UnsupportedOperationException,
    ),
    Known(
        "IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE",
        InvalidArgumentError,
        r"the identity column `.*` is of type (?P<dataType>.*): give",
        r"(?i)^\s*(create|replace)\b",
        spark=ParseException,
    ),
    Known(
        "DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE",
        InvalidArgumentError,
        r"the identity column `.*` is of type (?P<dataType>.*): give",
        spark=UnsupportedOperationException,
    ),
    Known("IDENTITY_COLUMNS_ILLEGAL_STEP", SqlSyntaxError, r"expected a step other than 0", spark=ParseException),
    Known("_LEGACY_ERROR_TEMP_0034", SqlSyntaxError, r"expected the same name again: .*renames", spark=ParseException),
    Known("PARSE_SYNTAX_ERROR", SqlSyntaxError, spark=ParseException),
)

# Other texts begin with the condition's name, or have it in brackets.
_NAMED = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")


class SparkCondition(NamedTuple):
    """delta-spark's view of an error: condition, SQL state, parameters, and the class that PySpark
    raises."""

    condition: str
    sql_state: str
    parameters: dict[str, str]
    spark: type[PySparkException]


def known_conditions() -> tuple[Known, ...]:
    """All rows of the table of conditions.

    >>> {known.kind.__name__ for known in known_conditions() if known.condition == "DELTA_TABLE_NOT_FOUND"}
    {'TableNotFoundError'}
    """
    return _KNOWN


def spark_condition(error: DeltaError, doing: str) -> SparkCondition | None:
    """Finds delta-spark's condition for a deltaplane error that a statement or method raised; None
    if it has none.

    >>> spark_condition(TableNotFoundError("no Delta table here", table="/lake/t"), "VACUUM delta.`/lake/t`").condition
    'DELTA_MISSING_DELTA_TABLE'
    """
    text = str(error)
    for known in _KNOWN:
        if not isinstance(error, known.kind) or not re.search(known.doing, doing):
            continue
        if known.in_folder and not os.path.isdir(re.sub("^file:/+", "/", error.table or "")):
            continue
        if (match := re.search(known.says, text)) is None:
            continue
        parameters = {name: value for name, value in match.groupdict().items() if value is not None}
        if known.location and error.table is not None:
            parameters[known.location] = error.table
        if known.version and error.version is not None:
            parameters[known.version] = str(error.version)
        condition = known.condition
        if condition == "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP" and _narrows_decimal(parameters):
            condition = "NOT_SUPPORTED_CHANGE_COLUMN"
        return SparkCondition(condition, SQL_STATES[condition], parameters, known.spark)
    cause = error.__cause__
    if isinstance(cause, PySparkException) and (own := condition_of(cause)):
        return SparkCondition(own, cause.getSqlState() or "", cause.getMessageParameters() or {}, AnalysisException)
    named = next((word for word in _NAMED.findall(text) if word in SQL_STATES), None)
    return None if named is None else SparkCondition(named, SQL_STATES[named], {}, PySparkException)


# Digits of the decimals that hold each value of a type.
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def _narrows_decimal(parameters: Mapping[str, str]) -> bool:
    """Whether a change of a column's type from or to a decimal may lose digits, so that Spark's
    analysis refuses it before Delta's turn."""
    old, new = parameters.get("oldField", ""), parameters.get("newField", "")
    from_decimal, to_decimal = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    if to_decimal is None:
        return from_decimal is not None and new in (*_DIGITS, "float", "double")
    precision, scale = map(int, to_decimal.groups())
    if from_decimal is not None:
        own_precision, own_scale = map(int, from_decimal.groups())
        return precision - scale < own_precision - own_scale or scale < own_scale
    if old in _DIGITS:
        return precision - scale < _DIGITS[old]
    return old in ("float", "double", "string", "boolean")
