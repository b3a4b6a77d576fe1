"""What a statement is: the words that it begins with, how it is read, and what it gives when it is
run.

Knows no statement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from deltaplane.commands.rewriting import Settings
from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr.syntax import Name, Syntax, Token
from deltaplane.queries.cursor import unqualified
from deltaplane.queries.expressions import BEGINNINGS
from deltaplane.queries.grammar import Grammar
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
    from deltaplane.table.alter import AlterPlan

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
    """What a statement is run with."""

    catalog: Catalog
    spark: SparkSession | None = None


def runs_tasks(spark: SparkSession) -> bool:
    """Whether a session's tasks can do a command's work; those of Spark Connect are out of this
    process's reach."""
    return hasattr(spark, "_jsparkSession")


def judges_rows(spark: SparkSession | None) -> bool:
    """Whether a session evaluates a command's conditions and values, by its own tasks."""
    if spark is None or not runs_tasks(spark):
        return False
    from deltaplane.spark.jvm.internals import Jvm, NativeScanUnavailable

    try:
        Jvm.of(spark)
    except NativeScanUnavailable:
        return False
    return True


def settings_of(session: Session, *, dry_run: bool) -> Settings:
    """How a command on rows runs, with what a session of Spark says of each commit."""
    return Settings(commit=commit_of(session, dry_run=dry_run), dry_run=dry_run)


def commit_of(session: Session, *, dry_run: bool) -> CommitProperties | None:
    """What a session of Spark says of a commit that changes rows."""
    if session.spark is None:
        return None
    from deltaplane.spark.datasource.delta_options import change_properties

    return change_properties(session.spark, dry_run=dry_run)


class Command(Protocol):
    """A statement that was read."""

    def run(self, session: Session) -> pa.Table:
        """Runs the statement; every statement returns a table."""


@runtime_checkable
class Rehearsable(Command, Protocol):
    """One that can say first what it would do."""

    def run_dry(self, session: Session) -> DryRun:
        """What it would do; writes nothing."""


@dataclass(frozen=True)
class Statement:
    """One member of the list: `words` are what it begins with, `read` takes all of it but for the
    end."""

    words: tuple[str, ...]
    read: Callable[[Grammar], Command]

    @property
    def name(self) -> str:
        """The words as errors show them."""
        return " ".join(self.words).upper()


class Clause:
    """An expression in a statement, as it was written."""

    def __init__(self, cursor: Grammar, start: int, tree: Syntax | None) -> None:
        self.cursor = cursor
        self.token = start
        self.tree = tree
        self.tokens: list[Token] = cursor.tokens_from(start)
        self.text = cursor.text_from(start)

    @classmethod
    def read(cls, cursor: Grammar, *, subqueries: bool = False) -> Clause:
        """The expression that comes next, with subqueries or without.

        Raises:
            UnsupportedExpressionError: a subquery where there is no place for one.
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
        """As `read`, of what a command on rows evaluates: Spark takes all that it has, in the text
        as it is.

        Raises:
            UnsupportedExpressionError: as `read`.
        """
        if cursor.own_queries:
            return cls.read(cursor, subqueries=subqueries)
        start = cursor.at
        return cls(cursor, start, cursor.others_expression())

    @property
    def has_subqueries(self) -> bool:
        """Whether it holds queries, as far as its tree is known."""
        return self.tree is not None and contains(self.tree, Subquery)

    @property
    def where(self) -> tuple[Syntax, str, int]:
        """Tree, text and first token of an expression for the embedded engine."""
        assert self.tree is not None
        return self.tree, self.text, self.token

    def over(self, table: DeltaTable, name: TableName) -> str:
        """Its text over the columns of one table, without the table's name before them."""
        columns = {field.name.lower() for field in table.schema().fields}
        return unqualified(self.tokens, self.cursor.sql, [name.qualifiers], columns)


def unqualified_names(tree: Syntax, name: TableName, table: DeltaTable) -> Syntax:
    """A condition's tree with the columns of a table as they are called without the table's name
    before them."""
    columns, n = {field.name.lower() for field in table.schema().fields}, len(name.qualifiers)

    def change(part: Syntax) -> Syntax | None:
        if not isinstance(part, Name) or len(part.parts) <= n or part.parts[n].lower() not in columns:
            return None
        begins = [p.lower() for p in part.parts[:n]] == [q.lower() for q in name.qualifiers]
        return Name(part.parts[n:]) if begins else None

    return rewritten(tree, change)


def rows(columns: Sequence[str], values: Sequence[Sequence[Any]], types: Mapping[str, pa.DataType]) -> pa.Table:
    """A table of these rows; columns are text unless `types` says otherwise."""
    import pyarrow as pa

    fields = [pa.field(name, types.get(name, pa.string())) for name in columns]
    records = [dict(zip(columns, row, strict=True)) for row in values]
    return pa.Table.from_pylist(records, schema=pa.schema(fields))


def one_row(**values: str | int | None) -> pa.Table:
    """A table of one row: whole numbers are longs."""
    import pyarrow as pa

    kinds = {name: pa.string() if isinstance(value, str) else pa.int64() for name, value in values.items()}
    return rows(list(values), [list(values.values())], kinds)


def counted(affected: int | None, metrics: Mapping[str, Any], version: int | None) -> pa.Table:
    """What a command on rows gives: `num_affected_rows`, the command's metrics, and the version
    that it made.

    Null where nobody counted the rows, and where nothing was to do.
    """
    numbers = {k: v for k, v in metrics.items() if (v is None or isinstance(v, int)) and k != "version"}
    return one_row(num_affected_rows=affected, **numbers, version=version)


def altered(plan: AlterPlan) -> pa.Table:
    """What a change of a table gives: the operation, and the version that it made unless nothing
    was to change."""
    return one_row(operation=plan.operation, version=plan.version)


def listed(name: str, values: Sequence[str]) -> pa.Table:
    """A table of one column of text."""
    return rows([name], [[value] for value in values], {})


def default_of(field: Field) -> str:
    """The text of a column's default, NULL where it has none."""
    return str(field.metadata.get("CURRENT_DEFAULT", "NULL"))


def field_named(table: DeltaTable, column: str) -> Field:
    """A column of a table, found ignoring case.

    Raises:
        InvalidArgumentError: there is none.
    """
    for field in table.schema().fields:
        if field.name.lower() == column.lower():
            return field
    known = ", ".join(field.name for field in table.schema().fields)
    raise InvalidArgumentError(f"the table has no column `{column}` (there are {known[:300]})")
