"""Translates DELETE, UPDATE and MERGE of a temporary view that selects columns of one Delta table
to statements about the table.

As in delta-spark, other views, such as ones with a condition, are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.queries.grammar import Grammar
from deltaplane.spark.jvm.internals import Jvm
from deltaplane.spark.jvm.names import FORMATS, held_location, shown_path
from deltaplane.spark.jvm.schema import quoted
from deltaplane.table.delta_table import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["about_the_table", "check_no_columns", "makes_view_of_source"]


def about_the_table(spark: SparkSession, text: str, name: Sequence[str], place: int, run: str) -> str | None:
    """Translates a statement about a temporary view to one about the view's table; the view's name
    begins at a position in the text. Returns None if the name isn't a temporary view's, or the view
    reads no Delta table. `run` is the statement's first keyword.

    Raises:
        InvalidArgumentError: the view does more than select columns of a table, or the statement
            can't be translated.
    """
    jvm = Jvm.of(spark)
    if not jvm.is_temp_view(spark, name):
        return None
    view = spark.table(".".join(map(quoted, name)))
    fields = jvm.plain_view(view)
    if fields is None:
        if not jvm.reads_tables(view):
            return None
        raise InvalidArgumentError(
            f"DELTA_NOT_A_DELTA_TABLE: `{'.'.join(name)}` is a view that isn't just columns of a Delta table, so its rows can't be "
            f"changed: {run} the table, with the view's condition"
        )
    parts, pairs = fields[: fields.index("")], fields[fields.index("") + 1 :]
    location, shown = _table(spark, parts)
    columns = dict(zip(map(str.lower, pairs[::2]), pairs[1::2], strict=True))
    table = DeltaTable(location)
    own = {field.name.lower() for field in table.schema().fields}
    if not {column.lower() for column in columns.values()} <= own:
        raise InvalidArgumentError(
            f"the view `{'.'.join(name)}` shows other columns than the table has now: create the view again",
            table=location,
        )
    cursor = Grammar(text, own_queries=False)
    index = next(i for i, token in enumerate(cursor.tokens) if token.start == place)
    cursor.at = index
    cursor.names("a table")
    behind = cursor.at
    named = cursor.peek() == "as" or (
        cursor.kind() in ("name", "quoted") and cursor.peek() not in ("set", "where", "using")
    )
    alias = "" if named else f" AS {quoted(name[-1])}"
    called = cursor.tokens[behind + (cursor.peek() == "as")].text.strip("`") if named else name[-1]
    end = cursor.tokens[behind - 1].end
    renaming = _Renaming(cursor, called, columns, own, whole=set(columns) == own)
    return f"{text[:place]}{shown}{alias}{renaming.text(behind, end, merges=run == 'MERGE')}"


def _table(spark: SparkSession, parts: Sequence[str]) -> tuple[str, str]:
    """A table's location, and its name in the form for statements."""
    if len(parts) == 3 and parts[1].lower() not in ("delta", "deltaplane"):
        shown = ".".join(map(quoted, parts))
        location = held_location(spark, shown)
        if location is not None:
            return location, shown
    path = shown_path(parts[-1])
    return path, f"delta.{quoted(path) if quoted(path).startswith('`') else f'`{path}`'}"


class _Renaming:
    """Replaces the view's columns in a statement's text by the table's."""

    def __init__(self, cursor: Grammar, called: str, columns: Mapping[str, str], own: set[str], *, whole: bool) -> None:
        self._cursor, self._called, self._columns, self._own = cursor, called.lower(), columns, own
        self._same = all(name == column.lower() for name, column in columns.items())
        self._whole = whole and self._same

    def text(self, begin: int, position: int, *, merges: bool) -> str:
        """The text behind the table's name, from a token and a position on."""
        tokens, sql = self._cursor.tokens, self._cursor.sql
        if self._whole:
            return sql[position:]
        words = [token.text.lower() for token in tokens]
        if "select" in words[begin:] and not merges:
            raise InvalidArgumentError(
                f"a subquery can't stand in a statement on the view `{self._called}`, which shows other columns than its table: name "
                "the table instead"
            )
        if merges and any(words[i] == "*" and words[i - 1] in ("set", "insert") for i in range(begin, len(words))):
            raise InvalidArgumentError(
                f"`*` can't stand for the columns of the view `{self._called}`, which shows other columns than its table: name them"
            )
        made, sets, inserts, depth = "", False, -1, 0
        i = begin
        while i < len(tokens):
            word = words[i]
            depth += {"(": 1, ")": -1}.get(word, 0)
            if word == "set" or (sets and word == "," and depth == 0):
                sets = True
            elif word in ("when", "where"):
                sets = False
            if word == "(" and words[i - 1] == "insert":
                inserts = depth
            elif word == ")" and depth < inserts:
                inserts = -1
            run = _run(self._cursor, i)
            if run == 0 or (i > 0 and words[i - 1] in ("as", ".")):
                i += 1
                continue
            named = tokens[i + 2 * run - 2 : i + 2 * run - 1]
            calls = words[i + 2 * run - 1 : i + 2 * run] == ["("]
            target = (sets and words[i - 1] in ("set", ",") and depth == 0) or inserts == depth
            column = self._column(i, run, target=target or not merges, qualified_only=merges and not target)
            if not calls and column is not None and named:
                token, name = column
                made += sql[position : tokens[token].start] + quoted(name)
                position = tokens[token].end
            i += 2 * run - 1
        return made + sql[position:]

    def _column(self, i: int, run: int, *, target: bool, qualified_only: bool) -> tuple[int, str] | None:
        """The index of a token that is a column of the view, and the table's name for that
        column."""
        tokens = self._cursor.tokens
        parts = [tokens[i + 2 * n].text.strip("`").lower() for n in range(run)]
        if run > 1 and parts[0] == self._called:
            index, name = i + 2, parts[1]
        else:
            index, name = i, parts[0]
            if qualified_only:
                if name in self._columns and self._columns[name].lower() != name:
                    raise InvalidArgumentError(
                        f"`{name}` may be the view's or the source's column: write {self._called}.{name} for the view's"
                    )
                return None
        if name in self._columns:
            return index, self._columns[name]
        if name in self._own:
            raise InvalidArgumentError(f"the view `{self._called}` has no column `{name}`: name its table instead")
        return None


def _run(cursor: Grammar, i: int) -> int:
    """The number of dotted names that begin at a token."""
    count, tokens = 0, cursor.tokens
    while i < len(tokens) and tokens[i].kind in ("name", "quoted"):
        count += 1
        if i + 1 >= len(tokens) or tokens[i + 1].text != ".":
            break
        i += 2
    return count


def check_no_columns(cursor: Grammar) -> None:
    """Refuses CREATE TEMPORARY VIEW or TABLE … (columns) USING delta, as delta-spark does: the
    columns are those of the table, and without a table there would be rows of nothing.

    Raises:
        InvalidArgumentError: the statement lists columns.
    """
    words = [token.text.lower() for token in cursor.tokens]
    begins = next((place for place, word in enumerate(words) if word in ("view", "table")), len(words))
    listed = next((place for place, word in enumerate(words) if word == "(" and place > begins), len(words))
    using = next((place for place in range(begins, len(words)) if words[place] == "using"), len(words))
    if using + 1 < len(words) and words[using + 1].strip("`") in FORMATS and listed < using:
        raise InvalidArgumentError(
            "a temporary view USING delta takes no list of columns, as the table has them: leave the list out, or create a "
            "table without TEMPORARY"
        )


def makes_view_of_source(spark: SparkSession, text: str) -> bool:
    """Runs CREATE TEMPORARY VIEW or TABLE … USING delta by the session's reader, for PySpark 3.5,
    which has no such format of its own; returns False for another format.
    """
    provider, parts, replaces, is_global, options = Jvm.of(spark).view_using(spark, text)
    if provider not in FORMATS:
        return False
    frame = spark.read.format(provider).options(**options).load()
    name = ".".join(map(quoted, parts))
    if is_global:
        make = frame.createOrReplaceGlobalTempView if replaces else frame.createGlobalTempView
    else:
        make = frame.createOrReplaceTempView if replaces else frame.createTempView
    make(name)
    return True
