"""`df.write` and `df.writeStream` of a session with Delta tables."""

from __future__ import annotations

import functools
import uuid
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrameWriter
from pyspark.sql.streaming.readwriter import DataStreamWriter

from deltaplane import DeltaTable, _native
from deltaplane.exceptions import (
    DeltaError,
    InvalidArgumentError,
    SchemaMismatchError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)
from deltaplane.properties import CommitOperation
from deltaplane.schema import Schema
from deltaplane.spark.datasource.delta_options import (
    Options,
    column_names,
    default_properties,
    dynamic_partitions,
    merges_schema,
    number,
    schema_mode,
    transaction,
    user_metadata,
    write_operation,
)
from deltaplane.spark.datasource.file_options import BLOOM_FILTERS, file_properties
from deltaplane.spark.datasource.stream_options import flag
from deltaplane.spark.delta_api.property_rules import refuse_properties, replacing, without_features
from deltaplane.spark.errors.spark_errors import with_condition, with_spark_errors
from deltaplane.spark.execution.row_rules import relaxed
from deltaplane.spark.execution.store_cast import (
    as_table_takes,
    check_partitions,
    holds_void,
    stored_and_grown,
    stored_by_position,
    widens_columns,
)
from deltaplane.spark.jvm.catalog_entries import held_entry
from deltaplane.spark.jvm.internals import Jvm
from deltaplane.spark.jvm.location import absolute_location, split_options
from deltaplane.spark.jvm.names import (
    FORMATS,
    check_free,
    check_unused,
    default_location,
    drop_held,
    is_managed,
    located,
    other_holder,
    register_name,
)
from deltaplane.spark.jvm.schema import delta_schema_json
from deltaplane.spark.jvm.session_catalogs import full_name, open_transaction, refuse_format
from deltaplane.spark.jvm.spark_versions import check_clusters_are_ours, has_sources
from deltaplane.spark.stream.write import write_stream
from deltaplane.spark.writing.frame_writer import write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["StreamWriter", "Writer"]

# Options that batches and streams share; other options are the store's.
_FILES = frozenset(
    "path mergeschema overwriteschema usermetadata compression targetfilesize maxrecordsperfile optimizewrite".split()
) | {BLOOM_FILTERS}
_WRITE_OPTIONS = _FILES | frozenset("replacewhere txnappid txnversion partitionoverwritemode datachange".split())
# The name of a stream's sink that is a function instead of a format.
_FUNCTION = "a function"
# A stream has its own application id and versions, and decides which columns are new itself.
_STREAM_OPTIONS = _FILES | frozenset("checkpointlocation txnappid txnversion queryname".split())


@with_spark_errors
class Writer(Options, DataFrameWriter):
    """`df.write`."""

    def __init__(self, df: DataFrame) -> None:
        super().__init__(df)
        self._frame, self._format, self._options = df, None, {}
        self._how: str | None = None
        self._by: list[str] | None = None
        self._clusters: list[str] | None = None
        self._buckets: str | None = None

    def mode(self, saveMode: str | None) -> Any:
        self._how = saveMode
        return super().mode(saveMode)

    def partitionBy(self, *cols: Any) -> Any:
        self._by = column_names(cols)
        return super().partitionBy(*cols)

    def clusterBy(self, *cols: Any) -> Any:
        self._clusters = column_names(cols)
        if has_sources():
            return super().clusterBy(*cols)
        check_clusters_are_ours(self._is_ours())
        return self

    def bucketBy(self, numBuckets: int, col: Any, *cols: Any) -> Any:
        self._buckets = "bucketBy"
        return super().bucketBy(numBuckets, col, *cols)

    def sortBy(self, col: Any, *cols: Any) -> Any:
        self._buckets = self._buckets or "sortBy"
        return super().sortBy(col, *cols)

    def save(
        self,
        path: Any = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> None:
        self._take(options, format=format, mode=mode, partitionBy=partitionBy)
        if not self._is_ours():
            super().save(path)
            return
        own, _ = self._split(_WRITE_OPTIONS)
        self._write(self._path(path, own), self._how or "error", partitions_given=True)

    def saveAsTable(
        self, name: str, format: str | None = None, mode: str | None = None, partitionBy: Any = None, **options: Any
    ) -> None:
        self._take(options, format=format, mode=mode, partitionBy=partitionBy)
        spark = self._frame.sparkSession
        known = located(spark, name)
        if not self._is_saved_here(name, known):
            return
        own, _, rest = self._taken(_WRITE_OPTIONS)
        store = split_options(rest)[0]
        location = known or own.get("path") or default_location(spark, name)
        mode = (self._how or "error").lower()
        there = DeltaTable.is_deltatable(location, store)
        if known is None and "path" in own and mode in ("append", "error", "errorifexists", "default"):
            check_unused(absolute_location(location), store, even_tables=mode != "append")
        operation = None
        if not there or mode == "overwrite":
            operation = CommitOperation.definition(
                "CREATE OR REPLACE TABLE" if mode == "overwrite" else "CREATE TABLE",
                fills=True,
                managed=is_managed(spark, name, own.get("path")),
                saves_as_table=mode == "overwrite",
            )
        if there and mode == "append":
            grows = schema_mode(spark, own, mode) is not None
            self._frame = as_table_takes(self._frame, location, store, grows=grows)
        self._write(location, mode, operation, named=True)
        if known is None:
            register_name(spark, name, location, store, managed="path" not in own)

    def _is_saved_here(self, name: str, known: str | None) -> bool:
        """Whether deltaplane runs a `saveAsTable`, after dropping a table that is in the way;
        otherwise Spark has run it, or there was nothing to do. As in delta-spark, an overwrite may
        change a table's format, but an append may not."""
        spark, mode = self._frame.sparkSession, (self._how or "error").lower()
        if full_name(spark, name) is not None and self._format is None:
            return True
        if not self._is_ours():
            holds_ours = known is not None and self._format is not None
            if holds_ours and mode == "append":
                raise InvalidArgumentError(
                    f"the existing table {name} has the format delta, and the writer says {self._format}: leave the format "
                    'out, or say format("delta")',
                    table=known,
                )
            if known is not None and self._format is None:
                return True
            _check_other_format(spark, name, self._format)
            if holds_ours and mode == "overwrite":
                drop_held(spark, name, self._frame.inputFiles())
            super().saveAsTable(name)
            return False
        other = other_holder(spark, name)
        if other is None:
            return True
        if mode == "append":
            raise InvalidArgumentError(
                f"the catalog holds {other} called {name}, and the writer says delta: an append doesn't change what a table "
                "is; take another name, or overwrite it"
            )
        if mode == "overwrite":
            drop_held(spark, name, self._frame.inputFiles())
            return True
        if mode != "ignore":
            check_free(spark, name)
        return False

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:
        location = located(self._frame.sparkSession, tableName)
        if location is None:
            # The existing table determines the format, whatever the writer's format is.
            theirs = DataFrameWriter(self._frame)
            theirs = theirs if self._how is None else theirs.mode(self._how)
            theirs = theirs if self._by is None else theirs.partitionBy(*self._by)
            theirs.options(**self._options).insertInto(tableName, overwrite)
            return
        if self._by is not None:
            raise InvalidArgumentError(
                f"partitionBy and insertInto don't go together: the table {tableName} knows what it is partitioned by",
                table=location,
            )
        self._frame = self._placed(location)
        replaces = self._how == "overwrite" if overwrite is None else overwrite
        # As in delta-spark, the session's setting allows schema changes here, but no option does.
        unheard = ("overwriteschema", "mergeschema")
        self._options = {key: value for key, value in self._options.items() if key.lower() not in unheard}
        self._write(location, "overwrite" if replaces else "append")

    def _placed(self, location: str) -> DataFrame:
        """The rows in `insertInto`'s form: columns and fields of structs are matched by position.
        If the session allows schema changes, additional columns are new.

        Raises:
            InvalidArgumentError: the frame has fewer columns than the table.
            SchemaMismatchError: the frame has more columns than the table accepts.
        """
        spark, rows = self._frame.sparkSession, self._frame
        store = self._taken(_WRITE_OPTIONS)[2]
        snapshot = _native.Snapshot.open(location, split_options(store)[0])
        schema = relaxed(snapshot.schema)
        if len(rows.columns) < len(schema):
            raise InvalidArgumentError(
                f"insertInto takes columns by their places: the table has {len(schema)}, the frame {len(rows.columns)}",
                table=location,
            )
        if merges_schema(spark):
            configuration = snapshot.info.configuration
            return stored_and_grown(rows, schema, widens=widens_columns(configuration))
        if new := rows.columns[len(schema) :]:
            raise SchemaMismatchError(
                f"the frame has the columns {', '.join(new)} behind the {len(schema)} of the table: leave them out, or let the "
                "schema grow by spark.databricks.delta.schema.autoMerge.enabled (as in delta-spark insertInto doesn't follow "
                "the option mergeSchema)",
                table=location,
            )
        return stored_by_position(rows, schema)

    def _write(
        self,
        location: str,
        mode: str,
        operation: CommitOperation | None = None,
        *,
        partitions_given: bool = False,
        named: bool = False,
    ) -> None:
        own, configuration, store = self._taken(_WRITE_OPTIONS)
        if self._buckets is not None:
            raise InvalidArgumentError(
                f"a Delta table has no buckets, so {self._buckets} means nothing to it: use clusterBy or partitionBy",
                table=location,
            )
        spark = self._frame.sparkSession
        how: Any = {"errorifexists": "error", "default": "error"}.get(mode.lower(), mode.lower())
        columns = schema_mode(spark, own, how)
        if columns == "overwrite" and self._by is None:
            # A table whose columns are replaced keeps its partitions unless the write removes them
            # explicitly.
            self._by = []
        if partitions_given and columns != "overwrite" and how in ("append", "overwrite"):
            check_partitions(self._frame.columns, location, store, self._by)
        txn = transaction(spark, own)
        optional = configuration
        configuration = default_properties(spark, optional)
        matters = optional or (configuration and columns == "overwrite")
        there = bool(matters) and DeltaTable.is_deltatable(location, store)
        if optional and there:
            self._check_ignored(optional, how, saves=partitions_given, named=named)
        if optional and (how == "overwrite" or not there):
            self._check_properties(optional, creates=not there, named=named)
        selection = own.get("replacewhere") if how == "overwrite" else None
        if selection is not None:
            self._check_selection(selection, location)
        if columns == "overwrite" and there:
            # As in delta-spark, these are properties of new tables; an existing table keeps its
            # own.
            configuration = {}
        write(
            self._frame,
            location,
            mode=how,
            partition_by=self._by,
            schema_mode=columns,
            # As in delta-spark, the option has an effect only in a write that replaces rows.
            replace_where=selection,
            txn=txn,
            options=store,
            configuration=configuration,
            partition_overwrite_mode=self._dynamic(own, how),
            cluster_by=self._clusters,
            # An application's version is recorded even without rows.
            empty_commit=txn is not None,
            user_metadata=user_metadata(spark, own),
            operation=write_operation(spark, own) if operation is None else operation,
            data_change=flag(own, "datachange", "true"),
            **_of_files(own),
        )

    def _check_properties(self, properties: dict[str, str], *, creates: bool, named: bool) -> None:
        """Refuses properties among the options as delta-spark does: in a write that creates a
        table, and in one that replaces the rows of a table, which keeps its own properties."""
        columns = Schema.from_json(delta_schema_json(self._frame.schema)).fields
        checked = properties if creates else replacing(properties)
        refuse_properties(checked, columns, self._by or [], creates=named)

    def _check_selection(self, condition: str, location: str) -> None:
        """Refuses subqueries in the condition that selects the replaced rows. delta-spark ignores
        such a condition where the write creates the table, and stores rows that it doesn't select;
        the same write fails as soon as the table exists, so it is refused from the first time
        on."""
        spark = self._frame.sparkSession
        if Jvm.of(spark).reads_subquery(spark, condition):
            raise UnsupportedExpressionError(
                f"a subquery can't stand in replaceWhere (condition = {condition}): write its result instead, or DELETE the "
                "rows by a condition with the subquery, and append the new ones",
                table=location,
            )

    def _check_ignored(self, properties: dict[str, str], mode: str, *, saves: bool, named: bool) -> None:
        """Refuses unknown properties and illegal values among the options of a write to an existing
        table, which keeps its own. As in delta-spark, `save` checks them in each mode except the
        names of features, `saveAsTable` checks all where it overwrites, and `insertInto` none."""
        if saves:
            _native.check_properties(without_features(properties))
        elif named and mode == "overwrite":
            _native.check_properties(properties)

    def _taken(self, names: frozenset[str]) -> tuple[dict[str, str], dict[str, str], dict[str, str] | None]:
        """Splits options into deltaplane's, properties of a new table, and the store's."""
        own, others = self._split(names)
        properties = {key: value for key, value in (others or {}).items() if key.lower().startswith("delta.")}
        return own, properties, {key: v for key, v in (others or {}).items() if key not in properties} or None

    def _dynamic(self, own: Mapping[str, str], mode: str) -> Any:
        """Whether only partitions with new rows are replaced: the write's option, otherwise the
        session's setting."""
        if mode != "overwrite":
            return "static"
        if "partitionoverwritemode" in own:
            return own["partitionoverwritemode"].lower()
        dynamic = "replacewhere" not in own and dynamic_partitions(self._frame.sparkSession)
        return "dynamic" if dynamic else "static"


@with_spark_errors
class StreamWriter(Options, DataStreamWriter):
    """`df.writeStream`."""

    def __init__(self, df: DataFrame) -> None:
        super().__init__(df)
        self._frame, self._format, self._options = df, None, {}
        self._mode: Any = "append"
        self._name: str | None = None
        self._by: list[str] | None = None
        self._when: dict[str, Any] | None = None

    def outputMode(self, outputMode: str) -> Any:
        self._mode = outputMode.lower()
        return super().outputMode(outputMode)

    def queryName(self, queryName: str) -> Any:
        self._name = queryName
        return super().queryName(queryName)

    def partitionBy(self, *cols: Any) -> Any:
        self._by = column_names(cols)
        return super().partitionBy(*cols)

    def trigger(self, **trigger: Any) -> Any:
        self._when = trigger
        return super().trigger(**trigger)

    def foreach(self, f: Any) -> Any:
        self._format = _FUNCTION
        return super().foreach(f)

    def foreachBatch(self, func: Callable[[DataFrame, int], None]) -> Any:
        # As in Spark, the last call decides between a format and a function.
        self._format = _FUNCTION

        @functools.wraps(func)
        def named(batch: DataFrame, number: int) -> None:
            try:
                func(batch, number)
            except DeltaError as e:
                # Users see only the text of an error that ends the query, and delta-spark's text
                # contains the condition.
                raise with_condition(e, "StreamWriter.foreachBatch") from e

        return super().foreachBatch(named)

    def start(
        self,
        path: Any = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: Any = None,
        queryName: str | None = None,
        **options: Any,
    ) -> Any:
        self._take(options, format=format, outputMode=outputMode, partitionBy=partitionBy, queryName=queryName)
        if not self._is_ours():
            return super().start(path)
        return self._start(self._path(path, self._split(_STREAM_OPTIONS)[0]))

    def toTable(
        self,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: Any = None,
        queryName: str | None = None,
        **options: Any,
    ) -> Any:
        self._take(options, format=format, outputMode=outputMode, partitionBy=partitionBy, queryName=queryName)
        spark = self._frame.sparkSession
        known = located(spark, tableName)
        own = full_name(spark, tableName)
        if own is not None and open_transaction(spark) is not None:
            raise UnsupportedFeatureError(
                f"a stream to {own} can't start within a transaction, whose end it would outlive: COMMIT or ROLLBACK first"
            )
        if not self._is_ours() and known is None and (own is None or self._format is not None):
            _check_other_format(spark, tableName, self._format)
            return super().toTable(tableName)
        self._check_format(tableName, known)
        path = self._options.get("path")
        location = known or path or default_location(spark, tableName)
        if known is None:
            if not DeltaTable.is_deltatable(location):
                # Registers the columns in the catalog.
                empty = spark.createDataFrame([], self._frame.schema)
                operation = CommitOperation.definition("CREATE TABLE", fills=False, managed=path is None)
                properties = default_properties(spark) or None
                write(
                    empty,
                    location,
                    partition_by=self._by,
                    all_nullable=True,
                    operation=operation,
                    configuration=properties,
                )
            register_name(spark, tableName, location, managed=path is None)
        return self._start(location)

    def _check_format(self, name: str, known: str | None) -> None:
        """Refuses to write a stream in one format to a table of another format."""
        spark = self._frame.sparkSession
        held = None if known is not None or full_name(spark, name) is not None else held_entry(spark, name)
        has = "delta" if known is not None else None if held is None or held[0].lower() in FORMATS else held[0]
        says = "delta" if self._is_ours() else self._format
        if has is not None and says not in (has, None):
            raise InvalidArgumentError(
                f"what the catalog holds as {name} has the format {has}, and the stream says {says}: take another name, or "
                f'format("{has}")',
                table=known,
            )

    def _start(self, location: str) -> Any:
        own, others = self._split(_STREAM_OPTIONS)
        # As in delta-spark, a stream can't set table properties.
        store = {key: value for key, value in (others or {}).items() if not key.lower().startswith("delta.")} or None
        spark = self._frame.sparkSession
        checkpoint = own.get("checkpointlocation") or self._default_checkpoint()
        if checkpoint is None:
            raise InvalidArgumentError('a stream needs .option("checkpointLocation", …), its own alone', table=location)
        has = {name.lower() for name in self._frame.columns}
        if lacking := [name for name in self._by or () if name.lower() not in has]:
            raise InvalidArgumentError(
                f"no column {lacking[0]} to partition by among {', '.join(self._frame.columns)}", table=location
            )
        if void := [field.name for field in self._frame.schema.fields if holds_void(field.dataType)]:
            raise InvalidArgumentError(
                f"the column `{void[0]}` is of type void, which a stream can't write: cast it, or leave it out",
                table=location,
            )
        columns = schema_mode(spark, own, "overwrite" if self._mode == "complete" else "append")
        if columns != "overwrite":
            check_partitions(self._frame.columns, location, store)
        return write_stream(
            self._frame,
            location,
            checkpoint,
            self._mode,
            self._by,
            columns == "merge",
            self._when,
            self._name,
            store,
            user_metadata(spark, own),
            each={
                **_of_files(own),
                **({"schema_mode": columns} if columns == "overwrite" else {}),
                # As in delta-spark, a query creates its table and makes its versions even without
                # rows.
                "empty_commit": True,
                "configuration": default_properties(spark) or None,
            },
        )

    def _default_checkpoint(self) -> str | None:
        """The session's directory for the checkpoints of queries."""
        root = self._frame.sparkSession.conf.get("spark.sql.streaming.checkpointLocation", None)
        return None if root is None else f"{root.rstrip('/')}/{self._name or uuid.uuid4()}"


def _check_other_format(spark: SparkSession, name: str, format: str | None) -> None:
    """Refuses to create a table of another format in one of the session's other catalogs.

    Raises:
        UnsupportedFeatureError: such a name.
    """
    own = full_name(spark, name)
    if own is not None:
        refuse_format(own, format, said_by="the writer", advice="leave the format out, or write to spark_catalog")


def _of_files(own: Mapping[str, str]) -> dict[str, Any]:
    """Options for files and for a new table's columns, as arguments of `write`."""
    return {
        # As in delta-spark, a frame without nulls doesn't promise that later rows have none.
        "all_nullable": True,
        "target_file_size": number(own, "targetFileSize") if "targetfilesize" in own else None,
        "max_records_per_file": number(own, "maxRecordsPerFile") if "maxrecordsperfile" in own else None,
        "writer_properties": file_properties(own),
        "optimize_write": flag(own, "optimizewrite") if "optimizewrite" in own else None,
    }
