"""Plans the FROM clause: tables, named and nested queries, joins, and conditions of WHERE that
join.

Gets tables from `Tables`, and knows nothing of the selected columns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.casts import cast
from deltaplane.expr.syntax import Call, Literal, Syntax
from deltaplane.expr.typed import Bounds, Context, Typed, refuse
from deltaplane.expr.types import BOOLEAN, LONG, VOID, SparkType
from deltaplane.expr.unparse import conjuncts
from deltaplane.queries.binding import Binding, Names, Planned
from deltaplane.queries.cursor import Cursor
from deltaplane.queries.functions.generators import generated, stacked
from deltaplane.queries.named import Definition, Shared, Use, is_simple, uses_of
from deltaplane.queries.pivots import Tools, pivoted, unpivoted
from deltaplane.queries.plan import (
    Column,
    Exploded,
    Filter,
    Joined,
    Lateral,
    Node,
    Numbers,
    OneRow,
    Output,
    Project,
    Ref,
    Sample,
    Sort,
    Source,
    Value,
    refs,
)
from deltaplane.queries.rules import all_of, filtering, only_one
from deltaplane.queries.scopes import Scope, contains, rewritten
from deltaplane.queries.syntax import (
    Join,
    Nested,
    Pivot,
    Relation,
    Sampled,
    Step,
    Subquery,
    TableFunction,
    TableName,
    Unpivot,
    View,
)

__all__ = ["Joining", "Tables"]


class Tables(Protocol):
    """The interface that opens the tables of relations."""

    def source(self, name: TableName, number: int) -> tuple[str, list[tuple[str, SparkType | None]]]:
        """Opens a table as relation `number`: its name for DuckDB and its columns."""

    def bounds(self, relation: str, column: str) -> Bounds | None:
        """Bounds of the numbers in a column of an opened relation, by statistics; None if they are
        unknown."""


class Joining(Binding):
    """Plans relations; `sources` are the tables that the relations read."""

    def __init__(self, cursor: Cursor, tables: Tables, context: Context) -> None:
        super().__init__(cursor, context)
        self._tables = tables
        self.sources: list[Source] = []
        # Named queries that several relations read: by the identity of their syntax, and in the
        # order in which they were planned.
        self._repeated: set[int] = set()
        self._shared: dict[int, tuple[Definition, list[Column]]] = {}
        self.shared: list[Definition] = []

    def _relation(self, relation: Relation, names: Names) -> Planned:
        if isinstance(relation, Join):
            return self._join(relation, names)
        if isinstance(relation, Sampled):
            made = self._relation(relation.source, names)
            if relation.share is None:
                return Planned(Sort(made.node, (), relation.rows, 0), made.columns)
            return Planned(Sample(made.node, relation.share), made.columns)
        if isinstance(relation, Step):
            return self._step(relation, names)
        if isinstance(relation, View):
            return self._view(relation, names)
        if isinstance(relation, TableFunction):
            return self._alias(self._function(relation, names), relation.alias, relation.columns, relation.token)
        if isinstance(relation, (Pivot, Unpivot)):
            source = self._relation(relation.source, names)
            columns = [*source.columns, *self._outer]
            if isinstance(relation, Pivot):
                return Planned(*pivoted(self._tools(names), source.node, columns, relation))
            return Planned(*unpivoted(self._tools(names), source.node, columns, relation))
        if isinstance(relation, TableName):
            named = names.get(relation.parts[0].lower()) if len(relation.parts) == 1 else None
            if named is None:
                return self._table(relation)
            if relation.version is not None:
                self._cursor.wrong("expected a table: a named query has no versions", self._start(relation.token))
            made = self._named(*named)
            return self._alias(made, relation.alias or named[0].alias, relation.columns, relation.token)
        return self._alias(self.plan(relation.query, names), relation.alias, relation.columns, relation.token)

    def _named(self, nested: Nested, names: Names, around: Sequence[Column]) -> Planned:
        """The rows of a named query, planned once if several relations read it."""
        if (known := self._shared.get(id(nested))) is not None:
            return self._used(*known)
        if nested.levels is not None and uses_of(str(nested.alias).lower(), nested.query):
            return self._recursive(nested, names)
        outer, correlated = self._outer, self._correlated
        # A query that is named outside of a subquery can't use the columns of the query around this
        # use.
        self._outer, self._correlated = (outer if around is outer else []), set()
        try:
            made = self._titled(self.plan(nested.query, names), nested.columns, nested.token)
            uses_outer = bool(self._correlated)
        finally:
            self._outer, self._correlated = outer, correlated | self._correlated
        if id(nested) not in self._repeated or uses_outer or is_simple(made.node):
            return made
        shared = Shared(f"n_{self._id()}", made.node, made.ids)
        self.shared.append(shared)
        self._shared[id(nested)] = shared, made.columns
        return self._used(shared, made.columns)

    @abstractmethod
    def _recursive(self, nested: Nested, names: Names) -> Planned:
        """The rows of a query that reads its own rows."""

    @abstractmethod
    def _step(self, step: Step, names: Names) -> Planned:
        """The rows of a step of a query with `|>`."""

    def _used(self, shared: Definition, columns: Sequence[Column]) -> Planned:
        """A relation over the rows of a named query, with columns of its own."""
        own = [replace(c, id=self._id()) for c in columns]
        self._fragile.update(new.id for new, c in zip(own, columns, strict=True) if c.id in self._fragile)
        return Planned(Use(shared, {new.id: c.id for new, c in zip(own, columns, strict=True)}), own)

    def _table(self, name: TableName) -> Planned:
        with self._cursor.located(name.token):
            relation, fields = self._tables.source(name, len(self.sources))
        columns = [
            Column(self._id(), title, data_type, name.qualifiers, bounds=partial(self._tables.bounds, relation, title))
            for title, data_type in fields
        ]
        source = Source(relation, {c.id: c.name for c in columns})
        self.sources.append(source)
        return self._titled(Planned(source, columns), name.columns, name.token)

    def _alias(self, planned: Planned, alias: str | None, columns: Sequence[str], token: int) -> Planned:
        made = self._titled(planned, columns, token)
        qualifiers = () if alias is None else (alias,)
        return Planned(made.node, [replace(c, qualifiers=qualifiers, hidden=False) for c in made.columns])

    def _titled(self, planned: Planned, titles: Sequence[str], token: int) -> Planned:
        shown = [c for c in planned.columns if not c.hidden]
        if not titles:
            return Planned(planned.node, shown)
        if len(titles) != len(shown):
            self._wrong_titles(len(shown), len(titles), token)
        return Planned(planned.node, [replace(c, name=title) for c, title in zip(shown, titles, strict=True)])

    def _wrong_titles(self, actual: int, expected: int, token: int) -> None:
        """Raises an error: a relation's number of columns differs from the number of its column
        names."""
        self._cursor.wrong(f"expected {actual} names of columns, found {expected}", self._start(token))

    def _tools(self, names: Names) -> Tools:
        return Tools(
            self._context,
            lambda columns: self._scope(columns, names),
            self._bound,
            self._aggregate,
            self._computed,
            self._id,
            self._cursor.located,
        )

    # --- joins --------------------------------------------------------------------------------------------------------

    def _join(self, join: Join, names: Names) -> Planned:
        if join.lateral:
            return self._lateral(join, names)
        left, right = self._relation(join.left, names), self._relation(join.right, names)
        columns = [*left.columns, *right.columns]
        ids = frozenset(left.ids), frozenset(right.ids)
        one_sided = join.kind in ("semi", "anti")
        shown = left.columns if one_sided else columns
        if join.natural:
            join = self._natural(join, left, right)
        if join.using:
            return self._using(join, left, right)
        if join.on is None:
            return Planned(Joined(left.node, right.node, join.kind, *ids), shown)
        with self._cursor.located(join.token):
            scope = self._scope(columns, names)
            on = self._condition(scope, filtering(join.on), "ON")
            if contains(on.syntax, Subquery):
                self.filters_can_fail |= self._fails(on)
                return Planned(self._asking_on(join.kind, scope, on, left, right), shown)
            if self._fails(on) and join.kind in ("inner", "cross"):
                guarded = self._guarded_join(scope, on, left, right)
                if guarded is not None:
                    return Planned(guarded, shown)
        self.filters_can_fail |= self._fails(on)
        return Planned(Joined(left.node, right.node, join.kind, *ids, on), shown)

    def _guarded_join(self, scope: Scope, on: Value, left: Planned, right: Planned) -> Node | None:
        """An inner join whose condition can fail: its parts before the first that can are the
        join's, and the others filter the joined rows. None if no equality would remain to join by.
        """
        parts = conjuncts(on.syntax)
        ids = frozenset(left.ids), frozenset(right.ids)
        first = next((i for i, part in enumerate(parts) if self._fails(scope.value(part))), 0)
        if not any(_joins_by(part, *ids) for part in parts[:first]):
            return None
        joined = Joined(left.node, right.node, "inner", *ids, self._bound(scope, all_of(parts[:first])))
        return self._filtered(scope, joined, all_of(parts[first:]))

    def _joining_condition(self, scope: Scope, node: Syntax, clause: str) -> Value:
        value = self._condition(scope, node, clause)
        self.filters_can_fail |= self._fails(value)
        return value

    def _asking_on(self, kind: str, scope: Scope, on: Value, left: Planned, right: Planned) -> Node:
        """A join whose condition has subqueries, which DuckDB evaluates in filters and columns:
        those of an inner join filter its rows, those of another join become columns of a side."""
        ids = frozenset(left.ids), frozenset(right.ids)
        parts = conjuncts(on.syntax)
        if kind in ("inner", "cross"):
            rest = [part for part in parts if not contains(part, Subquery)] or [Literal(True, BOOLEAN)]
            above = [part for part in parts if contains(part, Subquery)]
            made = Joined(left.node, right.node, kind, *ids, self._bound(scope, all_of(rest)))
            return Filter(made, self._bound(scope, all_of(above)))
        beside: tuple[list[Output], list[Output]] = ([], [])
        columns = list(scope.columns)

        def change(part: Syntax) -> Syntax | None:
            if not isinstance(part, Subquery):
                return None
            value = self._bound(scope, part)
            side = next((i for i in (1, 0) if value.uses <= ids[i]), None)
            if side is None:
                refuse("a subquery in ON over columns of both sides of an outer join")
            column = Column(self._id(), "subquery", value.typed.type)
            beside[side].append(self._computed(column.id, value))
            columns.append(column)
            return Ref((column.id,))

        condition = rewritten(on.syntax, change)
        nodes, every = [], []
        for planned, outputs in zip((left, right), beside, strict=True):
            own = [Output(c.id, scope.value(Ref((c.id,)))) for c in planned.columns if c.type is not None]
            nodes.append(Project(planned.node, [*own, *outputs]) if outputs else planned.node)
            every.append(frozenset(planned.ids) | {o.id for o in outputs})
        scope = self._scope(columns, {})
        return Joined(nodes[0], nodes[1], kind, every[0], every[1], self._bound(scope, condition))

    def _natural(self, join: Join, left: Planned, right: Planned) -> Join:
        """NATURAL JOIN by the columns that both sides have."""
        known = {c.name.lower() for c in right.columns if not c.hidden}
        using = tuple(c.name for c in left.columns if not c.hidden and c.name.lower() in known)
        return replace(join, using=using, natural=False)

    def _using(self, join: Join, left: Planned, right: Planned) -> Planned:
        with self._cursor.located(join.token):
            pairs = [(only_one(left.columns, name), only_one(right.columns, name)) for name in join.using]
            for a, b in pairs:
                if a.type != b.type:
                    raise InvalidArgumentError(f"`{a.name}` is {a.type} and {b.type}: join ON values of one type")
            tests = [Call("=", (Ref((a.id,)), Ref((b.id,)))) for a, b in pairs]
            both = [*left.columns, *right.columns]
            scope = self._scope(both, {})
            on = self._joining_condition(scope, all_of(tests), "USING")
        joined: Node = Joined(left.node, right.node, join.kind, frozenset(left.ids), frozenset(right.ids), on)
        if join.kind in ("semi", "anti"):
            return Planned(joined, left.columns)
        merged = {c.id for pair in pairs for c in pair}
        if join.kind == "full":
            first, outputs = [], [Output(c.id, scope.value(Ref((c.id,)))) for c in both]
            for a, b in pairs:
                column = Column(self._id(), a.name, a.type)
                value = self._bound(scope, Call("coalesce", (Ref((a.id,)), Ref((b.id,)))))
                outputs.append(self._computed(column.id, value))
                first.append(column)
            joined = Project(joined, outputs)
            hidden = [replace(c, hidden=True) for c in both if c.id in merged]
        else:
            first = [b if join.kind == "right" else a for a, b in pairs]
            hidden = [replace(a if join.kind == "right" else b, hidden=True) for a, b in pairs]
        return Planned(joined, [*first, *[c for c in both if c.id not in merged], *hidden])

    def _lateral(self, join: Join, names: Names) -> Planned:
        left = self._relation(join.left, names)
        around, before = (self._outer, self._correlated), len(self._guarded)
        # The right relation's text may use columns of the left one, but not of an enclosing query.
        self._outer, self._correlated = [replace(c, outer=True) for c in left.columns], set()
        try:
            right, of_left = self._relation(join.right, names), frozenset(self._correlated)
        finally:
            self._outer, self._correlated = around
        if of_left:
            self._release_guards(before)
        columns = [*left.columns, *right.columns]
        made = Lateral(left.node, right.node, join.kind, frozenset(left.ids), frozenset(right.ids), of_left)
        if join.on is not None:
            with self._cursor.located(join.token):
                made.on = self._joining_condition(self._scope(columns, names), join.on, "ON")
                if contains(made.on.syntax, Subquery):
                    refuse("a subquery in ON")
        return Planned(made, columns)

    def _joining(self, node: Node, scope: Scope, conditions: list[Syntax]) -> list[Syntax]:
        """Moves conditions between two relations into their join, if it is an inner one; returns
        the others.

        Conditions that can fail keep their order, behind the conditions that may guard them.
        """
        if not isinstance(node, Joined) or node.kind not in ("inner", "cross"):
            return conditions
        left = conditions
        for child in (node.left, node.right):
            left = self._joining(child, scope, left)
        here: list[Syntax] = []
        rest: list[Syntax] = []
        has_key = any(_joins_by(part, node.left_ids, node.right_ids) for part in left)
        for condition in left:
            ids = refs(condition)
            between = ids & node.left_ids and ids & node.right_ids and ids <= node.left_ids | node.right_ids
            # DuckDB derives conditions on each side from alternatives that filter joined rows, but
            # not from those of a join.
            waits = contains(condition, Subquery) or (has_key and _is_choice(condition))
            if between and not waits:
                waits = self._fails(scope.value(condition))
            (here if between and not waits else rest).append(condition)
        if here:
            joins = [node.on.syntax] if node.on is not None else []
            both = (*joins, *here)
            node.on = self._bound(scope, both[0] if len(both) == 1 else Call("and", both))
            node.kind = "inner"
        return rest

    # --- generators ---------------------------------------------------------------------------------------------------

    def _view(self, view: View, names: Names) -> Planned:
        source = self._relation(view.source, names)
        with self._cursor.located(view.token):
            scope = self._scope([*source.columns, *self._outer], names)
            node, columns = self._exploded(source.node, scope, view.call, view.outer)
        if view.columns and len(view.columns) != len(columns):
            self._wrong_titles(len(columns), len(view.columns), view.token)
        titles = view.columns or [c.name for c in columns]
        made = [replace(c, name=t, qualifiers=(view.alias,)) for c, t in zip(columns, titles, strict=True)]
        return Planned(node, [*source.columns, *made])

    def _function(self, relation: TableFunction, names: Names) -> Planned:
        """The rows of a table function."""
        call = relation.call
        with self._cursor.located(relation.token):
            scope = self._scope(self._outer, names)
            if call.name != "range":
                return Planned(*self._exploded(OneRow(), scope, call, False))
            if not 1 <= len(call.args) <= 4:
                raise InvalidArgumentError("`range` takes a first number, an end, a step and a number of partitions")
            values = [self._bound(scope, arg) for arg in call.args]
            if any(value.uses or contains(value.syntax, Subquery) for value in values) or self._correlated:
                refuse("`range` of other than constants")
            if any(value.typed.type == VOID for value in values):
                raise InvalidArgumentError("`range` takes no null")
            if len(values) > 2 and values[2].typed.literal == "0":
                raise InvalidArgumentError("`range` needs a step other than 0")
            numbers = [cast(self._context, value.typed, LONG) for value in values]
            bounds = [Typed(LONG, "0"), *numbers] if len(numbers) == 1 else numbers
            first, end, step = (*bounds, Typed(LONG, "1"))[:3]
            column = Column(self._id(), "id", LONG)
            return Planned(Numbers(column.id, first.sql, end.sql, step.sql), [column])

    def _exploded(self, node: Node, scope: Scope, call: Call, outer: bool) -> tuple[Node, list[Column]]:
        if call.name == "stack":
            cells = [self._bound(scope, arg) for arg in call.args]
            typed = stacked(self._context, [cell.typed for cell in cells])
            value = Value(typed, frozenset().union(*(cell.uses for cell in cells)), call)
            self._note(typed)
        elif len(call.args) != 1:
            raise InvalidArgumentError(f"`{call.name}` takes an array or a map")
        else:
            value = self._bound(scope, call.args[0])
        whole = self._id()
        made = generated(call.name, value.typed, whole, outer)
        columns = [Column(self._id(), name, data_type) for name, data_type, _ in made]
        lists = {c.id: sql for c, (_, _, sql) in zip(columns, made, strict=True)}
        return Exploded(node, value, whole, lists), columns


def _is_choice(condition: Syntax) -> bool:
    return isinstance(condition, Call) and condition.name == "or"


def _joins_by(part: Syntax, left_ids: frozenset[str], right_ids: frozenset[str]) -> bool:
    """Whether a condition is an equality of values of two relations."""
    if not isinstance(part, Call) or part.name not in ("=", "==", "<=>"):
        return False
    sides = [refs(arg) for arg in part.args]
    return all(sides) and any(a <= left_ids and b <= right_ids for a, b in (sides, sides[::-1]))
