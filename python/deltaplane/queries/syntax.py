"""The syntax of a query as plain values: relations, selections, set operations, order.

Knows no table and no types.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from deltaplane.expr.syntax import Call, Syntax
from deltaplane.expr.types import SparkType
from deltaplane.io.storage_options import VersionLike

__all__ = [
    "Aggregate",
    "Body",
    "Distance",
    "Frame",
    "Item",
    "Join",
    "Nested",
    "Order",
    "Pivot",
    "PivotValue",
    "Query",
    "Relation",
    "Sampled",
    "Select",
    "SetOperation",
    "Star",
    "Step",
    "Subquery",
    "TableFunction",
    "TableName",
    "Unpivot",
    "Values",
    "View",
    "Window",
]


@dataclass(frozen=True)
class TableName:
    """A table's name: `delta.path` or a name that the caller defined, with the requested version.

    `token` is the index of its first token.
    """

    parts: tuple[str, ...]
    version: VersionLike | None = None
    alias: str | None = None
    columns: tuple[str, ...] = ()
    token: int = 0

    @property
    def path(self) -> str | None:
        """The location, if the name contains one."""
        return self.parts[1] if len(self.parts) == 2 and self.parts[0].lower() == "delta" else None

    @property
    def shown(self) -> str:
        """The name, formatted for error messages."""
        return f"delta.`{self.parts[1]}`" if self.path is not None else ".".join(self.parts)

    @property
    def qualifiers(self) -> tuple[str, ...]:
        """The qualifiers that may precede its columns."""
        return self.parts if self.alias is None else (self.alias,)


@dataclass(frozen=True)
class TableFunction:
    """A function as a relation, of constants: RANGE, or a generator."""

    call: Call
    alias: str | None = None
    columns: tuple[str, ...] = ()
    token: int = 0


@dataclass(frozen=True)
class Aggregate(Call):
    """A call of an aggregate function; `where` selects the rows that it aggregates."""

    distinct: bool = False
    where: Syntax | None = None


@dataclass(frozen=True)
class Distance:
    """A distance of values in a frame by RANGE: a number, or the months or microseconds of an
    interval; negative means preceding."""

    number: Decimal
    type: SparkType


@dataclass(frozen=True)
class Frame:
    """The frame of a window: rows by distance, or for RANGE by close values; None means unbounded,
    negative means preceding."""

    rows: bool
    start: int | Distance | None
    end: int | Distance | None

    @property
    def offsets(self) -> bool:
        """Whether a bound is neither the current row nor the partition's start or end."""
        return self.start not in (None, 0) or self.end not in (None, 0)


@dataclass(frozen=True)
class Window(Call):
    """A window function: `args` are the function's arguments, then the partition's keys, then the
    order's keys.

    `orders` has, for each key of the order, whether it is descending and whether nulls come first.
    `named`: a window defined in WINDOW.
    """

    partitions: int = 0
    orders: tuple[tuple[bool, bool], ...] = ()
    frame: Frame | None = None
    ignores_nulls: bool = False
    named: str | None = None

    @property
    def parts(self) -> tuple[tuple[Syntax, ...], tuple[Syntax, ...], tuple[Syntax, ...]]:
        """The function's arguments, the partition keys and the order keys."""
        ordered = len(self.args) - len(self.orders)
        partitioned = ordered - self.partitions
        return self.args[:partitioned], self.args[partitioned:ordered], self.args[ordered:]


@dataclass(frozen=True)
class Subquery(Call):
    """A subquery as a value (`scalar`), a test of existence (`exists`) or a list (`in` and
    `not in`, with the searched values as arguments).

    `filters`: the subquery is a WHERE condition by itself, where null and false are equivalent.
    `decided`: Spark's value is false instead of null at its position.
    """

    query: Query | None = None
    filters: bool = False
    decided: bool = False


@dataclass(frozen=True)
class Star:
    """All columns, or those of one relation, except some."""

    qualifier: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    token: int = 0


@dataclass(frozen=True)
class Item:
    """One column of a result, or the columns of a generator, which may have several `names`; `text`
    is its original text."""

    value: Syntax
    text: str
    alias: str | None = None
    token: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Nested:
    """A query as a relation. `levels`: it may read its own rows, and do so up to that level."""

    query: Query
    alias: str | None = None
    columns: tuple[str, ...] = ()
    token: int = 0
    levels: int | None = None


@dataclass(frozen=True)
class Join:
    """Two relations; `kind` is inner, left, right, full, cross, semi or anti. In a `lateral` join
    the right relation is evaluated for each row of the left one, whose columns it may use. A
    `natural` join is by the columns that both relations have."""

    left: Relation
    right: Relation
    kind: str
    on: Syntax | None = None
    using: tuple[str, ...] = ()
    token: int = 0
    lateral: bool = False
    natural: bool = False


@dataclass(frozen=True)
class Sampled:
    """TABLESAMPLE: some `rows` of a relation, or a `share` of them from 0 to 1, each by chance."""

    source: Relation
    rows: int | None
    share: float | None


@dataclass(frozen=True)
class Step:
    """A step of a query with `|>` after which columns still have the names of their tables: the
    rows that satisfy `where`, in an order, at most `limit` of them, with further columns
    (`extended`), with another value of the column that is the alias of `assigned`, or without the
    columns `dropped`."""

    source: Relation
    where: Syntax | None = None
    extended: tuple[Item, ...] = ()
    assigned: Item | None = None
    dropped: tuple[str, ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    token: int = 0


@dataclass(frozen=True)
class View:
    """LATERAL VIEW: a row for each element that `call` makes of a row of `source`; with `outer`
    also a row if there is none."""

    source: Relation
    call: Call
    outer: bool
    alias: str
    columns: tuple[str, ...] = ()
    token: int = 0


@dataclass(frozen=True)
class Pivot:
    """PIVOT: columns of aggregates for each of `values`, each of which has one part per column in
    `columns`.

    `token` is the index of its first token.
    """

    source: Relation
    aggregates: tuple[Item, ...]
    columns: tuple[Item, ...]
    values: tuple[PivotValue, ...]
    alias: str | None = None
    token: int = 0


@dataclass(frozen=True)
class PivotValue:
    """The values that the columns of a pivot must equal, and the name for them."""

    parts: tuple[Syntax, ...]
    alias: str | None = None
    token: int = 0


@dataclass(frozen=True)
class Unpivot:
    """UNPIVOT: a row for each of `groups`, which are named groups of columns; their values become
    the columns `titles`, the group's name the column `name`. Rows with only nulls are left out
    unless `nulls`."""

    source: Relation
    titles: tuple[str, ...]
    name: str
    groups: tuple[tuple[tuple[Item, ...], str | None], ...]
    nulls: bool
    alias: str | None = None
    token: int = 0


Relation = TableName | TableFunction | Nested | Join | Sampled | Step | View | Pivot | Unpivot


@dataclass(frozen=True)
class Select:
    """SELECT … FROM … WHERE … GROUP BY … HAVING … WINDOW … QUALIFY. Token indexes locate the
    conditions for errors.

    `sets` are the grouping sets, as indexes of items in `group_by`.
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
    """UNION, INTERSECT or EXCEPT; without `every` duplicates are removed."""

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
    """A whole query; `named` are the queries of its WITH, in order, with their column names."""

    body: Body
    named: tuple[tuple[str, Nested], ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0


Body = Select | Values | SetOperation | Query
