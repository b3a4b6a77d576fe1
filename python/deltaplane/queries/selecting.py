"""Plans SELECT: columns, groups, windows and orders, in the order in which Spark computes them.

Handles relations as rows with columns; independent of the other parts of a query.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.syntax import Call, Cast, Name, Syntax
from deltaplane.expr.typed import Typed, carried, refuse
from deltaplane.expr.types import BYTE, LONG
from deltaplane.expr.unparse import conjuncts
from deltaplane.queries.binding import Names, Planned
from deltaplane.queries.functions.collecting import check_order
from deltaplane.queries.functions.generators import generates
from deltaplane.queries.functions.windows import over
from deltaplane.queries.joining import Joining
from deltaplane.queries.plan import (
    Aggregation,
    Column,
    Extended,
    Node,
    OneRow,
    Output,
    Project,
    Ref,
    Sort,
    Value,
    Windowed,
)
from deltaplane.queries.rules import (
    aliases_in,
    all_of,
    comparable,
    every,
    factored,
    filtering,
    lateral,
    number,
    only_shown,
    ordinal,
    parts_of,
    sort_key,
    starred,
    title,
)
from deltaplane.queries.scopes import (
    Scope,
    aggregates,
    beside_aggregates,
    canonical,
    contains,
    matching,
    resolved,
    rewritten,
    windows,
)
from deltaplane.queries.syntax import Aggregate, Item, Order, Select, Star, Step, Subquery, Window

__all__ = ["Selecting"]

# A column of a result: its name, its tree, the index of its first token.
Selected = tuple[str, Syntax, int]
# The size of a tree with the trees of the aliases in it. Each use of an alias adds its tree, so
# that a chain of them doubles.
_MOST_PARTS = 10_000


class Selecting(Joining):
    """Plans SELECT with its ORDER BY."""

    def _select(self, select: Select, names: Names, order: Sequence[Order]) -> Planned:
        source = Planned(OneRow(), []) if select.source is None else self._relation(select.source, names)
        return self._selected(select, source, names, order)

    def _selected(self, select: Select, source: Planned, names: Names, order: Sequence[Order]) -> Planned:
        """The result of SELECT over the rows of its FROM."""
        select, order = _with_windows(select, order)
        source = Planned(source.node, [*source.columns, *self._outer])
        scope = self._scope(source.columns, names)
        node = source.node
        if select.where is not None:
            node = self._where(node, scope, select.where, select.where_token)
        select, node, made_of = self._generated(select, node, scope)
        named = None if _groups(select) else _Named(self, [*source.columns, *made_of], names)
        items = self._items(select, source.columns, named)
        node, made_of = (node, made_of) if named is None else (named.over(node), named.columns[len(source.columns) :])
        scope = self._scope([*source.columns, *made_of], names)
        select = self._grouped_by_all(select, items, source.columns)
        # Spark looks below DISTINCT and window functions for no column of the relations.
        below = not select.distinct and not any(windows(tree) for _, tree, _ in items)
        keys = self._sort_trees(order, items, source.columns, below)
        trees = [tree for _, tree, _ in items] + [tree for _, tree in keys]
        having = None
        if select.having is not None:
            grouped = self._group_keys(select, items, source.columns)
            with self._cursor.located(select.having_token):
                having = self._having(select.having, items, source.columns, grouped)
                trees.append(having)
        qualify = None
        if select.qualify is not None:
            with self._cursor.located(select.qualify_token):
                qualify = self._aliased(select.qualify, items, source.columns)
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
                    having = filtering(rewritten(having, replaced))
                    self._condition(scope, having, "HAVING")
                    node = self._filtered(scope, node, having)
            if qualify is not None:
                qualify = self._grouped(qualify, replaced, select.qualify_token)
        window_nodes = [
            w for tree in (*(t for _, t, _ in items), *(t for _, t in keys), qualify) if tree for w in windows(tree)
        ]
        if window_nodes:
            with self._cursor.located(select.token):
                node, scope, made = self._windowed(node, scope, dict.fromkeys(window_nodes), names)
            items = [(name, rewritten(tree, made.get), token) for name, tree, token in items]
            keys = [(o, rewritten(tree, made.get)) for o, tree in keys]
            if qualify is not None:
                with self._cursor.located(select.qualify_token):
                    qualify = rewritten(qualify, made.get)
                    self._condition(scope, qualify, "QUALIFY")
                    node = self._filtered(scope, node, qualify)
        return self._projected(node, scope, select.distinct, items, keys)

    def _where(self, node: Node, scope: Scope, where: Syntax, token: int) -> Node:
        with self._cursor.located(token):
            condition = self._condition(scope, filtering(factored(where)), "WHERE")
            left = self._joining(node, scope, conjuncts(condition.syntax))
            return self._filtered(scope, node, all_of(left)) if left else node

    def _step(self, step: Step, names: Names) -> Planned:
        source = self._relation(step.source, names)
        columns = source.columns
        scope = self._scope([*columns, *self._outer], names)
        if step.where is not None:
            return Planned(self._where(source.node, scope, step.where, step.token), columns)
        with self._cursor.located(step.token):
            if step.dropped:
                dropped = {only_shown(columns, name).id for name in step.dropped}
                return Planned(source.node, [c for c in columns if c.id not in dropped])
            items = [Item(Ref((c.id,)), c.name, token=step.token) for c in columns]
            if step.assigned is not None:
                assigned = only_shown(columns, str(step.assigned.alias))
                items = [step.assigned if c is assigned else i for c, i in zip(columns, items, strict=True)]
                columns = [replace(c, qualifiers=()) if c is assigned else c for c in columns]
        if step.order or step.limit is not None or step.offset:
            trees: list[Selected] = [(c.name, Ref((c.id,)), step.token) for c in columns]
            shown = [tree for c, tree in zip(columns, trees, strict=True) if not c.hidden]
            keys = self._sort_trees(step.order, shown, scope.columns)
            made = self._projected(source.node, scope, False, trees, keys)
            if step.limit is not None or step.offset:
                made = Planned(Sort(made.node, (), step.limit, step.offset), made.columns)
        else:
            made = self._selected(Select((*items, *step.extended), token=step.token), source, names, ())
        # The columns that were there still have the names of their tables.
        old = [
            replace(c, name=before.name, qualifiers=before.qualifiers, hidden=before.hidden)
            for c, before in zip(made.columns, columns, strict=False)
        ]
        return Planned(made.node, [*old, *made.columns[len(columns) :]])

    def _projected(
        self,
        node: Node,
        scope: Scope,
        distinct: bool,
        items: Sequence[Selected],
        keys: Sequence[tuple[Order, Syntax]],
    ) -> Planned:
        outputs, columns = [], []
        for name, tree, token in items:
            with self._cursor.located(token):
                value = self._bound(scope, tree)
                if distinct:
                    value = comparable(value, "SELECT DISTINCT")
            column = Column(self._id(), name, value.typed.type, bounds=carried(value.typed))
            outputs.append(self._computed(column.id, value))
            columns.append(column)
        sort = []
        for order_item, tree in keys:
            with self._cursor.located(order_item.token):
                output = next((o for o, (_, t, _) in zip(outputs, items, strict=False) if t == tree), None)
                if output is None:
                    if distinct:
                        raise InvalidArgumentError("with DISTINCT rows are ordered by columns of the result alone")
                    output = self._computed(self._id(), self._bound(scope, tree))
                    outputs.append(output)
                sort.append(sort_key(output, order_item))
        made: Node = Project(node, outputs, distinct)
        return Planned(Sort(made, sort, None, 0) if sort else made, columns)

    def _ordered(self, made: Planned, order: Sequence[Order], names: Names) -> Planned:
        items: list[Selected] = [(c.name, Ref((c.id,)), 0) for c in made.columns]
        keys = self._sort_trees(order, items, made.columns)
        return self._projected(made.node, self._scope(made.columns, names), False, items, keys)

    def _items(self, select: Select, columns: Sequence[Column], named: _Named | None) -> list[Selected]:
        """The columns of a result: name, resolved tree, token. `named` computes columns that later
        ones name."""
        selected: list[Selected] = []
        aliased: dict[str, list[Syntax]] = {}
        places: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for item in select.items:
            with self._cursor.located(item.token):
                if isinstance(item, Star):
                    selected += [(c.name, Ref((c.id,)), item.token) for c in starred(item, columns)]
                    continue
                used = aliases_in(item.value, aliased, columns)
                for alias in dict.fromkeys(used) if named is not None else ():
                    name, tree, token = selected[places[alias]]
                    if named is not None and len(aliased[alias]) == 1 and _is_computed(tree):
                        with self._cursor.located(token):
                            aliased[alias] = [named.column(tree)]
                        selected[places[alias]] = (name, aliased[alias][0], token)
                        sizes[alias] = 1
                size = parts_of(item.value) + sum(sizes[alias] for alias in used)
                if size > _MOST_PARTS:
                    refuse(f"aliases of columns before it that stand for more than {_MOST_PARTS:,} parts")
                tree = resolved(lateral(item.value, aliased, columns), columns)
                selected.append((title(item, aliased, columns), tree, item.token))
                if item.alias is not None and not isinstance(item.value, Ref):
                    alias = item.alias.lower()
                    aliased.setdefault(alias, []).append(tree)
                    places[alias], sizes[alias] = len(selected) - 1, size
        return selected

    def _aliased(
        self, node: Syntax, items: Sequence[Selected], columns: Sequence[Column], below: bool = False
    ) -> Syntax:
        """A tree over the columns of a result and, with lower precedence, over those of the
        relations. `below`: so is a name that several columns of the result have."""

        def change(part: Syntax) -> Syntax | None:
            if isinstance(part, Aggregate):
                return resolved(part, columns)
            if isinstance(part, Ref) or not isinstance(part, Name):
                return None
            return self._output(part, items, columns, below)

        return rewritten(node, change)

    def _having(
        self, node: Syntax, items: Sequence[Selected], columns: Sequence[Column], grouped: Container[Syntax]
    ) -> Syntax:
        """A HAVING condition: a name means the column of the relations if rows are grouped by it,
        otherwise the column of the result.

        Spark converts the other side of a comparison to the type of the relations' column even
        where the name means the result's: a name of both is refused then.
        """
        own = [c for c in columns if not c.outer]

        def change(part: Syntax) -> Syntax | None:
            if isinstance(part, Aggregate):
                return resolved(part, columns)
            if isinstance(part, Ref) or not isinstance(part, Name):
                return None
            if not matching(part.parts, own)[0]:
                return self._output(part, items, columns)
            below = resolved(part, columns)
            by_group = any(canonical(step) in grouped for step in _field_steps(below))
            if not by_group and self._output(part, items, columns) != below:
                raise InvalidArgumentError(
                    f"`{part.parts[0]}` is a column of the result and another one of the tables: give one another name"
                )
            return below

        return rewritten(node, change)

    def _output(self, name: Name, items: Sequence[Selected], columns: Sequence[Column], below: bool = False) -> Syntax:
        made = [tree for title, tree, _ in items if len(name.parts) == 1 and title.lower() == name.parts[0].lower()]
        several = any(tree != made[0] for tree in made)
        if several and not (below and matching(name.parts, [c for c in columns if not c.outer])[0]):
            raise InvalidArgumentError(f"`{name.parts[0]}` could be any of several columns of the result")
        return made[0] if made and not several else resolved(name, columns)

    def _sort_trees(
        self, order: Sequence[Order], items: Sequence[Selected], columns: Sequence[Column], below: bool = False
    ) -> list[tuple[Order, Syntax]]:
        """The sort keys; ALL means the columns of the result, from left to right."""
        titles = {title.lower() for title, _, _ in items}
        if len(order) == 1 and every(order[0].value, columns) and "all" not in titles:
            order = [replace(order[0], value=number(i)) for i in range(len(items))]
        return [(o, self._sort_tree(o, items, columns, below)) for o in order]

    def _sort_tree(self, order: Order, items: Sequence[Selected], columns: Sequence[Column], below: bool) -> Syntax:
        with self._cursor.located(order.token):
            place = ordinal(order.value)
            if place is None:
                return self._aliased(order.value, items, columns, below)
            if not 1 <= place <= len(items):
                raise InvalidArgumentError(f"the result has no column {place}")
            return items[place - 1][1]

    def _generated(self, select: Select, node: Node, scope: Scope) -> tuple[Select, Node, list[Column]]:
        """Plans a generator among the columns: its rows, and its columns in its place."""
        generators = [i for i in select.items if isinstance(i, Item) and generates(i.value)]
        if not generators:
            return select, node, []
        if len(generators) > 1 or select.group_by or select.sets:
            refuse("a generator such as explode beside another one or with GROUP BY")
        item = generators[0]
        with self._cursor.located(item.token):
            assert isinstance(item.value, Call)
            node, columns = self._exploded(node, scope, item.value, False)
            named = item.names or (item.alias,) if item.names or item.alias is not None else ()
            if named and len(named) != len(columns):
                raise InvalidArgumentError(f"`{item.value.name}` has {len(columns)} columns here, not {len(named)}")
        items: list[Item | Star] = []
        for select_item in select.items:
            if select_item is item:
                titles = named or [c.name for c in columns]
                items += [Item(Ref((c.id,)), item.text, t, item.token) for c, t in zip(columns, titles, strict=True)]
            else:
                items.append(select_item)
        return replace(select, items=tuple(items)), node, [replace(c, hidden=True) for c in columns]

    def _windowed(
        self, node: Node, scope: Scope, window_nodes: Iterable[Window], names: Names
    ) -> tuple[Node, Scope, dict[Syntax, Syntax]]:
        """The rows with the values of window functions, and the columns that replace these
        functions."""
        outputs, columns = [], []
        made: dict[Syntax, Syntax] = {}
        for window in window_nodes:
            if any(windows(arg) for arg in window.args):
                refuse("a window function over another one: select that one in a subquery")
            bound = [[self._bound(scope, arg) for arg in part] for part in window.parts]
            typed = over(self._context, window, *([v.typed for v in part] for part in bound))
            self._note(typed)
            column = Column(self._id(), window.name, typed.type, bounds=typed.bounds)
            uses = frozenset().union(*(v.uses for part in bound for v in part))
            outputs.append(Output(column.id, Value(typed, uses, window)))
            columns.append(column)
            made[window] = Ref((column.id,))
        return Windowed(node, outputs), self._scope([*scope.columns, *columns], names), made

    # --- groups -------------------------------------------------------------------------------------------------------

    def _grouped_by_all(self, select: Select, items: Sequence[Selected], columns: Sequence[Column]) -> Select:
        """GROUP BY ALL expanded: the columns of the result without aggregate functions."""
        if select.sets is not None or len(select.group_by) != 1 or not every(select.group_by[0].value, columns):
            return select
        if any(name.lower() == "all" for name, _, _ in items):
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

    def _group_keys(self, select: Select, items: Sequence[Selected], columns: Sequence[Column]) -> set[Syntax]:
        """The canonical trees that rows are grouped by."""
        keys = set()
        for item in select.group_by:
            with self._cursor.located(item.token):
                keys.add(canonical(self._group_tree(item, items, columns)))
        return keys

    def _aggregated(
        self,
        node: Node,
        scope: Scope,
        select: Select,
        items: Sequence[Selected],
        trees: Sequence[Syntax],
    ) -> tuple[Node, list[Column], _Replaced]:
        replaced = _Replaced()
        columns: list[Column] = []
        keys: list[Output] = []
        numbers: list[int] = []
        for item in select.group_by:
            with self._cursor.located(item.token):
                tree = self._group_tree(item, items, scope.columns)
                key = canonical(tree)
                if key not in replaced:
                    value = comparable(self._bound(scope, tree), "GROUP BY")
                    column = Column(self._id(), item.text, value.typed.type, bounds=carried(value.typed))
                    keys.append(self._computed(column.id, value))
                    columns.append(column)
                    replaced[key] = Ref((column.id,))
                numbers.append([*replaced].index(key))
        sets = (
            None
            # One set of all rows is a group without keys, which exists without rows, too.
            if select.sets is None or (select.sets == ((),) and not keys)
            else [sorted({numbers[i] for i in grouping_set}) for grouping_set in select.sets or ()]
        )
        trees_of_keys = [*replaced]
        if sets is not None:
            node, keys = self._as_columns(node, scope, keys)
        values: list[Output] = []
        for tree in trees:
            check_order(tree)
        calls = {canonical(a): a for tree in trees for a in aggregates(tree)}
        for aggregate_node in calls.values():
            with self._cursor.located(select.token):
                grouping = aggregate_node.name in ("grouping", "grouping_id")
                value = (
                    _grouping(aggregate_node, trees_of_keys, keys, sets)
                    if grouping
                    else self._aggregate(scope, aggregate_node)
                )
            column = Column(self._id(), aggregate_node.name, value.typed.type, bounds=carried(value.typed))
            values.append(Output(column.id, value))
            columns.append(column)
            replaced[canonical(aggregate_node)] = Ref((column.id,))
        replaced.known = {c.id: c for c in scope.columns if not c.outer}
        return Aggregation(node, keys, values, sets), columns, replaced

    def _as_columns(self, node: Node, scope: Scope, keys: Sequence[Output]) -> tuple[Node, list[Output]]:
        """The rows with the keys as additional columns, since a grouping set makes missing keys
        null."""
        beside = [Output(c.id, scope.value(Ref((c.id,)))) for c in scope.columns if c.type is not None and not c.outer]
        own = [self._computed(self._id(), key.value) for key in keys]
        made = [
            Output(
                key.id,
                Value(replace(key.value.typed, sql=column.id, narrow=None), frozenset({column.id}), Ref((column.id,))),
            )
            for key, column in zip(keys, own, strict=True)
        ]
        return Project(node, [*beside, *own]), made

    def _grouped(self, tree: Syntax, replaced: _Replaced, token: int) -> Syntax:
        with self._cursor.located(token):
            return rewritten(tree, replaced)

    def _group_tree(self, item: Item, items: Sequence[Selected], columns: Sequence[Column]) -> Syntax:
        place = ordinal(item.value)
        if place is not None:
            if not 1 <= place <= len(items):
                raise InvalidArgumentError(f"the result has no column {place}")
            tree = items[place - 1][1]
        elif isinstance(item.value, Name) and not matching(item.value.parts, [c for c in columns if not c.outer])[0]:
            # The key is a column of the result if there is one, otherwise one of the enclosing
            # query.
            tree = self._output(item.value, items, columns)
        else:
            tree = resolved(item.value, columns)
        if aggregates(tree):
            raise InvalidArgumentError("rows can't be grouped by an aggregate function")
        return tree


def _groups(select: Select) -> bool:
    """Whether the rows of a SELECT are groups."""
    listed = any(isinstance(item, Item) and contains(item.value, Aggregate) for item in select.items)
    return bool(select.group_by or select.sets or select.having is not None or listed)


def _is_computed(tree: Syntax) -> bool:
    """Whether a column takes work that can be done below the others."""
    return isinstance(tree, (Call, Cast)) and not (contains(tree, Window) or contains(tree, Subquery))


class _Named:
    """Columns of a SELECT that later ones name, computed once, below these: in their place their
    trees would grow with each use."""

    def __init__(self, planner: Selecting, columns: Sequence[Column], names: Names) -> None:
        self.columns = list(columns)
        self._planner = planner
        self._names = names
        self._levels: list[list[Output]] = []

    def column(self, tree: Syntax) -> Ref:
        """A column with a tree's value."""
        planner = self._planner
        value = planner._bound(planner._scope(self.columns, self._names), tree)
        column = Column(planner._id(), "", value.typed.type, hidden=True, bounds=carried(value.typed))
        self.columns.append(column)
        output = planner._computed(column.id, value)
        if self._levels and not value.uses & {o.id for o in self._levels[-1]}:
            self._levels[-1].append(output)
        else:
            self._levels.append([output])
        return Ref((column.id,))

    def over(self, node: Node) -> Node:
        """The rows of a plan with these columns."""
        for outputs in self._levels:
            node = Extended(node, outputs)
        return node


def _field_steps(node: Syntax) -> Iterator[Syntax]:
    """A column with its fields, then with fewer of them."""
    yield node
    while isinstance(node, Call) and node.name == ".":
        node = node.args[0]
        yield node


class _Replaced(dict[Syntax, Syntax]):
    """The columns that replace groups and aggregate functions after the grouping, by the canonical
    form of these."""

    known: Mapping[str, Column]

    def __call__(self, node: Syntax) -> Syntax | None:
        made = self.get(canonical(node))
        if made is None and isinstance(node, Ref) and node.id in self.known:
            raise InvalidArgumentError(
                f"`{self.known[node.id].name}` is neither in GROUP BY nor in an aggregate function: add it to one of both"
            )
        return made


def _with_windows(select: Select, order: Sequence[Order]) -> tuple[Select, Sequence[Order]]:
    """Replaces names of windows by their definitions."""
    known = {name.lower(): window for name, window in select.windows}
    if len(known) < len(select.windows):
        raise InvalidArgumentError("WINDOW gives one name twice")

    def change(node: Syntax) -> Syntax | None:
        if not isinstance(node, Window) or node.named is None:
            return None
        definition = known.get(node.named.lower())
        if definition is None:
            raise InvalidArgumentError(f"no window is called `{node.named}`")
        if definition.named is not None:
            refuse("a window that is the name of another one")
        return replace(
            definition, name=node.name, args=(*node.args, *definition.args), ignores_nulls=node.ignores_nulls
        )

    items = tuple(i if isinstance(i, Star) else replace(i, value=rewritten(i.value, change)) for i in select.items)
    qualify = None if select.qualify is None else rewritten(select.qualify, change)
    return (
        replace(select, items=items, qualify=qualify),
        [replace(o, value=rewritten(o.value, change)) for o in order],
    )


def _grouping(
    call: Aggregate, trees: Sequence[Syntax], keys: Sequence[Output], sets: Sequence[Sequence[int]] | None
) -> Value:
    """Which keys a row's grouping set lacks: for one key, or for all as bits."""
    if sets is not None and {i for grouping_set in sets for i in grouping_set} < set(range(len(keys))):
        refuse(f"`{call.name}` where a key is in no set")
    if sets is None:
        raise InvalidArgumentError(f"`{call.name}` needs GROUPING SETS, ROLLUP or CUBE")
    args = list(map(canonical, call.args))
    if call.name == "grouping":
        if len(args) != 1 or args[0] not in trees:
            raise InvalidArgumentError("`grouping` takes one of the expressions that rows are grouped by")
        key = keys[trees.index(args[0])].value
        return Value(Typed(BYTE, f"CAST(GROUPING({key.typed.sql}) AS TINYINT)"), key.uses, call)
    if args and args != list(trees):
        raise InvalidArgumentError("`grouping_id` takes all the expressions that rows are grouped by, in their order")
    listed = ", ".join(key.value.typed.sql for key in keys)
    uses = frozenset().union(*(key.value.uses for key in keys))
    return Value(Typed(LONG, f"CAST(GROUPING({listed}) AS BIGINT)"), uses, call)
