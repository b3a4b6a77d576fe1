"""Refuses Delta statements on names without a Delta table: the error says whether the name is a
view's, another format's table or unknown, while Spark's parser would only report the first keyword.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltaplane.exceptions import SqlSyntaxError, TableNotFoundError, UnsupportedFeatureError
from deltaplane.queries.grammar import Grammar
from deltaplane.spark.jvm.internals import Jvm
from deltaplane.spark.jvm.names import held_location, other_holder
from deltaplane.spark.session_hooks.catalog_tables import is_path, name_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["refuse_directory", "refuse_no_table"]

Words = Sequence[str]

# The keywords before the table's name; None matches any word.
_BEGINNINGS: tuple[tuple[str | None, ...], ...] = (
    ("optimize",),
    ("vacuum",),
    ("describe", "detail"),
    ("desc", "detail"),
    ("describe", "history"),
    ("desc", "history"),
    ("restore", "table"),
    ("restore",),
    ("reorg", "table"),
    ("fsck", "repair", "table"),
    ("generate", None, "for", "table"),
    ("convert", "to", "delta"),
    ("alter", "table"),
    ("delete", "from"),
    ("update",),
    ("merge", "into"),
    ("merge", "with", "schema", "evolution", "into"),
)
_DELTA_DIRECTORY = re.compile(
    r"(?is)\s*(?:with\b.*)?insert\s+overwrite\s+(?:local\s+)?directory\s*(?:'[^']*'|\"[^\"]*\")?\s*using\s+`?delta\b"
)
# Statements that views and tables of other formats support as well, except those listed here.
_CHANGES_ROWS = ("delete", "update", "merge")


def refuse_no_table(spark: SparkSession, text: str) -> None:
    """Refuses a statement that only Delta tables support if its name isn't a Delta table's; accepts
    others.

    Raises:
        TableNotFoundError: the name isn't a Delta table's; the message says what it is.
    """
    try:
        cursor = Grammar(text, own_queries=False)
    except SqlSyntaxError:
        return
    words = [token.text.lower() for token in cursor.tokens]
    for begins in _BEGINNINGS:
        if len(words) > len(begins) and all(want in (None, word) for want, word in zip(begins, words, strict=False)):
            _check(spark, cursor, words, len(begins))
            return
    if words[:1] == ["create"] and "clone" in words and (index := words.index("clone") + 1) < len(words):
        _refuse_clone(spark, name_at(cursor, index))


def refuse_directory(text: str) -> None:
    """Refuses INSERT OVERWRITE DIRECTORY of the format delta; accepts other formats.

    Raises:
        UnsupportedFeatureError: the format is delta.
    """
    if _DELTA_DIRECTORY.match(text):
        raise UnsupportedFeatureError(
            "INSERT OVERWRITE DIRECTORY writes files, and a Delta table has a log too: use INSERT OVERWRITE delta.`path`"
        )


def _check(spark: SparkSession, cursor: Grammar, words: Words, index: int) -> None:
    parts = name_at(cursor, index)
    if not _is_catalogs(parts):
        return
    name, first = ".".join(parts), words[0]
    behind = words[index + 2 * len(parts) - 1 :]
    if first == "alter" and not _alters_delta(behind):
        return
    is_view, other = _holder(spark, name, parts)
    does = _called(words, behind)
    if first in _CHANGES_ROWS:
        if other == "a view" and not is_view:
            raise TableNotFoundError(
                f"{_quoted(parts)} is a view that the catalog keeps, and {does} changes the rows of Delta tables: name its table"
            )
        return
    if other is None:
        if held_location(spark, name) is None:
            raise _missing(parts)
    elif other == "a view":
        if first == "convert" and is_view:
            raise _missing(parts)
        raise TableNotFoundError(f"{_quoted(parts)} is a view, and {does} takes a Delta table: name the view's table")
    elif first not in ("alter", "convert") or "sync" in behind or "feature" in behind:
        raise TableNotFoundError(
            f"{_quoted(parts)} is {other} and no Delta table, and {does} takes Delta tables: CONVERT TO DELTA makes "
            "one of Parquet files"
        )


def _alters_delta(behind: Words) -> bool:
    """Whether a change of a table isn't one of Spark's own, or is one that Spark wrongly accepts
    for views."""
    return list(behind[:2]) in (["drop", "feature"], ["add", "constraint"]) or list(behind[-2:]) == ["sync", "identity"]


def _refuse_clone(spark: SparkSession, parts: list[str]) -> None:
    if not _is_catalogs(parts):
        return
    name = ".".join(parts)
    other = _holder(spark, name, parts)[1]
    if other == "a view":
        raise TableNotFoundError(f"{_quoted(parts)} is a view, which can't be cloned: clone the view's table")
    if other is None and held_location(spark, name) is None:
        raise _missing(parts)


def _holder(spark: SparkSession, name: str, parts: Sequence[str]) -> tuple[bool, str | None]:
    """Whether a temporary view has the name, and the kind of other entry that has it."""
    plain = [part.strip("`") for part in parts]
    if Jvm.of(spark).is_temp_view(spark, plain):
        return True, "a view"
    return False, other_holder(spark, name)


def _is_catalogs(parts: list[str]) -> bool:
    """Whether a name belongs to Spark's own catalog, and is neither a path nor a name of another
    format."""
    if not parts or is_path(parts) or len(parts) > 3:
        return False
    if len(parts) == 2 and parts[1].startswith("`") and "/" in parts[1]:
        return False
    return len(parts) < 3 or parts[0].strip("`").lower() == "spark_catalog"


def _missing(parts: Sequence[str]) -> TableNotFoundError:
    return TableNotFoundError(
        f"the session's catalog has no table {_quoted(parts)}: create it, or name a table's path as delta.`/path`"
    )


def _called(words: Words, behind: Words) -> str:
    """The statement's name, from its first keywords."""
    if words[0] == "alter":
        return "ALTER TABLE … SYNC IDENTITY" if "sync" in behind else f"ALTER TABLE … {' '.join(behind[:2]).upper()}"
    if words[0] in ("describe", "desc"):
        return f"DESCRIBE {words[1].upper()}"
    return {"convert": "CONVERT TO DELTA", "reorg": "REORG TABLE", "fsck": "FSCK REPAIR TABLE"}.get(
        words[0], words[0].upper()
    )


def _quoted(parts: Sequence[str]) -> str:
    return f"`{'.'.join(part.strip('`') for part in parts)}`"
