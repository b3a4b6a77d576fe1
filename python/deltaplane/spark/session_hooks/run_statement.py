"""Runs the statements of `spark.sql`: natively if they name Delta tables, otherwise by Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from deltaplane.exceptions import SqlSyntaxError, TableNotFoundError, UnsupportedFeatureError
from deltaplane.expr.quoting import spark_texts
from deltaplane.io.session_options import in_session, overriding
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.sources import Catalog
from deltaplane.spark.datasource.session import session_text
from deltaplane.spark.datasource.time_travel import version_at
from deltaplane.spark.delta_api.history import detail_frame, history_frame
from deltaplane.spark.delta_api.optimize_result import Optimized, now_ms, optimized_frame, purged_metrics
from deltaplane.spark.delta_api.relations import ask, reading
from deltaplane.spark.delta_api.table_changes import calls_changes, changes_in_views
from deltaplane.spark.execution.recache import recache
from deltaplane.spark.jvm.internals import Jvm, is_connect
from deltaplane.spark.jvm.names import (
    FORMATS,
    catalog_facts,
    drop_name,
    hadoop_path,
    held_location,
    qualified_name,
    relocate_name,
    rename_name,
)
from deltaplane.spark.jvm.older_pyspark import frame_of_arrow
from deltaplane.spark.jvm.parameters import has_parameters, with_values
from deltaplane.spark.jvm.parsed import Parsed
from deltaplane.spark.jvm.schema import quoted
from deltaplane.spark.jvm.session_catalogs import full_name
from deltaplane.spark.jvm.spark_versions import has_sources
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
    transaction_statement,
)
from deltaplane.spark.session_hooks.execute_immediate import Immediate
from deltaplane.spark.session_hooks.first_words import starting_with
from deltaplane.spark.session_hooks.no_table import refuse_directory, refuse_no_table
from deltaplane.spark.session_hooks.originals import OriginalSession, is_enabled, run_by_spark
from deltaplane.spark.session_hooks.results import is_repetition, result_frame
from deltaplane.spark.session_hooks.show_create_table import create_text
from deltaplane.spark.session_hooks.statement_texts import (
    DESCRIBES,
    in_own_syntax,
    is_misread,
    is_outside,
    new_location,
    with_names,
)
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

__all__ = ["run_in_script", "run_statement", "run_with_values", "sql"]

# Keywords behind which a table's name follows.
_BEFORE_NAMES = frozenset(
    (
        "from join into overwrite update table using describe desc extended formatted detail history optimize full vacuum "
        "restore clone tblproperties partitions"
    ).split()
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
# Maximum number of values that Spark 4.2 binds correctly by position.
_PLACES = 4
# Plan classes that run statements.
_SCRIPTS = frozenset("CompoundBody UnresolvedExecuteImmediate ExecuteImmediateQuery".split())
# Plan classes that create a table by name.
_MAKING = frozenset("CreateTable CreateTableAsSelect ReplaceTable ReplaceTableAsSelect CreateTableLike".split())
# The keywords of a statement on a location without a table.
_CONVERTS = ["convert", "to", "delta"]


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
        return run_statement(spark, text, lambda: run_by_spark(spark, text))


def run_statement(spark: SparkSession, text: str, by_spark: Callable[[], DataFrame]) -> DataFrame:
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
        nullcontext(with_names(text)) if in_turn else changes_in_views(spark, with_names(text)) as shown,
    ):
        said = in_own_syntax(shown)
        done = _ran(spark, said, by_spark if said == text else None, changes=shown != with_names(text))
    if not _READS.match(shown):
        recache(spark)
    return done


def run_with_values(spark: SparkSession, text: str, args: Any) -> DataFrame:
    """Runs a statement with the values of its parameters, as `run_statement` does."""
    if not args:
        return run_statement(spark, text, lambda: run_by_spark(spark, text, args))
    check_no_values(text)
    parsed = Parsed.of(spark, text) if ask(spark, run_in_script) and not calls_changes(text) else None
    mixed_up = not isinstance(args, Mapping) and len(args) > _PLACES
    reads = () if parsed is None else parsed.reads
    by_itself = parsed is not None and parsed.is_sparks and parsed.kind not in _SCRIPTS
    if by_itself and not (mixed_up and any(_location_of(spark, name) for _, name in reads)):
        return run_by_spark(spark, text, args)
    bound = with_values(text, args, lambda query, values: run_by_spark(spark, query, values), Jvm.of(spark))
    if bound is None:
        return run_by_spark(spark, text, args)
    by_spark = (lambda: run_by_spark(spark, bound)) if mixed_up else (lambda: run_by_spark(spark, text, args))
    return run_statement(spark, bound, by_spark)


def _ran(
    spark: SparkSession, text: str, by_spark: Callable[[], DataFrame] | None = None, *, changes: bool
) -> DataFrame:
    def of_spark() -> DataFrame:
        return run_by_spark(spark, text) if by_spark is None else by_spark()

    # The analyser of a session that isn't enabled stays unchanged.
    finds = is_enabled(spark) and ask(spark, run_in_script)
    parsed = Parsed.of(spark, text) if finds and not is_misread(text) else None
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
    if parsed is not None and parsed.kind == "SetTableLocation" and (to := new_location(text)) is not None:
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
        with on_spark(OriginalSession(spark), cursor, view.query, catalog, follows=True) as frame:
            view.make(frame)
        return spark.createDataFrame([], StructType([]))
    if names is None:
        # The text contains temporary views for change feeds, so Spark runs it.
        return run_by_spark(spark, text)
    if words[0] in _KEPT:
        return spark.createDataFrame([], StructType([]))
    if (renamed := renamed_table(Grammar(text, own_queries=False))) is not None:
        return rename_name(spark, *renamed, text)
    if words[0] in _QUERIES or (words[0] in DESCRIBES and words[1:2] == ["query"]):
        with on_spark(OriginalSession(spark), cursor, 0, catalog, follows=True) as frame:
            return frame
    command = command_of(text, own_queries=False)
    if isinstance(command, Selection):
        # Spark analyses the text immediately, so the views can be dropped afterwards.
        with on_spark(OriginalSession(spark), command.cursor, 0, catalog, follows=True) as frame:
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
    if not (is_enabled(spark) and ask(spark, run_in_script)):
        return False
    parsed = Parsed.of(spark, text)
    return parsed is not None and parsed.kind == "CompoundBody"


def _location_of(spark: SparkSession, name: Sequence[str]) -> str | None:
    """The location of the Delta table under a catalog name."""
    location = held_location(spark, ".".join(map(quoted, name)))
    if location is None and len(name) == 2 and name[0].lower() in FORMATS:
        return name[1]
    return location


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


def _inserted_in_turn(spark: SparkSession, text: str, parsed: Parsed) -> DataFrame:
    """Runs FROM … INSERT … INSERT … as one statement for each INSERT, all of which read the state
    before the first one."""
    cursor = Grammar(text, own_queries=False)
    heads = [
        index
        for index, token in enumerate(cursor.tokens)
        if token.text.lower() == "insert" and is_outside(cursor, index)
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
            if cursor.tokens[index].text.lower() in ("select", "map", "reduce") and is_outside(cursor, index)
        )
        starts = cursor.tokens[begin].start, cursor.tokens[query].start
        ends = cursor.tokens[end - 1].end
        with reading(spark, held):
            said = f"{text[starts[0] : starts[1]]}{source}{text[starts[1] : ends]}"
            part = sql(spark, said.rstrip("; \n"))
        done = part if done is None else done.unionByName(part, allowMissingColumns=True)
    assert done is not None
    return done


def run_in_script(spark: SparkSession, text: str) -> DataFrame | None:
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
        return run_statement(spark, text, lambda: run_by_spark(spark, text))


def _not_sparks(spark: SparkSession, text: str) -> DataFrame | None:
    """Runs the statement of an EXECUTE IMMEDIATE that Spark's parser doesn't know (OPTIMIZE, say);
    None for others."""
    said = Immediate.text_of(text, lambda query: run_by_spark(spark, query))
    if said is None or not (is_misread(said) or Parsed.of(spark, said) is None):
        return None
    with Jvm.of(spark).in_script(False):
        return run_statement(spark, said, lambda: run_by_spark(spark, said))


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
    said = immediate.said(lambda query: run_by_spark(spark, query))
    parsed = Parsed.of(spark, said)
    if parsed is None or parsed.is_sparks or parsed.kind in _SCRIPTS or not _is_about_tables(spark, said, parsed):
        return None
    return immediate.bound(said, lambda query: run_by_spark(spark, query), Jvm.of(spark))


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
