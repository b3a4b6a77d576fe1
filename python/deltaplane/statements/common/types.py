"""Parses column types in SQL. CHAR(n) and VARCHAR(n) become strings whose lengths are stored in the
column's metadata (P102).

Defines no statement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane.schema import ArrayType, DataType, Field, MapType, PrimitiveType, StructType
from deltaplane.table.ddl_types import type_text

if TYPE_CHECKING:
    from deltaplane.queries.grammar import Grammar

__all__ = ["LENGTHS", "SqlType", "column_type"]

# The key of a column's metadata under which Spark stores a type with lengths.
LENGTHS = "__CHAR_VARCHAR_TYPE_STRING"

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
    # A column of nulls only, which takes the type of later data.
    "void": "void",
}


@dataclass(frozen=True)
class SqlType:
    """A column's type and, if it has lengths, the text that Spark stores for it."""

    type: DataType
    lengths: str | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """The column metadata that the type requires."""
        return {} if self.lengths is None else {LENGTHS: self.lengths}

    @property
    def text(self) -> str:
        """The type in Spark's notation."""
        return type_text(self.type) if self.lengths is None else self.lengths


def column_type(cursor: Grammar) -> SqlType:
    """Parses the next type."""
    cursor.deeper()
    made = _column_type(cursor)
    cursor.depth -= 1
    return made


def _column_type(cursor: Grammar) -> SqlType:
    word = cursor.peek()
    if word in ("array", "map", "struct"):
        cursor.at += 1
        return _nested(cursor, word)
    if word in ("decimal", "dec", "numeric"):
        cursor.at += 1
        return SqlType(PrimitiveType(_decimal(cursor)))
    if word in ("char", "varchar", "character"):
        cursor.at += 1
        return _text(cursor, "varchar" if word == "varchar" else "char")
    if word not in _WORDS:
        cursor.expected("a type")
    cursor.at += 1
    if cursor.peek() == "(":
        cursor.expected(f"no size behind {word.upper()}, which takes none (UNSUPPORTED_DATATYPE)")
    if word == "string" and cursor.take("collate"):
        _check_collation(cursor)
    return SqlType(PrimitiveType(_WORDS[word]))


def _check_collation(cursor: Grammar) -> None:
    """Parses a collation; a table has the one that compares bytes."""
    token, name = cursor.at, cursor.name("a collation's name")
    if name.lower() != "utf8_binary":
        cursor.wrong(
            f"expected no collation but UTF8_BINARY, found `{name}`: a table's texts compare by their bytes; compare with "
            "lower(…) or collate(…) in queries instead",
            cursor.tokens[token].start,
        )


def _text(cursor: Grammar, kind: str) -> SqlType:
    if cursor.peek() != "(":
        cursor.expected(f"a length in parentheses behind {kind.upper()} (DATATYPE_MISSING_SIZE)")
    token = cursor.at
    sizes = cursor.listed(lambda: cursor.whole_number("a number of characters"))
    if len(sizes) > 1 or sizes[0] < 0:
        cursor.wrong(f"expected one length behind {kind.upper()}", cursor.tokens[token].start)
    return SqlType(PrimitiveType("string"), f"{kind}({sizes[0]})")


def _decimal(cursor: Grammar) -> str:
    token = cursor.at
    sizes = cursor.listed(lambda: cursor.whole_number("a number of digits")) if cursor.peek() == "(" else [10]
    precision, scale = (*sizes, 0)[:2]
    if len(sizes) <= 2 and precision > 38:
        cursor.wrong(f"expected DECIMAL with up to 38 digits, not {precision}", cursor.tokens[token].start)
    if len(sizes) == 2 and scale > precision:
        cursor.wrong(f"expected DECIMAL with a scale up to {precision}, not {scale}", cursor.tokens[token].start)
    if len(sizes) > 2 or not 1 <= precision <= 38:
        cursor.wrong("expected DECIMAL(precision, scale) with up to 38 digits", cursor.tokens[token].start)
    return f"decimal({precision},{scale})"


def _nested(cursor: Grammar, word: str) -> SqlType:
    if word == "struct" and cursor.take("<>"):
        return SqlType(StructType([]))
    if cursor.peek() != "<":
        cursor.expected(f"`<` and the types of its parts behind {word.upper()} (INCOMPLETE_TYPE_DEFINITION)")
    cursor.expect("<")
    made: DataType
    if word == "array":
        parts = [column_type(cursor)]
        made = ArrayType(parts[0].type)
        text = f"array<{parts[0].text}>"
    elif word == "map":
        token = cursor.at
        key = column_type(cursor)
        if key.type == PrimitiveType("void"):
            cursor.wrong(
                "expected a type for the keys of a map: keys are never null, so that VOID has none",
                cursor.tokens[token].start,
            )
        cursor.expect(",")
        parts = [key, column_type(cursor)]
        made = MapType(key.type, parts[1].type)
        text = f"map<{parts[0].text},{parts[1].text}>"
    else:
        named = [_field(cursor)]
        while cursor.take(","):
            named.append(_field(cursor))
        parts = [sql_type for _, sql_type in named]
        made = StructType([field for field, _ in named])
        text = f"struct<{','.join(f'{_name(field)}:{sql_type.text}' for field, sql_type in named)}>"
    cursor.close_angle()
    return SqlType(made, text if any(part.lengths is not None for part in parts) else None)


def _name(field: Field) -> str:
    return field.name if re.fullmatch(r"[A-Za-z_]\w*", field.name) else "`" + field.name.replace("`", "``") + "`"


def _field(cursor: Grammar) -> tuple[Field, SqlType]:
    name = cursor.name("a field's name")
    cursor.take(":")
    sql_type = column_type(cursor)
    nullable = not cursor.take("not", "null")
    metadata = {"comment": cursor.text("a comment")} if cursor.take("comment") else {}
    return Field(name, sql_type.type, nullable, metadata), sql_type
