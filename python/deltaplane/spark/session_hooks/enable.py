"""Installs Delta's usual interfaces on one Spark session: `format("delta")`, names of tables,
`spark.sql`.

Only the Python side of the session is changed; the JVM gets no plug-in.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.catalog import Catalog as Catalogs
from pyspark.sql.sql_formatter import SQLStringFormatter
from pyspark.sql.types import StructType

from deltaplane import spark as dp
from deltaplane.exceptions import DeltaError, SqlSyntaxError, TableNotFoundError, UnsupportedFeatureError
from deltaplane.expr.quoting import spark_texts
from deltaplane.expr.syntax import Token
from deltaplane.io.session_options import in_session, overriding
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.sources import Catalog
from deltaplane.spark.datasource.session import session_text
from deltaplane.spark.datasource.time_travel import version_at
from deltaplane.spark.delta_api.catalog_listing import (
    created_table,
    described_table,
    is_table_at,
    listed_columns,
    listed_table,
)
from deltaplane.spark.delta_api.history import detail_frame, history_frame
from deltaplane.spark.delta_api.merge_writer import MergeWriter
from deltaplane.spark.delta_api.optimize_result import Optimized, now_ms, optimized_frame, purged_metrics
from deltaplane.spark.delta_api.reader import Reader, StreamReader
from deltaplane.spark.delta_api.relations import ask, ask_no_more, reading
from deltaplane.spark.delta_api.table_changes import calls_changes, changes_in_views
from deltaplane.spark.delta_api.writer import StreamWriter, Writer
from deltaplane.spark.delta_api.writer_v2 import WriterV2
from deltaplane.spark.errors.spark_errors import as_sparks
from deltaplane.spark.execution.recache import recache
from deltaplane.spark.jvm.configured import wrapped_builder
from deltaplane.spark.jvm.internals import Jvm, delta_jar, is_connect
from deltaplane.spark.jvm.names import (
    FORMATS,
    catalog_facts,
    drop_name,
    hadoop_path,
    held_location,
    located,
    qualified_name,
    relocate_name,
    rename_name,
)
from deltaplane.spark.jvm.older_pyspark import frame_of_arrow
from deltaplane.spark.jvm.parameters import has_parameters, with_values
from deltaplane.spark.jvm.parsed import Parsed
from deltaplane.spark.jvm.schema import quoted
from deltaplane.spark.jvm.session_catalogs import (
    catalogs_of,
    configured_catalogs,
    full_name,
    hold_catalogs,
    release_catalogs,
)
from deltaplane.spark.jvm.spark_versions import frame_class, has_sources
from deltaplane.spark.jvm.store_settings import hold_options, release_options
from deltaplane.spark.session_hooks import catalog_calls
from deltaplane.spark.session_hooks.catalog_statements import catalog_statement
from deltaplane.spark.session_hooks.catalog_tables import (
    CreatedTable,
    CreatedView,
    dropped_table,
    is_path,
    name_at,
    renamed_table,
)
from deltaplane.spark.session_hooks.catalog_transactions import (
    check_no_values,
    check_statement,
    end_session_transaction,
    transaction_statement,
)
from deltaplane.spark.session_hooks.execute_immediate import Immediate
from deltaplane.spark.session_hooks.first_words import starting_with
from deltaplane.spark.session_hooks.no_table import refuse_directory, refuse_no_table
from deltaplane.spark.session_hooks.results import is_repetition, result_frame
from deltaplane.spark.session_hooks.show_create_table import create_text
from deltaplane.spark.session_hooks.views import about_the_table, check_no_columns, makes_view_of_source
from deltaplane.statements import command_of
from deltaplane.statements.common.on_spark import on_spark
from deltaplane.statements.common.statement import Session
from deltaplane.statements.describe import Detail, History
from deltaplane.statements.optimize import Optimize
from deltaplane.statements.reorg import Purge
from deltaplane.statements.select import Selection
from deltaplane.statements.vacuum import Vacuum
from deltaplane.table.delta_table import DeltaTable

__all__ = ["configure_spark_with_delta_pip", "disable", "enable", "sql"]

_enabled: weakref.WeakSet[SparkSession] = weakref.WeakSet()
# The original methods before the first `enable`, which handle all other calls.
_originals: dict[tuple[type, str], Any] = {}

# Matches quoted text and comments, and a table name that is a string or a concatenation of strings.
_TEXT = r"""(?:'[^'\\]*'|"[^"\\]*")"""
_IDENTIFIER = re.compile(
    rf"""\bidentifier\s*\(\s*(?P<texts>{_TEXT}(?:\s*\|\|\s*{_TEXT})*)\s*\)"""
    rf"""|\bidentifier\s*\(\s*concat\s*\(\s*(?P<listed>{_TEXT}(?:\s*,\s*{_TEXT})*)\s*\)\s*\)"""
    r"""|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/""",
    re.DOTALL | re.IGNORECASE,
)

# Keywords behind which a table's name follows.
_BEFORE_NAMES = frozenset(
    (
        "from join into overwrite update table using describe desc extended formatted detail history optimize full vacuum "
        "restore clone tblproperties partitions"
    ).split()
)
# Keywords of statements whose table may be a path in quotes.
_BEFORE_PATHS = (
    *(["optimize"], ["vacuum"], ["describe", "history"], ["desc", "history"], ["describe", "detail"]),
    ["desc", "detail"],
)
# Statements that change no table.
_READS = starting_with("select|from|values|table|explain|describe|desc|show|set|use", r"\s|\(")
# Statements that may name another table besides the Delta table that makes deltaplane run them.
_MAY_NAME_NONE = re.compile(r"\s*(?:create|convert)\b", re.IGNORECASE)
# Statements about cached tables, which have no effect on Delta tables: each query reads the newest
# version, which a cached table couldn't follow.
_KEPT = ("cache", "uncache", "refresh")
# Queries whose tables Spark itself resolves.
_QUERIES = ("explain", "from")
# Keywords before QUERY, behind which a query follows.
_DESCRIBES = ("describe", "desc")
# The setting that marks an enabled session for the sessions that Spark copies from it, for example
# for the batches of a stream.
_MARK = "spark.deltaplane.familiarNames"
# Maximum number of values that Spark 4.2 binds correctly by position.
_PLACES = 4
# Plan classes that run statements.
_SCRIPTS = frozenset("CompoundBody UnresolvedExecuteImmediate ExecuteImmediateQuery".split())
# Plan classes that create a table by name.
_MAKING = frozenset("CreateTable CreateTableAsSelect ReplaceTable ReplaceTableAsSelect CreateTableLike".split())
# The keywords of a statement on a location without a table.
_CONVERTS = ["convert", "to", "delta"]


def enable(
    spark: SparkSession, options: Mapping[str, str] | None = None, *, catalogs: Mapping[str, Any] | None = None
) -> None:
    """Makes this session's Delta interfaces use deltaplane's native implementation; `disable`
    reverts it.

    Affected are: `spark.read` and `spark.readStream` with `format("delta")` (or `"deltaplane"`),
    `df.write` and `df.writeStream` with it, `df.writeTo`, `saveAsTable` and `toTable`,
    `spark.table`, and `spark.sql` as described for `sql`. Table names are stored in Spark's own
    catalog, as tables of the format `deltaplane` with a location; dropping a name keeps the files,
    unless the table is at the default location of its database.

    The session's analyser also finds Delta tables in views, including permanent ones, in SQL
    functions and in scripts. Statements that change tables must go through `spark.sql`. Without a
    plug-in in the JVM, JDBC clients and Scala programs can't use these interfaces.

    Args:
        spark: the session.
        options: access to stores for all tables of this session, also for names and paths in
            statements. They precede the session's settings (`spark.hadoop.fs.…` and
            `spark.deltaplane.storage.` with an option's name), and options of one call precede
            them. None keeps those of an earlier call.
        catalogs: catalogs whose tables statements and DataFrames name in three parts, by the first
            one: a `deltaplane.Catalog`, its URI, or a mapping with `uri` and `token`. Those that
            the session's settings `spark.sql.catalog.NAME.uri` and `.token` describe as Unity
            Catalog's documentation says are added. None keeps those of an earlier call.

    Raises:
        InvalidArgumentError: not a catalog, or a name that has another meaning in Spark.
        UnsupportedFeatureError: a Spark Connect session, for which `register` provides the format
            `deltaplane`; or a session with delta-spark's jar, which owns these names.

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
    if options is not None:
        hold_options(spark, options)
    if catalogs is not None or not catalogs_of(spark):
        hold_catalogs(spark, {**configured_catalogs(spark), **(catalogs or {})})
    if has_sources():
        dp.register(spark)
    _enabled.add(spark)
    spark.conf.set(_MARK, "true")
    ask(spark, _in_script)
    if not _originals:
        _patch()


def configure_spark_with_delta_pip(
    spark_session_builder: SparkSession.Builder, extra_packages: Sequence[str] | None = None
) -> SparkSession.Builder:
    """A builder whose sessions are enabled, a replacement for delta-spark's function of this name.

    Adds no jar: delta-spark's extension, catalog and Maven packages are removed from the builder's
    settings, and `extra_packages` are added to `spark.jars.packages`. A Spark Connect session gets
    the result of `register`.

    Raises:
        InvalidArgumentError: not a builder.
        UnsupportedFeatureError: raised by `getOrCreate`, as in `enable`: the session has
            delta-spark's jar.

    >>> from deltaplane.spark import configure_spark_with_delta_pip
    >>> from pyspark.sql import SparkSession
    >>> builder = SparkSession.builder.config(
    ...     "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    ... )
    >>> spark = configure_spark_with_delta_pip(builder).getOrCreate()
    >>> spark.range(3).write.format("delta").save("configured")
    >>> spark.read.format("delta").load("configured").count()
    3
    >>> disable(spark)
    """
    return wrapped_builder(spark_session_builder, extra_packages, _taken)


def _taken(spark: SparkSession) -> None:
    if is_connect(spark):
        dp.register(spark)
    else:
        enable(spark)


def disable(spark: SparkSession) -> None:
    """Returns this session's interfaces to Spark; does nothing if the session isn't enabled."""
    _enabled.discard(spark)
    # A stopped session has no settings.
    if not is_connect(spark) and spark.sparkContext._jsc is not None:
        spark.conf.unset(_MARK)
        if (left := end_session_transaction(spark)) is not None:
            left.rollback()
        release_options(spark)
        release_catalogs(spark)
        ask_no_more(spark)
    if not _enabled:
        for (owner, name), original in _originals.items():
            setattr(owner, name, original)
        _originals.clear()


def sql(spark: SparkSession, text: str, storage_options: Mapping[str, str] | None = None) -> DataFrame:
    """Runs a Spark SQL statement: natively if it names Delta tables, otherwise by Spark.

    A Delta table is named delta.`its location`, with an optional `VERSION AS OF` or
    `TIMESTAMP AS OF`, or by a name in Spark's catalog, of up to three parts, under which
    `saveAsTable` or CREATE TABLE … USING delta created it. Every statement of `deltaplane.sql`
    works on such tables: Spark runs queries; other statements return the result of `deltaplane.sql`
    as a frame, and OPTIMIZE first delta-spark's `path` and `metrics`. CACHE TABLE and UNCACHE TABLE
    of a Delta table have no effect; CACHE TABLE … AS creates the view. A new table without a
    LOCATION is created at the default location of its database; a statement with only a LOCATION
    takes over the existing table.

    `storage_options` are access to the stores of all tables that the statement names. Spark's own
    scan reads data files with the session's settings of Hadoop.

    Raises:
        UnsupportedFeatureError: this version doesn't support the named statement on Delta tables;
            or a Spark Connect session.
        SqlSyntaxError, DeltaError, PySparkException: as in `deltaplane.sql`, or as raised by Spark.

    >>> from deltaplane import spark as dp
    >>> _ = dp.write(spark.range(3), "numbers")
    >>> dp.sql(spark, "SELECT sum(id) AS total FROM delta.`numbers` VERSION AS OF 0").collect()
    [Row(total=3)]
    """
    if is_connect(spark):
        raise UnsupportedFeatureError(
            "deltaplane.spark.sql needs a classic session: deltaplane.sql(text, spark=spark) brings the rows here"
        )
    with in_session(spark), overriding(storage_options):
        return _sql_with(spark, text, lambda: _of_spark(spark, text))


def _sql_with(spark: SparkSession, text: str, by_spark: Callable[[], DataFrame]) -> DataFrame:
    """Runs `sql`; `by_spark` runs a statement for Spark whose text needed no replacement."""
    text = session_text(spark, text)
    done = transaction_statement(spark, text, lambda statement: sql(spark, statement))
    if done is None:
        check_statement(spark, text)
        done = catalog_statement(spark, text)
    if done is not None:
        return done
    # A script's statements run in turn: its analyser asks for the changes that each of them calls.
    in_turn = calls_changes(text) and _is_script(spark, text)
    with (
        spark_texts(),
        nullcontext(_identified(text)) if in_turn else changes_in_views(spark, _identified(text)) as shown,
    ):
        said = _said_otherwise(shown)
        done = _ran(spark, said, by_spark if said == text else None, changes=shown != _identified(text))
    if not _READS.match(shown):
        recache(spark)
    return done


def _ran(
    spark: SparkSession, text: str, by_spark: Callable[[], DataFrame] | None = None, *, changes: bool
) -> DataFrame:
    def of_spark() -> DataFrame:
        return _of_spark(spark, text) if by_spark is None else by_spark()

    # The analyser of a session that isn't enabled stays unchanged.
    finds = _is_enabled(spark) and ask(spark, _in_script)
    parsed = Parsed.of(spark, text) if finds and not _is_misread(text) else None
    if parsed is not None and not (changes and parsed.kind.startswith("CreateView")):
        if parsed.kind in _SCRIPTS:
            if (said := _immediate(spark, text)) is not None:
                return sql(spark, said)
            with Jvm.of(spark).in_script():
                return of_spark()
        if parsed.is_sparks:
            refuse_directory(text)
            return of_spark()
        if parsed.kind == "CreateTempViewUsing":
            check_no_columns(Grammar(text, own_queries=False))
            if has_sources() or not makes_view_of_source(spark, text):
                return of_spark()
            return spark.createDataFrame([], StructType([]))
        if parsed.changes_rows:
            for place, name in parsed.targets[:1]:
                run = parsed.kind.partition("Table")[0].partition("From")[0].partition("Into")[0].upper()
                if (said := about_the_table(spark, text, name, place, run)) is not None:
                    return _ran(spark, said, changes=changes)
        if parsed.is_several_inserts and any(_location_of(spark, name) for _, name in parsed.targets):
            return _inserted_in_turn(spark, text, parsed)
    if parsed is not None and parsed.kind == "SetTableLocation" and (to := _new_place(text)) is not None:
        shown = ".".join(map(quoted, parsed.targets[0][1]))
        if held_location(spark, shown) is not None:
            return relocate_name(spark, shown, to)
    if parsed is not None and parsed.kind == "ShowCreateTable":
        shown = ".".join(map(quoted, parsed.targets[0][1]))
        if (location := held_location(spark, shown)) is not None:
            managed = catalog_facts(spark, ".".join(parsed.targets[0][1]))[1]
            said = create_text(DeltaTable(location), qualified_name(spark, shown).replace("`", ""), managed=managed)
            return spark.createDataFrame([(said,)], "createtab_stmt string")
    names = _tables_in(spark, text) if parsed is None else _tables_of(spark, text, parsed)
    if names is None or _MAY_NAME_NONE.match(text):
        refuse_no_table(spark, text)
    if names is None and not changes:
        dropped = _dropped(spark, text)
        return of_spark() if dropped is None else drop_name(spark, dropped, text)
    catalog = Catalog(names or {}, version_at=version_at, by_session=finds)
    cursor = Grammar(text, own_queries=False)
    words = [token.text.lower() for token in cursor.tokens]
    if (view := CreatedView.of(cursor)) is not None:
        with on_spark(_Original(spark), cursor, view.query, catalog, follows=True) as frame:
            view.make(frame)
        return spark.createDataFrame([], StructType([]))
    if names is None:
        # The text contains temporary views for change feeds, so Spark runs it.
        return _of_spark(spark, text)
    if words[0] in _KEPT:
        return spark.createDataFrame([], StructType([]))
    if (renamed := renamed_table(Grammar(text, own_queries=False))) is not None:
        return rename_name(spark, *renamed, text)
    if words[0] in _QUERIES or (words[0] in _DESCRIBES and words[1:2] == ["query"]):
        with on_spark(_Original(spark), cursor, 0, catalog, follows=True) as frame:
            return frame
    command = command_of(text, own_queries=False)
    if isinstance(command, Selection):
        # Spark analyses the text immediately, so the views can be dropped afterwards.
        with on_spark(_Original(spark), command.cursor, 0, catalog, follows=True) as frame:
            return frame
    if isinstance(command, History):
        return history_frame(spark, command.run(Session(catalog, spark)))
    if isinstance(command, Detail):
        full_name = ".".join(command.table.parts)
        return detail_frame(
            spark, command.run(Session(catalog, spark)), full_name if full_name in (names or {}) else None
        )
    if isinstance(command, Optimize):
        return _optimized(spark, command, Session(catalog, spark))
    if isinstance(command, Purge):
        return _purged(spark, command, Session(catalog, spark))
    if isinstance(command, Vacuum):
        paths = command.run(Session(catalog, spark))["path"].to_pylist()
        return spark.createDataFrame([(hadoop_path(path),) for path in paths], "path string")
    made = CreatedTable.of(spark, Grammar(text, own_queries=False))
    if made is None:
        session = Session(catalog, spark)
        repeated = is_repetition(session, command)
        return result_frame(spark, command, command.run(session), repeated=repeated)
    if made.is_others:
        return spark.createDataFrame([], StructType([]))
    done = made.checked(spark, command).run(Session(catalog, spark))
    made.hold(spark, command)
    return frame_of_arrow(spark, done)


def _is_script(spark: SparkSession, text: str) -> bool:
    """Whether a text is BEGIN … END, whose statements a session's analyser asks for."""
    if not (_is_enabled(spark) and ask(spark, _in_script)):
        return False
    parsed = Parsed.of(spark, text)
    return parsed is not None and parsed.kind == "CompoundBody"


def _is_misread(text: str) -> bool:
    """Whether Spark's parser misreads a statement: DESCRIBE HISTORY and DETAIL, as a table with
    such a name."""
    words = [word.lower() for word in text.split(None, 2)[:2]]
    return len(words) == 2 and words[0] in _DESCRIBES and words[1] in ("history", "detail")


def _location_of(spark: SparkSession, name: Sequence[str]) -> str | None:
    """The location of the Delta table under a catalog name."""
    location = held_location(spark, ".".join(map(quoted, name)))
    if location is None and len(name) == 2 and name[0].lower() in FORMATS:
        return name[1]
    return location


def _new_place(text: str) -> str | None:
    """The location in ALTER TABLE … SET LOCATION for a whole table."""
    cursor = Grammar(text, own_queries=False)
    cursor.take("alter", "table")
    cursor.names("a table")
    return cursor.text("a location") if cursor.take("set", "location") else None


def _tables_of(spark: SparkSession, text: str, parsed: Parsed) -> dict[str, str] | None:
    """The names of Delta tables in a statement, with their locations; None if Spark must run the
    statement."""
    made = CreatedTable.of(spark, Grammar(text, own_queries=False)) if parsed.kind in _MAKING else None
    # Some commands name their table in the form of a query.
    targets = {name: _location_of(spark, name) for _, name in parsed.targets or parsed.reads}
    absent = [name for name, location in targets.items() if location is None] if made is None else []
    if missing := next((own for name in absent if (own := full_name(spark, name)) is not None), None):
        raise TableNotFoundError(
            f"the catalog has no table {missing}: create it, or see SHOW TABLES IN {missing.rpartition('.')[0]}",
            table=f"uc://{missing}",
        )
    if parsed.kind == "DropTable" or (made is None and not any(targets.values())):
        return None
    locations = {".".join(name): location for name, location in targets.items() if location is not None}
    for _, name in parsed.reads:
        if (location := _location_of(spark, name)) is not None:
            locations[".".join(name)] = location
    if made is not None:
        locations[made.key] = made.location
    return locations


def _inserted_in_turn(spark: SparkSession, text: str, parsed: Parsed) -> DataFrame:
    """Runs FROM … INSERT … INSERT … as one statement for each INSERT, all of which read the state
    before the first one."""
    cursor = Grammar(text, own_queries=False)
    heads = [
        index
        for index, token in enumerate(cursor.tokens)
        if token.text.lower() == "insert" and _is_outside(cursor, index)
    ]
    source = text[: cursor.tokens[heads[0]].start]
    held = {}
    for _, name in (*parsed.reads, *parsed.targets):
        if (location := _location_of(spark, name)) is not None and DeltaTable.is_deltatable(location):
            held[location] = DeltaTable(location).version()
    done: DataFrame | None = None
    for begin, end in pairwise([*heads, len(cursor.tokens)]):
        query = next(
            index
            for index in range(begin, end)
            if cursor.tokens[index].text.lower() in ("select", "map", "reduce") and _is_outside(cursor, index)
        )
        starts = cursor.tokens[begin].start, cursor.tokens[query].start
        ends = cursor.tokens[end - 1].end
        with reading(spark, held):
            said = f"{text[starts[0] : starts[1]]}{source}{text[starts[1] : ends]}"
            part = sql(spark, said.rstrip("; \n"))
        done = part if done is None else done.unionByName(part, allowMissingColumns=True)
    assert done is not None
    return done


def _is_outside(cursor: Grammar, index: int) -> bool:
    """Whether a token is outside of parentheses."""
    depth = [{"(": 1, ")": -1}.get(token.text, 0) for token in cursor.tokens[:index]]
    return sum(depth) == 0


def _in_script(spark: SparkSession, text: str) -> DataFrame | None:
    """Runs a statement of a script if it concerns a Delta table; returns None for others."""
    parsed = Parsed.of(spark, text)
    if parsed is not None and parsed.kind in _SCRIPTS:
        return _not_sparks(spark, text)
    if parsed is None or parsed.is_sparks:
        return None
    if not _is_about_tables(spark, text, parsed):
        return None
    if has_parameters(text):
        raise UnsupportedFeatureError(
            "inside of a script EXECUTE IMMEDIATE of a statement on a Delta table takes no USING: put the values into the "
            "statement's text, or run EXECUTE IMMEDIATE outside of BEGIN … END"
        )
    with Jvm.of(spark).in_script(False):
        return _sql_with(spark, text, lambda: _of_spark(spark, text))


def _not_sparks(spark: SparkSession, text: str) -> DataFrame | None:
    """Runs the statement of an EXECUTE IMMEDIATE that Spark's parser doesn't know (OPTIMIZE, say);
    None for others."""
    said = Immediate.text_of(text, lambda query: _of_spark(spark, query))
    if said is None or not (_is_misread(said) or Parsed.of(spark, said) is None):
        return None
    with Jvm.of(spark).in_script(False):
        return _sql_with(spark, said, lambda: _of_spark(spark, said))


def _is_about_tables(spark: SparkSession, text: str, parsed: Parsed) -> bool:
    """Whether a statement changes a Delta table, directly or through a view."""
    if parsed.changes_rows and Jvm.of(spark).is_temp_view(spark, parsed.targets[0][1]):
        return True
    return _tables_of(spark, text, parsed) is not None or _dropped(spark, text) is not None


def _immediate(spark: SparkSession, text: str) -> str | None:
    """The statement of EXECUTE IMMEDIATE … USING with its values inserted, if it changes a Delta
    table; None for others."""
    immediate = Immediate.of(text)
    if immediate is None:
        return None
    said = immediate.said(lambda query: _of_spark(spark, query))
    parsed = Parsed.of(spark, said)
    if parsed is None or parsed.is_sparks or parsed.kind in _SCRIPTS or not _is_about_tables(spark, said, parsed):
        return None
    return immediate.bound(said, lambda query: _of_spark(spark, query), Jvm.of(spark))


def _dropped(spark: SparkSession, text: str) -> str | None:
    try:
        return dropped_table(spark, Grammar(text, own_queries=False))
    except SqlSyntaxError:
        return None


def _optimized(spark: SparkSession, command: Optimize, session: Session) -> DataFrame:
    """The result of OPTIMIZE: delta-spark's columns, followed by those of `deltaplane.sql`."""
    began = now_ms()
    table, done = command.carried_out(session)
    result = Optimized.of(done, table, ordered=bool(command.columns), started_ms=began)
    frame = optimized_frame(spark, table.location, result)
    return frame.select("*", *(F.lit(n).cast("bigint").alias(name) for name, n in command.counts(done).items()))


def _purged(spark: SparkSession, command: Purge, session: Session) -> DataFrame:
    """The result of REORG: delta-spark's columns, which are those of OPTIMIZE, followed by those of
    `deltaplane.sql`."""
    began = now_ms()
    done = command.carried_out(session)
    metrics = purged_metrics(done.table, done.considered, done.version)
    result = replace(Optimized.of(metrics, done.table, ordered=False, started_ms=began), clustered=False)
    frame = optimized_frame(spark, done.table.location, result)
    (counts,) = done.metrics.to_pylist()
    return frame.select("*", *(F.lit(n).cast("bigint").alias(name) for name, n in counts.items()))


def _said_otherwise(text: str) -> str:
    """Translates a statement to the syntax of `deltaplane.sql`."""
    try:
        tokens = Grammar(text, own_queries=False).tokens
    except SqlSyntaxError:
        return text
    words = [token.text.lower() for token in tokens]
    for before in _BEFORE_PATHS:
        index = len(before)
        if words[:index] == before and index < len(tokens) and tokens[index].kind == "string":
            return f"{text[: tokens[index].start]}delta.{_quoted_path(tokens[index])}{text[tokens[index].end :]}"
    return text


def _identified(text: str) -> str:
    """A statement with IDENTIFIER(…) replaced by the name in its text."""

    def named(match: re.Match[str]) -> str:
        texts = match["texts"] or match["listed"]
        return match[0] if texts is None else "".join(literal[1:-1] for literal in re.findall(_TEXT, texts))

    return _IDENTIFIER.sub(named, text)


def _quoted_path(token: Token) -> str:
    return quoted(token.text[1:-1].replace("\\'", "'").replace("\\\\", "\\"))


class _Original:
    """A session whose `sql` is Spark's own."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def sql(self, text: str) -> DataFrame:
        return _of_spark(self._spark, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)


def _is_enabled(spark: Any) -> bool:
    return spark in _enabled or (not is_connect(spark) and spark.conf.get(_MARK, None) == "true")


def _of_spark(spark: SparkSession, text: str, *args: Any, **kwargs: Any) -> DataFrame:
    run = _originals.get((SparkSession, "sql"), SparkSession.sql)
    frame: DataFrame = run(spark, text, *args, **kwargs)
    return frame


def _tables_in(spark: SparkSession, text: str) -> dict[str, str] | None:
    """The names of the catalog's Delta tables in a statement, with their locations; None if it
    names none."""
    try:
        cursor = Grammar(text, own_queries=False)
    except SqlSyntaxError:
        return None
    tokens, locations = cursor.tokens, dict[str, str]()
    words = [token.text.lower() for token in tokens]
    by_path = words[:3] == _CONVERTS
    # Behind the first FROM, a comma may precede a table as well.
    begins = words.index("from") if "from" in words else len(words)
    for index in range(1, len(tokens)):
        named = words[index - 1] in _BEFORE_NAMES or (words[index - 1] in (",", "(") and index > begins)
        named = named or (words[:2] == ["show", "columns"] and words[index - 1] == "in") or words[:index] == ["refresh"]
        named = named or (words[:2] == ["create", "table"] and words[index - 1] == "like")
        named = named or words[:index] == ["create", "table", "if", "not", "exists"]
        named = named or (words[:1] == ["uncache"] and words[index - 1] == "exists")
        if not named or tokens[index].kind not in ("name", "quoted"):
            continue
        parts = name_at(cursor, index)
        if is_path(parts):
            by_path = True
        elif (location := held_location(spark, ".".join(parts))) is not None:
            locations[".".join(part.strip("`") for part in parts)] = location
    if words[:1] == ["drop"] and not by_path:
        # The name belongs to another table of the catalog.
        return None
    if (made := CreatedTable.of(spark, cursor)) is not None:
        locations[made.key] = made.location
    return locations if locations or by_path else None


def _patch() -> None:
    """Replaces methods of PySpark's classes; sessions that aren't enabled keep the original
    behaviour."""
    frames = frame_class()

    def instead(owner: type, name: str, ours: Any, session: Any) -> None:
        original = owner.__dict__[name]
        _originals[owner, name] = original
        if isinstance(original, property):
            assert original.fget is not None
            theirs = original.fget
            chosen = property(lambda self: (ours if _is_enabled(session(self)) else theirs)(self))
            setattr(owner, name, chosen)
            return

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not _is_enabled(session(self)):
                return original(self, *args, **kwargs)
            with in_session(session(self)):
                return ours(self, *args, **kwargs)

        setattr(owner, name, method)

    instead(SparkSession, "read", Reader, lambda spark: spark)
    instead(SparkSession, "readStream", StreamReader, lambda spark: spark)
    instead(Catalogs, "listColumns", _list_columns, lambda catalog: catalog._sparkSession)
    for name, call in catalog_calls.calls():
        instead(Catalogs, name, catalog_calls.instead_of(_originals, name, call), lambda catalog: catalog._sparkSession)
    for name, ours in (
        ("listTables", _list_tables),
        ("getTable", _get_table),
        ("tableExists", _table_exists),
        ("createTable", _create_table),
        ("refreshTable", _refresh_table),
    ):
        instead(Catalogs, name, ours, lambda catalog: catalog._sparkSession)
    instead(SparkSession, "sql", _sql, lambda spark: spark)
    instead(SparkSession, "newSession", _new_session, lambda spark: spark)
    instead(SparkSession, "table", lambda spark, name: Reader(spark).table(name), lambda spark: spark)
    instead(frames, "write", Writer, lambda frame: frame.sparkSession)
    # PySpark 3.5 has no such method.
    if hasattr(frames, "mergeInto"):
        instead(frames, "mergeInto", _merge_into, lambda frame: frame.sparkSession)
    instead(frames, "writeTo", WriterV2, lambda frame: frame.sparkSession)
    instead(frames, "writeStream", StreamWriter, lambda frame: frame.sparkSession)


def _merge_into(frame: DataFrame, table: str, condition: Any) -> Any:
    if located(frame.sparkSession, table) is None:
        return _originals[type(frame), "mergeInto"](frame, table, condition)
    try:
        return MergeWriter(frame, table, condition)
    except DeltaError as e:
        raise as_sparks(e, "DataFrame.mergeInto") from None


def _new_session(spark: SparkSession) -> SparkSession:
    made: SparkSession = _originals[SparkSession, "newSession"](spark)
    enable(made, catalogs=catalogs_of(spark))
    return made


def _list_columns(catalog: Any, tableName: str, dbName: str | None = None) -> Any:
    name = tableName if dbName is None else f"{dbName}.{tableName}"
    columns = listed_columns(catalog._sparkSession, name)
    return _originals[Catalogs, "listColumns"](catalog, tableName, dbName) if columns is None else columns


def _list_tables(catalog: Any, *args: Any, **kwargs: Any) -> Any:
    if (own := catalog_calls.list_tables(catalog._sparkSession, *args, **kwargs)) is not None:
        return own
    tables = _originals[Catalogs, "listTables"](catalog, *args, **kwargs)
    return [listed_table(catalog._sparkSession, table) for table in tables]


def _get_table(catalog: Any, tableName: str) -> Any:
    try:
        if is_path(tableName.split(".", 1)):
            return described_table(catalog._sparkSession, tableName, None)
        if (own := catalog_calls.get_table(catalog._sparkSession, tableName)) is not None:
            return own
    except DeltaError as e:
        raise as_sparks(e, "Catalog.getTable") from None
    table = _originals[Catalogs, "getTable"](catalog, tableName)
    return described_table(catalog._sparkSession, tableName, table) or table


def _table_exists(catalog: Any, tableName: str, dbName: str | None = None) -> bool:
    there = is_table_at(tableName) if dbName is None else None
    own = catalog_calls.own_table(catalog._sparkSession, tableName, dbName)
    if there is None and own is not None:
        return held_location(catalog._sparkSession, own) is not None
    return bool(_originals[Catalogs, "tableExists"](catalog, tableName, dbName)) if there is None else there


def _refresh_table(catalog: Any, tableName: str) -> None:
    # Each query of a Delta table reads its newest version.
    if located(catalog._sparkSession, tableName) is None:
        _originals[Catalogs, "refreshTable"](catalog, tableName)


def _create_table(
    catalog: Any,
    tableName: str,
    path: str | None = None,
    source: str | None = None,
    schema: StructType | None = None,
    description: str | None = None,
    **options: str,
) -> Any:
    spark = catalog._sparkSession
    provider = source or spark.conf.get("spark.sql.sources.default")
    if str(provider).lower() not in FORMATS:
        make = _originals[Catalogs, "createTable"]
        return make(catalog, tableName, path, source, schema, description, **options)
    try:
        created_table(spark, tableName, path, schema, description, options)
    except DeltaError as e:
        raise as_sparks(e, "Catalog.createTable") from None
    return Reader(spark).table(tableName)


def _sql(spark: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:
    try:
        if not kwargs:
            return _sql_of(spark, sqlQuery, args)
        frames = SQLStringFormatter(spark)
        try:
            # As in Spark, the frames are temporary views during the call.
            return _sql_of(spark, frames.format(sqlQuery, **kwargs), args)
        finally:
            frames.clear()
    except DeltaError as e:
        raise as_sparks(e, sqlQuery) from None


def _sql_of(spark: SparkSession, text: str, args: Any) -> DataFrame:
    if args:
        check_no_values(text)
    if not args:
        return _sql_with(spark, text, lambda: _of_spark(spark, text, args))
    parsed = Parsed.of(spark, text) if ask(spark, _in_script) and not calls_changes(text) else None
    mixed_up = not isinstance(args, Mapping) and len(args) > _PLACES
    reads = () if parsed is None else parsed.reads
    by_itself = parsed is not None and parsed.is_sparks and parsed.kind not in _SCRIPTS
    if by_itself and not (mixed_up and any(_location_of(spark, name) for _, name in reads)):
        return _of_spark(spark, text, args)
    bound = with_values(text, args, lambda query, values: _of_spark(spark, query, values), Jvm.of(spark))
    if bound is None:
        return _of_spark(spark, text, args)
    by_spark = (lambda: _of_spark(spark, bound)) if mixed_up else (lambda: _of_spark(spark, text, args))
    return _sql_with(spark, bound, by_spark)
