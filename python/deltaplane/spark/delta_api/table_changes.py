"""Replaces `table_changes` and `table_changes_by_path` in a query's text by temporary views of the
change data feed."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.spark.delta_api.feed import feed
from deltaplane.spark.jvm.moments import moment
from deltaplane.spark.jvm.names import location_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["called_changes", "calls_changes", "changes_in_views"]

# Matches quoted text and comments, the beginning of a call, and parentheses.
_WORDS = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/"""
    r"""|\b(?P<call>table_changes(?:_by_path)?)\s*\(|(?P<sign>[()])""",
    re.DOTALL | re.IGNORECASE,
)


@contextmanager
def changes_in_views(spark: SparkSession, text: str) -> Iterator[str]:
    """The text with a view for each call, valid within the block.

    Raises:
        InvalidArgumentError: the arguments aren't a table, a start and an optional end.
    """
    views, shown, position = list[str](), "", 0
    try:
        for begin, end, name, arguments in _calls(text):
            view = f"deltaplane_{uuid.uuid4().hex}"
            _feed(spark, name, arguments).createOrReplaceTempView(view)
            views.append(view)
            shown, position = f"{shown}{text[position:begin]}{view}", end
        yield shown + text[position:]
    finally:
        for view in views:
            spark.catalog.dropTempView(view)


def calls_changes(text: str) -> bool:
    """Whether a SQL text calls `table_changes` or `table_changes_by_path`."""
    return any(True for _ in _calls(text))


def called_changes(spark: SparkSession, text: str) -> DataFrame:
    """The changes that the first call in a text asks for.

    Raises:
        InvalidArgumentError: as `changes_in_views`, or a text that calls neither function.
    """
    for _, _, name, arguments in _calls(text):
        return _feed(spark, name, arguments)
    raise InvalidArgumentError(f"no call of table_changes is in `{text}`: write table_changes('table', start)")


def _calls(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Start and end of each call, the function, and its arguments."""
    if "table_changes" not in text.lower():
        return
    begin, arguments, depth, name = 0, 0, 0, ""
    for match in _WORDS.finditer(text):
        if depth:
            depth += {"(": 1, ")": -1}.get(match.group()[-1] if match["call"] or match["sign"] else "", 0)
            if not depth:
                yield begin, match.end(), name, text[arguments : match.start()]
        elif match["call"]:
            begin, arguments, depth, name = match.start(), match.end(), 1, match["call"].lower()


def _feed(spark: SparkSession, name: str, arguments: str) -> DataFrame:
    """The changes that a call requests."""
    call: tuple[Any, ...] = ()
    if arguments.strip():
        (row,) = DataFrame(spark._jsparkSession.sql(f"SELECT {arguments}"), spark).collect()
        call = tuple(row)
    if len(call) not in (2, 3) or not isinstance(call[0], str):
        raise InvalidArgumentError(
            f"{name} takes a table, where its changes begin and perhaps where they end: {arguments}"
        )
    location = call[0] if name.endswith("path") else location_of(spark, call[0])
    if any(value is None for value in call[1:]):
        raise InvalidArgumentError(f"{name} takes no NULL for where changes begin or end: leave the end out")
    for value in call[1:]:
        if not isinstance(value, (int, str, date)) or isinstance(value, bool):
            raise InvalidArgumentError(
                f"{name} takes a version or a timestamp for where changes begin and end, not the {type(value).__name__} {value}"
            )
        if isinstance(value, int) and value < 0:
            raise InvalidArgumentError(f"versions count from 0: {value} isn't one", table=location)
    bounds = [value if isinstance(value, int) else moment(spark, str(value)) for value in call[1:]]
    return feed(spark, location, None, bounds[0], bounds[1] if len(bounds) > 1 else None)
