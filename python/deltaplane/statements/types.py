"""The types of columns as SQL writes them, read.

Knows no statement. Called by statements that make columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaplane.schema import ArrayType, DataType, Field, MapType, PrimitiveType, StructType

if TYPE_CHECKING:
    from deltaplane.queries.grammar import Grammar

__all__ = ["column_type"]

_WORDS = {
    **dict.fromkeys(("boolean",), "boolean"),
    **dict.fromkeys(("tinyint", "byte"), "byte"),
    **dict.fromkeys(("smallint", "short"), "short"),
    **dict.fromkeys(("int", "integer"), "integer"),
    **dict.fromkeys(("bigint", "long"), "long"),
    **dict.fromkeys(("float", "real"), "float"),
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    **dict.fromkeys(("timestamp", "timestamp_ltz"), "timestamp"),
    "timestamp_ntz": "timestamp_ntz",
    "variant": "variant",
    # A column of nulls alone, which takes the type of later data.
    "void": "void",
}


def column_type(cursor: Grammar) -> DataType:
    """The type that comes next."""
    cursor.deeper()
    made = _column_type(cursor)
    cursor.depth -= 1
    return made


def _column_type(cursor: Grammar) -> DataType:
    word = cursor.peek()
    if word in ("array", "map", "struct"):
        cursor.at += 1
        return _nested(cursor, word)
    if word in ("decimal", "dec", "numeric"):
        cursor.at += 1
        return PrimitiveType(_decimal(cursor))
    if word in ("char", "varchar", "character"):
        cursor.expected("STRING, since lengths aren't kept by the table")
    if word not in _WORDS:
        cursor.expected("a type")
    cursor.at += 1
    return PrimitiveType(_WORDS[word])


def _decimal(cursor: Grammar) -> str:
    token = cursor.at
    sizes = cursor.listed(lambda: cursor.whole_number("a number of digits")) if cursor.peek() == "(" else [10]
    precision, scale = (*sizes, 0)[:2]
    if len(sizes) > 2 or not 1 <= precision <= 38 or scale > precision:
        cursor.wrong("expected DECIMAL(precision, scale) with up to 38 digits", cursor.tokens[token].start)
    return f"decimal({precision},{scale})"


def _nested(cursor: Grammar, word: str) -> DataType:
    if word == "struct" and cursor.take("<>"):
        return StructType([])
    cursor.expect("<")
    made: DataType
    if word == "array":
        made = ArrayType(column_type(cursor))
    elif word == "map":
        key = column_type(cursor)
        cursor.expect(",")
        made = MapType(key, column_type(cursor))
    else:
        fields = [_field(cursor)]
        while cursor.take(","):
            fields.append(_field(cursor))
        made = StructType(fields)
    cursor.close_angle()
    return made


def _field(cursor: Grammar) -> Field:
    name = cursor.name("a field's name")
    cursor.take(":")
    of = column_type(cursor)
    nullable = not cursor.take("not", "null")
    metadata = {"comment": cursor.text("a comment")} if cursor.take("comment") else {}
    return Field(name, of, nullable, metadata)
