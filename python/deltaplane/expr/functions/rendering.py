"""Values as text: by the formats of Java's Formatter, and as JSON."""

from __future__ import annotations

import re
from functools import partial

from deltaplane.expr.casts import cast, in_calendar
from deltaplane.expr.registry import admit
from deltaplane.expr.typed import Context, Typed, made, mistyped, refuse
from deltaplane.expr.types import BINARY, DATE, STRING, TIMESTAMP, SparkType, text

_FAMILY = "text"
_SPECIFIER = re.compile(r"%(-)?(0)?([1-9]\d{0,2})?([sdx%n])")
_WITHIN = r"[^\x{10000}-\x{10ffff}]"
_SMALLEST = {8: "128", 16: "32768", 32: "2147483648", 64: "9223372036854775808"}
# Java writes small decimals with more fractional digits than this with an exponent; a cast doesn't.
_MOST_SCALE = 6

# --- Java's Formatter ---


@admit(_FAMILY, "format_string", "printf")
def _format_string(context: Context, args: list[Typed]) -> Typed:
    if not args or args[0].type != STRING:
        mistyped("format_string", args)
    if args[0].literal is None:
        refuse("`format_string` with a format that isn't a constant")
    rest, values, parts = args[0].literal, list(args[1:]), [Typed(STRING, "''")]
    while rest:
        plain, sign, behind = rest.partition("%")
        parts += [Typed(STRING, text(plain))] if plain else []
        if not sign:
            break
        match = _SPECIFIER.match(sign + behind)
        if match is None or (match[2] and match[4] not in "dx") or (match[1] and (match[2] or not match[3])):
            refuse(f"the format `{rest[len(plain) : len(plain) + 8]}` in `format_string`")
        rest = behind[match.end() - 1 :]
        if match[4] in "%n":
            if match[3] or match[1] or match[2]:
                refuse(f"the format `{match[0]}` in `format_string`")
            parts.append(Typed(STRING, text("%" if match[4] == "%" else "\n")))
            continue
        if not values:
            mistyped("format_string", args)
        parts.append(_formatted(context, match, values.pop(0)))
    return made(STRING, "(" + " || ".join(p.sql for p in parts) + ")", *args, *parts)


def _formatted(context: Context, match: re.Match[str], value: Typed) -> Typed:
    """One formatted value; null is the word `null`."""
    left, zeros, width, kind = match.groups()
    size = int(width or 0)
    if zeros and not width:
        refuse(f"the format `{match[0]}` in `format_string`")
    if kind == "s":
        if value.type.parts or value.type.name in ("binary", "void", "date", "timestamp", "timestamp_ntz"):
            # Spark passes their internal representation to Java.
            refuse(f"`format_string` with %s for {value.type}")
        if value.type.scale > _MOST_SCALE:
            refuse(f"`format_string` with %s for {value.type}")
        shown = cast(context, value, STRING)
    elif not value.type.integral:
        mistyped("format_string", [value])
    elif kind == "d":
        shown = cast(context, value, STRING)
    else:
        # The digits of a negative number in the type's width.
        above = f"CAST({value.sql} AS HUGEINT) + CASE WHEN {value.sql} < 0 THEN 2 * CAST('{_SMALLEST[value.type.bits]}' AS HUGEINT) ELSE 0 END"
        shown = made(STRING, f"lower(hex(CAST({above} AS UBIGINT)))", value)
    sql = shown.sql
    if zeros:
        sign = f"CASE WHEN {value.sql} < 0 THEN '-' ELSE '' END" if kind == "d" else "''"
        digits = f"ltrim({sql}, '-')"
        room = f"{size} - length({sign})"
        sql = f"({sign} || repeat('0', greatest(({room}) - length({digits}), 0)) || {digits})"
    sql = f"coalesce({sql}, 'null')"
    if size:
        # Java counts a character beyond the first 65,536 twice.
        length = f"(length({sql}) + length(regexp_replace({sql}, '{_WITHIN}', '', 'g')))"
        blanks = f"repeat(' ', greatest({size} - {length}, 0))"
        sql = f"({sql} || {blanks})" if left else f"({blanks} || {sql})"
    return made(STRING, sql, shown)


# --- JSON ---


@admit(_FAMILY, "to_json")
def _to_json(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 1 or args[0].type.name not in ("struct", "array", "map"):
        refuse("`to_json` with options, or of a value without parts")
    (value,) = args
    refused: list[bool] = []
    sql = _json(context, value.type, value.sql, refused, 0)
    return made(STRING, f"CASE WHEN {value.sql} IS NULL THEN NULL ELSE {sql} END", value, partial=any(refused))


def _json(context: Context, data_type: SparkType, value: str, refused: list[bool], depth: int) -> str:
    """The text of a non-null value; `refused` collects whether rows may be refused."""
    inner = partial(_json, context, refused=refused, depth=depth + 1)
    x = f"j{depth}"
    if data_type.name == "struct":
        fields = [
            f"CASE WHEN {field} IS NULL THEN NULL ELSE {text(_string(name) + ':')} || {inner(t, field)} END"
            for name, t in zip(data_type.fields, data_type.parts, strict=True)
            if t.name != "void"
            for field in [f"struct_extract({x}, {text(name)})"]
        ]
        joined = f"array_to_string(CAST([{', '.join(fields)}] AS VARCHAR[]), ',')"
        # Bound to a name, since each field uses it.
        return f"('{{' || list_transform([{value}], lambda {x}: coalesce({joined}, ''))[1] || '}}')"
    if data_type.name == "array":
        items = f"CASE WHEN {x} IS NULL THEN 'null' ELSE {inner(data_type.parts[0], x)} END"
        joined = f"array_to_string(list_transform({value}, lambda {x}: {items}), ',')"
        return f"('[' || coalesce({joined}, '') || ']')"
    if data_type.name == "map":
        if data_type.parts[0] != STRING:
            refuse(f"`to_json` of {data_type}")
        item, key = inner(data_type.parts[1], f"{x}.value"), _escaped(f"{x}.key")
        entry = f"{key} || ':' || CASE WHEN {x}.value IS NULL THEN 'null' ELSE {item} END"
        joined = f"array_to_string(list_transform(map_entries({value}), lambda {x}: {entry}), ',')"
        return f"('{{' || coalesce({joined}, '') || '}}')"
    return _primitive(context, data_type, value, refused)


def _primitive(context: Context, data_type: SparkType, value: str, refused: list[bool]) -> str:
    if data_type == STRING:
        return _escaped(value)
    if data_type == BINARY:
        return f"('\"' || to_base64({value}) || '\"')"
    if data_type == DATE:
        refused.append(True)
        return f"""('"' || {in_calendar(value, f"strftime({value}, '%Y-%m-%d')", STRING)} || '"')"""
    if data_type.name in ("timestamp", "timestamp_ntz"):
        refused.append(True)
        local = context.shifted(value, to_local=True) if data_type == TIMESTAMP else value
        shown = f"""(strftime({local}, '%Y-%m-%dT%H:%M:%S.') || left(strftime({local}, '%f'), 3))"""
        zone = text(_zone(context.offset_us or 0)) if data_type == TIMESTAMP else "''"
        return f"""('"' || {in_calendar(local, shown, STRING)} || {zone} || '"')"""
    if data_type.name == "decimal" and data_type.scale > _MOST_SCALE:
        refuse(f"`to_json` of {data_type}")
    if not (data_type.numeric or data_type.name == "boolean"):
        refuse(f"`to_json` of {data_type}")
    number = cast(context, Typed(data_type, value), STRING)
    refused.append(number.partial)
    if data_type.fractional:
        return f"CASE WHEN isfinite({value}) THEN {number.sql} ELSE '\"' || {number.sql} || '\"' END"
    return number.sql


def _zone(offset_us: int) -> str:
    if offset_us == 0:
        return "Z"
    hours, minutes = divmod(abs(offset_us) // 60_000_000, 60)
    return f"{'-' if offset_us < 0 else '+'}{hours:02}:{minutes:02}"


def _escaped(value: str) -> str:
    return f"CAST(to_json({value}) AS VARCHAR)"


def _string(name: str) -> str:
    import json

    return json.dumps(name, ensure_ascii=False)
