"""Double quotes in expressions: a string in Spark SQL, a column in ANSI SQL, and refused if either
may be meant.

Decides which double-quoted texts are ambiguous; callers say which names are columns. Texts of a
Spark session keep Spark's meaning (`spark_texts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NoReturn

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.columns import Columns
from deltaplane.expr.strings import double_quoted, unescape
from deltaplane.expr.syntax import Call, Cast, Literal, Name, Syntax, Variable, parse, shown

__all__ = ["refuse_unclear", "refuse_unclear_tree", "spark_texts", "with_backticks"]

_as_spark: ContextVar[bool] = ContextVar("deltaplane_spark_texts", default=False)
_TESTS = frozenset("= == <> != < <= > >= <=> in between like ilike rlike isnull isnotnull".split())
_LOGIC = ("and", "or", "not")


@contextmanager
def spark_texts() -> Iterator[None]:
    """Within the block double-quoted texts are strings, as in the statements of a Spark session."""
    token = _as_spark.set(True)
    try:
        yield
    finally:
        _as_spark.reset(token)


def refuse_unclear(sql: str, columns: Columns, *, is_condition: bool = True) -> None:
    """Refuses an expression with a double-quoted text that may be a column.

    A double-quoted text is ambiguous if it names a column, or if it is in a comparison, or in a
    condition, without any column.

    Raises:
        InvalidArgumentError: an ambiguous text; the message shows both spellings.

    >>> from deltaplane._native import TableSchema
    >>> from deltaplane.expr.columns import columns_of
    >>> field = '{"name": "day", "type": "long", "nullable": true, "metadata": {}}'
    >>> schema = TableSchema(f'{{"type": "struct", "fields": [{field}]}}')
    >>> refuse_unclear('"day" > 1', columns_of(lambda: schema))
    Traceback (most recent call last):
    deltaplane.exceptions.InvalidArgumentError: "day" is in double quotes, which make a text in Spark SQL, ...
    """
    if '"' in sql and not _as_spark.get():
        refuse_unclear_tree(parse(sql), columns, sql, is_condition=is_condition)


def refuse_unclear_tree(node: Syntax, columns: Columns, sql: str, *, is_condition: bool) -> None:
    """Checks a tree as `refuse_unclear` does; `sql` is the text of which the tree is a part."""
    if '"' not in sql or _as_spark.get():
        return
    quoted = _Quoted(columns, sql)
    try:
        quoted.look(node)
        if is_condition:
            quoted.refuse_constant(node)
    except RecursionError as e:
        raise InvalidArgumentError(
            f"the expression is nested too deeply: write its texts in single quotes ({shown(sql)})"
        ) from e


class _Quoted:
    """Finds double-quoted texts in the tree of one expression."""

    def __init__(self, columns: Columns, sql: str) -> None:
        self._columns = columns
        self._sql = sql

    def look(self, node: Syntax) -> tuple[Literal | None, bool]:
        """The first double-quoted text of a tree, and whether the tree names a column."""
        if isinstance(node, Literal):
            if not node.double_quoted:
                return None, False
            self._refuse_column(node)
            return node, False
        if isinstance(node, Name | Variable):
            return None, True
        if isinstance(node, Cast):
            return self.look(node.arg)
        if node.name == "." and isinstance(node.args[0], Literal) and node.args[0].double_quoted:
            self._refuse(str(node.args[0].value), ", and a text has no fields")
        # Calls within queries use other relations, whose columns are checked when these are
        # planned.
        constant, named = None, type(node) is not Call
        for arg in node.args:
            arg_constant, names = self.look(arg)
            constant, named = constant or arg_constant, named or names
        if node.name in _TESTS and constant is not None and not named:
            self._refuse(str(constant.value), ", and what it is compared with names no column")
        return constant, named

    def refuse_constant(self, node: Syntax) -> None:
        """Refuses parts of a condition with a double-quoted text and no column."""
        left = [node]
        while left:
            part = left.pop()
            if type(part) is Call and part.name in _LOGIC:
                left.extend(part.args)
                continue
            constant, named = self.look(part)
            if constant is not None and not named:
                self._refuse(str(constant.value), ", and the condition names no column")

    def _refuse_column(self, node: Literal) -> None:
        text = str(node.value)
        for parts in ([text], text.split(".")):
            if self._columns(parts):
                self._refuse(text, ", and a column has this name", parts)

    def _refuse(self, text: str, why: str, parts: Sequence[str] | None = None) -> NoReturn:
        column = ".".join("`" + part.replace("`", "``") + "`" for part in parts or [text])
        single = text.replace("\\", "\\\\").replace("'", "\\'")
        raise InvalidArgumentError(
            f'"{shown(text)}" is in double quotes, which make a text in Spark SQL{why}: write {shown(column)} in backticks '
            f"for a column, or '{shown(single)}' in single quotes for a text (in `{shown(self._sql)}`)"
        )


def with_backticks(sql: str) -> str:
    """An expression or statement with double-quoted names in backticks, for Spark sessions in which
    `spark.sql.ansi.doubleQuotedIdentifiers` makes them names.

    >>> with_backticks('''"s" != 'say "no"' AND t."a b" > 1''')
    '`s` != \\'say "no"\\' AND t.`a b` > 1'
    """
    if '"' not in sql:
        return sql
    made, copied = "", 0
    for start, end in double_quoted(sql):
        name = unescape(sql[start + 1 : end - 1], '"').replace("`", "``")
        made += f"{sql[copied:start]}`{name}`"
        copied = end
    return made + sql[copied:]
