"""Strings, counted in code points from 1."""

from __future__ import annotations

from deltaplane.expr.casts import cast
from deltaplane.expr.coerce import takes
from deltaplane.expr.registry import Form, admit, forms
from deltaplane.expr.typed import Context, Typed, failing, guarded, made, mistyped, refuse
from deltaplane.expr.types import BINARY, BOOLEAN, INT, STRING

_FAMILY = "text"


def _strings(context: Context, name: str, args: list[Typed], *counts: int) -> list[Typed]:
    if (counts and len(args) not in counts) or not all(takes(STRING, a.type) for a in args):
        mistyped(name, args)
    return [cast(context, a, STRING) for a in args]


forms(
    _FAMILY,
    "length len char_length character_length",
    Form([STRING], INT, "CAST(length({0}) AS INTEGER)"),
    Form([BINARY], INT, "CAST(octet_length({0}) AS INTEGER)"),
)
forms(
    _FAMILY,
    "octet_length",
    Form([STRING], INT, "CAST(strlen({0}) AS INTEGER)"),
    Form([BINARY], INT, "CAST(octet_length({0}) AS INTEGER)"),
)
forms(
    _FAMILY,
    "bit_length",
    Form([STRING], INT, "CAST(strlen({0}) * 8 AS INTEGER)"),
    Form([BINARY], INT, "CAST(octet_length({0}) * 8 AS INTEGER)"),
)
forms(_FAMILY, "trim", Form([STRING], STRING, "trim({0}, ' ')"))
forms(_FAMILY, "trim-from", Form([STRING, STRING], STRING, "trim({1}, {0})"))
forms(_FAMILY, "btrim", Form([STRING], STRING, "trim({0}, ' ')"), Form([STRING, STRING], STRING, "trim({0}, {1})"))
for _side in ("ltrim", "rtrim"):
    # The argument with the characters comes first.
    forms(
        _FAMILY,
        _side,
        Form([STRING], STRING, _side + "({0}, ' ')"),
        Form([STRING, STRING], STRING, _side + "({1}, {0})"),
    )
_LEFT = "CASE WHEN {1} < 0 THEN substring({0}, 1, 0) ELSE substring({0}, 1, {1}) END"
forms(_FAMILY, "left", Form([STRING, INT], STRING, _LEFT))
forms(
    _FAMILY,
    "right",
    Form([STRING, INT], STRING, "CASE WHEN {0} IS NULL THEN NULL WHEN {1} <= 0 THEN '' ELSE right({0}, {1}) END"),
)


@admit(_FAMILY, "substring", "substr")
def _substring(context: Context, args: list[Typed]) -> Typed:
    if len(args) not in (2, 3) or args[0].type == BINARY or not takes(STRING, args[0].type):
        mistyped("substring", args)
    if not all(takes(INT, a.type) for a in args[1:]):
        mistyped("substring", args)
    s, *numbers = [cast(context, args[0], STRING), *(cast(context, a, INT) for a in args[1:])]
    sizes = [int(a.literal) for a in args[1:] if a.type == INT and a.literal is not None]
    if len(sizes) == len(numbers) and sizes[0] > 0 and min(sizes) >= 0:
        return made(STRING, f"substring({s.sql}, {', '.join(map(str, sizes))})", s)
    position = numbers[0].sql
    start = (
        f"CASE WHEN {position} > 0 THEN CAST({position} AS BIGINT) - 1 "
        f"WHEN {position} < 0 THEN length({s.sql}) + {position} ELSE 0 END"
    )
    # A start before the string shortens the result.
    begin = f"CASE WHEN ({start}) < 0 THEN 0 ELSE ({start}) END"
    nulls = " OR ".join(f"{n.sql} IS NULL" for n in numbers)
    length = f"length({s.sql})"
    if len(numbers) == 2:
        end = f"(({start}) + CAST({numbers[1].sql} AS BIGINT))"
        length = f"CASE WHEN {end} > ({begin}) THEN {end} - ({begin}) ELSE 0 END"
        length = f"least({length}, 2147483647)"
    sql = f"CASE WHEN {nulls} THEN NULL ELSE substring({s.sql}, ({begin}) + 1, {length}) END"
    return made(STRING, sql, s, *numbers)


def _pad(name: str) -> None:
    @admit(_FAMILY, name)
    def lower(context: Context, args: list[Typed]) -> Typed:
        if len(args) not in (2, 3) or not takes(INT, args[1].type) or BINARY in (args[0].type, args[-1].type):
            mistyped(name, args)
        s, n = cast(context, args[0], STRING), cast(context, args[1], INT)
        pad = cast(context, args[2], STRING) if len(args) == 3 else Typed(STRING, "' '", constant=True)
        cut = f"substring({s.sql}, 1, CASE WHEN {n.sql} < 0 THEN 0 ELSE {n.sql} END)"
        sql = (
            f"CASE WHEN {s.sql} IS NULL OR {n.sql} IS NULL OR {pad.sql} IS NULL THEN NULL "
            f"WHEN {pad.sql} = '' OR length({s.sql}) >= {n.sql} THEN {cut} ELSE {name}({s.sql}, {n.sql}, {pad.sql}) END"
        )
        return made(STRING, sql, s, n, pad)


_pad("lpad")
_pad("rpad")
forms(_FAMILY, "repeat", Form([STRING, INT], STRING, "CASE WHEN {1} <= 0 THEN left({0}, 0) ELSE repeat({0}, {1}) END"))
forms(_FAMILY, "space", Form([INT], STRING, "CASE WHEN {0} <= 0 THEN '' ELSE repeat(' ', {0}) END"))
forms(
    _FAMILY,
    "replace",
    Form([STRING, STRING], STRING, "replace({0}, {1}, '')"),
    Form([STRING, STRING, STRING], STRING, "replace({0}, {1}, {2})"),
)
forms(_FAMILY, "translate", Form([STRING, STRING, STRING], STRING, "translate({0}, {1}, {2})"))
_FOUND = "CASE WHEN {1} = '' AND {0} IS NOT NULL THEN 1 ELSE CAST(strpos({0}, {1}) AS INTEGER) END"
forms(_FAMILY, "instr", Form([STRING, STRING], INT, _FOUND))
_FOUND_IN = _FOUND.replace("{0}", "{2}").replace("{1}", "{0}").replace("{2}", "{1}")
# A null position finds nothing, an empty text is found at once.
_FOUND_FROM = (
    "CASE WHEN {2} IS NULL THEN 0 WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN {2} < 1 THEN 0 WHEN {0} = '' THEN 1 "
    "WHEN contains(substring({1}, CAST({2} AS BIGINT)), {0}) "
    "THEN CAST(strpos(substring({1}, CAST({2} AS BIGINT)), {0}) + {2} - 1 AS INTEGER) ELSE 0 END"
)
forms(
    _FAMILY,
    "locate position",
    Form([STRING, STRING], INT, _FOUND_IN),
    Form([STRING, STRING, INT], INT, _FOUND_FROM),
)
for _name, _duck in (("startswith", "starts_with"), ("endswith", "ends_with"), ("contains", "contains")):
    forms(_FAMILY, _name, Form([STRING, STRING], BOOLEAN, _duck + "({0}, {1})"))
forms(_FAMILY, "ascii", Form([STRING], INT, "CASE WHEN {0} = '' THEN 0 ELSE CAST(unicode({0}) AS INTEGER) END"))
forms(_FAMILY, "chr char", Form([INT], STRING, "CASE WHEN {0} < 0 THEN '' ELSE chr(CAST({0} & 255 AS INTEGER)) END"))
_PART = "CASE WHEN {1} = '' THEN CASE WHEN {2} IN (1, -1) THEN {0} WHEN {2} IS NULL THEN NULL ELSE left({0}, 0) END ELSE split_part({0}, {1}, {2}) END"
_PART_0 = f"CASE WHEN {{2}} = 0 AND {{0}} IS NOT NULL AND {{1}} IS NOT NULL THEN {failing('INVALID_INDEX_OF_ZERO', 'parts count from 1', STRING)} ELSE {_PART} END"
forms(_FAMILY, "split_part", Form([STRING, STRING, INT], STRING, _PART_0, throws=True))
_SET = "CASE WHEN contains({0}, ',') AND {1} IS NOT NULL THEN 0 WHEN {0} IS NULL OR {1} IS NULL THEN NULL ELSE coalesce(CAST(list_position(string_split({1}, ','), {0}) AS INTEGER), 0) END"
forms(_FAMILY, "find_in_set", Form([STRING, STRING], INT, _SET))


@admit(_FAMILY, "||")
def _joined(context: Context, args: list[Typed]) -> Typed:
    return _concat(context, args)


@admit(_FAMILY, "concat")
def _concat(context: Context, args: list[Typed]) -> Typed:
    if args and all(a.type.name == "array" for a in args):
        if any(a.type != args[0].type for a in args):
            mistyped("concat", args)
        nulls = " OR ".join(f"{a.sql} IS NULL" for a in args)
        joined = f"CASE WHEN {nulls} THEN NULL ELSE list_concat({', '.join(a.sql for a in args)}) END"
        return made(args[0].type, joined, *args)
    if not args or BINARY in [a.type for a in args]:
        refuse("`concat` of nothing or of bytes")
    values = _strings(context, "concat", args)
    return made(STRING, "(" + " || ".join(v.sql for v in values) + ")", *values)


@admit(_FAMILY, "concat_ws")
def _concat_ws(context: Context, args: list[Typed]) -> Typed:
    if not args or any(a.type.parts or a.type == BINARY for a in args):
        refuse("`concat_ws` of arrays, bytes or nothing")
    values = _strings(context, "concat_ws", args)
    if len(values) == 1:
        return made(STRING, f"left({values[0].sql}, 0)", *values)
    return made(STRING, f"concat_ws({', '.join(v.sql for v in values)})", *values)


@admit(_FAMILY, "reverse")
def _reverse(context: Context, args: list[Typed]) -> Typed:
    if len(args) == 1 and args[0].type.name == "array":
        return made(args[0].type, f"list_reverse({args[0].sql})", args[0])
    (value,) = _strings(context, "reverse", args, 1)
    # DuckDB's own function keeps combining characters behind their letter.
    sql = (
        f"CASE WHEN {value.sql} = '' THEN '' ELSE array_to_string(list_reverse(string_split({value.sql}, '')), '') END"
    )
    return made(STRING, sql, value)


@admit(_FAMILY, "substring_index")
def _substring_index(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 3 or args[1].literal is None or len(args[1].literal) != 1 or args[2].type != INT:
        refuse("`substring_index` with another delimiter than one character")
    s, delimiter, count = cast(context, args[0], STRING), args[1], args[2]
    parts = f"string_split({s.sql}, {delimiter.sql})"
    sql = (
        f"CASE WHEN {s.sql} IS NULL OR {count.sql} IS NULL THEN NULL WHEN {count.sql} = 0 THEN '' "
        f"WHEN abs(CAST({count.sql} AS BIGINT)) >= len({parts}) THEN {s.sql} "
        f"WHEN {count.sql} > 0 THEN array_to_string(list_slice({parts}, 1, {count.sql}), {delimiter.sql}) "
        f"ELSE array_to_string(list_slice({parts}, {count.sql}, -1), {delimiter.sql}) END"
    )
    return made(STRING, sql, s, delimiter, count)


@admit(_FAMILY, "elt")
def _elt(context: Context, args: list[Typed]) -> Typed:
    if len(args) < 2 or not takes(INT, args[0].type):
        mistyped("elt", args)
    index, values = cast(context, args[0], INT), _strings(context, "elt", args[1:])
    if any(v.throws for v in values):
        refuse("`elt` of values that can fail")
    whens = " ".join(f"WHEN {index.sql} = {i} THEN {v.sql}" for i, v in enumerate(values, 1))
    bad = failing("INVALID_ARRAY_INDEX", "no value has this index", STRING)
    return made(STRING, f"CASE {whens} WHEN {index.sql} IS NULL THEN NULL ELSE {bad} END", index, *values, throws=True)


# Letters whose other case has several letters, depends on its neighbours or is newer than DuckDB's
# Unicode.
_NEW = r"\x{a7cb}-\x{a7dc}\x{10d50}-\x{10d85}\x{16ea0}-\x{16ed3}"
_ODD_LOWER = (
    r"[\x{149}\x{19b}\x{1f0}\x{264}\x{390}\x{3b0}\x{587}\x{1c8a}\x{1e96}-\x{1e9a}\x{1f50}-\x{1fff}\x{fb00}-\x{fb17}"
)
_ODD_UPPER = r"[\x{130}\x{3a3}\x{1c89}"


def _cased(names: str, odd: str, sql: str) -> None:
    @admit(_FAMILY, *names.split())
    def lower(context: Context, args: list[Typed]) -> Typed:
        (value,) = _strings(context, names.split()[0], args, 1)
        bad = f"regexp_matches({value.sql}, '{odd}{_NEW}]')"
        why = "a letter whose other case isn't one letter"
        return made(STRING, guarded(bad, "UNSUPPORTED_VALUE", why, sql.format(value.sql), STRING), value, partial=True)


_cased("upper ucase", _ODD_LOWER, "upper(replace({0}, 'ß', 'SS'))")
_cased("lower lcase", _ODD_UPPER, "lower({0})")


@admit(_FAMILY, "initcap")
def _initcap(context: Context, args: list[Typed]) -> Typed:
    (value,) = _strings(context, "initcap", args, 1)
    # Words are separated by blanks; their first letters are supported for ASCII.
    odd = rf"NOT regexp_full_match({value.sql}, '[\x00-\x7f]*')"
    words = f"list_transform(string_split(lower({value.sql}), ' '), lambda w: upper(left(w, 1)) || substring(w, 2))"
    why = "a character beyond ASCII in `initcap`"
    return made(
        STRING, guarded(odd, "UNSUPPORTED_VALUE", why, f"array_to_string({words}, ' ')", STRING), value, partial=True
    )


@admit(_FAMILY, "overlay")
def _overlay(context: Context, args: list[Typed]) -> Typed:
    if len(args) not in (3, 4) or BINARY in (args[0].type, args[1].type):
        mistyped("overlay", args)
    s, by = _strings(context, "overlay", args[:2])
    if not all(takes(INT, a.type) for a in args[2:]):
        mistyped("overlay", args)
    position, *count = (cast(context, a, INT) for a in args[2:])
    nulls = " OR ".join(f"{x.sql} IS NULL" for x in (s, by, position, *count))
    # For positions below 1 Spark counts from the end.
    bad = f"{position.sql} < 1"
    length = f"length({by.sql})"
    if count:
        length = f"CASE WHEN {count[0].sql} < 0 THEN length({by.sql}) ELSE {count[0].sql} END"
    rest = f"substring({s.sql}, CAST({position.sql} AS BIGINT) + {length})"
    sql = f"substring({s.sql}, 1, {position.sql} - 1) || {by.sql} || {rest}"
    sql = guarded(bad, "UNSUPPORTED_VALUE", "a place below 1 in `overlay`", sql, STRING)
    return made(STRING, f"CASE WHEN {nulls} THEN NULL ELSE {sql} END", s, by, position, *count, partial=True)
