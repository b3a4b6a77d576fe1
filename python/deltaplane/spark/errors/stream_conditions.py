"""delta-spark's error conditions for streams and the change data feed."""

from __future__ import annotations

from pyspark.errors import IllegalArgumentException, PySparkException, UnsupportedOperationException

from deltaplane.exceptions import (
    InvalidArgumentError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from deltaplane.spark.errors.known_condition import Known

__all__ = ["STREAMS"]

_READS = r"^(StreamReader|TableSource)\."

STREAMS = (
    # Options.
    Known(
        "DELTA_ILLEGAL_OPTION",
        InvalidArgumentError,
        r"the option (?P<name>\w+) is (?P<explain>a number|true or false|always).*, not '(?P<input>[^']*)'",
        _READS,
        spark=IllegalArgumentException,
    ),
    Known(
        "DELTA_REGEX_OPT_SYNTAX_ERROR",
        InvalidArgumentError,
        r"(?P<regExpOption>excludeRegex) is no regular expression",
        spark=IllegalArgumentException,
    ),
    Known(
        "DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET",
        InvalidArgumentError,
        r"give (?P<version>startingVersion) or (?P<timestamp>startingTimestamp), not both",
        _READS,
        spark=IllegalArgumentException,
    ),
    Known(
        "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS", InvalidArgumentError, r"is an option of a batch; a stream has", _READS
    ),
    Known("DELTA_READ_SOURCE_SCHEMA_CONFLICT", InvalidArgumentError, r"a Delta table knows its columns", _READS),
    # The start of a stream, and commits on the way.
    Known(
        "DELTA_VERSION_NOT_FOUND",
        VersionNotFoundError,
        r"there is no version to start with yet: the newest one is (?P<latest>\d+)",
        version="userVersion",
    ),
    Known(
        "DELTA_VERSION_NOT_FOUND",
        VersionNotFoundError,
        r"the version to start with is gone: .* before version (?P<earliest>\d+)",
        version="userVersion",
    ),
    Known(
        "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
        VersionNotFoundError,
        r"which weren't read yet, are gone",
        spark=PySparkException,
    ),
    Known(
        "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
        VersionNotFoundError,
        r"can't be rebuilt: the log starts at version",
        r"^TableSource\.",
        spark=PySparkException,
    ),
    Known(
        "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
        TableNotFoundError,
        r"another table is where the followed one was",
        spark=PySparkException,
    ),
    Known(
        "DELTA_SOURCE_IGNORE_DELETE",
        UnsupportedFeatureError,
        r"the commit deletes rows, which a reader of new rows can't show",
        "",
        "dataPath",
        UnsupportedOperationException,
        version="version",
    ),
    Known(
        "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
        UnsupportedFeatureError,
        r"the commit (?P<changeInfo>changes or replaces rows), which a reader of new rows can't show",
        "",
        "dataPath",
        UnsupportedOperationException,
        version="version",
    ),
    Known(
        "DELTA_SCHEMA_CHANGED_WITH_VERSION",
        SchemaMismatchError,
        r"the table's columns in version (?P<version>\d+) aren't those of version \d+, which rows are shown with",
        spark=PySparkException,
    ),
    Known(
        "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG",
        SchemaMismatchError,
        r"columns were renamed or dropped that rows of the stream had",
        spark=UnsupportedOperationException,
    ),
    Known(
        "DELTA_STREAMING_METADATA_EVOLUTION",
        SchemaMismatchError,
        r"DELTA_STREAMING_METADATA_EVOLUTION",
        spark=PySparkException,
    ),
    Known(
        "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION",
        SchemaMismatchError,
        r"DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION: between versions "
        r"(?P<previousSchemaChangeVersion>\d+) and (?P<currentSchemaChangeVersion>\d+) .*"
        r"\((?P<columnChangeDetails>.*?)\): see to",
        spark=PySparkException,
    ),
    Known(
        "DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT",
        InvalidArgumentError,
        r"the schema log (?P<loc>\S+) belongs to another query",
        "",
        "table",
        PySparkException,
    ),
    # The sink of a stream.
    Known(
        "DELTA_UNSUPPORTED_OUTPUT_MODE",
        InvalidArgumentError,
        r"output_mode is append or complete, not '(?P<mode>\w+)'",
        r"^StreamWriter\.",
    ),
    Known(
        "DELTA_NULL_SCHEMA_IN_STREAMING_WRITE",
        InvalidArgumentError,
        r"is of type void, which a stream can't write",
        r"^StreamWriter\.",
    ),
    # The change data feed.
    Known(
        "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA",
        SchemaMismatchError,
        r"the changes between versions (?P<start>\d+) and (?P<end>\d+) can't be shown under the columns of version "
        r"(?P<readVersion>\d+): version (?P<incompatibleVersion>\d+), with which they begin,",
        spark=UnsupportedOperationException,
    ),
    Known(
        "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE",
        SchemaMismatchError,
        r"the changes between versions (?P<start>\d+) and (?P<end>\d+) can't be shown under the columns of version "
        r"(?P<readVersion>\d+): since version (?P<incompatibleVersion>\d+)",
        spark=UnsupportedOperationException,
    ),
    Known(
        "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA",
        SchemaMismatchError,
        r"changes of version (?P<incompatibleVersion>\d+) can't be shown with the columns of version (?P<readVersion>\d+)",
        spark=UnsupportedOperationException,
    ),
    Known(
        "RESERVED_CDC_COLUMNS_ON_WRITE",
        InvalidArgumentError,
        r"the column `(?P<columnList>[^`]*)` can't be written: the table's change data feed needs its name.* set "
        r"(?P<config>[\w.]+) to false",
        spark=PySparkException,
    ),
    Known(
        "DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS",
        InvalidArgumentError,
        r"column `(?P<columnList>[^`]*)` has a name that the change data feed needs",
        spark=PySparkException,
    ),
)
