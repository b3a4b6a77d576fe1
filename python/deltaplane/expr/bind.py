"""Binds a syntax tree to a table's columns, as one typed DuckDB expression.

Resolves names ignoring case, assigns types to literals and passes calls to the registry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.casts import cast
from deltaplane.expr.duckdb_values import computed, of_text
from deltaplane.expr.functions.collections import field_of
from deltaplane.expr.functions.nonzero import branch_facts
from deltaplane.expr.registry import ENTRIES, Entry, Function
from deltaplane.expr.syntax import Call, Cast, Lambda, Literal, Name, Syntax, Variable
from deltaplane.expr.typed import Context, Typed, attempted, refuse
from deltaplane.expr.types import SparkType, text

__all__ = ["SIGNS", "Binder", "below"]

# Operators that are written as symbols or words; all others are written as functions.
SIGNS = ("and", "or", "not", "in", "between", "like", "div", "case", "[]", ".")


def below(column: str, data_type: SparkType | None, sql: str, fields: Sequence[str]) -> Typed:
    """A column, or the struct field in it that the names denote."""
    if data_type is None:
        refuse(f"the column `{column}`, whose type it has no form of,")
    value = Typed(data_type, sql)
    for part in fields:
        if value.type.name != "struct":
            raise InvalidArgumentError(f"`{column}` is {data_type}, which has no field `{part}`")
        value = field_of(value, part)
    return value


class Binder:
    """Binds expressions to the columns of one table; `used` are the columns that occur, by name, in
    the form for DuckDB."""

    def __init__(self, columns: dict[str, SparkType | None], context: Context) -> None:
        self._columns = columns
        self.context = context
        self.used: dict[str, str] = {}
        self._variables: dict[int, Typed] = {}
        # Trees that aren't zero in the present branch of CASE or IF.
        self._nonzero: frozenset[Syntax] = frozenset()

    def bind(self, node: Syntax) -> Typed:
        """The typed form of a tree.

        Raises:
            InvalidArgumentError: a name or type that Spark would refuse too.
            UnsupportedExpressionError: an expression that isn't admitted, by name.
        """
        if isinstance(node, Literal):
            return self._literal(node)
        if isinstance(node, Name):
            return self.column(node)
        if isinstance(node, Variable):
            return self._variables[node.number]
        if isinstance(node, Cast):
            arg = self.bind(node.arg)
            value = cast(self.context, arg, node.to)
            if value is arg:
                return replace(arg, is_cast=True) if arg.literal is not None else arg
            return attempted(value, arg) if node.attempt else value
        return self.call(node)

    def call(self, node: Call) -> Typed:
        """The typed form of an operator or function."""
        entry = ENTRIES.get(node.name)
        if entry is None:
            refuse(f"the function `{node.name}`")
        if any(isinstance(a, Lambda) for a in node.args):
            return self._higher(entry, node)
        if node.name in ("case", "if"):
            return computed(entry.lower(self.context, self._branches(node)))
        if node.name == "/" and len(node.args) == 2 and node.args[1] in self._nonzero:
            context = replace(self.context, divisor_is_zero=False)
            return computed(entry.lower(context, [self.bind(a) for a in node.args]))
        return computed(entry.lower(self.context, [self.bind(a) for a in node.args]))

    def _branches(self, node: Call) -> list[Typed]:
        """The arguments of CASE or IF, each with what the conditions before it tell."""
        around, values = self._nonzero, []
        try:
            for arg, self._nonzero in zip(node.args, branch_facts(node, around), strict=True):
                values.append(self.bind(arg))
        finally:
            self._nonzero = around
        return values

    def _higher(self, entry: Entry, node: Call) -> Typed:
        count = next(i for i, arg in enumerate(node.args) if isinstance(arg, Lambda))
        functions = [self._function(arg) for arg in node.args[count:] if isinstance(arg, Lambda)]
        if entry.higher is None or len(functions) != len(node.args) - count:
            refuse(f"`{node.name}` with a lambda function there")
        return entry.higher(self.context, [self.bind(a) for a in node.args[:count]], functions)

    def _function(self, node: Lambda) -> Function:
        def bound(values: Sequence[Typed]) -> Typed:
            if len(values) != len(node.variables):
                raise InvalidArgumentError(f"a lambda function has {len(node.variables)} parameters, not {len(values)}")
            self._variables.update(zip(node.variables, values, strict=True))
            return self.bind(node.args[0])

        return Function(tuple(f"w{number}" for number in node.variables), bound)

    def _literal(self, node: Literal) -> Typed:
        value, to = node.value, node.type
        if value is None:
            return Typed(to, "NULL", constant=True)
        if isinstance(value, bool):
            word = "true" if value else "false"
            return Typed(to, word, literal=word, constant=True)
        if isinstance(value, bytes):
            return Typed(to, of_text(to, f"'{value.hex()}'"), constant=True)
        return Typed(to, of_text(to, text(value)), literal=value, constant=True)

    def column(self, node: Name) -> Typed:
        """The typed form of a column or of a field below one."""
        first, *rest = node.parts
        matches = [name for name in self._columns if name.lower() == first.lower()]
        if len(matches) != 1:
            self._unknown(first, matches)
        (name,) = matches
        alias = self.used.setdefault(name, f"c{len(self.used)}")
        return replace(below(name, self._columns[name], alias, rest), name=node.parts[-1])

    def _unknown(self, name: str, matches: list[str]) -> NoReturn:
        if matches:
            raise InvalidArgumentError(f"`{name}` could be any of the columns {', '.join(matches)}")
        known = ", ".join(list(self._columns)[:20])
        raise InvalidArgumentError(f"no column is called `{name}` (there are {known})")
