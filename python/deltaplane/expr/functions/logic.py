"""AND, OR, NOT and tests for null, with Spark's order of evaluation: the left operand may guard the
right one."""

from __future__ import annotations

from deltaplane.expr.coerce import boolean
from deltaplane.expr.registry import admit
from deltaplane.expr.typed import Context, Typed, made, mistyped
from deltaplane.expr.types import BOOLEAN

_FAMILY = "logic"


def _chain(context: Context, args: list[Typed], name: str, stops: str) -> Typed:
    terms = [boolean(context, name, a) for a in args]
    joined = "(" + f" {name.upper()} ".join(t.sql for t in terms) + ")"
    if not any(t.throws or t.partial for t in terms[1:]):
        return made(BOOLEAN, joined, *terms)
    # DuckDB evaluates all operands, in its own order; its CASE stops at the first true branch.
    decided = "true" if stops == "" else "false"
    whens = " ".join(f"WHEN {stops}({t.sql}) THEN {decided}" for t in terms[:-1])
    return made(BOOLEAN, f"CASE {whens} ELSE {joined} END", *terms)


@admit(_FAMILY, "and")
def _and(context: Context, args: list[Typed]) -> Typed:
    return _chain(context, args, "and", "NOT ")


@admit(_FAMILY, "or")
def _or(context: Context, args: list[Typed]) -> Typed:
    return _chain(context, args, "or", "")


@admit(_FAMILY, "not")
def _not(context: Context, args: list[Typed]) -> Typed:
    value = boolean(context, "not", args[0])
    return made(BOOLEAN, f"(NOT {value.sql})", value)


def _single(name: str, args: list[Typed]) -> Typed:
    if len(args) != 1:
        mistyped(name, args)
    return args[0]


@admit(_FAMILY, "isnull")
def _isnull(_: Context, args: list[Typed]) -> Typed:
    value = _single("isnull", args)
    return made(BOOLEAN, f"({value.sql} IS NULL)", value)


@admit(_FAMILY, "isnotnull")
def _isnotnull(_: Context, args: list[Typed]) -> Typed:
    value = _single("isnotnull", args)
    return made(BOOLEAN, f"({value.sql} IS NOT NULL)", value)
