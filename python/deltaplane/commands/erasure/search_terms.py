"""The values that a condition names, and how they are recognised in texts and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr import parse
from deltaplane.expr.values import text_literal

__all__ = ["SearchTerms", "Value"]

# Bounds of texts may be cut to their first characters, of which Delta's writers keep 32.
_CUT = 16
# Keys of JSON below which columns have values.
_BY_COLUMN = {"minValues", "maxValues", "partitionValues"}
_TEXTS = {"string", "binary", "date", "timestamp", "timestamp_ntz"}


class Value(NamedTuple):
    """A value of a column, as its text, and whether it is a text or a time rather than a number."""

    column: tuple[str, ...]
    text: str
    is_text: bool


class SearchTerms:
    """The values that a condition compares columns with.

    >>> terms = SearchTerms.of("email = 'a@b.c' OR id IN (7, 8)")
    >>> [value.text for value in terms.values], terms.columns
    (['a@b.c', '7', '8'], ['email', 'id'])
    >>> terms.in_text("DELETE WHERE (id = 7)"), terms.in_text("id = 77")
    (True, False)
    """

    def __init__(self, where: str, values: list[Value]) -> None:
        self.where = where
        self.values = values

    @classmethod
    def of(cls, where: str) -> SearchTerms:
        """The values of a condition.

        Raises:
            InvalidArgumentError: the condition names none, or compares in another way.
        """
        tree = parse(where)
        values = list(dict.fromkeys(_values(tree.to_dict()))) if tree is not None else []
        if not values:
            raise InvalidArgumentError(f"the condition {where!r} names no value to search for: write column = value")
        return cls(where, values)

    @property
    def columns(self) -> list[str]:
        """The top-level columns that are compared, in their order."""
        return list(dict.fromkeys(value.column[0] for value in self.values))

    def in_text(self, text: str) -> bool:
        """Whether a text holds a value, as a word of its own; a number only beside its column's
        name."""
        return any(
            re.search(rf"(?<!\w){re.escape(form)}(?!\w)", text, re.IGNORECASE) is not None
            and (value.is_text or re.search(rf"(?<!\w){re.escape(value.column[-1])}(?!\w)", text, re.IGNORECASE))
            for value in self.values
            for form in {value.text, text_literal(value.text)[1:-1]}
        )

    def in_json(self, document: Any, names: dict[str, str]) -> Iterator[str]:
        """The paths of values within a JSON document, such as `add.stats.minValues.email`.

        Args:
            document: a parsed document; texts that are JSON are searched as such.
            names: the names of columns by the names that files have for them.
        """
        yield from self._below(document, (), None, names)

    def _below(self, part: Any, path: tuple[str, ...], column: str | None, names: dict[str, str]) -> Iterator[str]:
        if isinstance(part, dict):
            for key, value in part.items():
                inside = column is not None or (path and path[-1] in _BY_COLUMN)
                yield from self._below(value, (*path, str(key)), names.get(key, key) if inside else None, names)
                if column is None and not inside and self.in_text(str(key)):
                    yield ".".join((*path, str(key)))
        elif isinstance(part, (list, tuple)):
            for value in part:
                yield from self._below(value, path, column, names)
        elif isinstance(part, str) and column is None and part[:1] in ("{", "["):
            try:
                document = json.loads(part)
            except ValueError:
                document = None
            if isinstance(document, (dict, list)):
                yield from self._below(document, path, column, names)
            elif self.in_text(part):
                yield ".".join(path)
        elif part is not None and not isinstance(part, bool) and self._is_value(part, column):
            yield ".".join(path)

    def _is_value(self, part: Any, column: str | None) -> bool:
        if column is None:
            return isinstance(part, str) and self.in_text(part)
        return any(_equal(part, value) for value in self.values if value.column[-1].lower() == column.lower())


def _equal(part: Any, value: Value) -> bool:
    text = part if isinstance(part, str) else str(part)
    if text == value.text:
        return True
    if value.is_text:
        # A text's bound may be cut, and its last character raised.
        is_cut = (
            len(value.text) > _CUT and len(text) >= _CUT and value.text.startswith(text[: max(_CUT, len(text) - 1)])
        )
        return is_cut or _moment(text) == _moment(value.text)
    try:
        return Decimal(text) == Decimal(value.text)
    except InvalidOperation:
        return False


def _moment(text: str) -> str:
    """A time in one form: the log writes a T, a zone and fractions of a second, literals may
    not."""
    plain = text.replace("T", " ").removesuffix("Z").removesuffix(" UTC")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _values(node: dict[str, Any]) -> Iterator[Value]:
    match node:
        case {"op": "and" | "or", "args": parts}:
            for part in parts:
                yield from _values(part)
        case {"op": "compare", "cmp": "=" | "<=>", "left": left, "right": right}:
            yield from _compared(left, right)
        case {"op": "in", "arg": column, "list": literals}:
            for literal in literals:
                yield from _compared(column, literal)
        case _:
            raise InvalidArgumentError(
                f"a search for erased values can't use the comparison {node.get('cmp', node.get('op'))!r}: compare columns with values "
                "by =, <=> or IN, combined by AND and OR"
            )


def _compared(left: dict[str, Any], right: dict[str, Any]) -> Iterator[Value]:
    if left.get("op") != "column":
        left, right = right, left
    kind = None
    while right.get("op") == "cast":
        kind, right = right["type"], right["arg"]
    if left.get("op") != "column" or right.get("op") != "literal" or right["value"] is None:
        raise InvalidArgumentError(
            "a search for erased values needs comparisons of a column with a value that isn't null"
        )
    name = kind or right["type"]
    yield Value(tuple(left["name"]), right["value"], name in _TEXTS or name.startswith(("char", "varchar")))
