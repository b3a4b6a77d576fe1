"""Bits of integers, in Java's two's complement."""

from __future__ import annotations

from deltaplane.expr.casts import cast
from deltaplane.expr.coerce import common_of
from deltaplane.expr.registry import Form, admit, forms
from deltaplane.expr.typed import Context, Typed, guarded, made, mistyped
from deltaplane.expr.types import BOOLEAN, BYTE, INT, LONG

_FAMILY = "bits"


def _pairwise(name: str, sql: str) -> None:
    @admit(_FAMILY, name)
    def lower(context: Context, args: list[Typed]) -> Typed:
        to = common_of(name, args)
        if len(args) != 2 or not to.integral:
            mistyped(name, args)
        a, b = (cast(context, x, to) for x in args)
        return made(to, sql.format(a.sql, b.sql), a, b)


_pairwise("&", "({0} & {1})")
_pairwise("|", "({0} | {1})")
_pairwise("^", "xor({0}, {1})")


@admit(_FAMILY, "~")
def _not(_: Context, args: list[Typed]) -> Typed:
    if not args[0].type.integral:
        mistyped("~", args)
    return made(args[0].type, f"(~{args[0].sql})", args[0])


def _shift(names: str, sql: str, unsigned: bool) -> None:
    """`{0}` is the number, widened; `{1}` the distance."""

    @admit(_FAMILY, *names.split())
    def lower(context: Context, args: list[Typed]) -> Typed:
        if len(args) != 2 or not all(a.type.integral for a in args) or args[1].type == LONG:
            mistyped(names.split()[0], args)
        value = args[0] if args[0].type == LONG else cast(context, args[0], INT)
        bits = value.type.bits
        wide = f"CAST({value.sql} AS HUGEINT)"
        if unsigned:
            wide = f"CASE WHEN {value.sql} < 0 THEN {wide} + {1 << bits} ELSE {wide} END"
        moved = sql.format(wide, f"({args[1].sql} & {bits - 1})")
        modulus = f"CAST('{1 << bits}' AS HUGEINT)"
        low = f"(({moved} % {modulus} + {modulus}) % {modulus})"
        wrapped = f"CASE WHEN {low} >= {1 << (bits - 1)} THEN {low} - {modulus} ELSE {low} END"
        return made(value.type, f"CAST({wrapped} AS {value.type.duck})", value, args[1])


_shift("<< shiftleft", "({0} * (CAST(1 AS HUGEINT) << {1}))", unsigned=False)
_shift("shiftright", "({0} >> {1})", unsigned=False)
_shift("shiftrightunsigned", "({0} >> {1})", unsigned=True)
forms(
    _FAMILY,
    "bit_count",
    Form([BOOLEAN], INT, "CAST({0} AS INTEGER)"),
    Form([LONG], INT, "CAST(bit_count({0}) AS INTEGER)"),
)


@admit(_FAMILY, "bit_get", "getbit")
def _bit_get(_: Context, args: list[Typed]) -> Typed:
    if len(args) != 2 or not args[0].type.integral or args[1].type.name not in ("byte", "short", "integer"):
        mistyped("bit_get", args)
    value, position = args
    bit = f"CAST((({value.sql} >> {position.sql}) & 1) AS TINYINT)"
    bad = f"{value.sql} IS NOT NULL AND {position.sql} NOT BETWEEN 0 AND {value.type.bits - 1}"
    return made(
        BYTE, guarded(bad, "INVALID_PARAMETER_VALUE", "no bit has this position", bit, BYTE), *args, throws=True
    )
