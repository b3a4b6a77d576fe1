"""Nodes of a bound query; each renders itself as DuckDB text with the requested columns.

Every column of a query has a unique id, so that DuckDB never resolves a name. Knows no table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from deltaplane.expr.syntax import Call, Cast, Name, Syntax
from deltaplane.expr.typed import Bounds, Typed
from deltaplane.expr.types import SparkType
from deltaplane.expr.unparse import conjuncts

__all__ = [
    "Aggregation",
    "Column",
    "Exploded",
    "Extended",
    "Filter",
    "Guarded",
    "Held",
    "Joined",
    "Lateral",
    "Node",
    "Numbers",
    "OneRow",
    "Output",
    "Project",
    "Ref",
    "Rows",
    "Sample",
    "Sets",
    "Sort",
    "SortKey",
    "Source",
    "Unpivoted",
    "Value",
    "Windowed",
    "refs",
    "renamed",
]


@dataclass(frozen=True)
class Ref(Name):
    """A column by its id, after names were resolved."""

    @property
    def id(self) -> str:
        """The column's id."""
        return self.parts[0]


def refs(node: Syntax) -> set[str]:
    """The ids of the columns in a resolved tree."""
    ids, left = set(), [node]
    while left:
        item = left.pop()
        if isinstance(item, Ref):
            ids.add(item.id)
        elif isinstance(item, Cast):
            left.append(item.arg)
        elif isinstance(item, Call):
            left.extend(item.args)
    return ids


@dataclass(frozen=True)
class Value:
    """A bound expression: its text, its columns, and its resolved tree."""

    typed: Typed
    uses: frozenset[str]
    syntax: Syntax


@dataclass(frozen=True)
class Output:
    """A value with the id of its new column."""

    id: str
    value: Value


class Node(Protocol):
    """A relation of columns with ids."""

    def render(self, needed: Sequence[str]) -> str:
        """The text of a SELECT that gives these columns in this order."""

    def narrow(self, conditions: list[Syntax]) -> None:
        """Records that rows are irrelevant unless they satisfy one of these conditions over the
        node's columns."""


def _list(needed: Sequence[str]) -> str:
    # A row without columns is still a row, so a constant column represents it.
    return ", ".join(needed) or "1 AS r"


def _with(needed: Sequence[str], uses: frozenset[str]) -> list[str]:
    return [*needed, *sorted(uses - set(needed))]


class OneRow:
    """The single row of a SELECT without FROM."""

    def render(self, needed: Sequence[str]) -> str:
        return "SELECT 1 AS r"

    def narrow(self, conditions: list[Syntax]) -> None:
        pass


@dataclass
class Source:
    """A table or the caller's data, by its name in DuckDB; `fields` are its columns by id.

    All relevant rows satisfy `conditions`, and only the columns in `needed` are used.
    """

    name: str
    fields: Mapping[str, str]
    conditions: list[Syntax] = field(default_factory=list)
    needed: list[str] = field(default_factory=list)

    def render(self, needed: Sequence[str]) -> str:
        self.needed += [id for id in needed if id not in self.needed]
        return f"SELECT {_list(needed)} FROM {self.name}"

    def narrow(self, conditions: list[Syntax]) -> None:
        self.conditions += [c for c in conditions if refs(c) and refs(c) <= set(self.fields)]


@dataclass
class Rows:
    """Rows written in the query's text."""

    ids: Sequence[str]
    rows: Sequence[Sequence[Typed]]

    def render(self, needed: Sequence[str]) -> str:
        listed = ", ".join(f"({', '.join(value.sql for value in row)})" for row in self.rows)
        return f"SELECT {_list(needed)} FROM (VALUES {listed}) AS v({', '.join(self.ids)})"

    def narrow(self, conditions: list[Syntax]) -> None:
        pass


@dataclass
class Numbers:
    """Whole numbers from a first one to before another one, as the column `id`."""

    id: str
    first: str
    end: str
    step: str

    def render(self, needed: Sequence[str]) -> str:
        return f"SELECT {_list(needed)} FROM range({self.first}, {self.end}, {self.step}) AS v({self.id})"

    def narrow(self, conditions: list[Syntax]) -> None:
        pass


@dataclass
class Held:
    """Columns in memory, by their name in DuckDB."""

    name: str

    def render(self, needed: Sequence[str]) -> str:
        return f"SELECT {_list(needed)} FROM {self.name}"

    def narrow(self, conditions: list[Syntax]) -> None:
        pass


@dataclass
class Filter:
    """The rows for which a condition is true."""

    child: Node
    condition: Value

    def render(self, needed: Sequence[str]) -> str:
        child = self.child.render(_with(needed, self.condition.uses))
        return f"SELECT {_list(needed)} FROM ({child}) WHERE {self.condition.typed.sql}"

    def narrow(self, conditions: list[Syntax]) -> None:
        self.child.narrow([*conditions, *conjuncts(self.condition.syntax)])


@dataclass
class Guarded:
    """The rows for which all conditions are true. The first condition can fail for a row, so that
    they are evaluated in their order and, if `in_place`, only for rows of the child."""

    child: Node
    conditions: Sequence[Value]
    in_place: bool = True

    def render(self, needed: Sequence[str]) -> str:
        child = self.child.render(_with(needed, frozenset().union(*(c.uses for c in self.conditions))))
        met = "true"
        for condition in reversed(self.conditions):
            met = f"CASE WHEN {condition.typed.sql} THEN {met} ELSE false END"
        if not self.in_place:
            return f"SELECT {_list(needed)} FROM ({child}) WHERE {met}"
        # DuckDB moves no condition on a volatile column, so that it computes the column here.
        rows = f"SELECT {', '.join([*needed, f'CASE WHEN random() >= 0 THEN {met} END AS met'])} FROM ({child})"
        return f"SELECT {_list(needed)} FROM ({rows}) WHERE met"

    def narrow(self, conditions: list[Syntax]) -> None:
        self.child.narrow([*conditions, *(part for c in self.conditions for part in conjuncts(c.syntax))])


@dataclass
class Sample:
    """A share of the rows, from 0 to 1: each row is in it by chance."""

    child: Node
    share: float

    def render(self, needed: Sequence[str]) -> str:
        return f"SELECT {_list(needed)} FROM ({self.child.render(needed)}) TABLESAMPLE bernoulli({self.share * 100}%)"

    def narrow(self, conditions: list[Syntax]) -> None:
        self.child.narrow(conditions)


@dataclass
class Project:
    """New columns computed from old ones."""

    child: Node
    outputs: Sequence[Output]
    distinct: bool = False

    def render(self, needed: Sequence[str]) -> str:
        # DISTINCT depends on all columns.
        outer = self.distinct and list(needed) != [o.id for o in self.outputs]
        by_id = {o.id: o for o in self.outputs}
        selected = list(self.outputs) if self.distinct else [by_id[id] for id in needed]
        uses = frozenset().union(*(o.value.uses for o in selected))
        listed = ", ".join(f"{o.value.typed.sql} AS {o.id}" for o in selected) or "1 AS r"
        made = f"SELECT {'DISTINCT ' if self.distinct else ''}{listed} FROM ({self.child.render(sorted(uses))})"
        return f"SELECT {_list(needed)} FROM ({made})" if outer else made

    def narrow(self, conditions: list[Syntax]) -> None:
        self.child.narrow(_below(conditions, self.outputs))


def _below(conditions: list[Syntax], outputs: Sequence[Output]) -> list[Syntax]:
    """Converts conditions over new columns that rename old ones to conditions over the old
    columns."""
    names = {o.id: o.value.syntax for o in outputs if isinstance(o.value.syntax, Ref)}
    return [renamed(c, names) for c in conditions if refs(c) <= set(names)]


def renamed(node: Syntax, names: Mapping[str, Syntax]) -> Syntax:
    """A condition over other columns, which replace its own."""
    if isinstance(node, Ref):
        return names[node.id]
    if isinstance(node, Cast):
        return Cast(renamed(node.arg, names), node.to, node.attempt)
    if type(node) is Call:
        return Call(node.name, tuple(renamed(arg, names) for arg in node.args))
    return node


@dataclass
class Aggregation:
    """A row for each group; without keys a single row.

    With `sets` a row for each group of each set; a set has indexes of keys that are columns of the
    child.
    """

    child: Node
    keys: Sequence[Output]
    values: Sequence[Output]
    sets: Sequence[Sequence[int]] | None = None

    def render(self, needed: Sequence[str]) -> str:
        selected = [o for o in self.values if o.id in needed]
        uses = frozenset().union(*(o.value.uses for o in (*self.keys, *selected)))
        within = (
            set(range(len(self.keys))) if self.sets is None else {i for grouping_set in self.sets for i in grouping_set}
        )
        # A key that is in no set is always null.
        keys = [
            o.value.typed.sql if i in within else f"CAST(NULL AS {o.value.typed.type.duck})"
            for i, o in enumerate(self.keys)
        ]
        values = [*keys, *(o.value.typed.sql for o in selected)]
        listed = (
            ", ".join(f"{v} AS {o.id}" for v, o in zip(values, (*self.keys, *selected), strict=True)) or "count(*) AS r"
        )
        grouped = f" GROUP BY {', '.join(str(i + 1) for i in range(len(self.keys)))}" if self.keys else ""
        if self.sets is not None:
            sets = ", ".join(
                f"({', '.join(self.keys[i].value.typed.sql for i in grouping_set)})" for grouping_set in self.sets
            )
            # Without rows there is no group, not even that of all rows.
            grouped = f" GROUP BY GROUPING SETS ({sets}) HAVING count(*) > 0"
        return f"SELECT {_list(needed)} FROM (SELECT {listed} FROM ({self.child.render(sorted(uses))}){grouped})"

    def narrow(self, conditions: list[Syntax]) -> None:
        # A single group exists even without rows, and other sets have null for a key.
        self.child.narrow(_below([c for c in conditions if refs(c) and self.sets is None], self.keys))


@dataclass
class Extended:
    """The rows with further columns, which later columns use."""

    child: Node
    outputs: Sequence[Output]

    def render(self, needed: Sequence[str]) -> str:
        made = {o.id: f"{o.value.typed.sql} AS {o.id}" for o in self.outputs if o.id in needed}
        uses = frozenset().union(*(o.value.uses for o in self.outputs if o.id in made))
        child = self.child.render(_with([id for id in needed if id not in made], uses))
        return f"SELECT {_list([made.get(id, id) for id in needed])} FROM ({child})"

    def narrow(self, conditions: list[Syntax]) -> None:
        made = {o.id for o in self.outputs}
        self.child.narrow([c for c in conditions if not refs(c) & made])


@dataclass
class Windowed(Extended):
    """The rows with further columns, each of which also depends on other rows."""

    def narrow(self, conditions: list[Syntax]) -> None:
        # Each row may influence the value of another one, so no row may be left out.
        self.child.narrow([])


@dataclass
class Exploded:
    """A row for each list element: `lists` are lists of one length over the column `whole`, by the
    new ids."""

    child: Node
    value: Value
    whole: str
    lists: Mapping[str, str]

    def render(self, needed: Sequence[str]) -> str:
        below = [id for id in needed if id not in self.lists]
        child = self.child.render(_with(below, self.value.uses))
        rows = f"SELECT {_list([*below, f'{self.value.typed.sql} AS {self.whole}'])} FROM ({child})"
        made = ", ".join(f"unnest({sql}) AS {id}" for id, sql in self.lists.items())
        return f"SELECT {_list(needed)} FROM (SELECT {', '.join([*below, made])} FROM ({rows}))"

    def narrow(self, conditions: list[Syntax]) -> None:
        self.child.narrow([c for c in conditions if refs(c) and not refs(c) & self.lists.keys()])


_JOINS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN", "semi": "SEMI JOIN"}
_JOINS["anti"] = "ANTI JOIN"
# For each kind of join, the sides whose rows a condition in WHERE, or in ON, may exclude early.
_NARROWS: dict[str, tuple[str, str]] = {
    "inner": ("lr", "lr"),
    "cross": ("lr", "lr"),
    "left": ("l", "r"),
    "right": ("r", "l"),
    "full": ("", ""),
    "semi": ("l", "lr"),
    "anti": ("l", "r"),
}


@dataclass
class Joined:
    """Two joined relations; `kind` as in `syntax.Join`. `left_ids` are the columns of the first
    one."""

    left: Node
    right: Node
    kind: str
    left_ids: frozenset[str]
    right_ids: frozenset[str]
    on: Value | None = None

    def render(self, needed: Sequence[str]) -> str:
        return f"SELECT {_list(needed)} FROM {self._joined(needed)}"

    def _joined(self, needed: Sequence[str]) -> str:
        every = _with(needed, self.on.uses if self.on is not None else frozenset())
        left = self._side(self.left, [id for id in every if id in self.left_ids])
        right = self._side(self.right, [id for id in every if id in self.right_ids])
        if self.on is None:
            return f"{left} CROSS JOIN {right}"
        return f"{left} {_JOINS[self.kind]} {right} ON {self.on.typed.sql}"

    def _side(self, node: Node, needed: Sequence[str]) -> str:
        # DuckDB orders joins that have no SELECT between them. A condition that can fail must only
        # be evaluated for the rows that the query joins before.
        if isinstance(node, Joined) and not self._can_fail and not node._can_fail:
            return f"({node._joined(needed)})"
        return f"({node.render(needed)})"

    @property
    def _can_fail(self) -> bool:
        return self.on is not None and (self.on.typed.throws or self.on.typed.partial)

    def narrow(self, conditions: list[Syntax]) -> None:
        where, on = _NARROWS[self.kind]
        joins = conjuncts(self.on.syntax) if self.on is not None else []
        for side, ids, node in (("l", self.left_ids, self.left), ("r", self.right_ids, self.right)):
            met = (conditions if side in where else []) + (joins if side in on else [])
            node.narrow([c for c in met if refs(c) and refs(c) <= ids])


@dataclass
class Lateral:
    """Each row of `left` with the rows of the right relation, whose text uses the columns
    `names`."""

    left: Node
    right: Node
    kind: str
    left_ids: frozenset[str]
    right_ids: frozenset[str]
    names: frozenset[str]
    on: Value | None = None

    def render(self, needed: Sequence[str]) -> str:
        every = _with(needed, self.on.uses if self.on is not None else frozenset())
        left = self.left.render(_with([id for id in every if id in self.left_ids], self.names))
        right = self.right.render([id for id in every if id in self.right_ids])
        on = "true" if self.on is None else self.on.typed.sql
        join = "LEFT JOIN" if self.kind == "left" else "JOIN"
        return f"SELECT {_list(needed)} FROM ({left}) {join} LATERAL ({right}) ON {on}"

    def narrow(self, conditions: list[Syntax]) -> None:
        self.left.narrow([c for c in conditions if refs(c) and refs(c) <= self.left_ids])
        self.right.narrow([])


@dataclass
class Unpivoted:
    """A row for each of `names`, with that name and the lists' values for it, by the new ids."""

    child: Node
    name: str
    names: Sequence[str]
    lists: Mapping[str, Sequence[Value]]

    def render(self, needed: Sequence[str]) -> str:
        below = [id for id in needed if id != self.name and id not in self.lists]
        made = {self.name: list(self.names)}
        made |= {id: [v.typed.sql for v in values] for id, values in self.lists.items() if id in needed}
        uses = frozenset().union(*(v.uses for id in made if id != self.name for v in self.lists[id]))
        rows = ", ".join([*below, *(f"unnest([{', '.join(texts)}]) AS {id}" for id, texts in made.items())])
        return f"SELECT {_list(needed)} FROM (SELECT {rows} FROM ({self.child.render(_with(below, uses))}))"

    def narrow(self, conditions: list[Syntax]) -> None:
        own = {self.name, *self.lists}
        self.child.narrow([c for c in conditions if refs(c) and not refs(c) & own])


@dataclass
class Sets:
    """A set operation of two relations with the same types."""

    kind: str
    every: bool
    left: Node
    right: Node
    left_ids: Sequence[str]
    right_ids: Sequence[str]

    def render(self, needed: Sequence[str]) -> str:
        left, right = self.left.render(self.left_ids), self.right.render(self.right_ids)
        made = f"({left}) {self.kind.upper()}{' ALL' if self.every else ''} ({right})"
        return f"SELECT {_list(needed)} FROM ({made})"

    def narrow(self, conditions: list[Syntax]) -> None:
        self.left.narrow([])
        self.right.narrow([])


@dataclass(frozen=True)
class SortKey:
    """A sort column; `sql` is its form for comparisons."""

    id: str
    sql: str
    descending: bool
    nulls_first: bool


@dataclass
class Sort:
    """Sorted rows, and their limit."""

    child: Node
    keys: Sequence[SortKey]
    limit: int | None
    offset: int

    def render(self, needed: Sequence[str]) -> str:
        child = self.child.render(_with(needed, frozenset(key.id for key in self.keys)))
        keys = ", ".join(
            f"{k.sql} {'DESC' if k.descending else 'ASC'} NULLS {'FIRST' if k.nulls_first else 'LAST'}"
            for k in self.keys
        )
        made = f"SELECT {_list(needed)} FROM ({child})" + (f" ORDER BY {keys}" if keys else "")
        made += f" LIMIT {self.limit}" if self.limit is not None else ""
        return made + (f" OFFSET {self.offset}" if self.offset else "")

    def narrow(self, conditions: list[Syntax]) -> None:
        self.child.narrow(conditions if self.limit is None and not self.offset else [])


@dataclass(frozen=True)
class Column:
    """A column for name resolution. `type` is None if expressions don't support the type.

    `hidden` columns are found by their qualified name alone. `outer` columns belong to the query
    around a subquery: they are constants there, and the subquery's own columns take precedence.
    `bounds` computes bounds of its numbers, as far as they are known.
    """

    id: str
    name: str
    type: SparkType | None
    qualifiers: tuple[str, ...] = ()
    hidden: bool = False
    outer: bool = False
    bounds: Callable[[], Bounds | None] | None = field(default=None, compare=False, repr=False)
