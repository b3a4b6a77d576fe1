"""Binds expressions of a query to columns as typed values, with subqueries as DuckDB text and an id
for each new column.

Knows no table and no relation, and leaves the plans of subqueries to its caller.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr.quoting import refuse_unclear_tree
from deltaplane.expr.syntax import Call, Cast, Syntax
from deltaplane.expr.typed import Context, Typed, carried, refuse
from deltaplane.expr.types import BOOLEAN, SparkType
from deltaplane.expr.unparse import conjuncts
from deltaplane.queries.cursor import Cursor
from deltaplane.queries.functions.aggregates import AGGREGATES
from deltaplane.queries.functions.choosing import OF_ONE_VALUE
from deltaplane.queries.functions.collecting import LISTING
from deltaplane.queries.functions.statistics import APPROXIMATE, PERCENTILES
from deltaplane.queries.memberships import MEMBERSHIPS, placed
from deltaplane.queries.named import at_most_one_row
from deltaplane.queries.plan import Column, Filter, Guarded, Node, Output, Project, Ref, Value, refs
from deltaplane.queries.rules import all_of, converted, together
from deltaplane.queries.scopes import Scope, aggregates
from deltaplane.queries.syntax import Aggregate, Nested, Query, Subquery

__all__ = ["Binding", "Conversion", "Names", "Planned"]

# Aggregate functions of a value and constants.
_OF_ONE_VALUE = (*APPROXIMATE, *LISTING, *OF_ONE_VALUE, *PERCENTILES)
# Maximum number of columns of a plan: a named query is planned at each use, so nested names double
# its columns.
_MOST_COLUMNS = 50_000


@dataclass(frozen=True)
class Planned:
    """A plan and its columns in order."""

    node: Node
    columns: list[Column]

    @property
    def ids(self) -> list[str]:
        """The columns' ids."""
        return [column.id for column in self.columns]


@dataclass(frozen=True)
class _SubqueryValue:
    """A subquery's value and the columns around it that its text uses. The query and its names are
    held, because their identities are part of the key."""

    typed: Typed
    correlated: frozenset[str]
    query: Query
    names: Names


# The value of a column, by its number, in another type.
Conversion = Callable[[Context, int, Typed, SparkType], Typed]
# A named query, the named queries visible to it, and the columns of the queries around its WITH.
Names = Mapping[str, tuple[Nested, "Names", Sequence[Column]]]


class Binding(ABC):
    """The state of planning one statement.

    `can_fail` tells whether evaluating any value can fail for a row, `guards` whether a condition
    can that is evaluated at its place, and `filters_can_fail` whether another condition can: DuckDB
    may evaluate it on rows that another condition excludes.
    """

    def __init__(self, cursor: Cursor, context: Context) -> None:
        self._cursor = cursor
        self._context = context
        self._numbers = itertools.count()
        # The columns of the enclosing queries, and the subset that is used.
        self._outer: list[Column] = []
        self._correlated: set[str] = set()
        # The computed columns whose values can fail: a condition on one computes it again.
        self._fragile: set[str] = set()
        # The conditions that can fail and are evaluated at their place.
        self._guarded: list[Guarded] = []
        # The values of subqueries, with the columns around them that they use: a condition is bound
        # several times, and planning its subqueries each time would take time exponential in the
        # depth of their nesting.
        self._subquery_values: dict[object, _SubqueryValue] = {}
        self.can_fail = False
        self.filters_can_fail = False
        self.guards = False

    @abstractmethod
    def plan(self, query: Query, names: Names | None = None) -> Planned:
        """The plan of a query."""

    def stored(self, planned: Planned, types: Sequence[SparkType], convert: Conversion | None = None) -> Planned:
        """The columns in other types, by a conversion that also receives the column's index."""
        if [column.type for column in planned.columns] == list(types):
            return planned
        outputs, columns = [], []
        scope = self._scope(planned.columns, {})
        for number, (column, to) in enumerate(zip(planned.columns, types, strict=True)):
            value = scope.value(Ref((column.id,)))
            if convert is None:
                typed = converted(self._context, value.typed, to)
            else:
                typed = convert(self._context, number, value.typed, to)
            self._note(typed)
            new = replace(column, id=self._id(), type=to, bounds=carried(typed))
            # A converted column is a new one: conditions on it don't apply to the old one.
            made = value if typed is value.typed else replace(value, typed=typed, syntax=Cast(value.syntax, to))
            outputs.append(self._computed(new.id, made))
            columns.append(new)
        return Planned(Project(planned.node, outputs), columns)

    def _condition(self, scope: Scope, node: Syntax, clause: str) -> Value:
        if aggregates(node) and clause != "HAVING":
            raise InvalidArgumentError(f"aggregate functions can't stand in {clause}")
        refuse_unclear_tree(node, scope.knows, self._cursor.sql, is_condition=True)
        value = self._bound(scope, node)
        if value.typed.type != BOOLEAN:
            raise InvalidArgumentError(f"{clause} needs a condition, not a value of type {value.typed.type}")
        return value

    def _filtered(self, scope: Scope, node: Node, condition: Syntax) -> Node:
        """The rows for which a condition is true."""
        value = self._bound(scope, condition)
        if not self._fails(value):
            return Filter(node, value)
        parts = conjuncts(condition)
        values = [self._bound(scope, part) for part in parts]
        first = next((i for i, part in enumerate(values) if self._fails(part)), 0)
        self.guards = True
        if first:
            node = Filter(node, self._bound(scope, all_of(parts[:first])))
        guarded = Guarded(node, values[first:])
        self._guarded.append(guarded)
        return guarded

    def _bound(self, scope: Scope, node: Syntax) -> Value:
        refuse_unclear_tree(node, scope.knows, self._cursor.sql, is_condition=False)
        value = scope.value(placed(node))
        self._correlated |= scope.correlated
        self._note(value.typed)
        return value

    def _aggregate(self, scope: Scope, call: Aggregate) -> Value:
        args: list[Syntax] = list(call.args)
        if call.where is not None:
            # Aggregate functions ignore nulls, so null replaces the values of excluded rows, which
            # thereby aren't evaluated.
            constant = len(args) if call.name not in _OF_ONE_VALUE else 1
            args = [Call("case", (call.where, arg)) for arg in args[:constant]] + args[constant:]
        bound = [self._bound(scope, arg) for arg in args]
        typed = AGGREGATES[call.name](self._context, call.name, [v.typed for v in bound], call.distinct, "")
        # A sum is computed for whole groups alone, so that no rule moves it to other rows.
        if call.name != "sum":
            self._note(typed)
        return Value(typed, frozenset().union(*(v.uses for v in bound)), call)

    def _note(self, typed: Typed) -> None:
        # DuckDB's rules move a part that fails out of TRY.
        self.can_fail |= typed.throws or typed.partial or "TRY(" in typed.sql

    def _fails(self, value: Value) -> bool:
        """Whether a value, or a column that it uses, can fail for a row."""
        return value.typed.throws or value.typed.partial or bool((value.uses | refs(value.syntax)) & self._fragile)

    def _computed(self, id: str, value: Value) -> Output:
        """A new column of a projection or a group."""
        if self._fails(value):
            self._fragile.add(id)
        return Output(id, value)

    def _scope(self, columns: Sequence[Column], names: Names) -> Scope:
        return Scope(columns, self._context, lambda node, scope: self._subquery(node, scope, names))

    def _subquery(self, node: Subquery, scope: Scope, names: Names) -> Typed:
        key = (replace(node, query=None), id(node.query), id(names), tuple(scope.columns), scope.nonzero)
        known = self._subquery_values.get(key)
        if known is None:
            known = self._planned_subquery(node, scope, names)
            self._subquery_values[key] = known
        else:
            # The values that IN searches are columns of this scope.
            for arg in node.args:
                scope.bind(arg)
        scope.meet(known.correlated)
        self._correlated |= scope.correlated
        return known.typed

    def _planned_subquery(self, node: Subquery, scope: Scope, names: Names) -> _SubqueryValue:
        """The value of a subquery that no equal scope has computed before."""
        assert node.query is not None
        around, before = (self._outer, self._correlated), len(self._guarded)
        self._outer, self._correlated = scope.outside(), set()
        try:
            made = self.plan(node.query, names)
            correlated = frozenset(self._correlated)
        finally:
            self._outer, self._correlated = around
        if correlated:
            self._release_guards(before)
        return _SubqueryValue(self._value_of_rows(node, scope, made, bool(correlated)), correlated, node.query, names)

    def _release_guards(self, first: int) -> None:
        """Replaces the guards from a number on by plain filters, since DuckDB computes relations
        that use columns around them by joins, in which no volatile column takes part."""
        for guarded in self._guarded[first:]:
            guarded.in_place = False
            self.filters_can_fail = True

    def _value_of_rows(self, node: Subquery, scope: Scope, made: Planned, correlated: bool) -> Typed:
        if node.name == "exists":
            made.node.narrow([])
            return Typed(BOOLEAN, f"EXISTS ({made.node.render([])})")
        if node.name in MEMBERSHIPS:
            return self._membership(node, scope, made)
        if len(made.columns) != 1 or made.columns[0].type is None:
            raise InvalidArgumentError(f"a subquery as a value has one column, not {len(made.columns)}")
        made.node.narrow([])
        # More than one row is an error. Without columns of the rows around it both engines compute
        # the subquery once, whichever of these rows there are.
        throws = correlated and not at_most_one_row(made.node)
        (column,) = made.columns
        sql = f"({made.node.render(made.ids)})"
        return Typed(made.columns[0].type, sql, throws=throws, bounds=column.bounds)

    def _membership(self, node: Subquery, scope: Scope, made: Planned) -> Typed:
        """IN and NOT IN with the rows of a subquery."""
        if not node.filters and not node.decided:
            refuse("IN with a subquery as an argument of a function or operator")
        types = [column.type for column in made.columns]
        if len(node.args) != len(types) or None in types:
            count = "one value" if len(node.args) == 1 else f"{len(node.args)} values"
            raise InvalidArgumentError(f"IN compares {count} with a subquery of {len(types)} columns")
        values = [scope.bind(arg) for arg in node.args]
        if not node.filters and any(value.type.name == "void" for value in values):
            refuse("NULL IN a subquery")
        to = [together([v.type, t], "IN") for v, t in zip(values, types, strict=True) if t is not None]
        made = self.stored(made, to)
        made.node.narrow([])
        values = [converted(self._context, v, t) for v, t in zip(values, to, strict=True)]
        # DuckDB may compare the subquery's column with a constant that the value equals.
        throws = any(v.throws for v in values) or any(id in self._fragile for id in made.ids)
        partial = any(v.partial for v in values)
        sql = _member(node.name, values, made)
        if not node.filters:
            sql = f"coalesce({sql}, false)"
        return Typed(BOOLEAN, sql, throws=throws, partial=partial)

    def _id(self) -> str:
        count = next(self._numbers)
        if count > _MOST_COLUMNS:
            raise UnsupportedExpressionError("the query is too large for the embedded engine: give spark= for it")
        return f"q{count}"

    def _start(self, token: int) -> int:
        return self._cursor.tokens[token].start


def _member(name: str, values: Sequence[Typed], made: Planned) -> str:
    """Whether the rows of a plan have these values, as SQL defines it for one column. Of several
    columns, a row decides that has them or may have them."""
    if len(values) == 1:
        return f"({values[0].sql} {name.upper()} ({made.node.render(made.ids)}))"
    same = " AND ".join(
        f"({value.sql} = {id})" + (" IS NOT FALSE" if name == "not in" else "")
        for value, id in zip(values, made.ids, strict=True)
    )
    exists = "EXISTS" if name == "in" else "NOT EXISTS"
    return f"({exists} (SELECT 1 FROM ({made.node.render(made.ids)}) WHERE {same}))"
