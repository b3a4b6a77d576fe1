"""Restricts the rows of a table that a MERGE's source can match by the source's keys, for Spark's
scan and for the core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from deltaplane.exceptions import DeltaError
from deltaplane.expr import coerce, tree
from deltaplane.expr.joined import JoinedBinder, Side, conjuncts, parsed, pruning
from deltaplane.expr.program import context_at
from deltaplane.expr.syntax import Call, Name, Syntax
from deltaplane.expr.tuples import value_node
from deltaplane.expr.types import SparkType, of_json
from deltaplane.spark.jvm.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["SourceKeys"]

# Maximum number of key values that are looked up one by one; for more values only their range is
# used.
_LISTED_KEYS = 64
# The same of columns with an index of keys, which names the files of each value: Python hands each
# one to the JVM by a call.
_INDEXED_KEYS = 2_000
# Maximum number of source rows for listing values: a larger source hardly has few keys, and
# counting them costs a shuffle.
_LISTED_ROWS = 1_000_000
# Types whose values Spark returns unchanged, and whose bounds restrict the rows that can equal one
# of them.
_RANGED = ("byte", "short", "integer", "long", "decimal", "string", "date", "boolean")


@dataclass
class _Key:
    target: str
    source: str
    null_safe: bool
    type: SparkType

    @property
    def values(self) -> Column:
        """The source's values in the form that Spark returns: dates as days, since Python's
        calendar doesn't cover all dates."""
        column = F.col(quoted(self.source))
        return F.unix_date(column) if self.type.name == "date" else column

    def constant(self, value: Any) -> Column:
        """One of the values in the column's type."""
        return F.date_from_unix_date(F.lit(value)) if self.type.name == "date" else F.lit(value)

    def one_of(self, values: Sequence[Any]) -> tuple[Column, tree.Node]:
        """That a row of the target has one of these values: for Spark, and for the core."""
        if not values:
            return F.lit(False), tree.is_in(tree.column([self.target]), [tree.literal(None, "void")])
        met = F.col(quoted(self.target)).isin([self.constant(value) for value in values])
        return met, tree.is_in(tree.column([self.target]), [self.literal(value) for value in values])

    def literal(self, value: Any) -> tree.Node:
        """One of the values as a literal for the core."""
        if self.type.name == "date":
            return tree.literal(str(value), "date_days")
        return tree.literal(value, "string") if isinstance(value, str) else value_node(value, self.target)


@dataclass
class SourceKeys:
    """The columns of the target that must equal columns of the source, as far as the condition's
    text shows.

    Args:
        condition: Spark SQL over both.
        target, source: their columns, as Delta's JSON, and the qualifiers that the condition may
            use for them.
        indexed: the target's columns with an index of keys.
        together: the target's columns of each index of several.
    """

    condition: str
    target: tuple[list[Any], str | None]
    source: tuple[list[Any], str | None]
    indexed: frozenset[str] = frozenset()
    together: Sequence[tuple[str, ...]] = ()
    keys: list[_Key] = field(init=False, default_factory=list)
    # Conditions that every matching row of the target satisfies, derived without reading the
    # source.
    reads: list[tree.Node] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._sides = [
            Side(sql, alias, {f["name"]: of_json(f["type"]) for f in fields}, says)
            for sql, (fields, alias), says in (("t", self.target, "the table"), ("s", self.source, "the source"))
        ]
        self._binder = JoinedBinder(self._sides, context_at("UTC", 0))
        try:
            for part in conjuncts(parsed(self.condition)):
                self._take(part)
        except DeltaError:
            # The parser refused the condition: Spark's syntax has more expressions than this
            # parser.
            self.keys, self.reads = [], []

    def _take(self, part: Syntax) -> None:
        try:
            predicate = pruning(part, self._binder, self._sides[0])
            keys = list(self._keys(part))
        except DeltaError:
            return
        self.keys += keys
        if predicate is not None:
            self.reads.append(predicate)

    def _keys(self, part: Syntax) -> Iterator[_Key]:
        if not isinstance(part, Call) or part.name not in ("=", "==", "<=>") or len(part.args) != 2:
            return
        for here, there in (part.args, reversed(part.args)):
            if not isinstance(here, Name) or not isinstance(there, Name):
                continue
            (side, number, below), (other, number_there, inner) = self._binder.place(here), self._binder.place(there)
            if side is not self._sides[0] or other is not self._sides[1] or below or inner:
                continue
            types = self._binder.bind(here).type, self._binder.bind(there).type
            to = coerce.common(*types)
            if to is None or to.name not in _RANGED or any(t != to and not (t.integral and to.integral) for t in types):
                continue
            yield _Key(list(side.columns)[number], list(other.columns)[number_there], part.name == "<=>", types[1])

    def looked_up(self, source: DataFrame) -> tuple[int, list[Column], list[tree.Node]]:
        """The number of source rows, and the conditions for matching rows of the target: for Spark,
        and for the core."""
        bounds = [
            f(key.values).alias(f"k{i}{name}")
            for i, key in enumerate(self.keys)
            for name, f in (("low", F.min), ("high", F.max))
        ]
        row = source.agg(F.count(F.lit(1)).alias("rows"), *bounds).collect()[0]
        columns, trees = [], list(self.reads)
        for i, key in enumerate(self.keys):
            values = self._values(source, key, row["rows"], row[f"k{i}low"], row[f"k{i}high"])
            column, name = F.col(quoted(key.target)), tree.column([key.target])
            if values is None:
                low, high = row[f"k{i}low"], row[f"k{i}high"]
                met = column.between(key.constant(low), key.constant(high))
                part = tree.all_of(
                    [tree.compare(">=", name, key.literal(low)), tree.compare("<=", name, key.literal(high))]
                )
            else:
                met, part = key.one_of(values)
            if key.null_safe:
                met = met | column.isNull()
                part = tree.any_of([part, tree.compare("<=>", name, tree.literal(None, "void"))])
            columns.append(met)
            trees.append(part)
        for met, part in self._combined(source, row["rows"]):
            columns.append(met)
            trees.append(part)
        return row["rows"], columns, trees

    def _combined(self, source: DataFrame, rows: int) -> Iterator[tuple[Column, tree.Node]]:
        """For each index of several columns that are all compared by `=`: that a row has one of the
        source's keys in them. Nothing for an index of which the source has too many keys."""
        by_target = {key.target: key for key in self.keys if not key.null_safe}
        for names in self.together:
            keys = [by_target[name] for name in names if name in by_target]
            if len(keys) < len(names) or rows > _LISTED_ROWS:
                continue
            values = source.select(*(key.values.alias(f"k{i}") for i, key in enumerate(keys))).dropna()
            matches = [tuple(row) for row in values.distinct().limit(_INDEXED_KEYS + 1).collect()]
            if 0 < len(matches) <= _INDEXED_KEYS:
                listed = max(range(len(keys)), key=lambda i: len({match[i] for match in matches}))
                groups: dict[tuple[Any, ...], list[Any]] = {}
                for match in matches:
                    groups.setdefault(match[:listed] + match[listed + 1 :], []).append(match[listed])
                if len(groups) <= _LISTED_KEYS:
                    yield _in_groups(keys[:listed] + keys[listed + 1 :], keys[listed], groups)

    def _values(self, source: DataFrame, key: _Key, rows: int, low: Any, high: Any) -> list[Any] | None:
        """A key's values, None if there are too many."""
        if low is None or low == high:
            return [] if low is None else [low]
        if rows > _LISTED_ROWS:
            return None
        column = key.values
        most = _INDEXED_KEYS if key.target in self.indexed else _LISTED_KEYS
        distinct = [
            row[0] for row in source.select(column).where(column.isNotNull()).distinct().limit(most + 1).collect()
        ]
        return distinct if len(distinct) <= most else None


def _in_groups(
    equal: Sequence[_Key], listed: _Key, groups: Mapping[tuple[Any, ...], Sequence[Any]]
) -> tuple[Column, tree.Node]:
    """That a row has the values of one group in some columns, and one of the group's values in
    another: for Spark, and for the core."""
    columns, trees = [], []
    for values, of_listed in groups.items():
        met, node = listed.one_of(of_listed)
        nodes = [node]
        for key, value in zip(equal, values, strict=True):
            same, node = key.one_of([value])
            met, nodes = met & same, [*nodes, node]
        columns.append(met)
        trees.append(tree.all_of(nodes))
    return reduce(or_, columns), tree.any_of(trees)
