"""delta-spark's error conditions for converting and cloning Parquet files.

A part of the table in `error_conditions`.
"""

from __future__ import annotations

from deltaplane.exceptions import InvalidArgumentError, SchemaMismatchError, TableNotFoundError, UnsupportedFeatureError
from deltaplane.spark.errors.known_condition import Known

__all__ = ["PARQUET"]

PARQUET = (
    Known("TABLE_OR_VIEW_NOT_FOUND", TableNotFoundError, r"catalog has no table or view (?P<relationName>`[^`]*`)"),
    Known(
        "DELTA_OPERATION_NOT_ALLOWED_DETAIL",
        InvalidArgumentError,
        r"(?P<tableName>\S+) is a view, and (?P<operation>CONVERT TO DELTA) takes",
    ),
    Known(
        "DELTA_CLONE_UNSUPPORTED_SOURCE",
        InvalidArgumentError,
        r"(?P<name>\S+) is a (?P<format>view), and SHALLOW CLONE takes",
    ),
    Known(
        "DELTA_CONVERT_NON_PARQUET_TABLE",
        InvalidArgumentError,
        r"(?P<tableId>\S+) has the format (?P<sourceName>\S+), and CONVERT TO DELTA takes",
    ),
    Known(
        "DELTA_CLONE_UNSUPPORTED_SOURCE",
        InvalidArgumentError,
        r"(?P<name>\S+) has the format (?P<format>\S+), and SHALLOW CLONE takes",
    ),
    Known(
        "DELTA_UNEXPECTED_PARTITION_SCHEMA_FROM_USER",
        InvalidArgumentError,
        r"catalog partitions \S+ by \((?P<catalogPartitionSchema>.*)\), not by \((?P<userPartitionSchema>.*)\): leave",
    ),
    Known(
        "DELTA_CONVERSION_NO_PARTITION_FOUND",
        InvalidArgumentError,
        r"catalog knows no partition of (?P<tableName>\S+),",
    ),
    Known(
        "DELTA_CONVERT_METASTORE_METADATA_MISMATCH",
        InvalidArgumentError,
        r"catalog gives \S+ the properties (?P<tableProperties>\{.*\}), and the Delta table there has (?P<configuration>\{.*\}):",
    ),
    Known(
        "PATH_NOT_FOUND",
        InvalidArgumentError,
        r"no Parquet files are in the directory",
        r"(?i)\bshallow\s+clone\b",
        "path",
    ),
    Known("DELTA_EMPTY_DIRECTORY", InvalidArgumentError, r"no Parquet files are in the directory", "", "directory"),
    Known(
        "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME",
        InvalidArgumentError,
        r"the file `(?P<path>[^`]*)` lies (?P<parsedColsSize>\d+) directories deep",
    ),
    Known(
        "DELTA_UNEXPECTED_PARTITION_COLUMN_FROM_FILE_NAME",
        InvalidArgumentError,
        r"of the file `(?P<path>[^`]*)` tells no value of the column (?P<expectedCol>\S+)",
    ),
    Known(
        "DELTA_FAILED_CAST_PARTITION_VALUE",
        InvalidArgumentError,
        r"`(?P<value>[^`]*)` in a directory's name is no value of the column \S+ (?P<dataType>\S+):",
    ),
    Known("DELTA_UNSUPPORTED_DEEP_CLONE", UnsupportedFeatureError, r"only a SHALLOW CLONE is made of Parquet files"),
    Known(
        "DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING",
        InvalidArgumentError,
        r"(?P<config>delta\.columnMapping\.mode) = (?P<mode>\S+) gives columns other names",
    ),
    Known(
        "DELTA_FAILED_TO_MERGE_FIELDS",
        SchemaMismatchError,
        r"column `(?P<currentField>[^`]*)` of \S+ is .* in the catalog and",
    ),
)
