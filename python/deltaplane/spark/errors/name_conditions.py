"""delta-spark's error conditions for names and paths without a Delta table."""

from __future__ import annotations

from pyspark.errors import PySparkException

from deltaplane.exceptions import (
    InvalidArgumentError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from deltaplane.spark.errors.known_condition import Known

__all__ = ["NAMES"]

_CHANGES = r"(?i)\btable_changes(_by_path)?\s*\("
# Matches an operation that is a statement, not a method of a class.
_STATEMENT = r"^(?!\w+\.\w+$)"
# Matches a table's name of `delta.` and a path that isn't absolute.
_RELATIVE = r"\b(from|join|update|into|overwrite|using|table)\s+delta\.(`(?!/|[\w+.-]+:)|[^`])"
_VIEW = r"(?P<viewName>`[^`]*`) is a view"
_OTHER = r"(?P<tableName>`[^`]*`) is a table of the format \S+ and no Delta table"

NAMES = (
    # The change data feed.
    Known(
        "DELTA_TABLE_ONLY_OPERATION",
        TableNotFoundError,
        r"`(?P<tableName>[^`]*)` is (?:a view|no Delta table: its)",
        _CHANGES,
    ),
    Known("TABLE_OR_VIEW_NOT_FOUND", TableNotFoundError, r"catalog has no table (?P<relationName>`[^`]*`)", _CHANGES),
    Known("DELTA_MISSING_DELTA_TABLE", TableNotFoundError, r"no Delta table here", _CHANGES, "tableName"),
    Known(
        "INCORRECT_NUMBER_OF_ARGUMENTS", InvalidArgumentError, r"(?P<functionName>\w+) takes a table, where", _CHANGES
    ),
    Known(
        "DELTA_UNSUPPORTED_EXPRESSION",
        InvalidArgumentError,
        r"for where changes begin and end, not the (?P<expType>\w+)",
        _CHANGES,
    ),
    Known(
        "DELTA_LOG_FILE_NOT_FOUND",
        InvalidArgumentError,
        r"versions count from 0: (?P<version>-\d+) isn't one",
        _CHANGES,
        "logPath",
        spark=PySparkException,
    ),
    # Names of the catalog.
    Known("TABLE_OR_VIEW_NOT_FOUND", TableNotFoundError, r"catalog has no table (?P<relationName>`[^`]*`)", _STATEMENT),
    Known("TABLE_OR_VIEW_NOT_FOUND", InvalidArgumentError, r"no table is called (?P<relationName>`[^`]*`)", _STATEMENT),
    Known(
        "DELTA_MISSING_DELTA_TABLE",
        TableNotFoundError,
        r"(?P<tableName>`[^`]*`) is (?:a view|no Delta table: its)",
        r"^\w+\.\w+$",
    ),
    Known(
        "DELTA_UNSUPPORTED_SOURCE",
        TableNotFoundError,
        r"is a view that the catalog keeps, and (?P<operation>\w+) changes",
    ),
    Known("DELTA_CLONE_UNSUPPORTED_SOURCE", TableNotFoundError, r"(?P<name>`[^`]*`) is a view, which can't be cloned"),
    Known("DELTA_OPERATION_NOT_ALLOWED_DETAIL", TableNotFoundError, rf"{_VIEW}, and (?P<operation>CONVERT TO DELTA)"),
    Known("DELTA_ONLY_OPERATION", TableNotFoundError, rf"{_VIEW}, and (?P<operation>RESTORE) takes"),
    Known("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", TableNotFoundError, rf"{_VIEW}, and (?P<operation>.*) takes"),
    Known("DELTA_NOT_A_DELTA_TABLE", TableNotFoundError, rf"{_OTHER}, and REORG"),
    Known(
        "TABLE_OR_VIEW_NOT_FOUND",
        TableNotFoundError,
        r"(?P<relationName>`[^`]*`) is a table of the format .*, and RESTORE",
    ),
    Known(
        "DELTA_IDENTITY_COLUMNS_ALTER_NON_DELTA_FORMAT",
        TableNotFoundError,
        rf"{_OTHER}, and ALTER TABLE … SYNC IDENTITY",
        spark=PySparkException,
    ),
    Known("DELTA_ONLY_OPERATION", TableNotFoundError, rf"{_OTHER}, and (?P<operation>.*) takes"),
    Known(
        "INVALID_SCHEMA_OR_RELATION_NAME",
        InvalidArgumentError,
        r"(?P<name>\S.*) is no name of a table in Spark's catalog",
    ),
    Known(
        "REQUIRES_SINGLE_PART_NAMESPACE", UnsupportedFeatureError, r"only Spark's own catalog, and those that enable"
    ),
    Known(
        "DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION",
        TableNotFoundError,
        r"no Delta table here.*@v(?P<historicalVersion>\d+)\]",
        r"(?is)^\s*(insert|update|delete|merge)\b",
    ),
    Known(
        "DELTA_INVALID_PARTITION_PATH",
        InvalidArgumentError,
        r"names no partition of the form column=value: (?P<path>[^\[]*[^\[ ])",
    ),
    Known(
        "DELTA_NON_PARTITION_COLUMN_SPECIFIED",
        InvalidArgumentError,
        r"that isn't partitioned by (?P<columnList>`[^`]*`): (?P<fragment>[^\[]*[^\[ ])",
    ),
    # Paths. A path that isn't absolute is no path in delta-spark.
    Known(
        "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY",
        InvalidArgumentError,
        r"a table's location is a path or URL .*, not ''",
    ),
    Known(
        "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY",
        TableNotFoundError,
        r"no Delta table here",
        rf"(?is)^\s*(?=select|with|from|table|update|delete|merge)(.*\s)?{_RELATIVE}",
    ),
    Known(
        "TABLE_OR_VIEW_NOT_FOUND",
        TableNotFoundError,
        r"no Delta table here",
        rf"(?is)^\s*(insert|alter|truncate)\s+{_RELATIVE}",
    ),
    Known("DELTA_TABLE_ONLY_OPERATION", TableNotFoundError, r"", r"""(?i)^\s*(optimize|vacuum)\s+['"]""", "tableName"),
    Known("DELTA_ONLY_OPERATION", TableNotFoundError, r"", r"(?i)^\s*reorg\b"),
    Known(
        "DELTA_TABLE_ALREADY_EXISTS",
        InvalidArgumentError,
        r"a table can't be cloned onto itself",
        r"(?i)^\s*create\s+table\b",
        "tableName",
    ),
    Known(
        "DELTA_TABLE_ALREADY_EXISTS", TableAlreadyExistsError, r"or clone to", r"(?i)\bclone\b.*(?<!`)$", "tableName"
    ),
)
