"""Digests and encodings of bytes, and Spark's own hash, Murmur 3 of 32 bits with 42 as its seed."""

from __future__ import annotations

from deltaplane.expr.casts import cast
from deltaplane.expr.coerce import takes
from deltaplane.expr.registry import Form, admit, forms
from deltaplane.expr.typed import Context, Typed, made, mistyped, refuse
from deltaplane.expr.types import BINARY, INT, LONG, STRING, VOID

_FAMILY = "hashes"

forms(_FAMILY, "md5", Form([BINARY], STRING, "md5({0})"))
forms(_FAMILY, "sha1 sha", Form([BINARY], STRING, "sha1({0})"))


@admit(_FAMILY, "hex")
def _hex(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 1 or not (args[0].type == BINARY or takes(STRING, args[0].type)):
        mistyped("hex", args)
    if args[0].type.numeric and not args[0].type.integral:
        # Spark uses its integral part, not its text.
        refuse(f"`hex` of {args[0].type}")
    value = args[0] if args[0].type == BINARY else cast(context, args[0], LONG if args[0].type.integral else STRING)
    return made(STRING, f"hex({value.sql})", value)


@admit(_FAMILY, "unhex")
def _unhex(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 1 or not takes(STRING, args[0].type):
        mistyped("unhex", args)
    value = cast(context, args[0], STRING)
    even = f"CASE WHEN length({value.sql}) % 2 = 1 THEN '0' || {value.sql} ELSE {value.sql} END"
    return made(BINARY, f"CASE WHEN regexp_full_match({value.sql}, '[0-9a-fA-F]*') THEN unhex({even}) END", value)


@admit(_FAMILY, "sha2")
def _sha2(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 2 or args[1].type != INT:
        mistyped("sha2", args)
    if args[1].literal not in ("0", "256"):
        refuse("`sha2` of another length than 256 bits")
    value = cast(context, args[0], BINARY)
    return made(STRING, f"sha256({value.sql})", value)


# --- Murmur 3: on whole numbers below 2^32, as their products fit into 64 bits ---

_MASK = 0xFFFFFFFF
_SMALL = ("boolean", "byte", "short", "integer", "date")
_LARGE = ("long", "timestamp", "timestamp_ntz", "decimal")
# Digits of a decimal that Spark stores in 64 bits.
_MOST_DIGITS = 18


def _whole(number: int) -> str:
    return f"CAST('{number}' AS UBIGINT)"


def _rotated(value: str, by: int) -> str:
    moved = f"(({value}) * {_whole(1 << by)})"
    return f"(({moved} & {_whole(_MASK)}) | ({moved} >> 32))"


def _times(value: str, factor: int) -> str:
    return f"((({value}) * {_whole(factor)}) & {_whole(_MASK)})"


def _mixed(so_far: str, word: str) -> str:
    scrambled = _times(_rotated(_times(word, 0xCC9E2D51), 15), 0x1B873593)
    return f"((({_rotated(f'xor({so_far}, {scrambled})', 13)}) * {_whole(5)} + {_whole(0xE6546B64)}) & {_whole(_MASK)})"


def _ended(so_far: str, length: str) -> str:
    """The final steps, each of which uses its input twice."""
    mixed = f"xor({so_far}, CAST({length} AS UBIGINT))"
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        mixed = f"list_transform([{mixed}], lambda h: {_times(f'xor(h, h >> {shift})', factor)})[1]"
    return mixed


def _words(value: Typed) -> tuple[str, str]:
    """The 32-bit words that are hashed for a value, and its number of bytes."""
    data_type, x = value.type, value.sql
    if data_type.name in _SMALL:
        number = f"({x} - DATE '1970-01-01')" if data_type.name == "date" else x
        return f"[CAST(CAST({number} AS BIGINT) & {_MASK} AS UBIGINT)]", "4"
    if data_type.name in _LARGE and (data_type.name != "decimal" or data_type.precision <= _MOST_DIGITS):
        number = f"epoch_us({x})" if data_type.name.startswith("timestamp") else x
        if data_type.name == "decimal":
            number = f"replace(CAST({x} AS VARCHAR), '.', '')"
        bits = f"(CAST({number} AS HUGEINT) & CAST('{(1 << 64) - 1}' AS HUGEINT))"
        return f"[CAST({bits} & {_MASK} AS UBIGINT), CAST({bits} >> 32 AS UBIGINT)]", "8"
    if data_type not in (STRING, BINARY):
        refuse(f"`hash` of {data_type}")
    digits = f"hex({f'encode({x})' if data_type == STRING else x})"
    length = f"(length({digits}) // 2)"

    def byte(index: str) -> str:
        return f"CAST('0x' || substring({digits}, CAST(({index}) * 2 + 1 AS BIGINT), 2) AS UBIGINT)"

    four = " + ".join(f"{byte(f'i * 4 + {n}')} * {_whole(1 << (8 * n))}" for n in range(4))
    # The remaining bytes are single signed bytes.
    left = f"({byte('i')} + CASE WHEN {byte('i')} > 127 THEN {_whole(_MASK - 255)} ELSE {_whole(0)} END)"
    aligned = f"list_transform(range({length} // 4), lambda i: {four})"
    rest = f"list_transform(range({length} // 4 * 4, {length}), lambda i: {left})"
    return f"list_concat({aligned}, {rest})", length


@admit(_FAMILY, "hash")
def _hash(_: Context, args: list[Typed]) -> Typed:
    if not args:
        mistyped("hash", args)
    hashed = _whole(42)
    for arg in args:
        if arg.type == VOID:
            continue
        words, length = _words(arg)
        so_far = f"list_reduce(list_concat([before], {words}), lambda a, w: {_mixed('a', 'w')})"
        # A null leaves the hash unchanged.
        after = f"CASE WHEN {arg.sql} IS NULL THEN before ELSE {_ended(so_far, length)} END"
        hashed = f"list_transform([{hashed}], lambda before: {after})[1]"
    signed = f"CAST(h AS BIGINT) - CASE WHEN h > {(1 << 31) - 1} THEN {1 << 32} ELSE 0 END"
    return made(INT, f"list_transform([{hashed}], lambda h: CAST({signed} AS INTEGER))[1]", *args)
