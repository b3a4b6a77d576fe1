"""Digests and encodings of bytes."""

from __future__ import annotations

from deltaplane.expr.casts import cast
from deltaplane.expr.registry import Form, admit, forms
from deltaplane.expr.typed import Context, Typed, made, mistyped, refuse
from deltaplane.expr.types import BINARY, INT, LONG, STRING

_FAMILY = "hashes"

forms(_FAMILY, "md5", Form([BINARY], STRING, "md5({0})"))
forms(_FAMILY, "sha1 sha", Form([BINARY], STRING, "sha1({0})"))
forms(
    _FAMILY,
    "hex",
    Form([LONG], STRING, "hex({0})"),
    Form([STRING], STRING, "hex({0})"),
    Form([BINARY], STRING, "hex({0})"),
)


@admit(_FAMILY, "sha2")
def _sha2(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 2 or args[1].type != INT:
        mistyped("sha2", args)
    if args[1].literal not in ("0", "256"):
        refuse("`sha2` of another length than 256 bits")
    value = cast(context, args[0], BINARY)
    return made(STRING, f"sha256({value.sql})", value)
