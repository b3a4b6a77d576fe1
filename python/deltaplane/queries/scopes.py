"""Resolves names to columns as Spark does, and replaces names in trees by the columns' ids.

A scope is a list of columns; independent of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.bind import Binder
from deltaplane.expr.functions.collections import field_of
from deltaplane.expr.syntax import Call, Cast, Literal, Name, Syntax
from deltaplane.expr.typed import Context, Typed, refuse
from deltaplane.expr.types import STRING
from deltaplane.expr.unparse import unparse
from deltaplane.queries.functions.generators import GENERATORS
from deltaplane.queries.plan import Column, Ref, Source, Value
from deltaplane.queries.syntax import Aggregate, Subquery, Window

if TYPE_CHECKING:
    Subqueries = Callable[["Subquery", "Scope"], Typed]

__all__ = [
    "Scope",
    "aggregates",
    "beside_aggregates",
    "canonical",
    "condition_texts",
    "contains",
    "matching",
    "resolved",
    "rewritten",
    "windows",
]

Found = TypeVar("Found", bound=Call)


def matching(parts: Sequence[str], columns: Sequence[Column]) -> tuple[list[Column], tuple[str, ...]]:
    """The columns that a name may denote, with the remaining field names: longer qualifiers come
    first."""
    inner = [c for c in columns if not c.outer]
    if len(inner) < len(columns):
        own = matching(parts, inner)
        return own if own[0] else matching(parts, [replace(c, outer=False) for c in columns if c.outer])
    lower = [part.lower() for part in parts]
    for i in range(len(parts) - 1, 0, -1):
        matches = [c for c in columns if c.name.lower() == lower[i] and _qualified(c.qualifiers, lower[:i])]
        if matches:
            return matches, tuple(parts[i + 1 :])
    return [c for c in columns if c.name.lower() == lower[0] and not c.hidden], tuple(parts[1:])


def _qualified(qualifiers: tuple[str, ...], asked: Sequence[str]) -> bool:
    return len(asked) <= len(qualifiers) and [q.lower() for q in qualifiers[-len(asked) :]] == list(asked)


def one_of(parts: Sequence[str], columns: Sequence[Column]) -> tuple[Column, tuple[str, ...]]:
    """The column that a name denotes, and the remaining field names.

    Raises:
        InvalidArgumentError: no column, or several.
    """
    matches, fields = matching(parts, columns)
    shown = ".".join(parts)
    if not matches:
        known = ", ".join(dict.fromkeys(c.name for c in columns if not c.hidden)) or "none"
        raise InvalidArgumentError(f"no column is called `{shown}` (there are {known[:300]})")
    if len({c.id for c in matches}) > 1:
        tables = ", ".join(dict.fromkeys(".".join((*c.qualifiers, c.name)) for c in matches))
        raise InvalidArgumentError(f"`{shown}` could be any of {tables}: say of which table")
    return matches[0], fields


def rewritten(node: Syntax, change: Callable[[Syntax], Syntax | None]) -> Syntax:
    """Replaces parts of a tree from the top; replaced parts aren't searched further."""
    made = change(node)
    if made is not None:
        return made
    if isinstance(node, Cast):
        return replace(node, arg=rewritten(node.arg, change))
    if isinstance(node, Call):
        args = tuple(rewritten(arg, change) for arg in node.args)
        if isinstance(node, Aggregate) and node.where is not None:
            return replace(node, args=args, where=rewritten(node.where, change))
        return replace(node, args=args)
    return node


# Operators whose operands may change places, and those among them whose nesting may change.
_EITHER_WAY = ("+", "*", "&", "|", "^", "and", "or", "=", "==", "<=>")
_IN_ANY_ORDER = _EITHER_WAY[:7]
_TURNED = {">": "<", ">=": "<="}


def canonical(node: Syntax) -> Syntax:
    """One form of all trees that Spark takes for the same value: `a + b` and `b + a`, say. For
    comparing trees, not for computing: a sum of floating-point numbers depends on its order.

    Source: `Expression.canonicalized` of Spark's Catalyst.
    """
    if isinstance(node, Cast):
        return Cast(canonical(node.arg), node.to, node.attempt)
    if not isinstance(node, Call) or isinstance(node, Subquery):
        return node
    args = tuple(map(canonical, node.args))
    if type(node) is not Call:
        return replace(node, args=args)
    if node.name in _TURNED:
        return Call(_TURNED[node.name], args[::-1])
    if node.name not in _EITHER_WAY:
        return Call(node.name, args)
    if node.name in _IN_ANY_ORDER:
        args = tuple(
            part for arg in args for part in (arg.args if type(arg) is Call and arg.name == node.name else (arg,))
        )
    return Call("=" if node.name == "==" else node.name, tuple(sorted(args, key=repr)))


def condition_texts(source: Source) -> list[str]:
    """Conditions that all needed rows of a source satisfy, as text over its columns' names;
    conditions without such a text are left out."""

    def named(part: Syntax) -> Syntax | None:
        return Name((source.fields[part.id],)) if isinstance(part, Ref) else None

    texts = [unparse(rewritten(c, named)) for c in source.conditions]
    return list(dict.fromkeys(text for text in texts if text is not None))


def resolved(node: Syntax, columns: Sequence[Column]) -> Syntax:
    """A tree with ids for names."""

    def change(part: Syntax) -> Syntax | None:
        if isinstance(part, Ref) or not isinstance(part, Name):
            return None
        column, fields = one_of(part.parts, columns)
        made: Syntax = Ref((column.id,))
        for field in fields:
            made = Call(".", (made, Literal(field, STRING)))
        return made

    return rewritten(node, change)


def aggregates(node: Syntax) -> list[Aggregate]:
    """The outermost aggregate functions in a tree."""
    return _outermost(node, Aggregate)


def windows(node: Syntax) -> list[Window]:
    """The outermost window functions in a tree."""
    return _outermost(node, Window)


def _outermost(node: Syntax, kind: type[Found]) -> list[Found]:
    nodes: list[Found] = []

    def note(part: Syntax) -> Syntax | None:
        if isinstance(part, kind):
            nodes.append(part)
            return part
        return None

    rewritten(node, note)
    return nodes


def beside_aggregates(node: Syntax) -> bool:
    """Whether a tree has a column outside aggregate functions."""
    if isinstance(node, Aggregate):
        return False
    if isinstance(node, Cast):
        return beside_aggregates(node.arg)
    return isinstance(node, Name) or (isinstance(node, Call) and any(map(beside_aggregates, node.args)))


def contains(node: Syntax, kind: type) -> bool:
    """Whether a tree contains a call of this kind."""
    left = [node]
    while left:
        part = left.pop()
        if isinstance(part, kind):
            return True
        if isinstance(part, Cast):
            left.append(part.arg)
        elif isinstance(part, Call):
            left.extend(part.args)
    return False


class Scope(Binder):
    """Binds resolved trees over some columns; `subqueries` computes values of queries in them."""

    def __init__(self, columns: Sequence[Column], context: Context, subqueries: Subqueries) -> None:
        super().__init__({}, context)
        self.columns = list(columns)
        self._by_id = {column.id: column for column in columns}
        self._subqueries = subqueries
        self._uses: set[str] = set()
        # The columns of enclosing queries that are used.
        self.correlated: set[str] = set()

    @property
    def nonzero(self) -> frozenset[Syntax]:
        """Trees that aren't zero in the present branch of CASE or IF."""
        return self._nonzero

    def outside(self) -> list[Column]:
        """The columns that a subquery can use."""
        return [replace(c, outer=True) for c in self.columns if not c.outer]

    def meet(self, ids: Iterable[str]) -> None:
        """Records that a subquery needs these columns."""
        for id in ids:
            (self.correlated if self._by_id[id].outer else self._uses).add(id)

    def knows(self, parts: Sequence[str]) -> bool:
        """Whether a name denotes a column."""
        matches, fields = matching(parts, self.columns)
        data_type = matches[0].type if matches else None
        return bool(matches) and (
            not fields or (data_type is not None and fields[0].lower() in map(str.lower, data_type.fields))
        )

    def value(self, node: Syntax) -> Value:
        """Binds a tree, in which names may be resolved already."""
        tree = resolved(node, self.columns)
        self._uses = set()
        typed = self.bind(tree)
        return Value(typed, frozenset(self._uses), tree)

    def column(self, node: Name) -> Typed:
        column = self._by_id.get(node.parts[0])
        if column is None:
            raise InvalidArgumentError("a column is neither in GROUP BY nor in an aggregate function")
        if column.type is None:
            refuse(f"the column `{column.name}`, whose type it has no form of,")
        (self.correlated if column.outer else self._uses).add(column.id)
        return Typed(column.type, column.id, bounds=column.bounds)

    def call(self, node: Call) -> Typed:
        if isinstance(node, Aggregate):
            raise InvalidArgumentError(f"the aggregate function `{node.name}` can't stand here")
        if isinstance(node, Window):
            raise InvalidArgumentError(f"the window function `{node.name}` can't stand here")
        if node.name in GENERATORS:
            raise InvalidArgumentError(f"`{node.name}` stands alone as a column or in LATERAL VIEW")
        if isinstance(node, Subquery):
            return self._subqueries(node, self)
        if node.name == ".":
            # A field of a struct value, as in a dotted name.
            value, name = self.bind(node.args[0]), node.args[1]
            if isinstance(name, Literal) and value.type.name == "struct":
                return field_of(value, str(name.value))
        return super().call(node)
