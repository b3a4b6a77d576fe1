"""Parses declarations of columns, as in CREATE TABLE and ALTER TABLE … ADD COLUMNS, and lists of
properties.

Doesn't access the table; the core checks the declarations.
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
# Names that Spark reserves in TBLPROPERTIES, in this spelling only, with the syntax to use instead.
_RESERVED = {
    "provider": "USING names the format",
    "location": "LOCATION names the place",
    "owner": "the catalog keeps the owner",
    "external": "a table with LOCATION is external",
    "is_managed_location": "the catalog keeps it",
    "table_type": "the catalog keeps it",
    "collation": "a Delta table has none but the binary one",
}


@dataclass
class Declaration:
    """A column: its path, type and options. `place` is `first`, or the column behind which it is
    placed."""

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
    """Parses one column; with `places` it may have a position, and its path may lead into a
    struct."""
    token = cursor.at
    path = cursor.names("a column's name") if places else (cursor.name("a column's name"),)
    sql_type = column_type(cursor)
    made = Declaration(path, sql_type.type, token, metadata=dict(sql_type.metadata))
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
    """Parses the options behind a column's type."""
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
    """Parses the name and the condition of `CONSTRAINT name CHECK (condition)`, behind the word
    CONSTRAINT."""
    name = cursor.name("the constraint's name")
    if cursor.peek() in ("primary", "foreign", "unique"):
        cursor.expected("CHECK, the one kind of constraint that tables have")
    cursor.expect("check", "(")
    condition = Clause.of_rows(cursor).text
    cursor.expect(")")
    return name, condition


def property_key(cursor: Grammar) -> str:
    """Parses a property's name: a string, or words with dots between them."""
    if cursor.kind() in ("string", "raw"):
        return cursor.text("a property's name")
    return ".".join(cursor.names("a property's name"))


def refuse_reserved(cursor: Grammar, token: int, keys: Iterable[str]) -> None:
    """Refuses names of table properties that Spark reserves; `token` is where their list begins.

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
    """Parses `(name = value, …)`."""
    values: dict[str, str] = {}

    def read_property() -> None:
        token = cursor.at
        key = property_key(cursor)
        if key in values:
            cursor.wrong(f"expected each property once: `{key}` comes twice", cursor.tokens[token].start)
        cursor.take("=")
        values[key] = _property_value(cursor)

    cursor.listed(read_property)
    return values


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
