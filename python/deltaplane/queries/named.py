"""Named queries that several relations read: DuckDB gets their text once, in WITH, and decides
whether it computes the rows once.

A named query whose rows come from one relation without groups, joins or subqueries is cheaper to
read again, with the conditions of each use.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from deltaplane.expr.syntax import Call, Syntax
from deltaplane.queries.plan import (
    Aggregation,
    Filter,
    Guarded,
    Held,
    Node,
    OneRow,
    Project,
    Ref,
    Rows,
    Sort,
    Source,
    refs,
    renamed,
)
from deltaplane.queries.rules import all_of
from deltaplane.queries.scopes import contains
from deltaplane.queries.syntax import Subquery, TableName

__all__ = ["Definition", "Shared", "Use", "at_most_one_row", "is_simple", "uses_of", "with_definitions"]


@dataclass
class Shared:
    """The rows of a named query, by its name in DuckDB. `uses` are the conditions of each relation
    that reads them, over the columns `ids`."""

    name: str
    child: Node
    ids: Sequence[str]
    needed: list[str] = field(default_factory=list)
    uses: list[list[Syntax]] = field(default_factory=list)
    recursive: ClassVar[bool] = False

    def definition(self) -> str:
        """The text in WITH, once all of its uses are rendered."""
        conditions: list[Syntax] = []
        if all(self.uses):
            branches = tuple(dict.fromkeys(map(all_of, self.uses)))
            conditions = [branches[0] if len(branches) == 1 else Call("or", branches)]
        self.child.narrow(conditions)
        return f"{self.name} AS ({self.child.render(self.needed)})"


class Definition(Protocol):
    """A query in WITH: its name there, and what the relations that read it need of it."""

    name: str
    needed: list[str]
    uses: list[list[Syntax]]
    recursive: ClassVar[bool]

    def definition(self) -> str:
        """The text in WITH, once all of its uses are rendered."""


@dataclass
class Use:
    """A relation that reads a named query's rows: `ids` are its columns and those of the query."""

    shared: Definition
    ids: Mapping[str, str]
    conditions: list[Syntax] = field(default_factory=list)

    def render(self, needed: Sequence[str]) -> str:
        self.shared.uses.append(self.conditions)
        self.shared.needed += [self.ids[id] for id in needed if self.ids[id] not in self.shared.needed]
        listed = ", ".join(f"{self.ids[id]} AS {id}" for id in needed) or "1 AS r"
        return f"SELECT {listed} FROM {self.shared.name}"

    def narrow(self, conditions: list[Syntax]) -> None:
        mapping: dict[str, Syntax] = {id: Ref((of_query,)) for id, of_query in self.ids.items()}
        self.conditions = [renamed(c, mapping) for c in conditions if refs(c) and refs(c) <= mapping.keys()]


def with_definitions(text: str, queries: Sequence[Definition]) -> str:
    """A statement's text with the named queries that it uses, in the order in which they were
    planned: each one uses only those before it."""
    # The last one is rendered first, which tells what it needs of those before it.
    definitions = [query.definition() for query in reversed(queries) if query.uses]
    if not definitions:
        return text
    recursive = any(query.recursive for query in queries if query.uses)
    return f"WITH {'RECURSIVE ' if recursive else ''}{', '.join(reversed(definitions))} {text}"


def is_simple(node: Node) -> bool:
    """Whether a plan is columns and conditions without subqueries over one relation."""
    while isinstance(node, (Project, Filter, Guarded)):
        if isinstance(node, Project):
            values = [output.value for output in node.outputs]
        else:
            values = [node.condition] if isinstance(node, Filter) else list(node.conditions)
        if (isinstance(node, Project) and node.distinct) or any(contains(v.syntax, Subquery) for v in values):
            return False
        node = node.child
    return isinstance(node, (Source, Rows, Held, OneRow, Use))


def at_most_one_row(node: Node) -> bool:
    """Whether a relation has one row or none, by its form."""
    match node:
        case OneRow():
            return True
        case Aggregation(keys=keys, sets=sets):
            return not keys and sets is None
        case Sort(child=child, limit=limit):
            return (limit is not None and limit <= 1) or at_most_one_row(child)
        case Filter(child=child) | Guarded(child=child) | Project(child=child):
            return at_most_one_row(child)
        case Use(shared=Shared() as shared):
            return at_most_one_row(shared.child)
    return False


def uses_of(name: str, *parts: object) -> int:
    """How often relations in parts of a query have a name."""
    count = 0
    left: list[object] = list(parts)
    while left:
        part = left.pop()
        if isinstance(part, TableName):
            count += [p.lower() for p in part.parts] == [name]
        elif isinstance(part, (tuple, list)):
            left.extend(part)
        elif dataclasses.is_dataclass(part):
            left.extend(getattr(part, f.name) for f in dataclasses.fields(part))
    return count
