"""PIVOT and UNPIVOT as plans: values of a column become columns, and columns become rows.

Knows no table; the planner binds expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.syntax import Call, Cast, Literal, Name, Syntax
from deltaplane.expr.typed import Context, Typed, refuse
from deltaplane.expr.types import STRING, SparkType, text
from deltaplane.queries.functions.collecting import check_order
from deltaplane.queries.plan import (
    Aggregation,
    Column,
    Filter,
    Node,
    Output,
    Project,
    Ref,
    Unpivoted,
    Value,
    refs,
)
from deltaplane.queries.rules import comparable, converted, together
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
from deltaplane.queries.syntax import Aggregate, Item, Pivot, PivotValue, Subquery, Unpivot

__all__ = ["Tools", "pivoted", "unpivoted"]

_DATE = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True)
class Tools:
    """The planner's functions: scopes over columns, values of trees and of aggregates, ids,
    positions of errors."""

    context: Context
    scope: Callable[[Sequence[Column]], Scope]
    bound: Callable[[Scope, Syntax], Value]
    aggregate: Callable[[Scope, Aggregate], Value]
    computed: Callable[[str, Value], Output]
    new_id: Callable[[], str]
    located: Callable[[int], AbstractContextManager[None]]


def pivoted(tools: Tools, node: Node, columns: Sequence[Column], pivot: Pivot) -> tuple[Node, list[Column]]:
    """The rows grouped by all columns that the pivot doesn't name, with a column for each value and
    aggregate.

    Raises:
        InvalidArgumentError: names, types or aggregates that Spark would refuse too.
        UnsupportedExpressionError: values for which Spark's column names are unknown, by name.
    """
    scope = tools.scope(columns)
    looked_at = [_column(tools, item, columns, "PIVOT") for item in pivot.columns]
    trees = []
    for item in pivot.aggregates:
        with tools.located(item.token):
            tree = resolved(item.value, columns)
            check_order(tree)
            if windows(tree) or contains(tree, Subquery):
                refuse("PIVOT by a window function or a subquery")
            if not aggregates(tree) or beside_aggregates(tree):
                raise InvalidArgumentError("PIVOT takes aggregate functions, and columns within them alone")
            if item.alias is None and len(pivot.aggregates) > 1:
                refuse("PIVOT by several aggregate functions without a name for each (AS)")
            trees.append(tree)
    taken = {c.id for c in looked_at}.union(*(_names_in(tree) for tree in trees))
    retained = [c for c in columns if c.id not in taken and not c.hidden and not c.outer]
    with tools.located(pivot.token):
        keys = [comparable(scope.value(Ref((c.id,))), "PIVOT") for c in (*retained, *looked_at)]
    groups = [Column(tools.new_id(), c.name, c.type, c.qualifiers) for c in (*retained, *looked_at)]
    grouped, made = _grouped(tools, node, scope, keys, groups, (trees, [item.token for item in pivot.aggregates]))
    grouped_scope = tools.scope([*groups, *made])
    outer = [Column(tools.new_id(), c.name, c.type, c.qualifiers) for c in groups[: len(retained)]]
    outputs, shown = [], []
    for pivot_value in pivot.values:
        with tools.located(pivot_value.token):
            met = " AND ".join(
                f"{group.id} IS NOT DISTINCT FROM {_constant(tools, part, group).sql}"
                for part, group in zip(pivot_value.parts, groups[len(retained) :], strict=True)
            )
            called = pivot_value.alias if pivot_value.alias is not None else _title(pivot_value)
        uses = frozenset(g.id for g in groups[len(retained) :])
        for value, item in zip(made, pivot.aggregates, strict=True):
            assert value.type is not None
            if not value.type.atomic:
                refuse(f"PIVOT to {value.type}")
            name = f"{called}_{item.alias}" if len(pivot.aggregates) > 1 else called
            column = Column(tools.new_id(), name, value.type)
            # At most one group has the value.
            typed = Typed(value.type, f"max(CASE WHEN {met} THEN {value.id} END)")
            outputs.append(Output(column.id, Value(typed, uses | {value.id}, Ref((value.id,)))))
            shown.append(column)
    keys_again = [tools.computed(c.id, grouped_scope.value(Ref((g.id,)))) for c, g in zip(outer, groups, strict=False)]
    columns = [*outer, *shown]
    if pivot.alias is not None:
        columns = [replace(c, qualifiers=(pivot.alias,)) for c in columns]
    return Aggregation(grouped, keys_again, outputs), columns


def _grouped(
    tools: Tools,
    node: Node,
    scope: Scope,
    keys: Sequence[Value],
    groups: Sequence[Column],
    wanted: tuple[Sequence[Syntax], Sequence[int]],
) -> tuple[Node, list[Column]]:
    """The groups with the values of aggregates; `wanted` are these trees and their positions."""
    known: dict[Syntax, Syntax] = {}
    outputs, values = [], []
    for tree, token in zip(*wanted, strict=True):
        with tools.located(token):
            for aggregate_node in aggregates(tree):
                if aggregate_node not in known:
                    value = tools.aggregate(scope, aggregate_node)
                    column = Column(tools.new_id(), aggregate_node.name, value.typed.type)
                    outputs.append(Output(column.id, value))
                    values.append(column)
                    known[aggregate_node] = Ref((column.id,))
    made: Node = Aggregation(node, [tools.computed(g.id, key) for g, key in zip(groups, keys, strict=True)], outputs)
    over = tools.scope([*groups, *values])
    results, columns = [tools.computed(g.id, over.value(Ref((g.id,)))) for g in groups], list[Column]()
    for tree, token in zip(*wanted, strict=True):
        with tools.located(token):
            value = tools.bound(over, rewritten(tree, known.get))
        column = Column(tools.new_id(), "", value.typed.type)
        results.append(tools.computed(column.id, value))
        columns.append(column)
    return Project(made, results), columns


def _column(tools: Tools, item: Item, columns: Sequence[Column], clause: str) -> Column:
    with tools.located(item.token):
        assert isinstance(item.value, Name)
        tree = resolved(item.value, [c for c in columns if not c.outer])
        if not isinstance(tree, Ref):
            refuse(f"{clause} of the field `{item.text}` of a column")
        column = next(c for c in matching(item.value.parts, columns)[0] if c.id == tree.id)
        if column.type is None:
            refuse(f"{clause} of the column `{column.name}`, whose type it has no form of,")
        if clause == "PIVOT" and column.type.fractional:
            refuse(f"PIVOT by {column.type}")
        return column


def _names_in(tree: Syntax) -> set[str]:
    names = refs(tree)
    return names.union(*(refs(aggregate.where) for aggregate in aggregates(tree) if aggregate.where is not None))


def _constant(tools: Tools, part: Syntax, group: Column) -> Typed:
    """A value of PIVOT in the type of the column that it is compared with."""
    value = tools.bound(tools.scope([]), part).typed
    assert group.type is not None
    if together([group.type, value.type], "PIVOT") != group.type:
        raise InvalidArgumentError(f"`{group.name}` is {group.type}, which a value of {value.type} isn't: cast it")
    return converted(tools.context, value, group.type)


def _title(value: PivotValue) -> str:
    """Spark's name of the column for a value."""
    parts = [_text(part) for part in value.parts]
    return parts[0] if len(parts) == 1 else "{" + ", ".join(parts) + "}"


def _text(node: Syntax) -> str:
    if isinstance(node, Cast) and node.to.name == "date" and isinstance(node.arg, Literal) and node.arg.type == STRING:
        literal = str(node.arg.value)
        if _DATE.fullmatch(literal):
            return literal
    if isinstance(node, Literal) and not isinstance(node.value, bytes) and not node.type.fractional:
        if isinstance(node.value, bool):
            return "true" if node.value else "false"
        return "null" if node.value is None else str(node.value)
    refuse("a value of PIVOT without a name for its column (AS)")


def _group_title(items: Sequence[Item]) -> str:
    """Columns have the names as written in the query."""
    return "_".join(item.value.parts[-1] for item in items if isinstance(item.value, Name))


def unpivoted(tools: Tools, node: Node, columns: Sequence[Column], unpivot: Unpivot) -> tuple[Node, list[Column]]:
    """Unpivots: a row for each group of columns, with the group's name and values, and the columns
    in no group.

    Raises:
        InvalidArgumentError: names or types that Spark would refuse too.
    """
    own = [c for c in columns if not c.outer]
    groups = [([_column(tools, item, own, "UNPIVOT") for item in items], alias) for items, alias in unpivot.groups]
    names = [_group_title(items) if alias is None else alias for items, alias in unpivot.groups]
    taken = {c.id for group, _ in groups for c in group}
    retained = [c for c in own if c.id not in taken and not c.hidden]
    scope = tools.scope(columns)
    name = Column(tools.new_id(), unpivot.name, STRING)
    lists, values = {}, []
    with tools.located(unpivot.token):
        for i, title in enumerate(unpivot.titles):
            each = [scope.value(Ref((group[i].id,))) for group, _ in groups]
            to: SparkType = together([v.typed.type for v in each], f"`{title}` of UNPIVOT")
            column = Column(tools.new_id(), title, to)
            lists[column.id] = [replace(v, typed=converted(tools.context, v.typed, to)) for v in each]
            values.append(column)
    made: Node = Unpivoted(node, name.id, [text(n) for n in names], lists)
    shown = [*retained, name, *values]
    if not unpivot.nulls:
        there = [Call("isnotnull", (Ref((c.id,)),)) for c in values]
        made = Filter(made, tools.bound(tools.scope(shown), there[0] if len(there) == 1 else Call("or", tuple(there))))
    if unpivot.alias is not None:
        shown = [replace(c, qualifiers=(unpivot.alias,)) for c in shown]
    return made, shown
