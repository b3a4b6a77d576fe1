"""Expressions over two tables, as in MERGE: names are resolved as in Spark.

Resolves a name to its table; the binder handles types and functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deltaplane.exceptions import DeltaError, InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr import tree
from deltaplane.expr.bind import Binder, below
from deltaplane.expr.syntax import Call, Cast, Literal, Name, Syntax, parse, shown

if TYPE_CHECKING:
    from deltaplane.expr.columns import Columns
    from deltaplane.expr.typed import Context, Typed
    from deltaplane.expr.types import SparkType

__all__ = ["JoinedBinder", "Side", "columns_of_sides", "conjuncts", "in_expression", "names", "parsed", "pruning"]

_COMPARED = {"=": "=", "==": "=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_PLAIN = ("byte", "short", "integer", "long", "decimal", "string", "date", "boolean")


@dataclass(frozen=True)
class Side:
    """One of the tables: `sql` is its name in DuckDB, where its columns are `c0`, `c1`, … in
    order."""

    sql: str
    alias: str | None
    columns: Mapping[str, SparkType | None]
    says: str

    def number(self, name: str) -> int | None:
        """The index of a column, ignoring case; None if there is none."""
        matches = [i for i, column in enumerate(self.columns) if column.lower() == name.lower()]
        if len(matches) > 1:
            raise InvalidArgumentError(f"`{name}` could be any of several columns of {self.says}, by case alone")
        return matches[0] if matches else None

    def sql_of(self, number: int) -> str:
        """A column in the form for DuckDB."""
        return f"{self.sql}.c{number}"


class JoinedBinder(Binder):
    """Binds expressions over the visible sides.

    A name is a column of the side whose alias precedes it, or of the only side that has such a
    column.
    """

    def __init__(self, sides: Sequence[Side], context: Context) -> None:
        super().__init__({}, context)
        self._sides = sides

    def column(self, node: Name) -> Typed:
        """The typed form of a column or of a field below one."""
        side, number, fields = self.place(node)
        name = list(side.columns)[number]
        return replace(below(name, side.columns[name], side.sql_of(number), fields), name=node.parts[-1])

    def place(self, node: Name) -> tuple[Side, int, Sequence[str]]:
        """The side, the column's index there, and the fields below it.

        Raises:
            InvalidArgumentError: no such column, or one on both sides.
        """
        first, *rest = node.parts
        name = ".".join(node.parts)
        if rest:
            called = [side for side in self._sides if side.alias is not None and side.alias.lower() == first.lower()]
            there = [(side, n) for side in called if (n := side.number(rest[0])) is not None]
            if len(there) > 1:
                raise InvalidArgumentError(
                    f"`{name}` could be a column of either table, which are both called `{first}`: give one of them another alias"
                )
            if there:
                return *there[0], rest[1:]
        matches = [(side, n) for side in self._sides if (n := side.number(first)) is not None]
        if len(matches) == 1:
            return *matches[0], rest
        if matches:
            raise InvalidArgumentError(f"`{name}` is a column of both tables: put an alias before it")
        raise InvalidArgumentError(f"no column is called `{name}`: {' and '.join(map(_known, self._sides))}")


def columns_of_sides(sides: Sequence[Side]) -> Columns:
    """The columns of the sides, with or without aliases, and their fields."""

    def known(parts: Sequence[str]) -> bool:
        for side in sides:
            behind = len(parts) > 1 and side.alias is not None and side.alias.lower() == parts[0].lower()
            if _leads(side, parts) or (behind and _leads(side, parts[1:])):
                return True
        return False

    return known


def _leads(side: Side, parts: Sequence[str]) -> bool:
    first, *rest = parts
    for name, field_type in side.columns.items():
        if name.lower() == first.lower():
            return not rest or (field_type is not None and rest[0].lower() in map(str.lower, field_type.fields))
    return False


def _known(side: Side) -> str:
    called = "" if side.alias is None else f" (`{side.alias}`)"
    return f"{side.says}{called} has {', '.join(list(side.columns)[:20])}"


def parsed(sql: str) -> Syntax:
    """The tree of an expression; errors show its text."""
    try:
        return parse(sql)
    except (InvalidArgumentError, UnsupportedExpressionError) as e:
        raise in_expression(e, sql) from e


def in_expression(error: DeltaError, sql: str) -> DeltaError:
    """The error with the expression that it concerns."""
    return type(error)(f"{error} (in the expression `{shown(sql)}`)")


def conjuncts(node: Syntax) -> Iterator[Syntax]:
    """The conditions that AND joins at the top level."""
    if isinstance(node, Call) and node.name == "and":
        for arg in node.args:
            yield from conjuncts(arg)
    else:
        yield node


def names(node: Syntax) -> Iterator[Name]:
    """The columns in an expression."""
    if isinstance(node, Name):
        yield node
    elif isinstance(node, Cast):
        yield from names(node.arg)
    elif isinstance(node, Call):
        for arg in node.args:
            yield from names(arg)


def pruning(node: Syntax, binder: JoinedBinder, side: Side) -> tree.Node | None:
    """A tree over one side's columns that every row satisfies for which the condition can be true;
    None for all rows."""
    if not isinstance(node, Call):
        return None
    if node.name in ("and", "or"):
        parts = [pruning(arg, binder, side) for arg in node.args]
        known = [p for p in parts if p is not None]
        if node.name == "or":
            return tree.any_of(known) if len(known) == len(parts) else None
        return tree.all_of(known) if known else None
    if node.name not in ("in", "between", *_COMPARED):
        return None
    operands = [_operand(arg, binder, side) for arg in node.args]
    known = [o for o in operands if o is not None]
    if len(known) < len(operands):
        return None
    first, *others = known
    if node.name == "in":
        return tree.is_in(first, others)
    if node.name == "between":
        return tree.all_of([tree.compare(">=", first, others[0]), tree.compare("<=", first, others[1])])
    return tree.compare(_COMPARED[node.name], first, others[0])


def _operand(node: Syntax, binder: JoinedBinder, side: Side) -> tree.Node | None:
    if isinstance(node, Name):
        owner, number, fields = binder.place(node)
        return tree.column([list(side.columns)[number], *fields]) if owner is side else None
    if isinstance(node, Literal) and isinstance(node.value, str) and node.type.name in _PLAIN:
        return tree.literal(node.value, str(node.type))
    if isinstance(node, Cast) and isinstance(node.arg, Literal) and node.to.name == "date" and not node.attempt:
        value = node.arg.value
        return tree.literal(value, "date") if isinstance(value, str) and _DATE.fullmatch(value) else None
    return None
