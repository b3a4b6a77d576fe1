"""Rewrites quoted values of CSV as Spark reads them: an escape is special only between quotes.

pyarrow's own escape applies everywhere, so that `C:\\temp` would lose its backslash. Therefore the
text is rewritten while it is read: an escaped quote becomes a doubled one, which pyarrow reads
without an escape. Works on bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from deltaplane.exceptions import SchemaMismatchError

__all__ = ["DoubledQuotes"]

_MARK = b"\xef\xbb\xbf"
# Maximum number of fields per match, since each field takes memory.
_MOST_FIELDS = 1000
# Number of bytes around a position that an error message shows.
_SHOWN = 40


class DoubledQuotes:
    """Rewrites a text block by block, with one block in memory; an empty block ends it. Separator,
    quote and escape are single bytes.

    Raises:
        SchemaMismatchError: text after a closing quote, or an unclosed quote: any further reading
            would be a guess.

    >>> rewritten = DoubledQuotes(b",", b'"', b"\\\\")
    >>> (rewritten(rb'1,C:\\t,"C:\\t","a') + rewritten(rb'\\"b","\\\\"') + rewritten(b"")).decode()
    '1,C:\\\\t,"C:\\\\t","a""b","\\\\"'
    """

    def __init__(self, separator: bytes, quote: bytes, escape: bytes) -> None:
        self._quote, self._ends = quote, separator + b"\r\n"
        ends, signs = _any(self._ends), _any(quote + escape)
        plain, quoted = _none(quote + self._ends), _none(quote + escape)
        twice = re.escape(quote * 2)
        # Unchanged fields, each with its separator.
        field = rb"(?:%b%b*(?:%b%b*)*%b|(?:%b%b*)?)%b" % (
            re.escape(quote),
            quoted,
            twice,
            quoted,
            re.escape(quote),
            plain,
            _none(self._ends),
            ends,
        )
        self._plain = re.compile(rb"(?:%b){1,%d}" % (field, _MOST_FIELDS))
        self._end = re.compile(ends)
        self._sign = re.compile(rb"%b%b?" % (signs, signs))
        self._blank = re.compile(_any(bytes(sign for sign in b" \t" if sign not in separator)) + b"*")
        # The replacements between quotes; if escape and quote are the same character, only the
        # doubled one.
        self._pairs = {escape + quote: quote * 2, escape * 2: escape, quote * 2: quote * 2}
        self._step: Callable[[bytes, int, list[bytes]], int] = self._at_field
        self._held, self._begun, self._last = b"", False, False

    def __call__(self, block: Any) -> bytes:
        """The next block, rewritten."""
        self._last = not len(block)
        data = self._held + bytes(block)
        if not self._begun and data:
            # UTF-8's byte order mark would hide that a quote begins the first field.
            data, self._begun = data.removeprefix(_MARK), True
        self._held = b""
        if self._step in (self._at_field, self._in_field) and self._quote not in data:
            return self._unquoted(data)
        position, out = 0, list[bytes]()
        while position < len(data):
            position = self._step(data, position, out)
        if self._last and self._step == self._in_quotes:
            raise SchemaMismatchError(
                "a quote is never closed: close it, or say with the option quote which sign it is"
            )
        return b"".join(out)

    def _unquoted(self, data: bytes) -> bytes:
        if data:
            self._step = self._at_field if data[-1] in self._ends else self._in_field
        return data

    def _at_field(self, data: bytes, position: int, out: list[bytes]) -> int:
        """At the beginning of a field."""
        match = self._plain.match(data, position)
        if match is not None:
            out.append(match[0])
            return match.end()
        if data[position] == self._quote[0]:
            out.append(self._quote)
            self._step = self._in_quotes
            return position + 1
        self._step = self._in_field
        return position

    def _in_field(self, data: bytes, position: int, out: list[bytes]) -> int:
        """In an unquoted field: every character represents itself."""
        match = self._end.search(data, position)
        if match is None:
            out.append(data[position:])
            return len(data)
        out.append(data[position : match.end()])
        self._step = self._at_field
        return match.end()

    def _in_quotes(self, data: bytes, position: int, out: list[bytes]) -> int:
        for match in self._sign.finditer(data, position):
            pair = match[0]
            if len(pair) == 1 and match.end() == len(data) and not self._last:
                # The match ends at the block's end, so the next block decides.
                out.append(data[position : match.start()])
                self._held = pair
                return len(data)
            if pair in self._pairs:
                out += (data[position : match.start()], self._pairs[pair])
                position = match.end()
            elif pair.startswith(self._quote):
                out.append(data[position : match.start() + 1])
                self._step = self._behind_quotes
                return match.start() + 1
        out.append(data[position:])
        return len(data)

    def _behind_quotes(self, data: bytes, position: int, out: list[bytes]) -> int:
        """Between a closing quote and the end of the field, where blanks are ignored."""
        blank = self._blank.match(data, position)
        position = blank.end() if blank is not None else position
        if position == len(data):
            return position
        if data[position] not in self._ends:
            there = data[max(0, position - _SHOWN) : position + _SHOWN].decode(errors="replace")
            raise SchemaMismatchError(
                f"text stands behind the closing quote of a value, at …{there}…: write a quote within a value twice or "
                "behind the escape, and an escape before the closing quote twice"
            )
        out.append(data[position : position + 1])
        self._step = self._at_field
        return position + 1


def _any(signs: bytes) -> bytes:
    """A pattern for one of these bytes."""
    return b"[" + re.escape(signs) + b"]"


def _none(signs: bytes) -> bytes:
    """A pattern for any other byte."""
    return b"[^" + re.escape(signs) + b"]"
