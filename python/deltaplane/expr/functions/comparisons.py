"""Comparisons of two values and of one with several. NaN equals itself and is above all; -0.0
equals 0.0."""

from __future__ import annotations

from deltaplane.expr.casts import cast
from deltaplane.expr.coerce import unified
from deltaplane.expr.registry import ENTRIES, admit
from deltaplane.expr.typed import Context, Typed, made, mistyped, refuse
from deltaplane.expr.types import BOOLEAN, DOUBLE, FLOAT, STRING, VOID

_FAMILY = "comparisons"


def _operands(context: Context, name: str, args: list[Typed]) -> list[Typed]:
    values = unified(context, name, args)
    if not all(v.type.atomic or v.type == VOID for v in values):
        refuse(f"`{name}` on {values[0].type}")
    return values


def _comparison(name: str, duck: str) -> None:
    @admit(_FAMILY, name)
    def lower(context: Context, args: list[Typed]) -> Typed:
        if len(args) != 2:
            mistyped(name, args)
        a, b = _operands(context, name, args)
        return made(BOOLEAN, f"({a.sql} {duck} {b.sql})", a, b)


for _name, _duck in (("=", "="), ("==", "="), ("<>", "<>"), ("!=", "<>"), ("<", "<"), ("<=", "<="), (">", ">")):
    _comparison(_name, _duck)
_comparison(">=", ">=")
_comparison("<=>", "IS NOT DISTINCT FROM")
_comparison("equal_null", "IS NOT DISTINCT FROM")


@admit(_FAMILY, "in")
def _in(context: Context, args: list[Typed]) -> Typed:
    values = _operands(context, "in", args)
    if any(v.throws and not v.constant for v in values[1:]):
        refuse("IN with a list whose members can fail")
    listed = ", ".join(v.sql for v in values[1:])
    return made(BOOLEAN, f"({values[0].sql} IN ({listed}))", *values)


@admit(_FAMILY, "between")
def _between(context: Context, args: list[Typed]) -> Typed:
    value, low, high = args
    bounds = [ENTRIES[">="].lower(context, [value, low]), ENTRIES["<="].lower(context, [value, high])]
    return ENTRIES["and"].lower(context, bounds)


def _extreme(name: str) -> None:
    @admit(_FAMILY, name)
    def lower(context: Context, args: list[Typed]) -> Typed:
        if len(args) < 2:
            mistyped(name, args)
        if any(a.type == STRING for a in args) and any(a.type not in (STRING, VOID) for a in args):
            mistyped(name, args)
        values = _operands(context, name, args)
        to = values[0].type
        # DuckDB loses the sign of a zero in the narrower type.
        operands = [cast(context, v, DOUBLE) if to == FLOAT else v for v in values]
        return made(to, f"CAST({name}({', '.join(v.sql for v in operands)}) AS {to.duck})", *values)


_extreme("greatest")
_extreme("least")
