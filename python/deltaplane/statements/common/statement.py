"""The base of statements: keywords, parsing, and running with a result table.

Defines no statement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from deltaplane.commands.column_defaults import default_text
from deltaplane.commands.duckdb_engine import Memory
from deltaplane.commands.rewriting import Settings
from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr.syntax import Name, Syntax, Token
from deltaplane.queries.cursor import unqualified
from deltaplane.queries.expressions import BEGINNINGS
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.results.query_result import QueryResult
from deltaplane.queries.scopes import contains, rewritten
from deltaplane.queries.sources import Catalog
from deltaplane.queries.syntax import Subquery, TableName
from deltaplane.schema import Field
from deltaplane.table.delta_table import DeltaTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from deltaplane.commands.dry_run import DryRun
    from deltaplane.properties import CommitProperties
    from deltaplane.table.alter_plan import AlterPlan

__all__ = [
    "Clause",
    "Command",
    "Rehearsable",
    "Session",
    "Statement",
    "altered",
    "commit_of",
    "counted",
    "default_of",
    "field_named",
    "judges_rows",
    "listed",
    "one_row",
    "rows",
    "runs_tasks",
    "settings_of",
    "unqualified_names",
]


@dataclass(frozen=True)
class Session:
    """The environment in which a statement runs: catalog, Spark session and options."""

    catalog: Catalog
    spark: SparkSession | None = None
    memory: Memory | None = None


def runs_tasks(spark: SparkSession) -> bool:
    """Whether a session's tasks can run a command's work; a Spark Connect session has no tasks that
    this process can reach."""
    return hasattr(spark, "_jsparkSession")


def judges_rows(spark: SparkSession | None) -> bool:
    """Whether a session's tasks evaluate a command's conditions and values."""
    if spark is None or not runs_tasks(spark):
        return False
    from deltaplane.spark.jvm.internals import Jvm, NativeScanUnavailable

    try:
        Jvm.of(spark)
    except NativeScanUnavailable:
        return False
    return True


def settings_of(session: Session, *, dry_run: bool) -> Settings:
    """The settings of a command on rows, with the Spark session's own settings for commits."""
    return Settings(commit=commit_of(session, dry_run=dry_run), dry_run=dry_run)


def commit_of(session: Session, *, dry_run: bool) -> CommitProperties | None:
    """The Spark session's settings for a commit that changes rows."""
    if session.spark is None:
        return None
    from deltaplane.spark.datasource.delta_options import change_properties

    return change_properties(session.spark, dry_run=dry_run)


class Command(Protocol):
    """A parsed statement."""

    def run(self, session: Session) -> pa.Table | QueryResult:
        """Runs the statement; every statement returns a table."""


@runtime_checkable
class Rehearsable(Command, Protocol):
    """A statement with a dry run."""

    def run_dry(self, session: Session) -> DryRun:
        """Plans the statement; writes nothing."""


@dataclass(frozen=True)
class Statement:
    """One entry of the list of statements: `words` are its first keywords, and `read` parses it
    except for the end."""

    words: tuple[str, ...]
    read: Callable[[Grammar], Command]

    @property
    def name(self) -> str:
        """The keywords, formatted for error messages."""
        return " ".join(self.words).upper()


class Clause:
    """An expression in a statement, with its original text."""

    def __init__(self, cursor: Grammar, start: int, tree: Syntax | None) -> None:
        self.cursor = cursor
        self.token = start
        self.tree = tree
        self.tokens: list[Token] = cursor.tokens_from(start)
        self.text = cursor.text_from(start)

    @classmethod
    def read(cls, cursor: Grammar, *, subqueries: bool = False) -> Clause:
        """Parses the next expression, with or without subqueries.

        Raises:
            UnsupportedExpressionError: a subquery where none is allowed.
        """
        start = cursor.at
        clause = cls(cursor, start, cursor.with_subqueries() if subqueries else cursor.expression())
        if clause.has_subqueries and not subqueries:
            index = next(i for i in range(start, cursor.at) if cursor.tokens[i].text.lower() in BEGINNINGS)
            line, column = cursor.place_of(index)
            raise UnsupportedExpressionError(
                f"line {line}, column {column}: a subquery can't stand here: MERGE with the query as its source, or write "
                "its result instead; conditions of DELETE and UPDATE may have subqueries"
            )
        return clause

    @classmethod
    def of_rows(cls, cursor: Grammar, *, subqueries: bool = False) -> Clause:
        """Parses an expression that a command on rows evaluates, as `read` does; Spark evaluates
        the text itself, with all of its functions.

        Raises:
            UnsupportedExpressionError: as in `read`.
        """
        if cursor.own_queries:
            return cls.read(cursor, subqueries=subqueries)
        start = cursor.at
        return cls(cursor, start, cursor.others_expression())

    @property
    def has_subqueries(self) -> bool:
        """Whether it contains queries, as far as its tree is known."""
        return self.tree is not None and contains(self.tree, Subquery)

    @property
    def where(self) -> tuple[Syntax, str, int]:
        """Tree, text and first token of an expression for the embedded engine."""
        assert self.tree is not None
        return self.tree, self.text, self.token

    def over(self, table: DeltaTable, name: TableName) -> str:
        """Its text over the columns of one table, without the table's name as a qualifier."""
        columns = {field.name.lower() for field in table.schema().fields}
        return unqualified(self.tokens, self.cursor.sql, [name.qualifiers], columns)


def unqualified_names(tree: Syntax, name: TableName, table: DeltaTable) -> Syntax:
    """A condition's tree with the columns of a table named without the table's qualifier."""
    columns, n = {field.name.lower() for field in table.schema().fields}, len(name.qualifiers)

    def change(part: Syntax) -> Syntax | None:
        if not isinstance(part, Name) or len(part.parts) <= n or part.parts[n].lower() not in columns:
            return None
        begins = [p.lower() for p in part.parts[:n]] == [q.lower() for q in name.qualifiers]
        return Name(part.parts[n:]) if begins else None

    return rewritten(tree, change)


def rows(columns: Sequence[str], values: Sequence[Sequence[Any]], types: Mapping[str, pa.DataType]) -> pa.Table:
    """Builds a table of these rows; columns are text unless `types` gives another type."""
    import pyarrow as pa

    fields = [pa.field(name, types.get(name, pa.string())) for name in columns]
    records = [dict(zip(columns, row, strict=True)) for row in values]
    return pa.Table.from_pylist(records, schema=pa.schema(fields))


def one_row(**values: str | int | None) -> pa.Table:
    """Builds a table of one row; whole numbers are longs."""
    import pyarrow as pa

    kinds = {name: pa.string() if isinstance(value, str) else pa.int64() for name, value in values.items()}
    return rows(list(values), [list(values.values())], kinds)


def counted(affected: int | None, metrics: Mapping[str, Any], version: int | None) -> pa.Table:
    """The result of a command on rows: `num_affected_rows`, the command's metrics, and the
    committed version.

    `num_affected_rows` is null if the rows weren't counted, and the version is null if nothing was
    committed.
    """
    numbers = {k: v for k, v in metrics.items() if (v is None or isinstance(v, int)) and k != "version"}
    return one_row(num_affected_rows=affected, **numbers, version=version)


def altered(plan: AlterPlan) -> pa.Table:
    """The result of a change of a table: the operation and the committed version, null if nothing
    was committed."""
    return one_row(operation=plan.operation, version=plan.version)


def listed(name: str, values: Sequence[str]) -> pa.Table:
    """Builds a table of one text column."""
    return rows([name], [[value] for value in values], {})


def default_of(field: Field) -> str:
    """The text of a column's default, in the column's type; NULL without a default."""
    sql = field.metadata.get("CURRENT_DEFAULT")
    return "NULL" if sql is None else default_text(str(sql), field.type.to_value())


def field_named(table: DeltaTable, column: str) -> Field:
    """Finds a column of a table, ignoring case.

    Raises:
        InvalidArgumentError: no such column.
    """
    for field in table.schema().fields:
        if field.name.lower() == column.lower():
            return field
    known = ", ".join(field.name for field in table.schema().fields)
    raise InvalidArgumentError(f"the table has no column `{column}` (there are {known[:300]})")
