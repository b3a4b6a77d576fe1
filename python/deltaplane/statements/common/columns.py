"""Declarations of columns, as CREATE TABLE and ALTER TABLE … ADD COLUMNS have them, and lists of
properties.

Knows no table; what a declaration means for the table is the core's to judge.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from deltaplane.queries.grammar import Grammar
from deltaplane.schema import DataType, Field
from deltaplane.statements.common.statement import Clause
from deltaplane.statements.common.types import column_type
from deltaplane.write.declarations import check_identity

__all__ = ["Declaration", "check", "declaration", "properties", "property_key", "refuse_reserved"]

_GENERATED = "delta.generationExpression"
_DEFAULT = "CURRENT_DEFAULT"
_IDENTITY = "delta.identity."
# Names that Spark reserves in TBLPROPERTIES, in this spelling alone, each with what to use instead.
_RESERVED = {
    "provider": "USING names the format",
    "location": "LOCATION names the place",
    "owner": "the catalog keeps the owner",
    "external": "a table with LOCATION is external",
    "is_managed_location": "the catalog keeps it",
    "table_type": "the catalog keeps it",
}


@dataclass
class Declaration:
    """A column: its path, its type, and what was said of it. `place` is `first`, or the column that
    it comes after."""

    path: tuple[str, ...]
    type: DataType
    token: int
    nullable: bool = True
    metadata: dict[str, Any] = field(default_factory=dict)
    first: bool = False
    after: str | None = None

    @property
    def field(self) -> Field:
        """The column as a field of a schema."""
        return Field(self.path[-1], self.type, self.nullable, self.metadata)


def declaration(cursor: Grammar, *, places: bool = False) -> Declaration:
    """One column; with `places` it may say where it goes, and its path may lead into a struct."""
    token = cursor.at
    path = cursor.names("a column's name") if places else (cursor.name("a column's name"),)
    of = column_type(cursor)
    made = Declaration(path, of.type, token, metadata=dict(of.metadata))
    _read_rest(cursor, made, places=places)
    if _DEFAULT in made.metadata and _GENERATED in made.metadata:
        cursor.wrong(
            f"expected one of DEFAULT and GENERATED: `{path[-1]}` is generated, so it has no default",
            cursor.tokens[token].start,
        )
    if _DEFAULT in made.metadata and "delta.identity.start" in made.metadata:
        cursor.wrong(
            f"expected one of DEFAULT and GENERATED: `{path[-1]}` is an identity column, so it has no default",
            cursor.tokens[token].start,
        )
    return made


def _read_rest(cursor: Grammar, made: Declaration, *, places: bool) -> None:
    """What stands behind a column's type."""
    while True:
        if cursor.take("not", "null"):
            made.nullable = False
        elif cursor.take("comment"):
            made.metadata["comment"] = cursor.text("a comment")
        elif cursor.take("default"):
            made.metadata[_DEFAULT] = Clause.read(cursor).text
        elif cursor.peek() == "generated":
            _generated(cursor, made)
            check_identity(made.path[-1], made.type.to_value(), made.metadata)
        elif places and cursor.take("first"):
            made.first = True
        elif places and cursor.take("after"):
            made.after = cursor.name("a column's name")
        else:
            return


def _generated(cursor: Grammar, made: Declaration) -> None:
    token = cursor.at
    cursor.expect("generated")
    always = cursor.take("always")
    if not always:
        cursor.expect("by", "default")
    cursor.expect("as")
    if cursor.take("identity"):
        made.metadata |= _identity(cursor, always)
        return
    if not always:
        cursor.wrong("expected ALWAYS: a value by default is DEFAULT, or AS IDENTITY", cursor.tokens[token].start)
    cursor.expect("(")
    made.metadata[_GENERATED] = Clause.read(cursor).text
    cursor.expect(")")


def _identity(cursor: Grammar, always: bool) -> dict[str, Any]:
    start, step = 1, 1
    if cursor.take("("):
        seen: set[str] = set()
        while not cursor.take(")"):
            if (word := (cursor.peek() or "").upper()) in seen:
                cursor.wrong(f"expected {word} once in an identity column", cursor.place())
            seen.add(word)
            if cursor.take("start"):
                cursor.take("with")
                start = cursor.whole_number("a whole number", negative=True)
            elif cursor.take("increment"):
                cursor.take("by")
                token = cursor.at
                step = cursor.whole_number("a whole number", negative=True)
                if step == 0:
                    cursor.wrong("expected a step other than 0", cursor.tokens[token].start)
            else:
                cursor.expected("START WITH, INCREMENT BY or `)`")
            cursor.take(",")
    return {f"{_IDENTITY}start": start, f"{_IDENTITY}step": step, f"{_IDENTITY}allowExplicitInsert": not always}


def check(cursor: Grammar) -> tuple[str, str]:
    """The name and the condition of `CONSTRAINT name CHECK (condition)`, behind its first word."""
    name = cursor.name("the constraint's name")
    if cursor.peek() in ("primary", "foreign", "unique"):
        cursor.expected("CHECK, the one kind of constraint that tables have")
    cursor.expect("check", "(")
    condition = Clause.read(cursor).text
    cursor.expect(")")
    return name, condition


def property_key(cursor: Grammar) -> str:
    """A property's name: a string, or words with dots between them."""
    if cursor.kind() in ("string", "raw"):
        return cursor.text("a property's name")
    return ".".join(cursor.names("a property's name"))


def refuse_reserved(cursor: Grammar, token: int, keys: Iterable[str]) -> None:
    """Refuses properties of a table whose names Spark reserves; their list begins with a token.

    Raises:
        SqlSyntaxError: one of them is reserved.
    """
    for key in keys:
        if key in _RESERVED:
            cursor.wrong(
                f"expected other properties: `{key}` is a reserved table property; {_RESERVED[key]}",
                cursor.tokens[token].start,
            )


def properties(cursor: Grammar) -> dict[str, str]:
    """`(name = value, …)`."""
    found: dict[str, str] = {}

    def one() -> None:
        token = cursor.at
        key = property_key(cursor)
        if key in found:
            cursor.wrong(f"expected each property once: `{key}` comes twice", cursor.tokens[token].start)
        cursor.take("=")
        found[key] = _property_value(cursor)

    cursor.listed(one)
    return found


def _property_value(cursor: Grammar) -> str:
    if cursor.kind() in ("string", "raw"):
        return cursor.text("a value")
    if cursor.peek() in ("true", "false"):
        cursor.at += 1
        return cursor.tokens[cursor.at - 1].text.lower()
    sign = "-" if cursor.take("-") else ""
    if cursor.kind() != "number":
        cursor.expected("a value: text, a number, TRUE or FALSE")
    cursor.at += 1
    return sign + cursor.tokens[cursor.at - 1].text
