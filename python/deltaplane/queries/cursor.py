"""Parses a statement word by word, with the parser of expressions; errors have position and
expectation.

Defines no statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, NoReturn, TypeVar

from deltaplane.exceptions import DeltaError, InvalidArgumentError, SqlSyntaxError, UnsupportedExpressionError
from deltaplane.expr.syntax import Parser, Token, pattern
from deltaplane.report.caller_words import Door, in_words_of

__all__ = ["Cursor", "quoted", "unqualified"]

T = TypeVar("T")


class Cursor(Parser):
    """Reads one statement.

    >>> Cursor("DELETE FORM t").expect("delete", "from")
    Traceback (most recent call last):
    deltaplane.exceptions.SqlSyntaxError: line 1, column 8: expected FROM, found `FORM`
    """

    pattern: ClassVar[re.Pattern[str]] = pattern(";:")

    def wrong(self, why: str, place: int | None = None) -> NoReturn:
        line, column = self.line_and_column(self.place() if place is None else place)
        raise SqlSyntaxError(f"line {line}, column {column}: {why}", line=line, column=column)

    def expected(self, what: str) -> NoReturn:
        """Raises a syntax error that names the expectation and the next token."""
        self.wrong(f"expected {what}, found {self.next_text()}")

    def expect(self, *wanted: str) -> None:
        for word in wanted:
            if not self.take(word):
                self.expected(word.upper() if word.isalpha() else f"`{word}`")

    def place_of(self, token: int) -> tuple[int, int]:
        """Line and column of the token with this index."""
        return self.line_and_column(self.tokens[token].start if token < len(self.tokens) else len(self.sql))

    def line_and_column(self, place: int) -> tuple[int, int]:
        """Line and column, both from 1, of a position in the text."""
        before = self.sql[:place]
        return before.count("\n") + 1, place - (before.rfind("\n") + 1) + 1

    def place(self) -> int:
        """The position at which the next token begins."""
        return self.tokens[self.at].start if self.at < len(self.tokens) else len(self.sql.rstrip())

    def next_text(self) -> str:
        """The next token, formatted for error messages."""
        if self.at >= len(self.tokens):
            return "the end"
        text = self.tokens[self.at].text
        shown = text if len(text) <= 40 else text[:40] + "…"
        return shown if shown.startswith("`") else f"`{shown}`"

    def end(self) -> None:
        """Accepts a final semicolon and requires the end of the text."""
        ended = self.take(";")
        while self.take(";"):
            pass
        if self.at < len(self.tokens):
            if ended:
                self.wrong("expected the end, found another statement: give one at a time")
            self.expected("the end")

    def text_from(self, start: int) -> str:
        """The original text from the token with this index up to the next token."""
        if start >= self.at:
            return ""
        return self.sql[self.tokens[start].start : self.tokens[self.at - 1].end]

    def tokens_from(self, start: int) -> list[Token]:
        """The tokens from this index up to the next token."""
        return self.tokens[start : self.at]

    # --- common pieces ---

    def name(self, what: str) -> str:
        """A name; `what` describes it in the error if there is none."""
        if self.kind() not in ("name", "quoted"):
            self.expected(what)
        return self.identifier()

    def names(self, what: str) -> tuple[str, ...]:
        """Names with dots between them."""
        names = [self.name(what)]
        while self.take("."):
            names.append(self.name(what))
        return tuple(names)

    def dotted(self, what: str) -> str:
        """A column's path in the API's form: parts that aren't plain words are in backticks."""
        return ".".join(quoted(part) for part in self.names(what))

    def listed(self, read_item: Callable[[], T]) -> list[T]:
        """One or more items in parentheses, separated by commas."""
        self.expect("(")
        items = self.several(read_item)
        self.expect(")")
        return items

    def several(self, read_item: Callable[[], T]) -> list[T]:
        """One or more items, separated by commas."""
        items = [read_item()]
        while self.take(","):
            items.append(read_item())
        return items

    def text(self, what: str) -> str:
        """A string, read as Spark reads it."""
        if self.kind() not in ("string", "raw"):
            self.expected(what)
        return str(self.string().value)

    def whole_number(self, what: str, *, negative: bool = False) -> int:
        """A whole number."""
        sign = -1 if negative and self.take("-") else 1
        digits = self.tokens[self.at].text if self.kind() == "number" else ""
        if not re.fullmatch(r"\d{1,19}[lL]?", digits):
            self.expected(what)
        self.at += 1
        return sign * int(digits.rstrip("lL"))

    def close_angle(self) -> None:
        """Skips one `>`, of which several in a row are one token."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        if token is None or token.text not in (">", ">>", ">>>"):
            self.expected("`>`")
        if token.text == ">":
            self.at += 1
        else:
            self.tokens[self.at] = Token(token.kind, token.text[1:], token.start + 1)

    @contextmanager
    def located(self, token: int) -> Iterator[None]:
        """Adds the position in the statement to errors about an expression's meaning."""
        try:
            yield
        except SqlSyntaxError:
            raise
        except (InvalidArgumentError, UnsupportedExpressionError) as e:
            if str(e).startswith("line "):
                raise
            line, column = self.place_of(token)
            raise _moved(e, f"line {line}, column {column}: {in_words_of(Door.SQL, str(e))}") from e


def _moved(e: DeltaError, message: str) -> DeltaError:
    return type(e)(message, table=e.table, version=e.version, path=e.path)


def quoted(name: str) -> str:
    """A name as one part of a column's path.

    >>> quoted("day"), quoted("a.b")
    ('day', '`a.b`')
    """
    if re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name):
        return name
    return "`" + name.replace("`", "``") + "`"


def unqualified(tokens: list[Token], sql: str, qualifiers: list[tuple[str, ...]], columns: set[str]) -> str:
    """The text of an expression over one table, without the table's name before columns.

    A qualifier applies only if a column follows, as in Spark: `t.x` is the table's `x` if it has
    one, otherwise the field `x` of a column `t`.

    >>> cursor = Cursor("t.x > 1 AND t.y = 't.x'")
    >>> _ = cursor.expression()
    >>> unqualified(cursor.tokens, cursor.sql, [("t",)], {"x"})
    "x > 1 AND t.y = 't.x'"
    """
    if not tokens:
        return ""
    cut: list[tuple[int, int]] = []
    i = 0
    while i < len(tokens):
        run = _run(tokens, i)
        if not run:
            i += 1
            continue
        for qualifier in qualifiers:
            n = len(qualifier)
            begins = [p.lower() for p in run[:n]] == [q.lower() for q in qualifier]
            if begins and len(run) > n and run[n].lower() in columns:
                cut.append((tokens[i].start, tokens[i + 2 * n].start))
                break
        i += 2 * len(run) - 1
    made, copied = "", tokens[0].start
    for start, end in cut:
        made += sql[copied:start]
        copied = end
    return made + sql[copied : tokens[-1].end]


def _run(tokens: list[Token], i: int) -> list[str]:
    """The dotted names that begin at a token; empty inside another run."""
    parts: list[str] = []
    while i < len(tokens) and tokens[i].kind in ("name", "quoted"):
        text = tokens[i].text
        parts.append(text if tokens[i].kind == "name" else text[1:-1].replace("``", "`"))
        if i + 1 >= len(tokens) or tokens[i + 1].text != ".":
            break
        i += 2
    return parts
