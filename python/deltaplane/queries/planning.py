"""From a query's syntax to its plan: names to columns, expressions to types, groups and orders as Spark has them.

Asks `Sources` for tables and leaves running to `running`. What Spark would run and this doesn't is refused by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr.syntax import Call, Cast, Name, Syntax
from deltaplane.expr.typed import Context, Typed, refuse
from deltaplane.expr.types import BOOLEAN, BYTE, LONG, SparkType
from deltaplane.expr.written import conjuncts
from deltaplane.queries.aggregates import AGGREGATES
from deltaplane.queries.cursor import Cursor
from deltaplane.queries.generators import generated, generates
from deltaplane.queries.pivots import Tools, pivoted, unpivoted
from deltaplane.queries.plan import (
    Aggregation,
    Column,
    Exploded,
    Filter,
    Joined,
    Lateral,
    Node,
    OneRow,
    Output,
    Project,
    Ref,
    Rows,
    Sets,
    Sort,
    Source,
    Value,
    Windowed,
    refs,
)
from deltaplane.queries.rules import (
    comparable,
    converted,
    every,
    filtering,
    lateral,
    number,
    only_one,
    ordinal,
    sort_key,
    starred,
    title,
    together,
    unqualified,
)
from deltaplane.queries.scopes import (
    Scope,
    aggregates,
    beside_aggregates,
    contains,
    matching,
    resolved,
    rewritten,
    windows,
)
from deltaplane.queries.syntax import (
    Aggregate,
    Body,
    Item,
    Join,
    Nested,
    Order,
    Pivot,
    Query,
    Relation,
    Select,
    SetOperation,
    Star,
    Subquery,
    TableName,
    Unpivot,
    Values,
    View,
    Window,
)
from deltaplane.queries.tabulated import MANY, Cells, over_cells, tabulated
from deltaplane.queries.windows import over

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Planned", "Planner", "Tables"]

# A query that names others doubles with each of them, since each use is planned by itself.
_MOST_COLUMNS = 50_000


class Tables(Protocol):
    """Where relations come from."""

    def source(self, name: TableName, number: int) -> tuple[str, list[tuple[str, SparkType | None]]]:
        """Opens a table under a number: its name for DuckDB and its columns."""


@dataclass(frozen=True)
class Planned:
    """A plan and its columns in order."""

    node: Node
    columns: list[Column]

    @property
    def ids(self) -> list[str]:
        """The columns' ids."""
        return [column.id for column in self.columns]


Names = Mapping[str, tuple[Nested, "Names"]]


class Planner:
    """Plans one statement's queries. `sources` are the tables that they read, `held` the columns in memory, by DuckDB's names."""

    def __init__(self, cursor: Cursor, tables: Tables, context: Context) -> None:
        self._cursor = cursor
        self._tables = tables
        self._context = context
        self._numbers = itertools.count()
        # The columns of the queries around the one that is planned, and those of them that it names.
        self._outer: list[Column] = []
        self._correlated: set[str] = set()
        self.sources: list[Source] = []
        self.held: list[tuple[str, pa.Table]] = []
        self.throws = False

    def plan(self, query: Query, names: Names | None = None) -> Planned:
        """The plan of a query.

        Raises:
            InvalidArgumentError: a name or a type that Spark would refuse too.
            UnsupportedExpressionError: what the embedded engine doesn't do as Spark does, by name.
        """
        known: Names = names or {}
        own = [name.lower() for name, _ in query.named]
        for i, (name, nested) in enumerate(query.named):
            if own[i] in own[:i]:
                self._cursor.wrong(f"expected another name: `{name}` is taken", self._start(nested.token))
            known = {**known, own[i]: (nested, known)}
        if isinstance(query.body, Select):
            made = self._select(query.body, known, query.order)
        else:
            made = self._body(query.body, known)
            if query.order:
                made = self._ordered(made, query.order, known)
        if query.limit is not None or query.offset:
            node = made.node
            if isinstance(node, Sort) and node.limit is None and not node.offset:
                node = replace(node, limit=query.limit, offset=query.offset)
            else:
                node = Sort(node, (), query.limit, query.offset)
            made = Planned(node, made.columns)
        return made

    def stored(self, planned: Planned, types: Sequence[SparkType]) -> Planned:
        """The columns in other types."""
        if [column.type for column in planned.columns] == list(types):
            return planned
        outputs, columns = [], []
        scope = self._scope(planned.columns, {})
        for column, to in zip(planned.columns, types, strict=True):
            value = scope.value(Ref((column.id,)))
            typed = converted(self._context, value.typed, to)
            self._note(typed)
            new = replace(column, id=self._id(), type=to)
            # A converted column is another one: conditions on it don't hold for the old one.
            made = value if typed is value.typed else replace(value, typed=typed, syntax=Cast(value.syntax, to))
            outputs.append(Output(new.id, made))
            columns.append(new)
        return Planned(Project(planned.node, outputs), columns)

    def chosen(self, name: TableName, where: Syntax, token: int, beside: Sequence[tuple[str, SparkType]]) -> Planned:
        """The rows of a table that meet a condition of WHERE, as columns that stand beside the table's own."""
        made = self._table(name)
        assert isinstance(made.node, Source)
        scope = self._scope(made.columns, {})
        with self._cursor.located(token):
            condition = self._condition(scope, filtering(where), "WHERE")
        columns = [Column(self._id(), title, of) for title, of in beside]
        made.node.fields = {**made.node.fields, **{c.id: c.name for c in columns}}
        return Planned(Filter(made.node, condition), columns)

    # --- bodies -------------------------------------------------------------------------------------------------------

    def _body(self, body: Body, names: Names) -> Planned:
        if isinstance(body, Select):
            return self._select(body, names, ())
        if isinstance(body, Values):
            return self._values(body, names)
        if isinstance(body, SetOperation):
            return self._sets(body, names)
        return self.plan(body, names)

    def _values(self, values: Values, names: Names) -> Planned:
        with self._cursor.located(values.token):
            given = []
            for row in values.rows:
                if any(cell is None for cell in row):
                    raise InvalidArgumentError("DEFAULT stands for a column's value in INSERT alone")
                given.append([cell for cell in row if cell is not None])
            columns = tabulated(given, self._id) if len(given) >= MANY else None
            if columns is not None:
                return self._held(columns, names)
            scope = self._scope([], names)
            rows = [[self._bound(scope, cell).typed for cell in row] for row in given]
            types = [together([row[i].type for row in rows], f"column {i + 1} of VALUES") for i in range(len(rows[0]))]
            cells = [[converted(self._context, v, to) for v, to in zip(row, types, strict=True)] for row in rows]
        made = [Column(self._id(), f"col{i + 1}", to) for i, to in enumerate(types)]
        return Planned(Rows([c.id for c in made], cells), made)

    def _held(self, given: Sequence[Cells], names: Names) -> Planned:
        scope = self._scope([shape.constant for cells in given for shape in cells.shapes if shape.constant], names)
        made = over_cells(given, f"v{len(self.held)}", self._context, self._id, lambda tree: self._bound(scope, tree))
        for output in made.node.outputs:
            self._note(output.value.typed)
        self.held.append((made.name, made.table))
        return Planned(made.node, made.columns)

    def _sets(self, body: SetOperation, names: Names) -> Planned:
        left, right = self._body(body.left, names), self._body(body.right, names)
        with self._cursor.located(body.token):
            if len(left.columns) != len(right.columns):
                raise InvalidArgumentError(
                    f"{body.kind.upper()} needs as many columns on both sides, not {len(left.columns)} and "
                    f"{len(right.columns)}"
                )
            types = []
            for a, b in zip(left.columns, right.columns, strict=True):
                what = f"`{a.name}` in {body.kind.upper()}"
                if a.type is None or b.type is None:
                    refuse(what)
                types.append(together([a.type, b.type], what))
        compares = body.kind != "union" or not body.every
        left, right = (self._comparable(self.stored(side, types), compares) for side in (left, right))
        return Planned(
            Sets(body.kind, body.every, left.node, right.node, left.ids, right.ids), unqualified(left.columns)
        )

    def _comparable(self, planned: Planned, compares: bool) -> Planned:
        """The columns with one zero, where rows are told apart by them."""
        if not compares:
            return planned
        outputs, columns = [], []
        for column in planned.columns:
            value = self._scope(planned.columns, {}).value(Ref((column.id,)))
            new = replace(column, id=self._id())
            outputs.append(Output(new.id, comparable(value, "DISTINCT rows")))
            columns.append(new)
        return Planned(Project(planned.node, outputs), columns)

    # --- SELECT -------------------------------------------------------------------------------------------------------

    def _select(self, select: Select, names: Names, order: Sequence[Order]) -> Planned:
        select, order = _with_windows(select, order)
        source = Planned(OneRow(), []) if select.source is None else self._relation(select.source, names)
        source = Planned(source.node, [*source.columns, *self._outer])
        scope = self._scope(source.columns, names)
        node = source.node
        if select.where is not None:
            with self._cursor.located(select.where_token):
                condition = self._condition(scope, filtering(select.where), "WHERE")
                left = self._joining(node, scope, conjuncts(condition.syntax))
                if left:
                    node = Filter(node, self._bound(scope, left[0] if len(left) == 1 else Call("and", tuple(left))))
        select, node, made_of = self._generated(select, node, scope)
        scope = self._scope([*source.columns, *made_of], names)
        items = self._items(select, source.columns)
        select = self._grouped_by_all(select, items, source.columns)
        keys = self._sort_trees(order, items, source.columns)
        trees = [tree for _, tree, _ in items] + [tree for _, tree in keys]
        having = None
        if select.having is not None:
            with self._cursor.located(select.having_token):
                having = self._aliased(select.having, items, source.columns, "HAVING")
                trees.append(having)
        qualify = None
        if select.qualify is not None:
            with self._cursor.located(select.qualify_token):
                qualify = self._aliased(select.qualify, items, source.columns, "QUALIFY")
                trees.append(qualify)
                if not any(windows(tree) for tree in trees):
                    raise InvalidArgumentError("QUALIFY needs a window function, there or among the columns")
        if select.group_by or select.sets or having is not None or any(aggregates(tree) for tree in trees):
            node, columns, replaced = self._aggregated(node, scope, select, items, trees)
            scope = self._scope([*columns, *self._outer], names)
            items = [(name, self._grouped(tree, replaced, token), token) for name, tree, token in items]
            keys = [(o, self._grouped(tree, replaced, o.token)) for o, tree in keys]
            if having is not None:
                with self._cursor.located(select.having_token):
                    node = Filter(node, self._condition(scope, rewritten(having, replaced), "HAVING"))
            if qualify is not None:
                qualify = self._grouped(qualify, replaced, select.qualify_token)
        found = [
            w for tree in (*(t for _, t, _ in items), *(t for _, t in keys), qualify) if tree for w in windows(tree)
        ]
        if found:
            with self._cursor.located(select.token):
                node, scope, made = self._windowed(node, scope, dict.fromkeys(found), names)
            items = [(name, rewritten(tree, made.get), token) for name, tree, token in items]
            keys = [(o, rewritten(tree, made.get)) for o, tree in keys]
            if qualify is not None:
                with self._cursor.located(select.qualify_token):
                    node = Filter(node, self._condition(scope, rewritten(qualify, made.get), "QUALIFY"))
        return self._projected(node, scope, select.distinct, items, keys)

    def _projected(
        self,
        node: Node,
        scope: Scope,
        distinct: bool,
        items: Sequence[tuple[str, Syntax, int]],
        keys: Sequence[tuple[Order, Syntax]],
    ) -> Planned:
        outputs, columns = [], []
        for name, tree, token in items:
            with self._cursor.located(token):
                value = self._bound(scope, tree)
                if distinct:
                    value = comparable(value, "SELECT DISTINCT")
            column = Column(self._id(), name, value.typed.type)
            outputs.append(Output(column.id, value))
            columns.append(column)
        sort = []
        for one, tree in keys:
            with self._cursor.located(one.token):
                found = next((o for o, (_, t, _) in zip(outputs, items, strict=False) if t == tree), None)
                if found is None:
                    if distinct:
                        raise InvalidArgumentError("with DISTINCT rows are ordered by columns of the result alone")
                    found = Output(self._id(), self._bound(scope, tree))
                    outputs.append(found)
                sort.append(sort_key(found, one))
        made: Node = Project(node, outputs, distinct)
        return Planned(Sort(made, sort, None, 0) if sort else made, columns)

    def _ordered(self, made: Planned, order: Sequence[Order], names: Names) -> Planned:
        items: list[tuple[str, Syntax, int]] = [(c.name, Ref((c.id,)), 0) for c in made.columns]
        keys = self._sort_trees(order, items, made.columns)
        return self._projected(made.node, self._scope(made.columns, names), False, items, keys)

    def _items(self, select: Select, columns: Sequence[Column]) -> list[tuple[str, Syntax, int]]:
        """The columns of a result: name, resolved tree, token."""
        found: list[tuple[str, Syntax, int]] = []
        aliased: dict[str, list[Syntax]] = {}
        for item in select.items:
            with self._cursor.located(item.token):
                if isinstance(item, Star):
                    found += [(c.name, Ref((c.id,)), item.token) for c in starred(item, columns)]
                    continue
                tree = resolved(lateral(item.value, aliased, columns), columns)
                found.append((title(item), tree, item.token))
                if item.alias is not None and not isinstance(item.value, Ref):
                    aliased.setdefault(item.alias.lower(), []).append(tree)
        return found

    def _aliased(
        self, node: Syntax, items: Sequence[tuple[str, Syntax, int]], columns: Sequence[Column], clause: str
    ) -> Syntax:
        """A tree over the columns of a result and, behind these, over those of the relations."""

        def change(one: Syntax) -> Syntax | None:
            if isinstance(one, Aggregate):
                return resolved(one, columns)
            if isinstance(one, Ref) or not isinstance(one, Name):
                return None
            made = self._output(one, items, columns)
            if clause == "HAVING" and matching(one.parts, columns)[0] and made != resolved(one, columns):
                raise InvalidArgumentError(
                    f"`{one.parts[0]}` is a column of the result and another one of the tables: give one another name"
                )
            return made

        return rewritten(node, change)

    def _output(self, name: Name, items: Sequence[tuple[str, Syntax, int]], columns: Sequence[Column]) -> Syntax:
        made = [tree for title, tree, _ in items if len(name.parts) == 1 and title.lower() == name.parts[0].lower()]
        if any(tree != made[0] for tree in made):
            raise InvalidArgumentError(f"`{name.parts[0]}` could be any of several columns of the result")
        if not made:
            return resolved(name, columns)
        return made[0]

    def _sort_trees(
        self, order: Sequence[Order], items: Sequence[tuple[str, Syntax, int]], columns: Sequence[Column]
    ) -> list[tuple[Order, Syntax]]:
        """The keys of an order; ALL are the columns of the result, from left to right."""
        titles = {title.lower() for title, _, _ in items}
        if len(order) == 1 and every(order[0].value, columns) and "all" not in titles:
            order = [replace(order[0], value=number(i)) for i in range(len(items))]
        return [(o, self._sort_tree(o, items, columns)) for o in order]

    def _sort_tree(self, order: Order, items: Sequence[tuple[str, Syntax, int]], columns: Sequence[Column]) -> Syntax:
        with self._cursor.located(order.token):
            place = ordinal(order.value)
            if place is None:
                return self._aliased(order.value, items, columns, "ORDER BY")
            if not 1 <= place <= len(items):
                raise InvalidArgumentError(f"the result has no column {place}")
            return items[place - 1][1]

    def _generated(self, select: Select, node: Node, scope: Scope) -> tuple[Select, Node, list[Column]]:
        """The rows made more by a generator among the columns, and columns of it in its place."""
        found = [i for i in select.items if isinstance(i, Item) and generates(i.value)]
        if not found:
            return select, node, []
        if len(found) > 1 or select.group_by or select.sets:
            refuse("a generator such as explode beside another one or with GROUP BY")
        item = found[0]
        with self._cursor.located(item.token):
            assert isinstance(item.value, Call)
            node, columns = self._exploded(node, scope, item.value, False)
            if item.alias is not None and len(columns) > 1:
                refuse(f"one name for {len(columns)} columns")
        items: list[Item | Star] = []
        for one in select.items:
            if one is item:
                titles = [item.alias or c.name for c in columns]
                items += [replace(item, value=Ref((c.id,)), alias=t) for c, t in zip(columns, titles, strict=True)]
            else:
                items.append(one)
        return replace(select, items=tuple(items)), node, [replace(c, hidden=True) for c in columns]

    def _exploded(self, node: Node, scope: Scope, call: Call, outer: bool) -> tuple[Node, list[Column]]:
        if len(call.args) != 1:
            raise InvalidArgumentError(f"`{call.name}` takes an array or a map")
        value = self._bound(scope, call.args[0])
        whole = self._id()
        made = generated(call.name, value.typed, whole, outer)
        columns = [Column(self._id(), name, of) for name, of, _ in made]
        lists = {c.id: sql for c, (_, _, sql) in zip(columns, made, strict=True)}
        return Exploded(node, value, whole, lists), columns

    def _view(self, view: View, names: Names) -> Planned:
        source = self._relation(view.source, names)
        with self._cursor.located(view.token):
            scope = self._scope([*source.columns, *self._outer], names)
            node, columns = self._exploded(source.node, scope, view.call, view.outer)
        if view.columns and len(view.columns) != len(columns):
            self.wrong_titles(len(columns), len(view.columns), view.token)
        titles = view.columns or [c.name for c in columns]
        made = [replace(c, name=t, qualifiers=(view.alias,)) for c, t in zip(columns, titles, strict=True)]
        return Planned(node, [*source.columns, *made])

    def _windowed(
        self, node: Node, scope: Scope, found: Iterable[Window], names: Names
    ) -> tuple[Node, Scope, dict[Syntax, Syntax]]:
        """The rows with the values of functions over windows, and what stands for these."""
        outputs, columns = [], []
        made: dict[Syntax, Syntax] = {}
        for window in found:
            if any(windows(arg) for arg in window.args):
                refuse("a window function over another one: select that one in a subquery")
            bound = [[self._bound(scope, arg) for arg in part] for part in window.parts]
            typed = over(self._context, window, *([v.typed for v in part] for part in bound))
            self._note(typed)
            column = Column(self._id(), window.name, typed.type)
            uses = frozenset().union(*(v.uses for part in bound for v in part))
            outputs.append(Output(column.id, Value(typed, uses, window)))
            columns.append(column)
            made[window] = Ref((column.id,))
        return Windowed(node, outputs), self._scope([*scope.columns, *columns], names), made

    # --- groups -------------------------------------------------------------------------------------------------------

    def _grouped_by_all(
        self, select: Select, items: Sequence[tuple[str, Syntax, int]], columns: Sequence[Column]
    ) -> Select:
        """GROUP BY ALL written out: the columns of the result that hold no aggregate function."""
        if select.sets is not None or len(select.group_by) != 1 or not every(select.group_by[0].value, columns):
            return select
        every_item = select.group_by[0]
        keys = [i for i, (_, tree, _) in enumerate(items) if not contains(tree, Aggregate)]
        with self._cursor.located(every_item.token):
            for kind, what in ((Window, "a window function"), (Subquery, "a subquery")):
                if any(contains(items[i][1], kind) for i in keys):
                    refuse(f"GROUP BY ALL with {what} among the keys")
            if not keys and any(beside_aggregates(tree) for _, tree, _ in items):
                raise InvalidArgumentError(
                    "GROUP BY ALL finds no key: a column stands beside an aggregate function in one expression; select it "
                    "by itself too, or name the keys"
                )
        return replace(select, group_by=tuple(replace(every_item, value=number(i), text=items[i][0]) for i in keys))

    def _aggregated(
        self,
        node: Node,
        scope: Scope,
        select: Select,
        items: Sequence[tuple[str, Syntax, int]],
        trees: Sequence[Syntax],
    ) -> tuple[Node, list[Column], _Replaced]:
        replaced = _Replaced()
        columns: list[Column] = []
        keys: list[Output] = []
        numbers: list[int] = []
        for item in select.group_by:
            with self._cursor.located(item.token):
                tree = self._group_tree(item, items, scope.columns)
                if tree not in replaced:
                    value = comparable(self._bound(scope, tree), "GROUP BY")
                    column = Column(self._id(), item.text, value.typed.type)
                    keys.append(Output(column.id, value))
                    columns.append(column)
                    replaced[tree] = Ref((column.id,))
                numbers.append([*replaced].index(tree))
        sets = (
            None if select.sets in (None, ((),)) else [sorted({numbers[i] for i in one}) for one in select.sets or ()]
        )
        trees_of_keys = [*replaced]
        if sets is not None:
            node, keys = self._as_columns(node, scope, keys)
        values: list[Output] = []
        for one in dict.fromkeys(a for tree in trees for a in aggregates(tree)):
            with self._cursor.located(select.token):
                grouping = one.name in ("grouping", "grouping_id")
                value = _grouping(one, trees_of_keys, keys, sets) if grouping else self._aggregate(scope, one)
            column = Column(self._id(), one.name, value.typed.type)
            values.append(Output(column.id, value))
            columns.append(column)
            replaced[one] = Ref((column.id,))
        replaced.known = {c.id: c for c in scope.columns if not c.outer}
        return Aggregation(node, keys, values, sets), columns, replaced

    def _as_columns(self, node: Node, scope: Scope, keys: Sequence[Output]) -> tuple[Node, list[Output]]:
        """The rows with the keys as columns beside the others, since a set is null where a key isn't of it."""
        beside = [Output(c.id, scope.value(Ref((c.id,)))) for c in scope.columns if c.type is not None and not c.outer]
        own = [Output(self._id(), key.value) for key in keys]
        made = [
            Output(key.id, Value(replace(key.value.typed, sql=column.id), frozenset({column.id}), Ref((column.id,))))
            for key, column in zip(keys, own, strict=True)
        ]
        return Project(node, [*beside, *own]), made

    def _grouped(self, tree: Syntax, replaced: _Replaced, token: int) -> Syntax:
        with self._cursor.located(token):
            return rewritten(tree, replaced)

    def _group_tree(self, item: Item, items: Sequence[tuple[str, Syntax, int]], columns: Sequence[Column]) -> Syntax:
        place = ordinal(item.value)
        if place is not None:
            if not 1 <= place <= len(items):
                raise InvalidArgumentError(f"the result has no column {place}")
            tree = items[place - 1][1]
        elif isinstance(item.value, Name) and not matching(item.value.parts, columns)[0]:
            tree = self._output(item.value, items, columns)
        else:
            tree = resolved(item.value, columns)
        if aggregates(tree):
            raise InvalidArgumentError("rows can't be grouped by an aggregate function")
        return tree

    def _aggregate(self, scope: Scope, call: Aggregate) -> Value:
        args: list[Syntax] = list(call.args)
        if call.where is not None:
            # The functions pass nulls over, so that what isn't counted isn't evaluated either.
            args = [Call("case", (call.where, arg)) for arg in args]
        bound = [self._bound(scope, arg) for arg in args]
        typed = AGGREGATES[call.name](self._context, call.name, [v.typed for v in bound], call.distinct, "")
        self._note(typed)
        return Value(typed, frozenset().union(*(v.uses for v in bound)), call)

    # --- relations ----------------------------------------------------------------------------------------------------

    def _relation(self, relation: Relation, names: Names) -> Planned:
        if isinstance(relation, Join):
            return self._join(relation, names)
        if isinstance(relation, View):
            return self._view(relation, names)
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
            nested, then = named
            made = _titled(self.plan(nested.query, then), nested.columns, self, nested.token)
            return self._alias(made, relation.alias or nested.alias, relation.columns, relation.token)
        return self._alias(self.plan(relation.query, names), relation.alias, relation.columns, relation.token)

    def _alias(self, planned: Planned, alias: str | None, columns: Sequence[str], token: int) -> Planned:
        made = _titled(planned, columns, self, token)
        qualifiers = () if alias is None else (alias,)
        return Planned(made.node, [replace(c, qualifiers=qualifiers, hidden=False) for c in made.columns])

    def _table(self, name: TableName) -> Planned:
        with self._cursor.located(name.token):
            given, fields = self._tables.source(name, len(self.sources))
        columns = [Column(self._id(), title, of, name.qualifiers) for title, of in fields]
        source = Source(given, {c.id: c.name for c in columns})
        self.sources.append(source)
        return _titled(Planned(source, columns), name.columns, self, name.token)

    def _tools(self, names: Names) -> Tools:
        return Tools(
            self._context,
            lambda columns: self._scope(columns, names),
            self._bound,
            self._aggregate,
            self._id,
            self._cursor.located,
        )

    def _lateral(self, join: Join, names: Names) -> Planned:
        left = self._relation(join.left, names)
        around = self._outer, self._correlated
        # The right one's text names columns of the left one, and of nothing around both.
        self._outer, self._correlated = [replace(c, outer=True) for c in left.columns], set()
        try:
            right, of_left = self._relation(join.right, names), frozenset(self._correlated)
        finally:
            self._outer, self._correlated = around
        columns = [*left.columns, *right.columns]
        made = Lateral(left.node, right.node, join.kind, frozenset(left.ids), frozenset(right.ids), of_left)
        if join.on is not None:
            with self._cursor.located(join.token):
                made.on = self._condition(self._scope(columns, names), join.on, "ON")
                if contains(made.on.syntax, Subquery):
                    refuse("a subquery in ON")
        return Planned(made, columns)

    def _join(self, join: Join, names: Names) -> Planned:
        if join.lateral:
            return self._lateral(join, names)
        left, right = self._relation(join.left, names), self._relation(join.right, names)
        columns = [*left.columns, *right.columns]
        ids = frozenset(left.ids), frozenset(right.ids)
        one_sided = join.kind in ("semi", "anti")
        shown = left.columns if one_sided else columns
        if join.using:
            return self._using(join, left, right)
        if join.on is None:
            return Planned(Joined(left.node, right.node, join.kind, *ids), shown)
        with self._cursor.located(join.token):
            on = self._condition(self._scope(columns, names), join.on, "ON")
            if contains(on.syntax, Subquery):
                refuse("a subquery in ON")
        return Planned(Joined(left.node, right.node, join.kind, *ids, on), shown)

    def _joining(self, node: Node, scope: Scope, conditions: list[Syntax]) -> list[Syntax]:
        """Makes conditions between two relations part of their join, where it is an inner one; gives the others back.

        Conditions that can fail stay in their order, behind those that may guard them.
        """
        if not isinstance(node, Joined) or node.kind not in ("inner", "cross"):
            return conditions
        left = conditions
        for child in (node.left, node.right):
            left = self._joining(child, scope, left)
        here: list[Syntax] = []
        rest: list[Syntax] = []
        for one in left:
            ids = refs(one)
            between = ids & node.left_ids and ids & node.right_ids and ids <= node.left_ids | node.right_ids
            fails = contains(one, Subquery)
            if between and not fails:
                typed = scope.value(one).typed
                fails = typed.throws or typed.partial
            (here if between and not fails else rest).append(one)
        if here:
            joins = [node.on.syntax] if node.on is not None else []
            both = (*joins, *here)
            node.on = self._bound(scope, both[0] if len(both) == 1 else Call("and", both))
            node.kind = "inner"
        return rest

    def _using(self, join: Join, left: Planned, right: Planned) -> Planned:
        with self._cursor.located(join.token):
            pairs = [(only_one(left.columns, name), only_one(right.columns, name)) for name in join.using]
            for a, b in pairs:
                if a.type != b.type:
                    raise InvalidArgumentError(f"`{a.name}` is {a.type} and {b.type}: join ON values of one type")
            tests = [Call("=", (Ref((a.id,)), Ref((b.id,)))) for a, b in pairs]
            both = [*left.columns, *right.columns]
            scope = self._scope(both, {})
            on = self._bound(scope, tests[0] if len(tests) == 1 else Call("and", tuple(tests)))
        joined: Node = Joined(left.node, right.node, join.kind, frozenset(left.ids), frozenset(right.ids), on)
        if join.kind in ("semi", "anti"):
            return Planned(joined, left.columns)
        merged = {c.id for pair in pairs for c in pair}
        if join.kind == "full":
            first, outputs = [], [Output(c.id, scope.value(Ref((c.id,)))) for c in both]
            for a, b in pairs:
                column = Column(self._id(), a.name, a.type)
                value = self._bound(scope, Call("coalesce", (Ref((a.id,)), Ref((b.id,)))))
                outputs.append(Output(column.id, value))
                first.append(column)
            joined = Project(joined, outputs)
            hidden = [replace(c, hidden=True) for c in both if c.id in merged]
        else:
            first = [b if join.kind == "right" else a for a, b in pairs]
            hidden = [replace(a if join.kind == "right" else b, hidden=True) for a, b in pairs]
        return Planned(joined, [*first, *[c for c in both if c.id not in merged], *hidden])

    # --- expressions --------------------------------------------------------------------------------------------------

    def _condition(self, scope: Scope, node: Syntax, clause: str) -> Value:
        if aggregates(node) and clause != "HAVING":
            raise InvalidArgumentError(f"aggregate functions can't stand in {clause}")
        value = self._bound(scope, node)
        if value.typed.type != BOOLEAN:
            raise InvalidArgumentError(f"{clause} needs a condition, not a value of type {value.typed.type}")
        return value

    def _bound(self, scope: Scope, node: Syntax) -> Value:
        value = scope.value(node)
        self._correlated |= scope.correlated
        self._note(value.typed)
        return value

    def _note(self, typed: Typed) -> None:
        self.throws |= typed.throws or typed.partial

    def _scope(self, columns: Sequence[Column], names: Names) -> Scope:
        return Scope(columns, self._context, lambda node, scope: self._subquery(node, scope, names))

    def _subquery(self, node: Subquery, scope: Scope, names: Names) -> Typed:
        assert node.query is not None
        around = self._outer, self._correlated
        self._outer, self._correlated = scope.outside(), set()
        try:
            made = self.plan(node.query, names)
            scope.meet(self._correlated)
        finally:
            self._outer, self._correlated = around
        self._correlated |= scope.correlated
        if node.name == "exists":
            made.node.narrow([])
            return Typed(BOOLEAN, f"EXISTS ({made.node.render([])})")
        if len(made.columns) != 1 or made.columns[0].type is None:
            raise InvalidArgumentError(f"a subquery as a value has one column, not {len(made.columns)}")
        if node.name == "scalar":
            made.node.narrow([])
            # More than one row is an error.
            return Typed(made.columns[0].type, f"({made.node.render(made.ids)})", throws=True)
        if not node.filters:
            # Spark itself gives false there where one of both is null, but not everywhere.
            refuse("IN with a subquery that isn't by itself a condition of WHERE")
        value = scope.bind(node.args[0])
        to = together([value.type, made.columns[0].type], "IN")
        made = self.stored(made, [to])
        made.node.narrow([])
        value = converted(self._context, value, to)
        return replace(value, type=BOOLEAN, sql=f"({value.sql} IN ({made.node.render(made.ids)}))", literal=None)

    # --- odds and ends ------------------------------------------------------------------------------------------------

    def _id(self) -> str:
        count = next(self._numbers)
        if count > _MOST_COLUMNS:
            raise UnsupportedExpressionError("the query is too large for the embedded engine: give spark= for it")
        return f"q{count}"

    def _start(self, token: int) -> int:
        return self._cursor.tokens[token].start

    def wrong_titles(self, found: int, given: int, token: int) -> None:
        """Raises that a relation has another number of columns than names for them."""
        self._cursor.wrong(f"expected {found} names of columns, found {given}", self._start(token))


class _Replaced(dict[Syntax, Syntax]):
    """What stands for groups and aggregate functions behind the grouping."""

    known: Mapping[str, Column]

    def __call__(self, node: Syntax) -> Syntax | None:
        made = self.get(node)
        if made is None and isinstance(node, Ref) and node.id in self.known:
            raise InvalidArgumentError(
                f"`{self.known[node.id].name}` is neither in GROUP BY nor in an aggregate function: add it to one of both"
            )
        return made


def _titled(planned: Planned, titles: Sequence[str], planner: Planner, token: int) -> Planned:
    shown = [c for c in planned.columns if not c.hidden]
    if not titles:
        return Planned(planned.node, shown)
    if len(titles) != len(shown):
        planner.wrong_titles(len(shown), len(titles), token)
    return Planned(planned.node, [replace(c, name=title) for c, title in zip(shown, titles, strict=True)])


def _with_windows(select: Select, order: Sequence[Order]) -> tuple[Select, Sequence[Order]]:
    """The windows that have names written out."""
    known = {name.lower(): window for name, window in select.windows}
    if len(known) < len(select.windows):
        raise InvalidArgumentError("WINDOW gives one name twice")

    def change(node: Syntax) -> Syntax | None:
        if not isinstance(node, Window) or node.named is None:
            return None
        found = known.get(node.named.lower())
        if found is None:
            raise InvalidArgumentError(f"no window is called `{node.named}`")
        if found.named is not None:
            refuse("a window that is the name of another one")
        return replace(found, name=node.name, args=(*node.args, *found.args), ignores_nulls=node.ignores_nulls)

    items = tuple(i if isinstance(i, Star) else replace(i, value=rewritten(i.value, change)) for i in select.items)
    qualify = None if select.qualify is None else rewritten(select.qualify, change)
    return (
        replace(select, items=items, qualify=qualify),
        [replace(o, value=rewritten(o.value, change)) for o in order],
    )


def _grouping(
    call: Aggregate, trees: Sequence[Syntax], keys: Sequence[Output], sets: Sequence[Sequence[int]] | None
) -> Value:
    """Which keys a row's set lacks: of one key, or of all as bits."""
    if sets is not None and {i for one in sets for i in one} < set(range(len(keys))):
        refuse(f"`{call.name}` where a key is in no set")
    if sets is None:
        raise InvalidArgumentError(f"`{call.name}` needs GROUPING SETS, ROLLUP or CUBE")
    if call.name == "grouping":
        if len(call.args) != 1 or call.args[0] not in trees:
            raise InvalidArgumentError("`grouping` takes one of the expressions that rows are grouped by")
        key = keys[trees.index(call.args[0])].value
        return Value(Typed(BYTE, f"CAST(GROUPING({key.typed.sql}) AS TINYINT)"), key.uses, call)
    if call.args and list(call.args) != list(trees):
        raise InvalidArgumentError("`grouping_id` takes all the expressions that rows are grouped by, in their order")
    listed = ", ".join(key.value.typed.sql for key in keys)
    uses = frozenset().union(*(key.value.uses for key in keys))
    return Value(Typed(LONG, f"CAST(GROUPING({listed}) AS BIGINT)"), uses, call)
