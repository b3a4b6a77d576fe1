"""Spark's internal JVM classes: the only module that names one beside `_java`, with a probe that
says whether they are as expected.

It knows no table.
"""

from __future__ import annotations

import logging
import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeAlias

from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.spark.errors.refusals import come_back
from deltaplane.spark.jvm import java_sources as _java
from deltaplane.spark.jvm.places import FILE, ROW, ROW_ID, Places
from deltaplane.spark.jvm.schema import quoted
from deltaplane.spark.jvm.statistics import Condition

__all__ = [
    "CATALOG",
    "DELTA_CATALOG",
    "SUPPORTED",
    "Jvm",
    "NativeScanUnavailable",
    "arrow_schema",
    "definition",
    "delta_jar",
    "held_entry",
    "held_table",
    "is_connect",
    "is_on",
    "let_go_of_catalog",
    "spark_schema",
]

_log = logging.getLogger(__name__)

# The versions whose internals were tried; another one gets the data source until it was.
SUPPORTED = ("4.1", "4.2", "4.3")

# Those whose streams were tried; the others' go through the data source.
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
    "data_types": "org.apache.spark.sql.types.DataTypes",
    "hash_map": "java.util.HashMap",
    "object": "java.lang.Object",
    "option": "scala.Option",
    "platform": "org.apache.spark.unsafe.Platform",
    "python_utils": "org.apache.spark.api.python.PythonUtils",
    "static_invoke": _EXPRESSIONS + "objects.StaticInvoke",
    "string": "java.lang.String",
    "up_cast": _EXPRESSIONS + "UpCast",
    "check_overflow": _EXPRESSIONS + "CheckOverflowInTableInsert",
}
# Scala objects that share their name with a trait, so that their methods hang on an instance.
_OBJECTS = {
    "expression_utils": "org.apache.spark.sql.classic.ExpressionUtils",
    "dataset": "org.apache.spark.sql.classic.Dataset",
    "eval_mode": _EXPRESSIONS + "EvalMode",
    "node_converter": "org.apache.spark.sql.classic.ColumnNodeToExpressionConverter",
    "subqueries": _EXPRESSIONS + "SubqueryExpression",
}
# What knows its tasks from the plan.
_SCANS = {"FileSourceScanExec", "LocalTableScanExec", "RangeExec", "RDDScanExec", "ExternalRDDScanExec"}
_DELTA = "org.apache.spark.sql.delta.sources.DeltaDataSource"
# The setting for the session's own catalog, and what delta-spark's documentation has users set it
# to.
CATALOG, DELTA_CATALOG = "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
# What a stream needs beside them.
_STREAM_CLASSES = {"offset": _EXECUTION + "runtime.SerializedOffset", "read_limit": _STREAMS + "ReadLimit"}
_STREAM_OBJECTS = {
    "catalog_table": _CATALOG + "CatalogTable",
}
# The thread-local name of the stream that a planning thread works for.
_STREAM_ID = "sql.streaming.queryId"

# What files must be like, whatever a session asks of Parquet files that aren't a table's; and files
# of tasks that failed never leave the job's own folder.
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
    """This session can't run the native scan; the text says why."""


def is_on(spark: Any, setting: str) -> bool:
    """Whether a setting of the session that is off unless said is on."""
    return str(spark.conf.get(setting, "false")).lower() == "true"


def is_connect(spark: Any) -> bool:
    """Whether the session is a Spark Connect client, which has no JVM at hand."""
    return not hasattr(spark, "_jsparkSession")


def delta_jar(spark: Any) -> bool:
    """Whether a classic session has delta-spark's jar."""
    return _has_class(spark, _DELTA)


def let_go_of_catalog(spark: Any) -> None:
    """Gives a session Spark's own catalog where it names delta-spark's and hasn't its class: it
    could resolve no name at all."""
    if is_connect(spark) or spark.conf.get(CATALOG, "") != DELTA_CATALOG or _has_class(spark, DELTA_CATALOG):
        return
    spark.conf.unset(CATALOG)
    _log.info("%s names delta-spark's catalog, whose jar isn't there: the setting was taken back", CATALOG)


def _has_class(spark: Any, name: str) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        spark._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Py4JJavaError:
        return False
    return True


def held_table(spark: Any, name: str) -> tuple[str, str] | None:
    """Format and location of the table that the session's own catalog holds under a name; None for
    a view, and for none."""
    table = _held(spark, name)
    if table is None or not table.provider().isDefined() or not table.storage().locationUri().isDefined():
        return None
    return str(table.provider().get()), str(table.storage().locationUri().get().toString())


def held_entry(spark: Any, name: str) -> tuple[str, str | None] | None:
    """Format and location of what the session's own catalog holds under a name, "view" for a view
    that it keeps; None where it holds nothing. Temp views are looked past, as by what makes
    tables."""
    table = _held(spark, name, past_temp_views=True)
    if table is None:
        return None
    if str(table.tableType().name()) == "VIEW":
        return "view", None
    provider, location = table.provider(), table.storage().locationUri()
    return (
        str(provider.get()) if provider.isDefined() else "hive",
        str(location.get().toString()) if location.isDefined() else None,
    )


def held_property(spark: Any, name: str, key: str) -> str | None:
    """A property that the catalog holds of a table, by the table's name."""
    table = _held(spark, name)
    found = None if table is None else table.properties().get(key)
    return str(found.get()) if found is not None and found.isDefined() else None


def delete_folder(spark: Any, uri: str) -> None:
    """Deletes a folder of Spark's file systems with all that is in it."""
    path = spark._jvm.org.apache.hadoop.fs.Path(uri)
    path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).delete(path, True)


def move_folder(spark: Any, uri: str, to: str) -> bool:
    """Moves a folder of Spark's file systems to a place where nothing is; whether that was done."""
    paths = spark._jvm.org.apache.hadoop.fs
    old, new = paths.Path(uri), paths.Path(to)
    files = old.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    return not files.exists(new) and bool(files.rename(old, new))


def _in_catalog(name: str) -> str:
    """A name without the session's own catalog before it."""
    catalog, _, rest = name.partition(".")
    return rest if catalog.strip("`").lower() == "spark_catalog" else name


def definition(spark: Any, name: str) -> tuple[str, list[str], str | None, dict[str, str]] | None:
    """The columns of a table or a view of Spark's as JSON, the names of those that it is
    partitioned by, its comment and its properties; None where the catalog has none of this name."""
    table = _held(spark, name)
    if table is None:
        from pyspark.errors import PySparkException

        try:
            return str(spark.table(name).schema.json()), [], None, {}
        except PySparkException:
            return None
    asJava = spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava
    comment = table.comment()
    properties = {} if table.tableType().name() == "VIEW" else dict(asJava(table.properties()))
    return (
        str(table.schema().json()),
        [str(one) for one in asJava(table.partitionColumnNames())],
        str(comment.get()) if comment.isDefined() else None,
        {str(key): str(value) for key, value in properties.items()},
    )


def _held(spark: Any, name: str, *, past_temp_views: bool = False) -> Any:
    """The catalog's table of a name, None for a temp view unless they are looked past, and for
    none."""
    if is_connect(spark):
        raise UnsupportedFeatureError(
            f"the name {name} stands in the server's catalog, which a Spark Connect client can't ask: give the table's path instead, to "
            "forPath or location, or as delta.`/path`"
        )
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    state = spark._jsparkSession.sessionState()
    try:
        identifier = state.sqlParser().parseTableIdentifier(_in_catalog(name))
        if not past_temp_views and state.catalog().isTempView(identifier):
            return None
        if not state.catalog().tableExists(identifier):
            return None
        return state.catalog().getTableMetadata(identifier)
    except (PySparkException, Py4JJavaError):
        # A name of another catalog, or none at all.
        return None


def arrow_schema(schema: Any) -> Any:
    """The Arrow schema in which Spark takes rows of these columns from a Python data source."""
    import inspect

    from pyspark.sql.pandas.types import to_arrow_schema

    # Spark 4.1 says UTC otherwise than 4.2, and by default.
    utc = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **utc)


def spark_schema(schema: Any) -> Any:
    """Spark's columns for those of an Arrow schema; timestamps without a zone stay so."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(pa.schema(schema), prefer_timestamp_ntz=True)


def _items(seq: Any) -> Iterator[Any]:
    """The elements of a Scala sequence. Iterating costs an exception in the JVM at its end, which
    takes eighty calls to tell."""
    return map(seq.apply, range(seq.size()))


def _nodes(plan: Any) -> Iterator[Any]:
    """A plan and all below it."""
    yield plan
    for child in _items(plan.children()):
        yield from _nodes(child)


# What row tracking calls the columns of files that store ids and versions of rows; None for a table
# without row tracking.
RowTrackingColumns: TypeAlias = tuple[str | None, str | None] | None


def _joined(tracking: RowTrackingColumns) -> str | None:
    return None if tracking is None else "\0".join(name or "" for name in tracking)


class Jvm:
    """Handles to one JVM's classes: a handle costs a twentieth of a look-up by name at each
    call."""

    _known: ClassVar[weakref.WeakKeyDictionary[Any, Jvm]] = weakref.WeakKeyDictionary()

    def __init__(self, spark: Any) -> None:
        self._gateway = spark.sparkContext._gateway
        for name, full_name in _CLASSES.items():
            setattr(self, name, self._load(full_name))
        for name, full_name in _OBJECTS.items():
            setattr(self, name, getattr(self._load(full_name + "$"), "MODULE$"))
        # py4j asks the JVM for a class's method at each look-up.
        self._to_seq = self.python_utils.toSeq
        self._rule, self._frames = self._compiled()

    @classmethod
    def of(cls, spark: Any) -> Jvm:
        """The handles for this session's JVM, probed at the first call.

        Raises:
            NativeScanUnavailable: a Connect session, an untried Spark version, or internals that
                changed.
        """
        if is_connect(spark):
            raise NativeScanUnavailable("a Spark Connect client has no access to the JVM")
        if not spark.version.startswith(tuple(v + "." for v in SUPPORTED)):
            raise NativeScanUnavailable(f"Spark {spark.version} is none of the versions tried: {', '.join(SUPPORTED)}")
        let_go_of_catalog(spark)
        gateway = spark.sparkContext._gateway
        known = cls._known.get(gateway)
        if known is None:
            from py4j.protocol import Py4JError
            from pyspark.java_gateway import ensure_callback_server_started

            try:
                known = cls(spark)
            except Py4JError as e:
                raise NativeScanUnavailable(f"Spark {spark.version} isn't built as expected: {e}") from e
            try:
                ensure_callback_server_started(gateway)
            except (Py4JError, OSError) as e:
                raise NativeScanUnavailable(
                    f"Spark can't call this process back: {e}; let it listen on a port of 127.0.0.1"
                ) from e
            come_back()
            cls._known[gateway] = known
        return known

    @classmethod
    def known(cls, spark: Any) -> Jvm | None:
        """The handles for this session's JVM, if somebody has asked for them before."""
        return None if is_connect(spark) else cls._known.get(spark.sparkContext._gateway)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no JVM class is known as {name!r}")

    def _load(self, full_name: str) -> Any:
        from py4j.java_gateway import JavaClass

        found = self._gateway.jvm
        for part in full_name.split("."):
            found = getattr(found, part)
        if not isinstance(found, JavaClass):
            raise NativeScanUnavailable(f"Spark has no class {full_name}")
        return found

    def _compiled(self) -> tuple[Any, Any]:
        """The optimiser's rule, and what makes frames that it knows."""
        jvm = self._gateway.jvm
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        made = {}
        for name, text in _java.sources():
            compiler = self._load(_java.COMPILER)()
            compiler.setParentClassLoader(loader)
            compiler.cook(text)
            loader = compiler.getClassLoader()
            made[name] = loader.loadClass(name)
        rule = self._made(made[_java.RULE])
        return rule, self._made(made[_java.FRAMES], rule)

    def _made(self, of: Any, *arguments: Any) -> Any:
        """An object of a class that has one constructor."""
        return of.getConstructors()[0].newInstance(self._array(self.object, arguments))

    def _array(self, of: Any, items: Sequence[Any]) -> Any:
        array = self._gateway.new_array(of, len(items))
        for i, item in enumerate(items):
            array[i] = item
        return array

    def file_index(
        self, spark: Any, python: Any, name: str, root: str, partition_schema_json: str, *, pinned: bool
    ) -> Any:
        """The index that Spark's relations take, which asks an object of Python's. Those with one
        name are equal; `pinned`: their queries see one version."""
        return self._frames.index(python, spark._jsparkSession, name, root, partition_schema_json, pinned)

    @staticmethod
    def _class(java_class: Any) -> Any:
        from py4j.java_gateway import get_java_class

        return get_java_class(java_class)

    def seq(self, items: Any) -> Any:
        """A Scala sequence of these JVM objects; a Java list is taken as it is."""
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
        """Catalyst's filters as Spark writes them."""
        return [
            Condition(
                one.sql(),
                [list(map(str, _items(of.qualifier()))) for of in _items(one.references().toSeq())],
            )
            for one in _items(filters)
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
        """A DataFrame that scans the Parquet files of a file index; the schema holds the partition
        columns too. `streaming`: it is a micro-batch. `tracking`: as of
        `Snapshot.row_tracking_columns`."""
        from pyspark.sql import DataFrame

        said = "\0".join(text for option in options.items() for text in option)
        stored = _joined(tracking)
        return DataFrame(self._frames.frame(spark._jsparkSession, index, schema_json, said, streaming, stored), spark)

    def with_metadata(self, frame: Any) -> Any:
        """A frame of scans that has the hidden column `_metadata` of their files and rows."""
        from pyspark.sql import DataFrame

        session = frame.sparkSession
        return DataFrame(self._frames.withMetadata(session._jsparkSession, frame._jdf), session)

    def ask_for_relations(self, spark: Any, python: Any) -> bool:
        """Has a session's analyser ask an object of Python's for the rows of Delta tables; False
        where its rules can't be changed."""
        return bool(self._frames.asks(python, spark._jsparkSession))

    def ask_no_more(self, spark: Any) -> None:
        """Takes back what `ask_for_relations` did."""
        if self.asks_for_relations(spark):
            self._frames.asksNoMore(spark._jsparkSession)

    @contextmanager
    def in_script(self, is_script: bool = True) -> Iterator[None]:
        """Inside of the block Spark's analyser asks for statements on Delta tables, as for
        relations, or doesn't; behind it the other way round."""
        self._frames.script(is_script)
        try:
            yield
        finally:
            self._frames.script(not is_script)

    def asks_for_relations(self, spark: Any) -> bool:
        """Whether a session's analyser asks."""
        return bool(self._frames.isAsking(spark._jsparkSession))

    def names_of(self, spark: Any, text: str, *, expression: bool = False) -> list[list[str]] | None:
        """What a statement or an expression names, as `java/Statements` tells it; None where
        Spark's parser refuses it."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            found = self._frames.names(spark._jsparkSession, text, expression)
        except (PySparkException, Py4JJavaError):
            return None
        return [str(line).split("\0") for line in found]

    def catalog_entry(self, spark: Any, name: str) -> list[list[str]]:
        """What the session's own catalog holds of a table, as `java/Catalogs` tells it."""
        found = self._frames.heldTable(spark._jsparkSession, _in_catalog(name))
        return [str(line).split("\0") for line in found]

    def change_catalog_entry(
        self, spark: Any, name: str, provider: str, schema_json: str, properties: Mapping[str, str]
    ) -> None:
        """Makes a table's entry in the session's own catalog one of another format, where it is."""
        java = self.hash_map()
        for key, value in properties.items():
            java.put(key, value)
        self._frames.changeHeld(spark._jsparkSession, _in_catalog(name), provider, schema_json, java)

    def plain_view(self, view: Any) -> list[str] | None:
        """The table of which a view's frame shows columns, see `java/Views`; None where it shows
        anything else."""
        found = self._frames.plainView(view._jdf)
        return None if found is None else [str(part) for part in found]

    def reads_tables(self, frame: Any) -> bool:
        """Whether a frame reads files of Delta tables by our indexes."""
        return bool(self._frames.readsTables(frame._jdf))

    def is_temp_view(self, spark: Any, parts: Sequence[str]) -> bool:
        """Whether a name is that of a temp view."""
        return bool(spark._jsparkSession.sessionState().catalog().isTempView(self.seq(list(parts))))

    def named(self, frame: Any, parts: Sequence[str]) -> Any:
        """A frame whose columns can be called by a table's name of several parts."""
        from pyspark.sql import DataFrame

        session = frame.sparkSession
        return DataFrame(self._frames.named(session._jsparkSession, frame._jdf, self.strings(parts)), session)

    def selected_sql(self, frame: Any) -> list[str]:
        """The SQL of the expressions that a query selects."""
        return [str(text) for text in self._frames.selected(frame._jdf)]

    def constants(self, frame: Any) -> list[str] | None:
        """The SQL of the values that a query without relations selects; None where one isn't a
        constant."""
        found = self._frames.constants(frame._jdf)
        return None if found is None else [str(text) for text in found]

    def recache(self, spark: Any) -> None:
        """Has Spark compute cached rows of tables that changed again, when they are asked for
        next."""
        self._frames.recache(spark._jsparkSession)

    def load_streams(self, spark: Any) -> None:
        """Looks up what streams need.

        Raises:
            NativeScanUnavailable: a Spark whose streams weren't tried, or internals that changed.
        """
        if not spark.version.startswith(tuple(v + "." for v in STREAMS_SUPPORTED)):
            tried = ", ".join(STREAMS_SUPPORTED)
            raise NativeScanUnavailable(f"streams of Spark {spark.version} weren't tried, only those of {tried}")
        for name, full_name in _STREAM_CLASSES.items():
            setattr(self, name, self._load(full_name))
        for name, full_name in _STREAM_OBJECTS.items():
            setattr(self, name, getattr(self._load(full_name + "$"), "MODULE$"))

    def streaming_frame(self, spark: Any, python: Any, schema_json: str, tracking: RowTrackingColumns = None) -> Any:
        """A streaming DataFrame of a source that asks an object of Python's. `tracking`: as of
        `Snapshot.row_tracking_columns`."""
        from pyspark.sql import DataFrame

        return DataFrame(self._frames.followed(spark._jsparkSession, python, schema_json, _joined(tracking)), spark)

    def hand_batches(self, writer: Any, python: Any) -> None:
        """Has the batches of a stream that a `DataStreamWriter` will start go to an object of
        Python's."""
        self._frames.sink(writer._jwrite, python)

    def stream_id(self, spark: Any) -> str | None:
        """What names the streaming query that the calling thread runs."""
        found: str | None = spark._jsparkSession.sparkContext().getLocalProperty(_STREAM_ID)
        return found

    def source_checkpoint(self, spark: Any, source: Any) -> str | None:
        """Where Spark would keep what belongs to this source of the streaming query that the
        calling thread runs, below its checkpoint location: sources are numbered in the order in
        which the query names them. None where the query isn't one of this session's."""
        running = self.stream_id(spark)
        query = None if running is None else spark._jsparkSession.streams().get(running)
        if query is None:
            return None
        execution = query.streamingQuery()
        number = execution.sources().distinct().indexOf(source)
        return None if number < 0 else f"{execution.resolvedCheckpointRoot()}/sources/{number}"

    def without_rows(self, frame: Any, bits: str) -> Any:
        """The rows of the frame whose bit isn't set: a binary column has one for each physical row
        of its file (P124).

        A file's position in the column comes from Spark's own reader, which counts rows that it
        skips. The bits are looked at in place; what they don't cover isn't deleted, and isn't
        looked at either: the index stays within them.
        """
        from pyspark.sql import Column, DataFrame
        from pyspark.sql import functions as F

        position = Column(frame._jdf.metadataColumn("_metadata").getField("row_index"))
        covered = F.length(bits) * F.lit(8)
        at = F.least(position, covered - F.lit(1)).cast("int")
        expression = self.expression_utils.expression
        arguments = [expression(c._jc) for c in (F.col(bits), F.lit(self.platform.BYTE_ARRAY_OFFSET).cast("long"), at)]
        is_set = self.static_invoke(
            self._class(self.bit_set), self.data_types.BooleanType, "isSet", self.seq(arguments), self.seq([]),
            True, True, True, self.none(),
        )  # fmt: skip
        live = (position >= covered) | ~Column(self.expression_utils.column(is_set))
        return DataFrame(frame._jdf.filter(live._jc), frame.sparkSession)

    def with_places(self, frame: Any, places: Places) -> Any:
        """The frame of a relation's files, but for what only helps to read it, with the columns of
        `places`."""
        from pyspark.sql import Column

        metadata = frame._jdf.metadataColumn("_metadata")
        shown = [Column(metadata.getField(name)) for name in ("file_path", "row_index")]
        columns = [column.alias(name) for column, name in zip(shown, (FILE, ROW), strict=True)]
        kept = [frame[quoted(name)] for name in frame.columns if name != places.stored_ids]
        if places.stored_ids is not None:
            columns.append(frame[quoted(places.stored_ids)].alias(ROW_ID))
        return frame.select(*kept, *columns)

    def is_deterministic(self, frame: Any) -> bool:
        """Whether a frame computes the same each time, as far as Spark knows."""
        deterministic: bool = frame._jdf.queryExecution().analyzed().deterministic()
        return deterministic

    def operators_in(self, frame: Any) -> dict[str, int]:
        """How many operators of a frame's plan compute window functions (`Window`), aggregates
        (`Aggregate`) and rows of a generator (`Generate`)."""
        names = [node.getClass().getSimpleName() for node in _nodes(frame._jdf.queryExecution().analyzed())]
        return {name: names.count(name) for name in ("Window", "Aggregate", "Generate")}

    def optimize(self, frame: Any) -> None:
        """Has Spark optimise a frame's plan, which evaluates its constants.

        Raises:
            PySparkException: a constant that has no value, such as the integer of a text.
        """
        frame._jdf.queryExecution().optimizedPlan()

    def condition_sql(self, filtered: Any) -> str:
        """The condition by which a frame was filtered last, as Spark writes it."""
        text: str = filtered._jdf.queryExecution().analyzed().condition().sql()
        return text

    def alias_of(self, frame: Any) -> str | None:
        """The name that a frame goes by in expressions, if it has one."""
        for attribute in _items(frame._jdf.queryExecution().analyzed().output()):
            qualifier = attribute.qualifier()
            return str(qualifier.last()) if qualifier.nonEmpty() else None
        return None

    def rebalanced(self, frame: Any, columns: Sequence[Any], size_bytes: int) -> Any:
        """The frame's rows in partitions of about so many bytes, those side by side that are equal
        in some columns."""
        from pyspark.sql import DataFrame

        plan = frame.select("*")._jdf.queryExecution().analyzed()
        named = self._output(frame.select(*columns)) if columns else []
        session = frame.sparkSession
        made = self._rule.rebalanced(self.seq(named), plan, size_bytes)
        return DataFrame(self.dataset.ofRows(session._jsparkSession, made), session)

    def tasks_of(self, frame: Any) -> int | None:
        """How many tasks evaluate a frame; None where only running it tells, or asking a source."""
        plan = frame._jdf.queryExecution().executedPlan()
        for node in _nodes(plan):
            of = node.getClass()
            # Adaptive plans are leaves too: their shuffles would run.
            unknown = node.children().isEmpty() and of.getSimpleName() not in _SCANS
            if unknown or of.getPackageName().endswith(".exchange"):
                return None
        return int(plan.execute().getNumPartitions())

    def parquet_writer(self, frame: Any, codec: str) -> Any:
        """The JVM's writer of a frame's rows as files of a table; in a session of its own, so that
        the frame's keeps its settings."""
        session = frame.sparkSession._jsparkSession.cloneSession()
        for key, value in _FILES.items():
            session.conf().set(key, value)
        writer = self.dataset.ofRows(session, frame._jdf.queryExecution().analyzed()).write()
        for key, value in {**_COMMITTING, "compression": codec}.items():
            writer = writer.option(key, value)
        return writer

    def has_subquery(self, filtered: Any) -> bool:
        """Whether the condition by which a frame was filtered last holds queries."""
        found: bool = self.subqueries.hasSubquery(filtered._jdf.queryExecution().analyzed().condition())
        return found

    def names_in(self, filtered: Any) -> list[str]:
        """The columns in the condition by which a frame was filtered last."""
        references = filtered._jdf.queryExecution().analyzed().condition().references().toSeq()
        return [str(attribute.name()) for attribute in _items(references)]

    def mentions(self, expression: Any, frame: Any) -> bool:
        """Whether a Spark expression has columns of this very frame."""
        ids = {attribute.exprId().id() for attribute in self._output(frame)}
        leaves = _items(self.node_converter.apply(expression._jc.node()).collectLeaves())
        named = (leaf for leaf in leaves if leaf.getClass().getSimpleName() == "AttributeReference")
        return any(leaf.exprId().id() in ids for leaf in named)

    def with_columns_of(self, frame: Any, like: Any) -> Any:
        """The frame, whose columns expressions find by those of another frame with columns of these
        names."""
        from pyspark.sql import Column

        ids = {attribute.name(): attribute.exprId() for attribute in self._output(like)}
        columns = []
        for attribute in self._output(frame):
            name = attribute.name()
            if name in ids:
                nothing = self.seq([])
                attribute = self.alias(attribute, name, ids[name], nothing, self.none(), nothing)
            columns.append(Column(self.expression_utils.column(attribute)))
        return frame.select(*columns)

    def store_cast(self, column: Any, to: Any, policy: str, name: str | None = None) -> Any:
        """The column as another type, by the cast of a `spark.sql.storeAssignmentPolicy`, whatever
        the session's own casts do.

        ANSI fails where a value doesn't fit, LEGACY never fails, and STRICT is refused by the
        analysis unless every value of the old type is one of the new type. With `name`, an overflow
        of the ANSI cast says that it is this column's, by a condition of its own.
        """
        from pyspark.sql import Column

        of, utils = self.data_type.fromJson(to.json()), self.expression_utils
        child = utils.expression(column._jc)
        if policy == "STRICT":
            return Column(utils.column(self.up_cast(child, of, self.seq([]))))
        mode = self.eval_mode.LEGACY() if policy == "LEGACY" else self.eval_mode.ANSI()
        cast = self.cast(child, of, self.none(), mode)
        if name is not None and policy == "ANSI" and _OVERFLOWS.search(to.simpleString()):
            cast = self.check_overflow(cast, name)
        return Column(utils.column(cast))

    def _output(self, frame: Any) -> list[Any]:
        return list(_items(frame._jdf.queryExecution().analyzed().output()))

    def text_of(self, expression: Any) -> str:
        """A Spark expression as text: SQL where it was given so."""
        text: str = expression._jc.node().sql()
        return text
