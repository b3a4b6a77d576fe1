"""Choosing between values: CASE, IF, COALESCE and the like. Only the chosen branch is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from deltaplane.expr.casts import cast
from deltaplane.expr.coerce import boolean, unified
from deltaplane.expr.registry import ENTRIES, admit
from deltaplane.expr.typed import IN_64_BITS, Context, Typed, bounds_of_all, is_exact, made, mistyped, narrow_of
from deltaplane.expr.types import BOOLEAN, DOUBLE, FLOAT, INT, STRING, VOID

_FAMILY = "conditional"


def _choice(context: Context, name: str, tests: list[Typed], values: list[Typed]) -> Typed:
    """`values` has one more member than `tests`: the default."""
    conditions = [boolean(context, name, t) for t in tests]
    branches = unified(context, name, values)

    def text(values: Sequence[str]) -> str:
        whens = " ".join(f"WHEN {c.sql} THEN {v}" for c, v in zip(conditions, values, strict=False))
        return f"CASE {whens} ELSE {values[-1]} END"

    chosen = made(branches[0].type, text([b.sql for b in branches]), *conditions, *branches)
    return _of_any(chosen, branches, text)


def _of_any(value: Typed, branches: list[Typed], text: Callable[[Sequence[str]], str]) -> Typed:
    """A value that is one of the branches, with their bounds; `text` chooses between texts."""
    if not is_exact(value.type):
        return value
    value = replace(value, bounds=cache(lambda: bounds_of_all(branches)))
    narrow = [narrow_of(b) for b in branches]
    if value.type.precision <= IN_64_BITS or None in narrow:
        return value
    chosen = text([n for n in narrow if n is not None])
    return replace(value, sql=f"CAST({chosen} AS {value.type.duck})", narrow=chosen)


_NULL = Typed(VOID, "NULL", constant=True)


@admit(_FAMILY, "case")
def _case(context: Context, args: list[Typed]) -> Typed:
    pairs, rest = args[: len(args) // 2 * 2], args[len(args) // 2 * 2 :]
    return _choice(context, "case", pairs[::2], [*pairs[1::2], *(rest or [_NULL])])


@admit(_FAMILY, "if")
def _if(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 3:
        mistyped("if", args)
    return _choice(context, "if", args[:1], args[1:])


@admit(_FAMILY, "coalesce", "nvl", "ifnull")
def _coalesce(context: Context, args: list[Typed]) -> Typed:
    if not args:
        mistyped("coalesce", args)
    values = unified(context, "coalesce", args)

    def text(texts: Sequence[str]) -> str:
        return f"coalesce({', '.join(texts)})"

    return _of_any(made(values[0].type, text([v.sql for v in values]), *values), values, text)


@admit(_FAMILY, "nvl2")
def _nvl2(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 3:
        mistyped("nvl2", args)
    return _choice(context, "nvl2", [ENTRIES["isnotnull"].lower(context, args[:1])], args[1:])


@admit(_FAMILY, "nullif")
def _nullif(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 2:
        mistyped("nullif", args)
    return _choice(context, "nullif", [ENTRIES["="].lower(context, args)], [_NULL, args[0]])


def _zero() -> Typed:
    return Typed(INT, "CAST(0 AS INTEGER)", literal="0", constant=True)


@admit(_FAMILY, "nullifzero")
def _nullifzero(context: Context, args: list[Typed]) -> Typed:
    return _nullif(context, [*args, _zero()])


@admit(_FAMILY, "zeroifnull")
def _zeroifnull(context: Context, args: list[Typed]) -> Typed:
    return _coalesce(context, [*args, _zero()])


@admit(_FAMILY, "decode")
def _decode(context: Context, args: list[Typed]) -> Typed:
    if len(args) < 3:
        mistyped("decode", args)
    pairs = args[1 : 1 + (len(args) - 1) // 2 * 2]
    rest = args[1 + len(pairs) :]
    tests = [ENTRIES["<=>"].lower(context, [args[0], key]) for key in pairs[::2]]
    return _choice(context, "decode", tests, [*pairs[1::2], *(rest or [_NULL])])


@admit(_FAMILY, "isnan")
def _isnan(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 1 or not (args[0].type.numeric or args[0].type == VOID):
        mistyped("isnan", args)
    value = args[0] if args[0].type.fractional else cast(context, args[0], DOUBLE)
    return made(BOOLEAN, f"coalesce(isnan({value.sql}), false)", value)


@admit(_FAMILY, "nanvl")
def _nanvl(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 2 or not all(a.type.numeric or a.type == STRING or (a is args[1] and a.type == VOID) for a in args):
        mistyped("nanvl", args)
    to = FLOAT if args[0].type == FLOAT and args[1].type in (FLOAT, VOID) else DOUBLE
    a, b = (cast(context, x, to) for x in args)
    return made(to, f"CASE WHEN isnan({a.sql}) THEN {b.sql} ELSE {a.sql} END", a, b)
