"""Accesses Spark's internal JVM classes: only this module and `java_sources` name them, and a
probe checks that they have the expected form.

Doesn't access tables.
"""

from __future__ import annotations

import logging
import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeAlias

from deltaplane.spark.errors.refusals import come_back
from deltaplane.spark.jvm import java_sources as _java
from deltaplane.spark.jvm.callbacks import start_callbacks
from deltaplane.spark.jvm.places import FILE, ROW, ROW_ID, Places
from deltaplane.spark.jvm.schema import quoted
from deltaplane.spark.jvm.spark_versions import SUPPORTED, for_version, is_supported, refuse_unread
from deltaplane.spark.jvm.statistics import Condition

__all__ = [
    "CATALOG",
    "DELTA_CATALOG",
    "SUPPORTED",
    "UNITY_CATALOG",
    "Jvm",
    "NativeScanUnavailable",
    "arrow_schema",
    "delta_jar",
    "in_own_catalog",
    "is_connect",
    "is_on",
    "items",
    "let_go_of_catalog",
    "session_settings",
    "spark_schema",
]

_log = logging.getLogger(__name__)

# Spark versions whose streaming internals were tested; other versions stream through the data
# source.
STREAMS_SUPPORTED = SUPPORTED

_SOURCES = "org.apache.spark.sql.execution.datasources."
_EXECUTION = "org.apache.spark.sql.execution.streaming."
_STREAMS = "org.apache.spark.sql.connector.read.streaming."
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_CATALOG = "org.apache.spark.sql.catalyst.catalog."
# Types whose values can be out of range, and what holds such.
_OVERFLOWS = re.compile(r"int|decimal")
_CLASSES = {
    "alias": _EXPRESSIONS + "Alias",
    "array_list": "java.util.ArrayList",
    "bit_set": "org.apache.spark.unsafe.bitset.BitSetMethods",
    "cast": _EXPRESSIONS + "Cast",
    "data_type": "org.apache.spark.sql.types.DataType",
    "hash_map": "java.util.HashMap",
    "object": "java.lang.Object",
    "option": "scala.Option",
    "platform": "org.apache.spark.unsafe.Platform",
    "python_utils": "org.apache.spark.api.python.PythonUtils",
    "string": "java.lang.String",
    "up_cast": _EXPRESSIONS + "UpCast",
    "check_overflow": _EXPRESSIONS + "CheckOverflowInTableInsert",
}
# Scala objects with the name of a trait, whose methods therefore need an instance.
_OBJECTS = {
    "dataset": "org.apache.spark.sql.classic.Dataset",
    "eval_mode": _EXPRESSIONS + "EvalMode",
    "subqueries": _EXPRESSIONS + "SubqueryExpression",
}
# Physical operators whose plans contain the number of tasks.
_SCANS = {"FileSourceScanExec", "LocalTableScanExec", "RangeExec", "RDDScanExec", "ExternalRDDScanExec"}
_DELTA = "org.apache.spark.sql.delta.sources.DeltaDataSource"
# The setting for the session's own catalog, and the value from delta-spark's documentation.
CATALOG, DELTA_CATALOG = "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
# The class that Unity Catalog's documentation names in the settings of catalogs.
UNITY_CATALOG = "io.unitycatalog.spark.UCSingleCatalog"
# Further classes for streams.
_STREAM_CLASSES = {"offset": _EXECUTION + "runtime.SerializedOffset", "read_limit": _STREAMS + "ReadLimit"}
_STREAM_OBJECTS = {
    "catalog_table": _CATALOG + "CatalogTable",
}
# The thread-local property with the id of the stream for which a thread plans.
_STREAM_ID = "sql.streaming.queryId"

# Options for reading data files, which override the session's settings for other Parquet files; and
# the committer that keeps the files of failed tasks inside the job's own folder.
_FILES = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.sources.commitProtocolClass": _SOURCES + "SQLHadoopMapReduceCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
}
_COMMITTING = {
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


class NativeScanUnavailable(Exception):
    """The session can't run the native scan; the text gives the reason."""


def is_on(spark: Any, setting: str) -> bool:
    """The value of a boolean session setting with default false."""
    return str(spark.conf.get(setting, "false")).lower() == "true"


def session_settings(spark: Any) -> dict[str, str]:
    """All settings of a session."""
    if is_connect(spark):
        return dict(spark.conf.getAll)
    # One call to the JVM for all settings: PySpark's own method takes two calls for each setting,
    # and PySpark 3.5 has none.
    dumped = str(spark._jsparkSession.conf().getAll().mkString("\0"))
    return dict(pair.split(" -> ", 1) for pair in dumped.split("\0"))


def is_connect(spark: Any) -> bool:
    """Whether the session is a Spark Connect client, without access to a JVM."""
    return not hasattr(spark, "_jsparkSession")


def delta_jar(spark: Any) -> bool:
    """Whether a classic session has delta-spark's jar."""
    return _has_class(spark, _DELTA)


def let_go_of_catalog(spark: Any) -> None:
    """Restores Spark's own catalog in a session that names the catalog of delta-spark or of Unity
    Catalog without having its class, because such a session can't resolve any name."""
    if is_connect(spark):
        return
    named = spark.conf.get(CATALOG, "")
    if named not in (DELTA_CATALOG, UNITY_CATALOG) or _has_class(spark, named):
        return
    spark.conf.unset(CATALOG)
    _log.info("%s names %s, whose jar isn't there: the setting was taken back", CATALOG, named)


def _has_class(spark: Any, name: str) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        spark._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Py4JJavaError:
        return False
    return True


def in_own_catalog(name: str) -> str:
    """A name without the prefix of the session's own catalog."""
    catalog, _, rest = name.partition(".")
    return rest if catalog.strip("`").lower() == "spark_catalog" else name


def arrow_schema(schema: Any) -> Any:
    """The Arrow schema in which Spark accepts rows of these columns from a Python data source."""
    import inspect

    from pyspark.sql.pandas.types import to_arrow_schema

    # Spark 4.1 names UTC differently than 4.2, and uses it by default.
    utc = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **utc)


def spark_schema(schema: Any) -> Any:
    """Spark's types for an Arrow schema; timestamps without a time zone stay so."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(pa.schema(schema), prefer_timestamp_ntz=True)


def items(seq: Any) -> Iterator[Any]:
    """The elements of a Scala sequence. Python's iteration would end with a JVM exception, whose
    transfer takes eighty calls."""
    return map(seq.apply, range(seq.size()))


def _class_name(node: Any) -> str:
    """The name of a node's class without its package. Java 8 has no other method for it that works
    for every class of Scala."""
    return str(node.getClass().getName()).rpartition(".")[2]


def _nodes(plan: Any) -> Iterator[Any]:
    """A plan and all plans below it."""
    yield plan
    for child in items(plan.children()):
        yield from _nodes(child)


# The file columns for stored row ids and row commit versions; None for a table without row
# tracking.
RowTrackingColumns: TypeAlias = tuple[str | None, str | None] | None


def _joined(tracking: RowTrackingColumns) -> str | None:
    return None if tracking is None else "\0".join(name or "" for name in tracking)


class Jvm:
    """Handles to one JVM's classes; a handle costs a twentieth of a look-up by name at each
    call."""

    _known: ClassVar[weakref.WeakKeyDictionary[Any, Jvm]] = weakref.WeakKeyDictionary()

    def __init__(self, spark: Any) -> None:
        self._gateway = spark.sparkContext._gateway
        self._version = str(spark.version)
        for name, full_name in _CLASSES.items():
            setattr(self, name, self._load(full_name))
        for name, full_name in _OBJECTS.items():
            setattr(self, name, getattr(self._load(full_name + "$"), "MODULE$"))
        # py4j asks the JVM for a class's method at each look-up, so the method is stored.
        self._to_seq = self.python_utils.toSeq
        self._rule, self._frames = self._compiled()

    @classmethod
    def of(cls, spark: Any) -> Jvm:
        """Returns the handles for this session's JVM; probes the JVM at the first call.

        Raises:
            NativeScanUnavailable: a Connect session, an untested Spark version, or changed
                internals.
        """
        if is_connect(spark):
            raise NativeScanUnavailable("a Spark Connect client has no access to the JVM")
        if not is_supported(spark.version, SUPPORTED):
            raise NativeScanUnavailable(f"Spark {spark.version} is none of the versions tried: {', '.join(SUPPORTED)}")
        let_go_of_catalog(spark)
        gateway = spark.sparkContext._gateway
        known = cls._known.get(gateway)
        if known is None:
            from py4j.protocol import Py4JError

            try:
                known = cls(spark)
            except Py4JError as e:
                raise NativeScanUnavailable(f"Spark {spark.version} isn't built as expected: {e}") from e
            try:
                start_callbacks(gateway)
            except OSError as e:
                raise NativeScanUnavailable(f"Spark can't call this process back: {e}") from e
            come_back()
            cls._known[gateway] = known
        return known

    @classmethod
    def known(cls, spark: Any) -> Jvm | None:
        """The handles for this session's JVM, if they were created before; otherwise None."""
        return None if is_connect(spark) else cls._known.get(spark.sparkContext._gateway)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no JVM class is known as {name!r}")

    def _load(self, full_name: str) -> Any:
        from py4j.java_gateway import JavaClass

        target = self._gateway.jvm
        full_name = for_version(full_name, self._version)
        for part in full_name.split("."):
            target = getattr(target, part)
        if not isinstance(target, JavaClass):
            raise NativeScanUnavailable(f"Spark has no class {full_name}")
        return target

    def _compiled(self) -> tuple[Any, Any]:
        """Compiles the optimizer rule, and the factory of the frames that it recognises."""
        jvm = self._gateway.jvm
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        made = {}
        for name, text in _java.sources(self._version):
            compiler = self._load(_java.COMPILER)()
            compiler.setParentClassLoader(loader)
            compiler.cook(text)
            loader = compiler.getClassLoader()
            made[name] = loader.loadClass(name)
        rule = self._made(made[_java.RULE])
        return rule, self._made(made[_java.FRAMES], rule)

    def _made(self, item_class: Any, *arguments: Any) -> Any:
        """An object of a class with exactly one constructor."""
        return item_class.getConstructors()[0].newInstance(self._array(self.object, arguments))

    def _array(self, item_class: Any, items: Sequence[Any]) -> Any:
        array = self._gateway.new_array(item_class, len(items))
        for i, item in enumerate(items):
            array[i] = item
        return array

    def file_index(
        self, spark: Any, python: Any, name: str, root: str, partition_schema_json: str, *, pinned: bool
    ) -> Any:
        """The file index for Spark's relations, which calls a Python object. Indexes with the same
        name are equal; `pinned`: all queries see one version."""
        return self._frames.index(python, spark._jsparkSession, name, root, partition_schema_json, pinned)

    @staticmethod
    def _class(java_class: Any) -> Any:
        from py4j.java_gateway import get_java_class

        return get_java_class(java_class)

    def seq(self, items: Any) -> Any:
        """A Scala sequence of JVM objects; Java lists are accepted unchanged."""
        from py4j.java_collections import JavaList

        if isinstance(items, JavaList):
            return self._to_seq(items)
        java_list = self.array_list()
        for item in items:
            java_list.add(item)
        return self._to_seq(java_list)

    def strings(self, items: Sequence[str]) -> Any:
        """A Java array of strings."""
        return self._array(self.string, items)

    def none(self) -> Any:
        """Scala's None."""
        return self.option.empty()

    def struct(self, schema_json: str) -> Any:
        """Spark's StructType from its JSON text."""
        return self.data_type.fromJson(schema_json)

    def conditions(self, filters: Any) -> list[Condition]:
        """The text of Catalyst's filters."""
        return [
            Condition(
                condition.sql(),
                [list(map(str, items(attribute.qualifier()))) for attribute in items(condition.references().toSeq())],
            )
            for condition in items(filters)
        ]

    def data_frame(
        self,
        spark: Any,
        index: Any,
        schema_json: str,
        options: Mapping[str, str],
        *,
        streaming: bool = False,
        tracking: RowTrackingColumns = None,
    ) -> Any:
        """A DataFrame that scans the Parquet files of a file index; the schema includes the
        partition columns. `streaming`: it is a micro-batch. `tracking`: as in
        `Snapshot.row_tracking_columns`."""
        from pyspark.sql import DataFrame

        refuse_unread(schema_json, self._version)
        said = "\0".join(text for option in options.items() for text in option)
        stored = _joined(tracking)
        return DataFrame(self._frames.frame(spark._jsparkSession, index, schema_json, said, streaming, stored), spark)

    def with_metadata(self, frame: Any) -> Any:
        """A frame of scans with the hidden column `_metadata` of their files and rows."""
        from pyspark.sql import DataFrame

        session = frame.sparkSession
        return DataFrame(self._frames.withMetadata(session._jsparkSession, frame._jdf), session)

    def ask_for_relations(self, spark: Any, python: Any) -> bool:
        """Makes a session's analyser call a Python object for the rows of Delta tables; returns
        False if the analyser's rules can't be changed."""
        return bool(self._frames.asks(python, spark._jsparkSession))

    def ask_no_more(self, spark: Any) -> None:
        """Reverts `ask_for_relations`."""
        if self.asks_for_relations(spark):
            self._frames.asksNoMore(spark._jsparkSession)

    @contextmanager
    def in_script(self, is_script: bool = True) -> Iterator[None]:
        """Within the block, switches the analyser's calls for statements on Delta tables on or off;
        afterwards restores the previous state."""
        self._frames.script(is_script)
        try:
            yield
        finally:
            self._frames.script(not is_script)

    def asks_for_relations(self, spark: Any) -> bool:
        """Whether a session's analyser makes these calls."""
        return bool(self._frames.isAsking(spark._jsparkSession))

    def names_of(self, spark: Any, text: str, *, expression: bool = False) -> list[list[str]] | None:
        """The names in a statement or an expression, in the form of `java/Statements`; None if
        Spark's parser refuses it."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            lines = self._frames.names(spark._jsparkSession, text, expression)
        except (PySparkException, Py4JJavaError):
            return None
        return [str(line).split("\0") for line in lines]

    def catalog_entry(self, spark: Any, name: str) -> list[list[str]]:
        """The entry of a table in the session's own catalog, in the form of `java/Catalogs`."""
        lines = self._frames.heldTable(spark._jsparkSession, in_own_catalog(name))
        return [str(line).split("\0") for line in lines]

    def change_catalog_entry(
        self, spark: Any, name: str, provider: str, schema_json: str, properties: Mapping[str, str]
    ) -> None:
        """Changes the format of a table's entry in the session's own catalog."""
        java = self.hash_map()
        for key, value in properties.items():
            java.put(key, value)
        self._frames.changeHeld(spark._jsparkSession, in_own_catalog(name), provider, schema_json, java)

    def create_catalog_entry(
        self, spark: Any, name: str, provider: str, schema_json: str, location: str, properties: Mapping[str, str]
    ) -> None:
        """Registers a name for a location, in Hadoop's notation, in the session's own catalog,
        unless the name is registered already."""
        java = self.hash_map()
        for key, value in properties.items():
            java.put(key, value)
        self._frames.createHeld(spark._jsparkSession, in_own_catalog(name), provider, schema_json, location, java)

    def view_using(self, spark: Any, text: str) -> tuple[str, list[str], bool, bool, dict[str, str]]:
        """The format of CREATE TEMPORARY VIEW … USING, the parts of the view's name, whether it may
        replace a view, whether it is global, and its options."""
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
        options = str(plan.options().mkString("\0"))
        settings = dict(pair.split(" -> ", 1) for pair in options.split("\0")) if options else {}
        name = plan.tableIdent()
        database = [] if name.database().isEmpty() else [str(name.database().get())]
        is_global = bool(getattr(plan, "global")())
        return str(plan.provider()).lower(), [*database, str(name.table())], bool(plan.replace()), is_global, settings

    def rename_catalog_entry(self, spark: Any, name: str, to: str) -> None:
        """Renames a table's entry in the session's own catalog."""
        self._frames.renameHeld(spark._jsparkSession, in_own_catalog(name), in_own_catalog(to))

    def move_catalog_entry(self, spark: Any, name: str, location: str) -> None:
        """Changes the location, in Hadoop's notation, of a table's entry in the session's own
        catalog."""
        self._frames.moveHeld(spark._jsparkSession, in_own_catalog(name), location)

    def plain_view(self, view: Any) -> list[str] | None:
        """The table whose columns a view selects, see `java/Views`; None for any other view."""
        parts = self._frames.plainView(view._jdf)
        return None if parts is None else [str(part) for part in parts]

    def reads_tables(self, frame: Any) -> bool:
        """Whether a frame reads files of Delta tables by deltaplane's indexes."""
        return bool(self._frames.readsTables(frame._jdf))

    def is_temp_view(self, spark: Any, parts: Sequence[str]) -> bool:
        """Whether a name denotes a temporary view."""
        return bool(spark._jsparkSession.sessionState().catalog().isTempView(self.seq(list(parts))))

    def named(self, frame: Any, parts: Sequence[str]) -> Any:
        """A frame whose columns can be qualified by a table name of several parts."""
        from pyspark.sql import DataFrame

        session = frame.sparkSession
        return DataFrame(self._frames.named(session._jsparkSession, frame._jdf, self.strings(parts)), session)

    def selected_sql(self, frame: Any) -> list[str]:
        """The SQL of the expressions in a query's select list."""
        return [str(text) for text in self._frames.selected(frame._jdf)]

    def constants(self, frame: Any) -> list[str] | None:
        """The SQL of the values of a query without relations; None if one isn't a constant."""
        texts = self._frames.constants(frame._jdf)
        return None if texts is None else [str(text) for text in texts]

    def recache(self, spark: Any) -> None:
        """Makes Spark recompute cached rows of changed tables at their next use."""
        self._frames.recache(spark._jsparkSession)

    def load_streams(self, spark: Any) -> None:
        """Loads the classes for streams.

        Raises:
            NativeScanUnavailable: a Spark version with untested streams, or changed internals.
        """
        if not is_supported(spark.version, STREAMS_SUPPORTED):
            tried = ", ".join(STREAMS_SUPPORTED)
            raise NativeScanUnavailable(f"streams of Spark {spark.version} weren't tried, only those of {tried}")
        for name, full_name in _STREAM_CLASSES.items():
            setattr(self, name, self._load(full_name))
        for name, full_name in _STREAM_OBJECTS.items():
            setattr(self, name, getattr(self._load(full_name + "$"), "MODULE$"))

    def streaming_frame(self, spark: Any, python: Any, schema_json: str, tracking: RowTrackingColumns = None) -> Any:
        """A streaming DataFrame of a source that calls a Python object. `tracking`: as in
        `Snapshot.row_tracking_columns`."""
        from pyspark.sql import DataFrame

        return DataFrame(self._frames.followed(spark._jsparkSession, python, schema_json, _joined(tracking)), spark)

    def hand_batches(self, writer: Any, python: Any) -> None:
        """Sends the batches of a stream that a `DataStreamWriter` will start to a Python object."""
        self._frames.sink(writer._jwrite, python)

    def stream_id(self, spark: Any) -> str | None:
        """The id of the streaming query that the calling thread runs."""
        identifier: str | None = spark._jsparkSession.sparkContext().getLocalProperty(_STREAM_ID)
        return identifier

    def source_checkpoint(self, spark: Any, source: Any) -> str | None:
        """The directory for this source's state below the checkpoint location of the streaming
        query that the calling thread runs: sources are numbered in the order of the query's text.
        None if the query isn't one of this session's."""
        running = self.stream_id(spark)
        query = None if running is None else spark._jsparkSession.streams().get(running)
        if query is None:
            return None
        execution = query.streamingQuery()
        number = execution.sources().distinct().indexOf(source)
        return None if number < 0 else f"{execution.resolvedCheckpointRoot()}/sources/{number}"

    def without_rows(self, frame: Any, bits: str) -> Any:
        """Filters out the rows whose bit is set: a binary column has one bit for each physical row
        of its file (P124).

        Spark's own reader provides the row's position, counting skipped rows as well. Rows beyond
        the end of the bits aren't deleted; the expression accesses the bits without copying them
        and stays within their length.
        """
        from pyspark.sql import Column, DataFrame
        from pyspark.sql import functions as F

        position = Column(frame._jdf.metadataColumn("_metadata").getField("row_index"))
        covered = F.length(bits) * F.lit(8)
        index = F.least(position, covered - F.lit(1)).cast("int")
        offset = F.lit(self.platform.BYTE_ARRAY_OFFSET).cast("long")
        arguments = [self._frames.expression(column._jc) for column in (F.col(bits), offset, index)]
        is_set = self._frames.call(self._class(self.bit_set), "isSet", self.seq(arguments))
        live = (position >= covered) | ~Column(self._frames.column(is_set))
        return DataFrame(frame._jdf.filter(live._jc), frame.sparkSession)

    def with_places(self, frame: Any, places: Places) -> Any:
        """The frame of a relation's files without its reading hints, with the columns of
        `places`."""
        from pyspark.sql import Column

        metadata = frame._jdf.metadataColumn("_metadata")
        shown = [Column(metadata.getField(name)) for name in ("file_path", "row_index")]
        columns = [column.alias(name) for column, name in zip(shown, (FILE, ROW), strict=True)]
        own_columns = [frame[quoted(name)] for name in frame.columns if name != places.stored_ids]
        if places.stored_ids is not None:
            columns.append(frame[quoted(places.stored_ids)].alias(ROW_ID))
        return frame.select(*own_columns, *columns)

    def is_deterministic(self, frame: Any) -> bool:
        """Whether Spark considers a frame deterministic."""
        deterministic: bool = frame._jdf.queryExecution().analyzed().deterministic()
        return deterministic

    def operators_in(self, frame: Any) -> dict[str, int]:
        """The number of operators in a frame's plan that compute window functions (`Window`),
        aggregates (`Aggregate`) and rows of a generator (`Generate`)."""
        names = [_class_name(node) for node in _nodes(frame._jdf.queryExecution().analyzed())]
        return {name: names.count(name) for name in ("Window", "Aggregate", "Generate")}

    def optimize(self, frame: Any) -> None:
        """Has Spark optimise a frame's plan, which evaluates its constants.

        Raises:
            PySparkException: a constant that has no value, such as the integer of a text.
        """
        frame._jdf.queryExecution().optimizedPlan()

    def condition_sql(self, filtered: Any) -> str:
        """The text of the condition by which a frame was filtered last."""
        text: str = filtered._jdf.queryExecution().analyzed().condition().sql()
        return text

    def alias_of(self, frame: Any) -> str | None:
        """A frame's alias for expressions, if it has one."""
        for attribute in items(frame._jdf.queryExecution().analyzed().output()):
            qualifier = attribute.qualifier()
            return str(qualifier.last()) if qualifier.nonEmpty() else None
        return None

    def rebalanced(self, frame: Any, columns: Sequence[Any], size_bytes: int) -> Any:
        """The frame's rows in partitions of about `size_bytes` bytes; rows with equal values in
        some columns are brought together."""
        from pyspark.sql import DataFrame

        plan = frame.select("*")._jdf.queryExecution().analyzed()
        named = self._output(frame.select(*columns)) if columns else []
        session = frame.sparkSession
        made = self._rule.rebalanced(self.seq(named), plan, size_bytes)
        return DataFrame(self.dataset.ofRows(session._jsparkSession, made), session)

    def tasks_of(self, frame: Any) -> int | None:
        """The number of tasks that evaluate a frame; None if only running it, or calling its
        source, would reveal the number."""
        plan = frame._jdf.queryExecution().executedPlan()
        for node in _nodes(plan):
            # Adaptive plans are leaves as well; resolving them would run their shuffles.
            unknown = node.children().isEmpty() and _class_name(node) not in _SCANS
            if unknown or ".exchange." in node.getClass().getName():
                return None
        return int(plan.execute().getNumPartitions())

    def parquet_writer(self, frame: Any, codec: str) -> Any:
        """The JVM's writer of a frame's rows as files of a table; uses its own session, so that the
        frame's session keeps its settings."""
        session = frame.sparkSession._jsparkSession.cloneSession()
        for key, value in _FILES.items():
            session.conf().set(key, value)
        writer = self.dataset.ofRows(session, frame._jdf.queryExecution().analyzed()).write()
        for key, value in {**_COMMITTING, "compression": codec}.items():
            writer = writer.option(key, value)
        return writer

    def has_subquery(self, filtered: Any) -> bool:
        """Whether the condition by which a frame was filtered last contains subqueries."""
        result: bool = self.subqueries.hasSubquery(filtered._jdf.queryExecution().analyzed().condition())
        return result

    def reads_subquery(self, spark: Any, text: str) -> bool:
        """Whether a condition's text contains subqueries; False for a text that isn't one."""
        from pyspark.errors import PySparkException

        try:
            parsed = spark._jsparkSession.sessionState().sqlParser().parseExpression(text)
        except PySparkException:
            return False
        result: bool = self.subqueries.hasSubquery(parsed)
        return result

    def names_in(self, filtered: Any) -> list[str]:
        """The columns in the condition by which a frame was filtered last."""
        references = filtered._jdf.queryExecution().analyzed().condition().references().toSeq()
        return [str(attribute.name()) for attribute in items(references)]

    def mentions(self, expression: Any, frame: Any) -> bool:
        """Whether a Spark expression uses columns of this very frame."""
        ids = {attribute.exprId().id() for attribute in self._output(frame)}
        leaves = items(self.expression_of(expression).collectLeaves())
        named = (leaf for leaf in leaves if _class_name(leaf) == "AttributeReference")
        return any(leaf.exprId().id() in ids for leaf in named)

    def with_columns_of(self, frame: Any, like: Any) -> Any:
        """The frame with columns that resolve expressions over another frame with columns of these
        names."""
        from pyspark.sql import Column

        ids = {attribute.name(): attribute.exprId() for attribute in self._output(like)}
        columns = []
        for attribute in self._output(frame):
            name = attribute.name()
            if name in ids:
                nothing = self.seq([])
                attribute = self.alias(attribute, name, ids[name], nothing, self.none(), nothing)
            columns.append(Column(self._frames.column(attribute)))
        return frame.select(*columns)

    def store_cast(self, column: Any, to: Any, policy: str, name: str | None = None) -> Any:
        """Casts the column by a `spark.sql.storeAssignmentPolicy`, independent of the session's own
        casts.

        ANSI fails for values out of range, LEGACY never fails, and with STRICT the analysis refuses
        the cast unless the new type contains every value of the old type. With `name`, an overflow
        of the ANSI cast says that it is this column's, by a condition of its own.
        """
        from pyspark.sql import Column

        data_type = self.data_type.fromJson(to.json())
        child = self._frames.expression(column._jc)
        if policy == "STRICT":
            return Column(self._frames.column(self.up_cast(child, data_type, self.seq([]))))
        mode = self.eval_mode.LEGACY() if policy == "LEGACY" else self.eval_mode.ANSI()
        cast = self.cast(child, data_type, self.none(), mode)
        if name is not None and policy == "ANSI" and _OVERFLOWS.search(to.simpleString()):
            cast = self.check_overflow(cast, name)
        return Column(self._frames.column(cast))

    def _output(self, frame: Any) -> list[Any]:
        return list(items(frame._jdf.queryExecution().analyzed().output()))

    def expression_of(self, column: Any) -> Any:
        """A column's expression before Spark resolves it."""
        return self._frames.unresolved(column._jc)

    def text_of(self, expression: Any) -> str:
        """A Spark expression as text; SQL text is returned unchanged."""
        return str(self._frames.columnSql(expression._jc))

    def column_kind(self, column: Any) -> str:
        """The kind of a column's expression, such as `UnresolvedAttribute`."""
        return str(self._frames.columnKind(column._jc))
