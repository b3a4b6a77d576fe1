"""LIKE and RLIKE with a constant pattern, and splitting at a constant text without the signs of regular expressions."""

from __future__ import annotations

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.casts import cast
from deltaplane.expr.coerce import takes
from deltaplane.expr.regex import LAST_TERMINATOR, translated
from deltaplane.expr.registry import admit
from deltaplane.expr.typed import Context, Typed, made, mistyped, refuse
from deltaplane.expr.types import BOOLEAN, STRING, array, text

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
    quoted = "'" + escape.replace("'", "''") + "'"
    return made(BOOLEAN, f"({subject.sql} LIKE {pattern.sql} ESCAPE {quoted})", subject)


def _check(pattern: str, escape: str) -> None:
    characters = iter(pattern)
    for c in characters:
        if c == escape and (after := next(characters, "")) not in ("%", "_", escape):
            raise InvalidArgumentError(f"LIKE's pattern {pattern!r} has its escape before {after!r}, not before % or _")


@admit(_FAMILY, "split")
def _split(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 2 or not takes(STRING, args[0].type):
        mistyped("split", args)
    at = args[1].literal
    if not at or any(c in "\\^$.|?*+()[]{}" for c in at):
        refuse("`split` at a regular expression")
    subject = cast(context, args[0], STRING)
    return made(array(STRING), f"string_split({subject.sql}, {args[1].sql})", subject)


@admit(_FAMILY, "rlike", "regexp", "regexp_like")
def _rlike(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 2 or not takes(STRING, args[0].type):
        mistyped("rlike", args)
    if args[1].literal is None or args[1].type != STRING:
        refuse("RLIKE with a pattern that isn't a constant")
    pattern = translated(args[1].literal)
    subject, found = cast(context, args[0], STRING), text(pattern.text)
    sql = f"regexp_matches({subject.sql}, {found})"
    if pattern.at_end:
        before = f"regexp_replace({subject.sql}, {text(LAST_TERMINATOR)}, '')"
        sql = f"({sql} OR regexp_matches({before}, {found}))"
    return made(BOOLEAN, sql, subject)
