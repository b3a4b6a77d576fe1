"""The names that Delta's users know, on one Spark session: `format("delta")`, names of tables, `spark.sql`.

Python's side of the session takes them; there is no plug-in in the JVM. Called by users, as `deltaplane.spark.enable`.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, DataFrameReader, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from deltaplane import DeltaTable, WriterProperties
from deltaplane import spark as dp
from deltaplane.exceptions import DeltaError, InvalidArgumentError, SqlSyntaxError, UnsupportedFeatureError
from deltaplane.options import VersionLike
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.sources import Catalog
from deltaplane.spark._errors import as_analysis, told_as_spark
from deltaplane.spark._internals import delta_jar, is_connect
from deltaplane.spark._moments import moment
from deltaplane.spark._names import FORMATS, default_location, held_location, path_of, register_name
from deltaplane.spark._stream_options import STREAM_OPTIONS
from deltaplane.spark._writer_v2 import WriterV2
from deltaplane.spark_created import CreatedTable, is_path, name_at
from deltaplane.statements import command_of
from deltaplane.statements.on_spark import on_spark
from deltaplane.statements.select import Selection
from deltaplane.statements.statement import Session

__all__ = ["disable", "enable", "sql"]

_enabled: weakref.WeakSet[SparkSession] = weakref.WeakSet()
# What was there before the first `enable`, to be called for everything else.
_originals: dict[tuple[type, str], Any] = {}

_NOTHING = object()
# What isn't looked into, and parameters of a statement; a colon right behind a column begins a path into it.
_PARAMETER = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/|(?<![\w`:]):(?P<name>[A-Za-z_]\w*)|\?""",
    re.DOTALL,
)
# A frame by keyword.
_FRAME = re.compile(r"\{\w+\}")

_FEED = {
    "readchangefeed": None,
    "startingversion": "starting_version",
    "endingversion": "ending_version",
    "startingtimestamp": "starting_timestamp",
    "endingtimestamp": "ending_timestamp",
}
# Options of a batch write that this version doesn't have: what to do instead.
_NOT_WRITTEN = {
    "datachange": "",
    "maxrecordsperfile": "give targetFileSize",
}
# Words of a statement behind which the name of a table stands.
_BEFORE_NAMES = frozenset(
    "from join into update table using describe desc detail history optimize full vacuum restore clone".split()
)
# A statement on no table yet.
_CONVERTS = ["convert", "to", "delta"]


def enable(spark: SparkSession) -> None:
    """From now on this session's familiar names for Delta tables take deltaplane's native paths; `disable` undoes it.

    These do: `spark.read` and `spark.readStream` with `format("delta")` (or `"deltaplane"`), `df.write` and
    `df.writeStream` with it, `df.writeTo`, `saveAsTable` and `toTable`, `spark.table`, and `spark.sql` as of `sql`. Names of tables stand
    in Spark's own catalog, as tables of the format `deltaplane` at a location; dropping one leaves its files.

    Without a plug-in in the JVM these can't: SQL that doesn't go through `spark.sql` of this session (JDBC, `%sql` of some
    notebooks, `F.expr` on names), and programs in Scala.

    Raises:
        UnsupportedFeatureError: a Spark Connect session, where `register` gives the format `deltaplane`; or a session with
            delta-spark's jar, whose names these are.

    >>> from deltaplane import spark as dp
    >>> dp.enable(spark)
    >>> spark.range(3).write.format("delta").save("numbers")
    >>> spark.sql("DELETE FROM delta.`numbers` WHERE id = 1").select("num_affected_rows").collect()
    [Row(num_affected_rows=1)]
    >>> spark.read.format("delta").option("versionAsOf", 0).load("numbers").count(), spark.table("delta.`numbers`").count()
    (3, 2)
    >>> dp.disable(spark)
    """
    if is_connect(spark):
        raise UnsupportedFeatureError(
            "enable needs a classic session: on Spark Connect call register(spark) and use the format deltaplane, or "
            "deltaplane.spark.read and write"
        )
    if delta_jar(spark):
        raise UnsupportedFeatureError(
            'this session has delta-spark\'s jar, which holds the name "delta": start it without the jar and its '
            "extensions, or use the format deltaplane and the functions of deltaplane.spark beside it"
        )
    dp.register(spark)
    _enabled.add(spark)
    if not _originals:
        _patch()


def disable(spark: SparkSession) -> None:
    """Gives the names of this session back to Spark; does nothing where they weren't taken."""
    _enabled.discard(spark)
    if not _enabled:
        for (owner, name), original in _originals.items():
            setattr(owner, name, original)
        _originals.clear()


def sql(spark: SparkSession, text: str) -> DataFrame:
    """Runs a statement in Spark SQL: one that names Delta tables natively, any other one by Spark.

    Delta tables are written as delta.`their location`, with `VERSION AS OF` or `TIMESTAMP AS OF` behind them, or by a name of
    Spark's catalog, in up to three parts, under which `saveAsTable` or CREATE TABLE … USING delta made one. Of such tables every
    statement of `deltaplane.sql` runs: queries are Spark's, others give what `deltaplane.sql` gives, as a frame. A new table
    without a LOCATION is where Spark puts tables of its database; one with nothing else takes the table that is there.

    Raises:
        UnsupportedFeatureError: a statement on a Delta table that this version doesn't have, by name; a Spark Connect session.
        SqlSyntaxError, DeltaError, PySparkException: as `deltaplane.sql`, or as Spark.

    >>> from deltaplane import spark as dp
    >>> _ = dp.write(spark.range(3), "numbers")
    >>> dp.sql(spark, "SELECT sum(id) AS total FROM delta.`numbers` VERSION AS OF 0").collect()
    [Row(total=3)]
    """
    if is_connect(spark):
        raise UnsupportedFeatureError(
            "deltaplane.spark.sql needs a classic session: deltaplane.sql(text, spark=spark) brings the rows here"
        )
    names = _tables_in(spark, text)
    if names is None:
        return _of_spark(spark, text)
    catalog = Catalog(names)
    command = command_of(text, own_queries=False)
    if isinstance(command, Selection):
        # Spark analyses the text at once: the views behind it may go.
        with on_spark(_Original(spark), command.cursor, 0, catalog) as frame:
            return frame
    made = CreatedTable.of(spark, Grammar(text, own_queries=False))
    if made is None:
        return spark.createDataFrame(command.run(Session(catalog, spark)))
    made.check(spark, command)
    done = command.run(Session(catalog, spark))
    made.hold(spark, command)
    return spark.createDataFrame(done)


class _Original:
    """A session whose `sql` is Spark's own."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def sql(self, text: str) -> DataFrame:
        return _of_spark(self._spark, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)


def _of_spark(spark: SparkSession, text: str, *args: Any, **kwargs: Any) -> DataFrame:
    run = _originals.get((SparkSession, "sql"), SparkSession.sql)
    frame: DataFrame = run(spark, text, *args, **kwargs)
    return frame


def _tables_in(spark: SparkSession, text: str) -> dict[str, str] | None:
    """The names of the catalog's Delta tables in a statement, with their locations; None where it names no Delta table."""
    try:
        cursor = Grammar(text, own_queries=False)
    except SqlSyntaxError:
        return None
    tokens, found = cursor.tokens, dict[str, str]()
    words = [token.text.lower() for token in tokens]
    by_path = words[:3] == _CONVERTS
    # Behind the first FROM a comma too may stand before a table.
    begins = words.index("from") if "from" in words else len(words)
    for at in range(1, len(tokens)):
        named = words[at - 1] in _BEFORE_NAMES or (words[at - 1] in (",", "(") and at > begins)
        if not named or tokens[at].kind not in ("name", "quoted"):
            continue
        parts = name_at(cursor, at)
        if is_path(parts):
            by_path = True
        elif (location := held_location(spark, ".".join(parts))) is not None:
            found[".".join(part.strip("`") for part in parts)] = location
    if words[:1] == ["drop"] and not by_path:
        # The name is the catalog's; the table stays.
        return None
    if (made := CreatedTable.of(spark, cursor)) is not None:
        found[made.key] = made.location
    return found if found or by_path else None


def _locate(spark: SparkSession, name: str) -> str | None:
    return path_of(name) or held_location(spark, name)


class _Options:
    """Format and options as a user gives them; Spark is told too, in case that the format isn't ours."""

    _format: str | None
    _given: dict[str, str]

    def format(self, source: str) -> Any:
        self._format = source.lower()
        return super().format(source)  # type: ignore[misc]

    def option(self, key: str, value: Any) -> Any:
        if value is not None:
            self._given[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return super().option(key, value)  # type: ignore[misc]

    def options(self, **options: Any) -> Any:
        for key, value in options.items():
            self.option(key, value)
        return self

    def _is_ours(self) -> bool:
        return self._format in FORMATS

    def _split(self, own: frozenset[str]) -> tuple[dict[str, str], dict[str, str] | None]:
        """The options of ours, in lower case, and those for the store."""
        mine = {key.lower(): value for key, value in self._given.items() if key.lower() in own}
        return mine, {key: value for key, value in self._given.items() if key.lower() not in own} or None

    def _path(self, path: Any, own: Mapping[str, str]) -> str:
        found = path if path is not None else own.get("path")
        if found is None:
            raise InvalidArgumentError('the format "delta" needs a path, or the name of a table')
        return str(found)


@told_as_spark
class _Loading(_Options):
    """What both readers do before they read."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)  # type: ignore[call-arg]
        self._session, self._format, self._given = spark, None, {}

    def load(self, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> DataFrame:
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)  # type: ignore[attr-defined]
        self.options(**options)
        if self._is_ours():
            return self._loaded(path)
        frame: DataFrame = super().load(path)  # type: ignore[misc]
        return frame

    def _loaded(self, path: Any) -> DataFrame:
        """The rows of a table of ours."""
        raise NotImplementedError


@told_as_spark
class _Reader(_Loading, DataFrameReader):
    """`spark.read`."""

    def _loaded(self, path: Any) -> DataFrame:
        own = self._split(frozenset({"path"}))[0]
        return self._read(self._path(path, own))

    def schema(self, schema: Any) -> Any:
        if self._is_ours():
            raise InvalidArgumentError("a Delta table knows its columns: leave schema() out, and select() some of them")
        return super().schema(schema)

    def table(self, tableName: str) -> DataFrame:
        location = _locate(self._session, tableName)
        return super().table(tableName) if location is None else self._read(location)

    def _read(self, location: str) -> DataFrame:
        own, store = self._split(frozenset({"path", "versionasof", "timestampasof", *_FEED}))
        version, timestamp = own.get("versionasof"), own.get("timestampasof")
        if version is not None and not version.isdecimal():
            raise InvalidArgumentError(f"versionAsOf is a number, not {version!r}")
        if own.get("readchangefeed") == "true":
            bounds: dict[str, Any] = {
                argument: int(own[name]) if name.endswith("version") else own[name]
                for name, argument in _FEED.items()
                if argument is not None and name in own
            }
            return dp.read_changes(self._session, location, options=store, **bounds)
        at: VersionLike | None = None if timestamp is None else moment(self._session, timestamp)
        return dp.read(self._session, location, None if version is None else int(version), at, store)


@told_as_spark
class _StreamReader(_Loading, DataStreamReader):
    """`spark.readStream`."""

    def _loaded(self, path: Any) -> DataFrame:
        own, store = self._split(frozenset({"path", *STREAM_OPTIONS}))
        location = self._path(path, own)
        own.pop("path", None)
        return dp.read_stream(self._session, location, store, **own)

    def table(self, tableName: str) -> DataFrame:
        location = _locate(self._session, tableName)
        return super().table(tableName) if location is None else self.format("delta").load(location)


_WRITE_OPTIONS = frozenset(
    "path mergeschema overwriteschema replacewhere txnappid txnversion usermetadata compression targetfilesize "
    "optimizewrite partitionoverwritemode".split()
)


@told_as_spark
class _Writer(_Options, DataFrameWriter):
    """`df.write`."""

    def __init__(self, df: DataFrame) -> None:
        super().__init__(df)
        self._frame, self._format, self._given = df, None, {}
        self._how: str | None = None
        self._by: list[str] | None = None
        self._clusters: list[str] | None = None

    def mode(self, saveMode: str | None) -> Any:
        self._how = saveMode
        return super().mode(saveMode)

    def partitionBy(self, *cols: Any) -> Any:
        self._by = [*cols[0]] if len(cols) == 1 and isinstance(cols[0], (list, tuple)) else list(cols)
        return super().partitionBy(*cols)

    def clusterBy(self, *cols: Any) -> Any:
        self._clusters = [*cols[0]] if len(cols) == 1 and isinstance(cols[0], (list, tuple)) else list(cols)
        return super().clusterBy(*cols)

    def save(
        self,
        path: Any = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> None:
        self._take(format, mode, partitionBy, options)
        if not self._is_ours():
            super().save(path)
            return
        own, _ = self._split(_WRITE_OPTIONS)
        self._write(self._path(path, own), self._how or "error")

    def saveAsTable(
        self, name: str, format: str | None = None, mode: str | None = None, partitionBy: Any = None, **options: Any
    ) -> None:
        self._take(format, mode, partitionBy, options)
        spark = self._frame.sparkSession
        known = _locate(spark, name)
        if known is None and not self._is_ours():
            super().saveAsTable(name)
            return
        own, store = self._split(_WRITE_OPTIONS)
        location = known or own.get("path") or default_location(spark, name)
        self._write(location, self._how or "error")
        if known is None:
            register_name(spark, name, location, store)

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:
        location = _locate(self._frame.sparkSession, tableName)
        if location is None:
            super().insertInto(tableName, overwrite)
            return
        table = dp.read(self._frame.sparkSession, location)
        if len(table.columns) != len(self._frame.columns):
            raise InvalidArgumentError(
                f"insertInto takes columns by their places: the table has {len(table.columns)}, the frame "
                f"{len(self._frame.columns)}",
                table=location,
            )
        replaces = self._how == "overwrite" if overwrite is None else overwrite
        self._frame = self._frame.toDF(*table.columns)
        self._write(location, "overwrite" if replaces else "append")

    def _take(self, format: str | None, mode: str | None, by: Any, options: Mapping[str, Any]) -> None:
        if format is not None:
            self.format(format)
        if mode is not None:
            self.mode(mode)
        if by is not None:
            self.partitionBy(by)
        self.options(**options)

    def _write(self, location: str, mode: str) -> None:
        for key in self._given:
            if key.lower() in _NOT_WRITTEN:
                advice = _NOT_WRITTEN[key.lower()]
                raise UnsupportedFeatureError(
                    f"this version has no option {key}{advice and ': ' + advice}", table=location
                )
        own, others = self._split(_WRITE_OPTIONS)
        configuration = {key: value for key, value in (others or {}).items() if key.lower().startswith("delta.")}
        store = {key: value for key, value in (others or {}).items() if key not in configuration} or None
        how: Any = {"errorifexists": "error", "default": "error"}.get(mode.lower(), mode.lower())
        schema_mode: Any = "overwrite" if own.get("overwriteschema") == "true" else None
        if schema_mode is None and own.get("mergeschema") == "true":
            schema_mode = "merge"
        if ("txnappid" in own) != ("txnversion" in own):
            raise InvalidArgumentError("txnAppId and txnVersion go together")
        dp.write(
            self._frame,
            location,
            mode=how,
            partition_by=self._by,
            schema_mode=schema_mode,
            replace_where=own.get("replacewhere"),
            txn=(own["txnappid"], int(own["txnversion"])) if "txnappid" in own else None,
            options=store,
            user_metadata=own.get("usermetadata"),
            configuration=configuration,
            target_file_size=int(own["targetfilesize"]) if "targetfilesize" in own else None,
            writer_properties=WriterProperties(compression=own.get("compression")),
            partition_overwrite_mode=self._dynamic(own, how),
            cluster_by=self._clusters,
            optimize_write=own["optimizewrite"].lower() == "true" if "optimizewrite" in own else None,
        )

    def _dynamic(self, own: Mapping[str, str], mode: str) -> Any:
        """Whether only partitions that rows are written to are replaced: the option says it, else the session."""
        if "partitionoverwritemode" in own:
            return own["partitionoverwritemode"].lower()
        told = self._frame.sparkSession.conf.get("spark.sql.sources.partitionOverwriteMode", "static") or "static"
        replaces_all = mode != "overwrite" or "replacewhere" in own or own.get("overwriteschema") == "true"
        return "static" if replaces_all else told.lower()


@told_as_spark
class _StreamWriter(_Options, DataStreamWriter):
    """`df.writeStream`."""

    def __init__(self, df: DataFrame) -> None:
        super().__init__(df)
        self._frame, self._format, self._given = df, None, {}
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
        self._by = [*cols[0]] if len(cols) == 1 and isinstance(cols[0], (list, tuple)) else list(cols)
        return super().partitionBy(*cols)

    def trigger(self, **trigger: Any) -> Any:
        self._when = trigger
        return super().trigger(**trigger)

    def start(
        self,
        path: Any = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: Any = None,
        queryName: str | None = None,
        **options: Any,
    ) -> Any:
        self._take(format, outputMode, partitionBy, queryName, options)
        if not self._is_ours():
            return super().start(path)
        return self._start(self._path(path, self._split(frozenset({"path"}))[0]))

    def toTable(
        self,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: Any = None,
        queryName: str | None = None,
        **options: Any,
    ) -> Any:
        self._take(format, outputMode, partitionBy, queryName, options)
        spark = self._frame.sparkSession
        known = _locate(spark, tableName)
        if known is None and not self._is_ours():
            return super().toTable(tableName)
        location = known or self._given.get("path") or default_location(spark, tableName)
        if known is None:
            if not DeltaTable.is_deltatable(location):
                # The catalog is told its columns.
                dp.write(spark.createDataFrame([], self._frame.schema), location, partition_by=self._by)
            register_name(spark, tableName, location)
        return self._start(location)

    def _take(
        self, format: str | None, mode: str | None, by: Any, name: str | None, options: Mapping[str, Any]
    ) -> None:
        if format is not None:
            self.format(format)
        if mode is not None:
            self.outputMode(mode)
        if by is not None:
            self.partitionBy(by)
        if name is not None:
            self.queryName(name)
        self.options(**options)

    def _start(self, location: str) -> Any:
        own, store = self._split(frozenset({"path", "checkpointlocation", "mergeschema", "usermetadata"}))
        if "checkpointlocation" not in own:
            raise InvalidArgumentError('a stream needs .option("checkpointLocation", …), its own alone', table=location)
        return dp.write_stream(
            self._frame,
            location,
            own["checkpointlocation"],
            self._mode,
            self._by,
            own.get("mergeschema") == "true",
            self._when,
            self._name,
            store,
            own.get("usermetadata"),
        )


def _patch() -> None:
    """Puts the names into PySpark's classes; sessions that aren't enabled get what was there."""
    from pyspark.sql.classic.dataframe import DataFrame as Frames

    def instead(owner: type, name: str, ours: Any, session: Any) -> None:
        original = owner.__dict__[name]
        _originals[owner, name] = original
        if isinstance(original, property):
            assert original.fget is not None
            theirs = original.fget
            chosen = property(lambda self: (ours if session(self) in _enabled else theirs)(self))
            setattr(owner, name, chosen)
            return

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return (ours if session(self) in _enabled else original)(self, *args, **kwargs)

        setattr(owner, name, method)

    instead(SparkSession, "read", _Reader, lambda spark: spark)
    instead(SparkSession, "readStream", _StreamReader, lambda spark: spark)
    instead(SparkSession, "sql", _sql, lambda spark: spark)
    instead(SparkSession, "table", lambda spark, name: _Reader(spark).table(name), lambda spark: spark)
    instead(Frames, "write", _Writer, lambda frame: frame.sparkSession)
    instead(Frames, "writeTo", WriterV2, lambda frame: frame.sparkSession)
    instead(Frames, "writeStream", _StreamWriter, lambda frame: frame.sparkSession)


def _sql(spark: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:
    try:
        if not args and not kwargs:
            return sql(spark, sqlQuery)
        text = _with_values(sqlQuery, args or {})
        if _tables_in(spark, _FRAME.sub("frame", text)) is None:
            return _of_spark(spark, sqlQuery, args, **kwargs)
        if kwargs:
            raise UnsupportedFeatureError(
                "a statement on Delta tables takes no frames by keyword: make temp views of them, and give values as args"
            )
        return sql(spark, text)
    except DeltaError as e:
        raise as_analysis(e) from None


def _with_values(text: str, args: Mapping[str, Any] | Sequence[Any]) -> str:
    """A statement with its parameters' values in its text: `:name` of a dict, or `?` of a list."""
    waiting = iter(() if isinstance(args, Mapping) else args)

    def bound(found: re.Match[str]) -> str:
        name = found["name"]
        if isinstance(args, Mapping):
            return _literal(args[name]) if name in args else found[0]
        if found[0] != "?":
            return found[0]
        value = next(waiting, _NOTHING)
        if value is _NOTHING:
            raise InvalidArgumentError("the statement has more parameters than values were given")
        return _literal(value)

    return _PARAMETER.sub(bound, text)


def _literal(value: Any) -> str:
    """A value as Spark writes it in SQL."""
    column = value if isinstance(value, Column) else F.lit(value)
    text = str(column._jc.node().sql())
    return text if isinstance(value, str) or text.isalnum() else f"({text})"
