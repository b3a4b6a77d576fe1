"""LIKE and RLIKE with a constant pattern, matches of a regular expression, and splitting at a
constant text without special characters of regular expressions."""

from __future__ import annotations

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.casts import cast
from deltaplane.expr.coerce import takes
from deltaplane.expr.functions.regex import LAST_TERMINATOR, Pattern, translated
from deltaplane.expr.registry import ENTRIES, admit
from deltaplane.expr.typed import Context, Typed, guarded, made, mistyped, refuse
from deltaplane.expr.types import BOOLEAN, INT, STRING, array, text

_FAMILY = "patterns"


@admit(_FAMILY, "like")
def _like(context: Context, args: list[Typed]) -> Typed:
    value, pattern = args[0], args[1]
    escape = args[2].literal if len(args) == 3 else "\\"
    if not takes(STRING, value.type):
        mistyped("like", args)
    if pattern.literal is None or pattern.type != STRING or escape is None or len(escape) != 1:
        refuse("LIKE with a pattern that isn't a constant")
    _check(pattern.literal, escape)
    subject = cast(context, value, STRING)
    # DuckDB searches by parts of the pattern only if it has no escape.
    escaped = f" ESCAPE {text(escape)}" if escape in pattern.literal else ""
    return made(BOOLEAN, f"({subject.sql} LIKE {pattern.sql}{escaped})", subject)


@admit(_FAMILY, "ilike")
def _ilike(context: Context, args: list[Typed]) -> Typed:
    value, pattern, *escape = args
    written = pattern.literal
    if not takes(STRING, value.type):
        mistyped("ilike", args)
    if written is None or not written.isascii() or any((e.literal or "a").isalpha() for e in escape):
        refuse("ILIKE with a pattern that isn't a constant of ASCII's letters")
    small = written.lower()
    lowered = ENTRIES["lower"].lower(context, [value])
    return _like(context, [lowered, Typed(STRING, text(small), literal=small, constant=True), *escape])


def _check(pattern: str, escape: str) -> None:
    characters = iter(pattern)
    for c in characters:
        if c == escape and (after := next(characters, "")) not in ("%", "_", escape):
            raise InvalidArgumentError(f"LIKE's pattern {pattern!r} has its escape before {after!r}, not before % or _")


@admit(_FAMILY, "split")
def _split(context: Context, args: list[Typed]) -> Typed:
    if len(args) not in (2, 3) or not takes(STRING, args[0].type) or not all(takes(INT, a.type) for a in args[2:]):
        mistyped("split", args)
    delimiter = args[1].literal
    if not delimiter or any(c in "\\^$.|?*+()[]{}" for c in delimiter):
        refuse("`split` at a regular expression")
    subject = cast(context, args[0], STRING)
    parts = f"string_split({subject.sql}, {args[1].sql})"
    if len(args) == 2:
        return made(array(STRING), parts, subject)
    most = cast(context, args[2], INT)
    rest = f"array_to_string(list_slice(p, {most.sql}, len(p)), {args[1].sql})"
    cut = f"list_concat(list_slice(p, 1, {most.sql} - 1), [{rest}])"
    few = f"list_transform([{parts}], lambda p: CASE WHEN {most.sql} <= 0 OR len(p) <= {most.sql} THEN p ELSE {cut} END)[1]"
    nulls = f"{subject.sql} IS NULL OR {most.sql} IS NULL"
    return made(array(STRING), f"CASE WHEN {nulls} THEN NULL ELSE {few} END", subject, most)


@admit(_FAMILY, "rlike", "regexp", "regexp_like")
def _rlike(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 2 or not takes(STRING, args[0].type):
        mistyped("rlike", args)
    if args[1].literal is None or args[1].type != STRING:
        refuse("RLIKE with a pattern that isn't a constant")
    pattern = translated(args[1].literal)
    subject, regex = cast(context, args[0], STRING), text(pattern.text)
    sql = f"regexp_matches({subject.sql}, {regex})"
    if pattern.at_end:
        before = f"regexp_replace({subject.sql}, {text(LAST_TERMINATOR)}, '')"
        sql = f"({sql} OR regexp_matches({before}, {regex}))"
    return made(BOOLEAN, sql, subject)


def _finding(context: Context, name: str, args: list[Typed]) -> tuple[Typed, Pattern]:
    """The text to search, and the pattern."""
    if not takes(STRING, args[0].type):
        mistyped(name, args)
    if args[1].literal is None or args[1].type != STRING:
        refuse(f"`{name}` with a pattern that isn't a constant")
    return cast(context, args[0], STRING), translated(args[1].literal, captures=True)


def _guarded_match(subject: Typed, pattern: Pattern, sql: str) -> Typed:
    """The match; a row whose text ends with a line terminator is refused if that decides what `$`
    matches."""
    if not pattern.at_end:
        return made(STRING, sql, subject)
    ends = f"regexp_matches({subject.sql}, {text(LAST_TERMINATOR)})"
    sql = guarded(ends, "UNSUPPORTED_VALUE", "a text with a line's end, where `$` is looked for,", sql, STRING)
    return made(STRING, sql, subject, partial=True)


@admit(_FAMILY, "regexp_extract")
def _extract(context: Context, args: list[Typed]) -> Typed:
    if len(args) not in (2, 3):
        mistyped("regexp_extract", args)
    subject, pattern = _finding(context, "regexp_extract", args)
    group = _group("regexp_extract", args, pattern)
    return _guarded_match(subject, pattern, f"regexp_extract({subject.sql}, {text(pattern.text)}, {group})")


@admit(_FAMILY, "regexp_substr")
def _first_match(context: Context, args: list[Typed]) -> Typed:
    subject, pattern = _finding_some(context, "regexp_substr", args)
    return _guarded_match(subject, pattern, f"nullif(regexp_extract({subject.sql}, {text(pattern.text)}, 0), '')")


@admit(_FAMILY, "regexp_count")
def _count_matches(context: Context, args: list[Typed]) -> Typed:
    subject, pattern = _finding_some(context, "regexp_count", args)
    if pattern.at_end:
        refuse("`regexp_count` of `$`")
    return made(INT, f"CAST(len(regexp_extract_all({subject.sql}, {text(pattern.text)})) AS INTEGER)", subject)


@admit(_FAMILY, "regexp_extract_all")
def _all_matches(context: Context, args: list[Typed]) -> Typed:
    if len(args) not in (2, 3):
        mistyped("regexp_extract_all", args)
    subject, pattern = _finding_some(context, "regexp_extract_all", args[:2])
    group = _group("regexp_extract_all", args, pattern)
    if pattern.at_end:
        refuse("`regexp_extract_all` of `$`")
    matches = f"regexp_extract_all({subject.sql}, {text(pattern.text)}, {group})"
    # A group that takes no part in the match is an empty text.
    return made(array(STRING), f"list_transform({matches}, lambda m: coalesce(m, ''))", subject)


def _finding_some(context: Context, name: str, args: list[Typed]) -> tuple[Typed, Pattern]:
    """The text to search, and a pattern that matches no empty text: the engines find different ones
    between two matches."""
    if len(args) != 2:
        mistyped(name, args)
    subject, pattern = _finding(context, name, args)
    if pattern.empty:
        refuse(f"`{name}` of what may be nothing")
    return subject, pattern


def _group(name: str, args: list[Typed], pattern: Pattern) -> int:
    """The number of the group whose text is wanted."""
    group = args[2].literal if len(args) == 3 else "1"
    if group is None or args[-1].type not in (INT, STRING) or not group.isdigit():
        refuse(f"`{name}` of a group that isn't a constant")
    if int(group) > pattern.groups:
        raise InvalidArgumentError(f"`{name}` of group {group}, but the pattern has {pattern.groups}")
    return int(group)


@admit(_FAMILY, "regexp_replace")
def _replace(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 3:
        refuse("`regexp_replace` from a place on")
    subject, pattern = _finding(context, "regexp_replace", args)
    if pattern.empty:
        refuse("`regexp_replace` of what may be nothing")
    if args[2].literal is None or args[2].type != STRING:
        refuse("`regexp_replace` with a replacement that isn't a constant")
    by = text(_replacement(args[2].literal, pattern.groups))
    return _guarded_match(subject, pattern, f"regexp_replace({subject.sql}, {text(pattern.text)}, {by}, 'g')")


def _replacement(java: str, groups: int) -> str:
    """Converts Java's replacement syntax to RE2's."""
    made, index = "", 0
    while index < len(java):
        char, after = java[index], java[index + 1 : index + 2]
        index += 1
        if char in "\\$" and not after:
            raise InvalidArgumentError(f"the replacement {java!r} ends with {char!r}")
        if char == "$":
            if not (after.isascii() and after.isdigit()):
                refuse(f"`${after}` in the replacement {java!r}")
            if int(after) > groups or java[index + 1 : index + 2].isdigit():
                refuse(f"the group `$` of the replacement {java!r}")
            made, index = made + "\\" + after, index + 1
            continue
        if char == "\\":
            char, index = after, index + 1
        made += "\\\\" if char == "\\" else char
    return made
