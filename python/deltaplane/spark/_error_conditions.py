"""The names that delta-spark has for what goes wrong (error conditions), with their SQL states, and which of our errors is which.

Our errors keep their own classes and texts; a condition is found by them and by what was being done. What the named parts of a text
hold are the condition's parameters. Knows nothing of Spark's session. Called by `deltaplane.spark._errors`.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from pyspark.errors import (
    AnalysisException,
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

__all__ = ["Told", "told"]

_STATES = {
    "CAST_INVALID_INPUT": "22018",
    "COLUMN_ALREADY_EXISTS": "42711",
    "DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED": "42000",
    "DELTA_CANNOT_MODIFY_APPEND_ONLY": "42809",
    "DELTA_CANNOT_RESTORE_TABLE_VERSION": "22003",
    "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER": "22003",
    "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER": "22003",
    "DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION": "428FT",
    "DELTA_CANNOT_WRITE_EMPTY_SCHEMA.TABLE_ALL_VOID_COLUMNS": "428GU",
    "DELTA_CDC_START_VERSION_AFTER_LATEST": "22003",
    "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED": "0A000",
    "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE": "0A000",
    "DELTA_CLUSTERING_WITH_ZORDER_BY": "42613",
    "DELTA_CONCURRENT_APPEND": "2D521",
    "DELTA_CONCURRENT_DELETE_DELETE": "2D521",
    "DELTA_CONCURRENT_DELETE_READ": "2D521",
    "DELTA_CONCURRENT_TRANSACTION": "2D521",
    "DELTA_CONCURRENT_WRITE": "2D521",
    "DELTA_CONFLICT_SET_COLUMN": "42701",
    "DELTA_CONSTRAINT_ALREADY_EXISTS": "42710",
    "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE": "42K09",
    "DELTA_CONSTRAINT_DOES_NOT_EXIST": "42704",
    "DELTA_CREATE_TABLE_SCHEME_MISMATCH": "42KD7",
    "DELTA_CREATE_TABLE_WITH_DIFFERENT_CLUSTERING": "42KD7",
    "DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING": "42KD7",
    "DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY": "42KD7",
    "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION": "42601",
    "DELTA_DATA_CHANGE_FALSE": "0AKDE",
    "DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA": "0AKDC",
    "DELTA_DUPLICATE_COLUMNS_FOUND.DATA": "42711",
    "DELTA_EXCEED_CHAR_VARCHAR_LIMIT": "22001",
    "DELTA_FAILED_CAST_PARTITION_VALUE": "22018",
    "DELTA_FAILED_TO_MERGE_FIELDS": "22005",
    "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL": "40000",
    "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT": "55000",
    "DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED": "42000",
    "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE": "0AKDC",
    "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD": "22KD0",
    "DELTA_GENERATED_COLUMNS_EXPR_TYPE_MISMATCH": "42K09",
    "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED": "42808",
    "DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP": "42611",
    "DELTA_IDENTITY_COLUMNS_PARTITION_NOT_SUPPORTED": "42601",
    "DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE": "428H2",
    "DELTA_IDENTITY_COLUMNS_WITH_GENERATED_EXPRESSION": "42613",
    "DELTA_IDENTITY_COLUMN_INCONSISTENT_METADATA": "42000",
    "DELTA_INSERT_COLUMN_ARITY_MISMATCH": "42802",
    "DELTA_INVALID_CDC_RANGE": "22003",
    "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES": "42K05",
    "DELTA_INVALID_GENERATED_COLUMN_REFERENCES": "42621",
    "DELTA_MERGE_MISSING_WHEN": "42601",
    "DELTA_MERGE_UNRESOLVED_EXPRESSION": "42601",
    "DELTA_METADATA_CHANGED": "2D521",
    "DELTA_METADATA_MISMATCH": "42KDG",
    "DELTA_MISSING_CHANGE_DATA": "KD002",
    "DELTA_MISSING_DELTA_TABLE": "42P01",
    "DELTA_MISSING_NOT_NULL_COLUMN_VALUE": "23502",
    "DELTA_MODE_NOT_SUPPORTED": "0AKDC",
    "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE": "21506",
    "DELTA_NESTED_NOT_NULL_CONSTRAINT": "0AKDC",
    "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION": "23512",
    "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT": "42621",
    "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN": "42621",
    "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED": "0AKDC",
    "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION": "42601",
    "DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION": "42601",
    "DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION": "42601",
    "DELTA_NON_PARTITION_COLUMN_REFERENCE": "42P10",
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED": "23502",
    "DELTA_NO_START_FOR_CDC_READ": "42601",
    "DELTA_ONEOF_IN_TIMETRAVEL": "42601",
    "DELTA_OPERATION_NOT_ALLOWED": "0AKDC",
    "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED": "42601",
    "DELTA_PARTITION_COLUMN_NOT_FOUND": "42703",
    "DELTA_PATH_EXISTS": "42K04",
    "DELTA_PROTOCOL_CHANGED": "2D521",
    "DELTA_REPLACE_WHERE_MISMATCH": "44000",
    "DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE": "42613",
    "DELTA_REPLACE_WHERE_WITH_FILTER_DATA_CHANGE_UNSET": "42613",
    "DELTA_ROW_ID_ASSIGNMENT_WITHOUT_STATS": "22000",
    "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS": "KD007",
    "DELTA_SCHEMA_NOT_PROVIDED": "42908",
    "DELTA_SCHEMA_NOT_SET": "KD008",
    "DELTA_TABLE_LOCATION_MISMATCH": "42613",
    "DELTA_TABLE_NOT_FOUND": "42P01",
    "DELTA_TABLE_ONLY_OPERATION": "0AKDD",
    "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION": "42816",
    "DELTA_TIMESTAMP_GREATER_THAN_COMMIT": "42816",
    "DELTA_TIMESTAMP_INVALID": "42816",
    "DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE": "42604",
    "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME": "KD009",
    "DELTA_UNKNOWN_CONFIGURATION": "F0000",
    "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP": "0AKDC",
    "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE": "0AKDC",
    "DELTA_UNSUPPORTED_DROP_COLUMN": "0AKDC",
    "DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN": "0AKDC",
    "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN": "42621",
    "DELTA_UNSUPPORTED_FEATURES_FOR_READ": "56038",
    "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE": "56038",
    "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG": "56038",
    "DELTA_UNSUPPORTED_RENAME_COLUMN": "0AKDC",
    "DELTA_UNSUPPORTED_TYPE_CHANGE_IN_SCHEMA": "0AKDC",
    "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION": "42846",
    "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT": "22003",
    "DELTA_VERSIONS_NOT_CONTIGUOUS": "KD00C",
    "DELTA_VERSION_NOT_FOUND": "22003",
    "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES": "23001",
    "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST": "42703",
    "DELTA_ZORDERING_ON_PARTITION_COLUMN": "42P10",
    "FIELD_ALREADY_EXISTS": "42710",
    "FIELD_NOT_FOUND": "42704",
    "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS": "21S01",
    "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS": "21S01",
    "INVALID_NON_DETERMINISTIC_EXPRESSIONS": "42K0E",
    "NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION": "42613",
    "NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION": "42613",
    "NON_LAST_NOT_MATCHED_BY_TARGET_CLAUSE_OMIT_CONDITION": "42613",
    "NON_PARTITION_COLUMN": "42000",
    "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE": "0A000",
    "PARSE_SYNTAX_ERROR": "42601",
    "PARTITION_BY_NOT_ALLOWED_WITH_INSERT_INTO": "42601",
    "PATH_NOT_FOUND": "42K03",
    "TABLE_OR_VIEW_ALREADY_EXISTS": "42P07",
    "TABLE_OR_VIEW_NOT_FOUND": "42P01",
    "UNRESOLVED_COLUMN.WITH_SUGGESTION": "42703",
    "UNSUPPORTED_EXPR_FOR_OPERATOR": "42K0E",
}


class _Known(NamedTuple):
    """A condition, and by what an error of ours is known as it: its class, a part of its text, and a part of what was done (a
    statement, or `Class.method`). `location` names the parameter that has the table's; `spark`: what PySpark raises; `in_folder`: the
    location is a local folder."""

    condition: str
    kind: type[DeltaError]
    says: str = ""
    doing: str = ""
    location: str = ""
    spark: type[PySparkException] = AnalysisException
    in_folder: bool = False


_NAME = r"`[^`]*`"
_RESTORES = r"(?i)^\s*restore\b|\.restoreTo"
_INSERTS_NAMED = (
    rf"(?i)^\s*insert\s+(into|overwrite)\s+(table\s+)?({_NAME}|[\w.])+\s*\(\s*(?!select\b|values\b|with\b|from\b)"
)
_MERGES = r"(?i)^\s*(with\b.*)?merge\b|MergeBuilder"

# The first that fits counts.
_KNOWN = (
    # What is there, and what isn't.
    _Known(
        "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS",
        TableNotFoundError,
        r"the view's (?P<schemaDiff>table was deleted)",
    ),
    _Known("DELTA_MISSING_DELTA_TABLE", TableNotFoundError, f"catalog has no table (?P<tableName>{_NAME})"),
    _Known("DELTA_MISSING_DELTA_TABLE", TableNotFoundError, r"no Delta table is here: create one", "", "tableName"),
    _Known("TABLE_OR_VIEW_NOT_FOUND", TableNotFoundError, r"no table to be replaced|REPLACE TABLE needs a table"),
    _Known("DELTA_TABLE_ONLY_OPERATION", TableNotFoundError, "", r"(?i)^\s*desc(ribe)?\s+history\b", "tableName"),
    _Known(
        "DELTA_MISSING_DELTA_TABLE",
        TableNotFoundError,
        "",
        r"(?i)^\s*(optimize|vacuum|alter|reorg|generate|desc(ribe)?\s+detail)\b",
        "tableName",
    ),
    _Known("DELTA_SCHEMA_NOT_SET", TableNotFoundError, "", r"^StreamReader\."),
    _Known("DELTA_TABLE_NOT_FOUND", TableNotFoundError, "", "", "tableName", in_folder=True),
    _Known("PATH_NOT_FOUND", TableNotFoundError, "", "", "path"),
    _Known("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", TableAlreadyExistsError, r"or clone to", "", "tableLocation"),
    _Known(
        "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
        TableAlreadyExistsError,
        r"the location isn't empty",
        "",
        "tableLocation",
    ),
    _Known(
        "DELTA_TABLE_LOCATION_MISMATCH",
        InvalidArgumentError,
        r"the table (?P<tableName>\S+) is at (?P<existingTableLocation>.*), and the (?:statement|builder|writer) says (?P<tableLocation>.*): leave",
    ),
    _Known(
        "DELTA_CREATE_TABLE_SCHEME_MISMATCH",
        TableAlreadyExistsError,
        r"other columns than the statement: (?P<schemaDifferences>.*)\. Say",
        "",
        "path",
    ),
    _Known(
        "DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING",
        TableAlreadyExistsError,
        r"is partitioned by \((?P<existingColumns>.*)\), not by \((?P<specifiedColumns>.*)\)\. Say",
        "",
        "path",
    ),
    _Known(
        "DELTA_CREATE_TABLE_WITH_DIFFERENT_CLUSTERING",
        TableAlreadyExistsError,
        r"is clustered by \((?P<existingColumns>.*)\), not by \((?P<specifiedColumns>.*)\)\. Say",
        "",
        "path",
    ),
    _Known(
        "DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY",
        TableAlreadyExistsError,
        r"has the properties \((?P<existingProperties>.*)\), not \((?P<specifiedProperties>.*)\)\. Say",
        "",
        "path",
    ),
    _Known("DELTA_PATH_EXISTS", TableAlreadyExistsError, "", r"^Writer\.save$", "path"),
    _Known("TABLE_OR_VIEW_ALREADY_EXISTS", TableAlreadyExistsError, "", "", "relationName"),
    # Versions and moments.
    _Known(
        "DELTA_CANNOT_RESTORE_TABLE_VERSION",
        VersionNotFoundError,
        r"version (?P<version>\d+) doesn't exist(?:: the newest version is (?P<endVersion>\d+))?",
        _RESTORES,
    ),
    _Known(
        "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER",
        VersionNotFoundError,
        r"as old as (?P<requestedTimestamp>\S+):",
        _RESTORES,
    ),
    _Known(
        "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
        VersionNotFoundError,
        r"no version is as old as (?P<userTimestamp>\S+):(?:.* committed at (?P<commitTs>[^\s\[]+))?",
    ),
    _Known(
        "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER",
        VersionNotFoundError,
        r"(?P<requestedTimestamp>\S+) is after the newest commit: .* committed at (?P<latestTimestamp>[^\s;]+)",
        _RESTORES,
    ),
    _Known(
        "DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
        VersionNotFoundError,
        r"(?P<providedTimestamp>\S+) is after the newest commit: .* committed at (?P<lastCommitTimestamp>[^\s;]+)",
    ),
    _Known(
        "DELTA_CDC_START_VERSION_AFTER_LATEST",
        VersionNotFoundError,
        r"no version is in the range: the newest version is (?P<latest>\d+)",
        spark=IllegalArgumentException,
    ),
    _Known(
        "DELTA_VERSION_NOT_FOUND",
        VersionNotFoundError,
        r"version (?P<userVersion>\d+)(?: doesn't exist: the newest version is (?P<latest>\d+))?",
    ),
    _Known("DELTA_TIMESTAMP_INVALID", InvalidArgumentError, r"The provided timestamp \((?P<expr>'.*')\) cannot be"),
    _Known(
        "DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE",
        InvalidArgumentError,
        r"the option (?P<timeTravelKey>versionAsOf) is a number",
        spark=IllegalArgumentException,
    ),
    _Known(
        "DELTA_ONEOF_IN_TIMETRAVEL",
        InvalidArgumentError,
        r"give a version or a timestamp, not both",
        spark=IllegalArgumentException,
    ),
    # Columns.
    _Known(
        "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS",
        SchemaMismatchError,
        r"the view shows version .* columns changed by version \d+: (?P<schemaDiff>.*)\. Read it again",
    ),
    _Known("DELTA_METADATA_MISMATCH", SchemaMismatchError, r"the data has the column"),
    _Known("DELTA_METADATA_MISMATCH", InvalidArgumentError, r"the table is partitioned by .*, not by"),
    _Known(
        "DELTA_FAILED_TO_MERGE_FIELDS",
        SchemaMismatchError,
        r"column `(?P<currentField>[^`]*)`: expected .* as in the table, found",
    ),
    _Known(
        "DELTA_MISSING_NOT_NULL_COLUMN_VALUE",
        SchemaMismatchError,
        r"the data lacks the column `(?P<columnName>[^`]*)`, which is NOT NULL",
    ),
    _Known(
        "DELTA_PARTITION_COLUMN_NOT_FOUND",
        InvalidArgumentError,
        f"partition column (?P<columnName>{_NAME}) isn't a column of the data, which has: (?P<schemaMap>[^\\[]*[^\\[ ])",
    ),
    _Known("DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION", InvalidArgumentError, r"partitioned by all of its columns"),
    _Known(
        "COLUMN_ALREADY_EXISTS",
        InvalidArgumentError,
        f"same name when case is ignored: (?P<columnName>{_NAME})",
        r"TableBuilder",
    ),
    _Known("COLUMN_ALREADY_EXISTS", SqlSyntaxError, f"expected another name: (?P<columnName>{_NAME}) is taken"),
    _Known(
        "DELTA_DUPLICATE_COLUMNS_FOUND.DATA",
        InvalidArgumentError,
        r"two columns have the same name when case is ignored: `(?P<duplicateCols>[^`]*)`",
    ),
    _Known(
        "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
        InvalidArgumentError,
        r"the column name `(?P<invalidColumnNames>[^`]*)` holds .*without column mapping",
    ),
    _Known(
        "DELTA_CANNOT_WRITE_EMPTY_SCHEMA.TABLE_ALL_VOID_COLUMNS",
        InvalidArgumentError,
        r"every column .* of the type void",
    ),
    _Known(
        "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS",
        InvalidArgumentError,
        r"\d+ values are given for only \d+ columns",
        _INSERTS_NAMED,
    ),
    _Known(
        "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS",
        InvalidArgumentError,
        r"\d+ values are given for \d+ columns",
        _INSERTS_NAMED,
    ),
    _Known("DELTA_METADATA_MISMATCH", InvalidArgumentError, r"\d+ values are given for only \d+ columns"),
    _Known(
        "DELTA_INSERT_COLUMN_ARITY_MISMATCH",
        InvalidArgumentError,
        r"(?P<insertColumns>\d+) values are given for (?P<numColumns>\d+) columns",
    ),
    _Known(
        "DELTA_INSERT_COLUMN_ARITY_MISMATCH",
        InvalidArgumentError,
        r"insertInto .*: the table has (?P<numColumns>\d+), the frame (?P<insertColumns>\d+)",
    ),
    _Known(
        "DELTA_INVALID_GENERATED_COLUMN_REFERENCES",
        InvalidArgumentError,
        r"the generated column .* can't be declared: no column is called",
    ),
    _Known(
        "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN",
        UnsupportedExpressionError,
        r"the generated column .* can't be declared: the expression uses the function `(?P<expr>rand|randn|uuid)`",
    ),
    _Known(
        "DELTA_NON_PARTITION_COLUMN_REFERENCE",
        InvalidArgumentError,
        r"the predicate names the column `(?P<columnName>[^`]*)`",
        r"(?i)^\s*(optimize|reorg)\b",
    ),
    _Known(
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        InvalidArgumentError,
        r"the (?:table|source) has no column `(?P<sqlExpr>[^`]*)`",
        _MERGES,
    ),
    _Known(
        "FIELD_NOT_FOUND",
        InvalidArgumentError,
        r"the table has no column `[^`]*\.(?P<fieldName>[^`.]*)` that could be updated",
    ),
    _Known(
        "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        InvalidArgumentError,
        f"(?:the table has no column|no column is called|names the column|there is no column) (?P<objectName>{_NAME})"
        r"(?:.*(?:there are|did you mean|its place has) (?P<proposal>[^()\[?]*[^()\[? ]))?",
    ),
    _Known(
        "DELTA_CONFLICT_SET_COLUMN",
        InvalidArgumentError,
        r"`?(?P<columnList>[^\s`]+)`? (?:is assigned twice|gets two values)",
    ),
    # MERGE.
    _Known(
        "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
        InvalidArgumentError,
        r"DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
        spark=UnsupportedOperationException,
    ),
    _Known("DELTA_MERGE_MISSING_WHEN", InvalidArgumentError, r"a merge needs at least one clause"),
    _Known(
        "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION",
        InvalidArgumentError,
        r"for rows matched has no condition, so those after it",
    ),
    _Known(
        "DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION",
        InvalidArgumentError,
        r"for rows not matched has no condition, so those after it",
    ),
    _Known(
        "DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION",
        InvalidArgumentError,
        r"for rows not matched by source has no condition, so those after it",
    ),
    # Rows that rules refuse.
    _Known("DELTA_NEW_CHECK_CONSTRAINT_VIOLATION", ConstraintViolationError, r"DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"),
    _Known(
        "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
        ConstraintViolationError,
        r"NOT NULL constraint violated for column `(?P<columnName>[^`]*)`",
        spark=PySparkException,
    ),
    _Known(
        "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
        ConstraintViolationError,
        r"DELTA_VIOLATE_CONSTRAINT_WITH_VALUES\] CHECK constraint (?P<constraintName>\S+) "
        r"\((?P<expression>.*)\) violated by row with values:(?P<values>(?:.|\n)*)",
        spark=PySparkException,
    ),
    _Known(
        "DELTA_CANNOT_MODIFY_APPEND_ONLY",
        InvalidArgumentError,
        r"the table is append-only \((?P<config>delta\.appendOnly)",
        spark=UnsupportedOperationException,
    ),
    _Known(
        "DELTA_REPLACE_WHERE_MISMATCH",
        InvalidArgumentError,
        r"the data has rows that `(?P<replaceWhere>.*)` doesn't select",
    ),
    _Known(
        "DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE",
        InvalidArgumentError,
        r"the partitions that rows are written to are replaced in mode overwrite, without a predicate",
        spark=IllegalArgumentException,
    ),
    _Known(
        "DELTA_DATA_CHANGE_FALSE", InvalidArgumentError, r"the write would (?P<op>.*), and says that it changes nothing"
    ),
    _Known(
        "DELTA_REPLACE_WHERE_WITH_FILTER_DATA_CHANGE_UNSET",
        InvalidArgumentError,
        r"`(?P<dataFilters>.*)` selects rows, and a write without a change",
    ),
    _Known(
        "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED",
        InvalidArgumentError,
        r"OPTIMIZE FULL orders all files anew",
        spark=UnsupportedOperationException,
    ),
    _Known(
        "DELTA_OPERATION_NOT_ALLOWED", UnsupportedFeatureError, r"(?P<operation>SHOW CREATE TABLE) isn't a statement"
    ),
    _Known("NOT_SUPPORTED_COMMAND_FOR_V2_TABLE", UnsupportedFeatureError, r"(?P<cmd>ANALYZE|MSCK) isn't a statement"),
    _Known(
        "CAST_INVALID_INPUT",
        InvalidArgumentError,
        r"\[CAST_INVALID_INPUT\] (?P<expression>'.*') is no",
        spark=NumberFormatException,
    ),
    _Known(
        "INVALID_NON_DETERMINISTIC_EXPRESSIONS",
        InvalidArgumentError,
        r"DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED",
        r"(?i)^\s*(delete|update)\b|^DeltaTable\.(delete|update)$",
    ),
    # Changes of the table.
    _Known(
        "DELTA_CONSTRAINT_ALREADY_EXISTS",
        InvalidArgumentError,
        r"there is a constraint `(?P<constraintName>[^`]*)` already(?: \(`(?P<oldConstraint>.*)`\))?",
    ),
    _Known(
        "DELTA_CONSTRAINT_DOES_NOT_EXIST", InvalidArgumentError, r"there is no constraint `(?P<constraintName>[^`]*)`"
    ),
    _Known("FIELD_ALREADY_EXISTS", InvalidArgumentError, f"there is a column (?P<fieldNames>{_NAME}) already"),
    _Known("FIELD_ALREADY_EXISTS", InvalidArgumentError, f"renamed to (?P<fieldNames>{_NAME}): there is such a column"),
    _Known(
        "DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN",
        InvalidArgumentError,
        r"the table is partitioned by `(?P<columnList>[^`]*)`, which can't be dropped",
    ),
    _Known(
        "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
        InvalidArgumentError,
        r"the type of the column `(?P<fieldPath>[^`]*)` can't change from (?P<oldField>.*) to (?P<newField>.*):",
    ),
    _Known(
        "DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA",
        InvalidArgumentError,
        r"is the only column there and can't be dropped",
    ),
    _Known("DELTA_OPERATION_NOT_ALLOWED", InvalidArgumentError, r"can't be added as NOT NULL"),
    _Known(
        "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT",
        InvalidArgumentError,
        r"`(?P<expr>.*)` is no condition: its type is",
        r"(?i)^\s*alter\b",
    ),
    _Known(
        "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED",
        InvalidArgumentError,
        r"rows can't be ordered by `(?P<columnsWithDataTypes>[^`]*)`",
        r"(?i)^\s*(create|replace|alter)\b|TableBuilder",
    ),
    _Known(
        "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
        InvalidArgumentError,
        r"delta\.columnMapping\.mode can't change from `(?P<oldMode>[^`]*)` to `(?P<newMode>[^`]*)`",
        spark=UnsupportedOperationException,
    ),
    _Known("DELTA_UNKNOWN_CONFIGURATION", InvalidArgumentError, r"`(?P<config>delta\.[^`]*)` isn't a table property"),
    _Known(
        "DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED",
        InvalidArgumentError,
        r"a table is either partitioned or clustered",
        r"(?i)^\s*alter\b",
    ),
    _Known(
        "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT",
        InvalidArgumentError,
        r"the table doesn't support the feature (?P<feature>\S+): there is nothing to drop",
        spark=PySparkException,
    ),
    _Known(
        "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE",
        UnsupportedFeatureError,
        r"`(?P<feature>[^`]*)` isn't a table feature that this version",
        r"(?i)\bdrop\s+feature\b|\.dropFeature",
        spark=PySparkException,
    ),
    _Known(
        "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG",
        UnsupportedFeatureError,
        r"`(?P<configs>[^`]*)` isn't a table feature that this version",
        spark=PySparkException,
    ),
    _Known(
        "DELTA_UNSUPPORTED_FEATURES_FOR_READ",
        UnsupportedFeatureError,
        r"can't read this table: it uses the table feature\S* (?P<unsupported>.*), which this",
        "",
        "tableNameOrPath",
        spark=PySparkException,
    ),
    _Known(
        "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
        UnsupportedFeatureError,
        r"can't write this table: it uses the table feature\S* (?P<unsupported>.*), which this",
        "",
        "tableNameOrPath",
        spark=PySparkException,
    ),
    # Upkeep.
    _Known(
        "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT",
        InvalidArgumentError,
        r"below the table's (?P<configuredRetentionHours>[\d.]+) \(",
        spark=IllegalArgumentException,
    ),
    _Known(
        "DELTA_ZORDERING_ON_PARTITION_COLUMN",
        InvalidArgumentError,
        r"`?(?P<colName>[^\s`]+)`? is a partition column(?:\. Z-Ordering|, which has one value in each file)",
        spark=IllegalArgumentException,
    ),
    _Known(
        "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST",
        InvalidArgumentError,
        r"`(?P<columnName>[^`]*)` isn't a column of the table",
        r"(?i)^\s*optimize\b|\.executeZOrderBy$",
        spark=IllegalArgumentException,
    ),
    _Known(
        "DELTA_NON_PARTITION_COLUMN_REFERENCE",
        InvalidArgumentError,
        r"references non-partition column '(?P<columnName>.*)'.*referenced: \[(?P<columnList>.*)\]",
    ),
    _Known(
        "DELTA_NON_PARTITION_COLUMN_REFERENCE",
        UnsupportedExpressionError,
        r"files are chosen by partition columns alone",
    ),
    _Known(
        "DELTA_CLUSTERING_WITH_ZORDER_BY",
        InvalidArgumentError,
        r"the table is clustered by (?P<zOrderBy>.*), which OPTIMIZE",
    ),
    _Known(
        "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME",
        InvalidArgumentError,
        r"the file `(?P<path>.*)` lies (?P<parsedColsSize>\d+) directories deep",
    ),
    # Changes of rows, read.
    _Known(
        "DELTA_MISSING_CHANGE_DATA",
        InvalidArgumentError,
        r"the change data feed was off \((?P<key>[\w.]+)\) in version (?P<version>\d+)",
    ),
    _Known("DELTA_NO_START_FOR_CDC_READ", InvalidArgumentError, r"say where the changes begin"),
    _Known(
        "DELTA_INVALID_CDC_RANGE",
        InvalidArgumentError,
        r"the range ends with version (?P<end>\d+), before its start (?P<start>\d+)",
        spark=IllegalArgumentException,
    ),
    # Other writers.
    _Known("DELTA_CONCURRENT_APPEND", ConcurrentAppendException, spark=PySparkException),
    _Known("DELTA_CONCURRENT_DELETE_DELETE", ConcurrentDeleteDeleteException, spark=PySparkException),
    _Known("DELTA_CONCURRENT_DELETE_READ", ConcurrentDeleteReadException, spark=PySparkException),
    _Known("DELTA_CONCURRENT_TRANSACTION", ConcurrentTransactionException, spark=PySparkException),
    _Known("DELTA_CONCURRENT_WRITE", ConcurrentWriteException, spark=PySparkException),
    _Known("DELTA_METADATA_CHANGED", MetadataChangedException, spark=PySparkException),
    _Known("DELTA_PROTOCOL_CHANGED", ProtocolChangedException, spark=PySparkException),
    # The log, and texts.
    _Known("DELTA_VERSIONS_NOT_CONTIGUOUS", CorruptLogError, r"the log has a gap", spark=PySparkException),
    _Known(
        "UNSUPPORTED_EXPR_FOR_OPERATOR", UnsupportedExpressionError, r"uses the function `(?:max|min|sum|avg|count)`"
    ),
    _Known(
        "NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION",
        SqlSyntaxError,
        r"only the last WHEN MATCHED may be without",
        spark=ParseException,
    ),
    _Known(
        "NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION",
        SqlSyntaxError,
        r"only the last WHEN NOT MATCHED BY SOURCE may be without",
        spark=ParseException,
    ),
    _Known(
        "NON_LAST_NOT_MATCHED_BY_TARGET_CLAUSE_OMIT_CONDITION",
        SqlSyntaxError,
        r"only the last WHEN NOT MATCHED may be without",
        spark=ParseException,
    ),
    _Known(
        "PARTITION_BY_NOT_ALLOWED_WITH_INSERT_INTO",
        InvalidArgumentError,
        r"partitionBy and insertInto don't go together: the table (?P<tableName>.*) knows",
    ),
    _Known(
        "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE",
        UnsupportedExpressionError,
        r"a clustered table is arranged as a whole, without partitions: leave WHERE (?P<predicates>.*) out",
        spark=UnsupportedOperationException,
    ),
    _Known("DELTA_SCHEMA_NOT_PROVIDED", InvalidArgumentError, r"what replaces a table has columns"),
    _Known(
        "DELTA_MODE_NOT_SUPPORTED",
        InvalidArgumentError,
        r"'(?P<mode>.*)' is no kind of manifest",
        spark=IllegalArgumentException,
    ),
    _Known("PARSE_SYNTAX_ERROR", SqlSyntaxError, spark=ParseException),
)

# Other texts begin with the condition, or have it in brackets.
_NAMED = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")


class Told(NamedTuple):
    """What delta-spark says of an error: its condition, the SQL state and parameters of that, and which class PySpark raises."""

    condition: str
    sql_state: str
    parameters: dict[str, str]
    spark: type[PySparkException]


def told(error: DeltaError, doing: str) -> Told | None:
    """What delta-spark says of an error of ours that came of a statement or a method, where it has a word for it.

    >>> told(TableNotFoundError("no Delta table here", table="/lake/t"), "VACUUM delta.`/lake/t`").condition
    'DELTA_MISSING_DELTA_TABLE'
    """
    text = str(error)
    for known in _KNOWN:
        if not isinstance(error, known.kind) or not re.search(known.doing, doing):
            continue
        if known.in_folder and not os.path.isdir(re.sub("^file:/+", "/", error.table or "")):
            continue
        if (found := re.search(known.says, text)) is None:
            continue
        parameters = {name: value for name, value in found.groupdict().items() if value is not None}
        if known.location and error.table is not None:
            parameters[known.location] = error.table
        return Told(known.condition, _STATES[known.condition], parameters, known.spark)
    named = next((word for word in _NAMED.findall(text) if word in _STATES), None)
    return None if named is None else Told(named, _STATES[named], {}, PySparkException)
