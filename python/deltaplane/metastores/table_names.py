"""Names of tables in catalogs, as texts: `schema.table`, a part with a dot or a backtick in
backticks.

Knows no catalog.
"""

from __future__ import annotations

import re

from deltaplane.exceptions import InvalidArgumentError

__all__ = ["join_name", "split_name"]

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
# A longer part is no name of any catalog.
_LONGEST = 255


def split_name(name: str, parts: int = 2) -> tuple[str, ...]:
    """The parts of a name.

    Raises:
        InvalidArgumentError: another number of parts, or one that no catalog can have.

    >>> split_name("sales.orders"), split_name("`a.b`.`c``d`")
    (('sales', 'orders'), ('a.b', 'c`d'))
    """
    names: list[str] = []
    position = 0
    while isinstance(name, str) and (part := _PART.match(name, position)):
        names.append(part[1].replace("``", "`") if part[1] is not None else part[2])
        position = part.end()
        if position == len(name):
            break
        if name[position] != "." or position + 1 == len(name):
            names = []
            break
        position += 1
    if len(names) != parts or position != len(name):
        form = ".".join(("catalog", "schema", "table")[-parts:])
        raise InvalidArgumentError(
            f"a table's name in this catalog is {form}, with a part that has a dot in backticks, not {str(name)[:200]!r}"
        )
    for part_name in names:
        if len(part_name) > _LONGEST or not part_name.strip() or any(ord(c) < 32 or c == "\x7f" for c in part_name):
            raise InvalidArgumentError(
                f"a part of the name {str(name)[:200]!r} is empty, has control characters, or more than {_LONGEST} characters"
            )
        if any("\ud800" <= c <= "\udfff" for c in part_name):
            raise InvalidArgumentError(f"the name {str(name)[:200]!r} has half a character (a surrogate)")
    return tuple(names)


def join_name(*parts: str) -> str:
    """The text of a name's parts, which `split_name` reads.

    >>> join_name("sales", "orders"), join_name("a.b", "c`d")
    ('sales.orders', '`a.b`.`c``d`')
    """
    return ".".join(part if re.fullmatch(r"[^.`]+", part) else "`" + part.replace("`", "``") + "`" for part in parts)
