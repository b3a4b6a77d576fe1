"""What a query's text says, as plain values: relations, selections, sets of rows, order.

Knows no table and no types. Made by `grammar`, read by `planning`.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltaplane.expr.syntax import Call, Syntax
from deltaplane.io.storage_options import VersionLike

__all__ = [
    "Aggregate",
    "Body",
    "Frame",
    "Item",
    "Join",
    "Nested",
    "Order",
    "Pivot",
    "PivotValue",
    "Query",
    "Relation",
    "Select",
    "SetOperation",
    "Star",
    "Subquery",
    "TableName",
    "Unpivot",
    "Values",
    "View",
    "Window",
]


@dataclass(frozen=True)
class TableName:
    """A table as it is named: `delta.path` or a name of the caller's, with the version that is
    asked for.

    `token` is the number of the statement's token where it begins.
    """

    parts: tuple[str, ...]
    version: VersionLike | None = None
    alias: str | None = None
    columns: tuple[str, ...] = ()
    token: int = 0

    @property
    def path(self) -> str | None:
        """The location, where the name is one."""
        return self.parts[1] if len(self.parts) == 2 and self.parts[0].lower() == "delta" else None

    @property
    def shown(self) -> str:
        """The name as errors show it."""
        return f"delta.`{self.parts[1]}`" if self.path is not None else ".".join(self.parts)

    @property
    def qualifiers(self) -> tuple[str, ...]:
        """What may stand before its columns."""
        return self.parts if self.alias is None else (self.alias,)


@dataclass(frozen=True)
class Aggregate(Call):
    """A call of an aggregate function; `where` are the rows that it counts."""

    distinct: bool = False
    where: Syntax | None = None


@dataclass(frozen=True)
class Frame:
    """The rows around a row, or by RANGE those with near values; None is without bound, what
    precedes is below zero."""

    rows: bool
    start: int | None
    end: int | None

    @property
    def offsets(self) -> bool:
        """Whether a bound is neither the row itself nor the partition's."""
        return bool(self.start) or bool(self.end)


@dataclass(frozen=True)
class Window(Call):
    """A function over a window: `args` are the function's, then what partitions the rows, then what
    orders them.

    `orders` tells for each of the last whether it is descending and has nulls first. `named`:
    WINDOW tells the rest.
    """

    partitions: int = 0
    orders: tuple[tuple[bool, bool], ...] = ()
    frame: Frame | None = None
    ignores_nulls: bool = False
    named: str | None = None

    @property
    def parts(self) -> tuple[tuple[Syntax, ...], tuple[Syntax, ...], tuple[Syntax, ...]]:
        """The function's arguments, what partitions and what orders."""
        ordered = len(self.args) - len(self.orders)
        partitioned = ordered - self.partitions
        return self.args[:partitioned], self.args[partitioned:ordered], self.args[ordered:]


@dataclass(frozen=True)
class Subquery(Call):
    """A query as a value (`scalar`), a test of existence (`exists`) or a list (`in`, whose argument
    is looked for).

    `filters`: it is a condition of WHERE by itself, where null and false are the same.
    """

    query: Query | None = None
    filters: bool = False


@dataclass(frozen=True)
class Star:
    """All columns, of one relation if it is named, but for some."""

    qualifier: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    token: int = 0


@dataclass(frozen=True)
class Item:
    """One column of a result; `text` is how it was written."""

    value: Syntax
    text: str
    alias: str | None = None
    token: int = 0


@dataclass(frozen=True)
class Nested:
    """A query as a relation."""

    query: Query
    alias: str | None = None
    columns: tuple[str, ...] = ()
    token: int = 0


@dataclass(frozen=True)
class Join:
    """Two relations; `kind` is inner, left, right, full, cross, semi or anti. The right one of a
    `lateral` join has rows of its own for each row of the left one, whose columns it may name."""

    left: Relation
    right: Relation
    kind: str
    on: Syntax | None = None
    using: tuple[str, ...] = ()
    token: int = 0
    lateral: bool = False


@dataclass(frozen=True)
class View:
    """LATERAL VIEW: a row for each element that `call` makes of a row of `source`; with `outer` one
    also where none is."""

    source: Relation
    call: Call
    outer: bool
    alias: str
    columns: tuple[str, ...] = ()
    token: int = 0


@dataclass(frozen=True)
class Pivot:
    """PIVOT: columns of aggregates for each of `values`, of which each has one part for each of
    `columns`.

    `token` is where it begins.
    """

    source: Relation
    aggregates: tuple[Item, ...]
    columns: tuple[Item, ...]
    values: tuple[PivotValue, ...]
    alias: str | None = None
    token: int = 0


@dataclass(frozen=True)
class PivotValue:
    """What the columns of a pivot are to equal, and the name for that."""

    parts: tuple[Syntax, ...]
    alias: str | None = None
    token: int = 0


@dataclass(frozen=True)
class Unpivot:
    """UNPIVOT: a row for each of `groups`, which are columns with a name for them; their values
    stand in the columns `titles`, the group's name in the column `name`. Rows of nulls alone go
    unless `nulls`."""

    source: Relation
    titles: tuple[str, ...]
    name: str
    groups: tuple[tuple[tuple[Item, ...], str | None], ...]
    nulls: bool
    alias: str | None = None
    token: int = 0


Relation = TableName | Nested | Join | View | Pivot | Unpivot


@dataclass(frozen=True)
class Select:
    """SELECT … FROM … WHERE … GROUP BY … HAVING … WINDOW … QUALIFY. Numbers of tokens say where
    conditions stand.

    `sets` are the sets of groups, by the numbers of their items in `group_by`.
    """

    items: tuple[Item | Star, ...]
    source: Relation | None = None
    where: Syntax | None = None
    group_by: tuple[Item, ...] = ()
    having: Syntax | None = None
    distinct: bool = False
    token: int = 0
    where_token: int = 0
    having_token: int = 0
    sets: tuple[tuple[int, ...], ...] | None = None
    windows: tuple[tuple[str, Window], ...] = ()
    qualify: Syntax | None = None
    qualify_token: int = 0


@dataclass(frozen=True)
class Values:
    """Rows of expressions; a cell that is None means DEFAULT."""

    rows: tuple[tuple[Syntax | None, ...], ...]
    token: int = 0


@dataclass(frozen=True)
class SetOperation:
    """union, intersect or except; without `every` duplicates go."""

    kind: str
    every: bool
    left: Body
    right: Body
    token: int = 0


@dataclass(frozen=True)
class Order:
    """One key of an order."""

    value: Syntax
    descending: bool
    nulls_first: bool
    token: int = 0


@dataclass(frozen=True)
class Query:
    """A whole query; `named` are the queries of its WITH, in order, with the names of their
    columns."""

    body: Body
    named: tuple[tuple[str, Nested], ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0


Body = Select | Values | SetOperation | Query
