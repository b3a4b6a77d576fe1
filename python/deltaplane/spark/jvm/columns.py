"""Renames the columns of Spark's file relation, which have the files' names, to the table's names.

A renamed column is an alias, through which Spark pushes filters and prunes columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.spark.jvm.schema import LENGTHS, quoted, shown

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["logical_columns", "with_file_names"]


def with_file_names(relation_schema: Mapping[str, Any], table_schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The relation's schema with the files' names in the CHAR and VARCHAR metadata of structs,
    since Spark pads values by these names.

    Args:
        relation_schema, table_schema: as in `logical_columns`.

    Raises:
        UnsupportedFeatureError: the metadata doesn't match the column's type.
    """
    fields = []
    for there, here in zip(relation_schema["fields"], table_schema["fields"], strict=True):
        note = there["metadata"].get(LENGTHS)
        if note is None or isinstance(there["type"], str):
            fields.append(there)
            continue
        made, rest = _noted(str(note), here["type"], there["type"])
        if rest:
            raise _unlike(here["name"], note)
        fields.append({**there, "metadata": {**there["metadata"], LENGTHS: made}})
    return {**relation_schema, "fields": fields}


def _noted(note: str, here: Any, there: Any) -> tuple[str, str]:
    """Splits CHAR and VARCHAR metadata after its first type, and returns that type under the files'
    names and the remaining text."""
    if isinstance(here, str):
        depth = 0
        for index, sign in enumerate(note):
            depth += {"(": 1, ")": -1}.get(sign, 0)
            if depth == 0 and sign in ",>":
                return note[:index], note[index:]
        return note, ""
    if here["type"] == "array":
        element, rest = _noted(_behind(note, "array<"), here["elementType"], there["elementType"])
        return f"array<{element}>", _behind(rest, ">")
    if here["type"] == "map":
        key, rest = _noted(_behind(note, "map<"), here["keyType"], there["keyType"])
        value, rest = _noted(_behind(rest, ","), here["valueType"], there["valueType"])
        return f"map<{key},{value}>", _behind(rest, ">")
    parts, rest = [], _behind(note, "struct<")
    for number, (own, other) in enumerate(zip(here["fields"], there["fields"], strict=True)):
        rest = rest if number == 0 else _behind(rest, ",")
        name = quoted(own["name"]) if rest.startswith("`") else own["name"]
        part, rest = _noted(_behind(rest, f"{name}:"), own["type"], other["type"])
        parts.append(f"{quoted(other['name'])}:{part}")
    return f"struct<{','.join(parts)}>", _behind(rest, ">")


def _behind(note: str, begins: str) -> str:
    if not note.lower().startswith(begins.lower()):
        raise _unlike(begins, note)
    return note[len(begins) :]


def _unlike(what: str, note: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"the note {LENGTHS} of a column says `{note}`, which isn't the column's type at `{what}`: write the table's schema anew"
    )


def logical_columns(
    relation: DataFrame, relation_schema: Mapping[str, Any], table_schema: Mapping[str, Any], *, by_id: bool
) -> DataFrame:
    """The relation's columns, in order, under the table's names at every depth.

    Args:
        relation: the frame of the files; columns behind those of the schema stay unchanged.
        relation_schema, table_schema: both schemas as plain values; they differ in names and
            metadata only.
        by_id: whether Spark finds the columns in files by id. When Spark reads only some nested
            fields it loses their ids and finds none, so nested fields are read together.
    """
    from pyspark.sql import functions as sf

    own, other = table_schema["fields"], relation_schema["fields"]
    # From here on columns are selected by position, so names may contain any character.
    beside = relation.columns[len(own) :]
    plain = relation.toDF(*[f"c{i}" for i in range(len(own))], *beside)
    columns = [
        _renamed(sf.col(f"c{i}"), there["type"], here["type"], by_id).alias(
            here["name"], metadata=shown(here)["metadata"]
        )
        for i, (here, there) in enumerate(zip(own, other, strict=True))
    ]
    return plain.select(*columns, *beside)


def _renamed(column: Column, there: Any, here: Any, by_id: bool) -> Column:
    """Renames the fields within a column to those of `here`."""
    if _names(there) == _names(here):
        return column
    if here["type"] == "struct" and not by_id:
        pairs = list(zip(there["fields"], here["fields"], strict=True))
        same_count = sum(1 for a, b in pairs if a["name"] == b["name"])
        if _are_apart(pairs, same_count):
            # Of all ways to rename fields in Spark, only this one preserves pushdown and pruning of
            # nested fields.
            for a, b in pairs:
                column_of = _renamed(column.getField(a["name"]), a["type"], b["type"], by_id)
                if a["name"] != b["name"] or _names(a["type"]) != _names(b["type"]):
                    column = column.withField(quoted(b["name"]), column_of)
            return column.dropFields(*[quoted(a["name"]) for a, _ in pairs[same_count:]])
    # Casts field by field in order, since the types differ only in names.
    return column.cast(_spark_type(here))


def _are_apart(pairs: list[Any], same_count: int) -> bool:
    """Whether the renamed columns can be appended: unchanged columns come first, and all names are
    distinct."""
    before = [a["name"].lower() for a, _ in pairs]
    after = [b["name"].lower() for _, b in pairs]
    stay = all(a["name"] == b["name"] for a, b in pairs[:same_count])
    return same_count < len(pairs) and stay and not set(before) & set(after[same_count:])


def _names(node: Any) -> Any:
    """A type's JSON without metadata."""
    if isinstance(node, list):
        return [_names(item) for item in node]
    if isinstance(node, dict):
        return {key: _names(value) for key, value in node.items() if key != "metadata"}
    return node


def _spark_type(node: Any) -> Any:
    from pyspark.sql.types import StructType

    field = {"name": "c", "type": shown(node), "nullable": True, "metadata": {}}
    return StructType.fromJson({"type": "struct", "fields": [field]})["c"].dataType
