"""Converts a regular expression of Java to RE2 if both have the same meaning; other constructs are
refused by name.

Whether a text matches at all needs neither groups nor greediness; the match itself does, as far as
both agree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.typed import refuse

__all__ = ["LAST_TERMINATOR", "Pattern", "translated"]

# For both engines, with nested counts multiplied: RE2 builds as many states.
_MOST_REPEATS = 1000
_TERMINATORS = r"\n\r\x{85}\x{2028}\x{2029}"
# The line terminator that Java's `$` may leave after the match.
LAST_TERMINATOR = rf"(\r\n|[{_TERMINATORS}])\z"
_SPACE = r"\t\n\x0B\f\r "
_CLASSES = {"d": r"\d", "D": r"\D", "w": r"\w", "W": r"\W"}
_CONTROLS = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f"}
_COUNT = re.compile(r"\{(\d{1,4})(,(\d{1,4})?)?\}")


@dataclass(frozen=True)
class Pattern:
    """`text` for RE2. `at_end`: it ends with Java's `$`, so that a final line terminator may follow
    the match.

    `groups` are counted, and `empty` (whether it may match the empty text) is known, for patterns
    with captures.
    """

    text: str
    at_end: bool
    groups: int = 0
    empty: bool = True


class _Part(NamedTuple):
    """A part's text, the largest product of nested repetitions, and whether it may match the empty
    text."""

    text: str
    repeats: int
    empty: bool


def translated(pattern: str, captures: bool = False) -> Pattern:
    """The pattern for RE2; with `captures` its match equals Java's, otherwise only whether it
    matches.

    Raises:
        InvalidArgumentError: not a regular expression.
        UnsupportedExpressionError: a construct whose meaning differs between Java and RE2, or that
            one of them lacks.

    >>> translated("^(a|b)+c$").text == r"^(?:a|b)+c\\z"
    True
    """
    if "\0" in pattern:
        refuse("a zero byte in a regular expression")
    parser = _Parser(pattern, captures)
    whole = parser.alternatives(depth=0)
    if parser.at < len(pattern):
        parser.wrong("a parenthesis is closed that isn't open")
    return Pattern(whole.text, parser.ends, parser.groups, whole.empty)


class _Parser:
    def __init__(self, pattern: str, captures: bool) -> None:
        self.pattern = pattern
        self.captures = captures
        self.groups = 0
        self.at = 0
        self.ends = False

    def wrong(self, why: str) -> NoReturn:
        raise InvalidArgumentError(f"`{self.pattern}` is no regular expression: {why}")

    def unfit(self, what: str) -> NoReturn:
        refuse(f"{what} in the regular expression `{self.pattern}`")

    def peek(self, ahead: int = 0) -> str:
        return self.pattern[self.at + ahead : self.at + ahead + 1]

    def next(self) -> str:
        char = self.peek()
        if not char:
            self.wrong("it ends too early")
        self.at += 1
        return char

    def alternatives(self, depth: int) -> _Part:
        if depth > 20:
            self.unfit("parentheses nested too deeply")
        parts = [self.sequence(depth)]
        while self.peek() == "|":
            self.at += 1
            parts.append(self.sequence(depth))
        return _Part("|".join(p.text for p in parts), max(p.repeats for p in parts), any(p.empty for p in parts))

    def sequence(self, depth: int) -> _Part:
        made, most, empty = "", 1, True
        while self.peek() not in ("", "|", ")"):
            if self.peek() == "$":
                made += self.end(depth)
                continue
            text, repeats, nothing = self.atom(depth)
            quantifier, count = self.quantifier()
            if quantifier and text == "^":
                self.unfit("a repeated `^`")
            if self.captures and quantifier and nothing:
                # The engines differ in the group's value after an empty round.
                self.unfit("a repetition of what may be nothing")
            if count * repeats > _MOST_REPEATS:
                self.unfit(f"more than {_MOST_REPEATS} repetitions")
            made, most = made + text + quantifier, max(most, count * repeats)
            empty &= nothing or quantifier.startswith(("*", "?", "{0"))
        return _Part(made, most, empty)

    def end(self, depth: int) -> str:
        self.at += 1
        if depth or self.peek() not in ("", "|"):
            self.unfit("`$` before the end")
        self.ends = True
        return r"\z"

    def atom(self, depth: int) -> _Part:
        char = self.next()
        if char == "(":
            if self.peek() == "?" and self.peek(1) != ":":
                self.unfit(f"`(?{self.peek(1)}`")
            opened = "(" if self.captures and self.peek() != "?" else "(?:"
            self.groups += opened == "("
            self.at += 2 if self.peek() == "?" else 0
            inner = self.alternatives(depth + 1)
            if self.next() != ")":
                self.wrong("a parenthesis isn't closed")
            return inner._replace(text=f"{opened}{inner.text})")
        if char == "[":
            return _Part(self.one_of(), 1, False)
        if char == ".":
            return _Part(f"[^{_TERMINATORS}]", 1, False)
        if char == "^":
            return _Part(char, 1, True)
        if char == "\\":
            return _Part(self.escaped(inside=False), 1, False)
        if char in "*+?":
            self.wrong(f"nothing is repeated by `{char}`")
        if char in "{}]":
            self.unfit(f"a bare `{char}`")
        return _Part(_literal(char), 1, False)

    def escaped(self, inside: bool) -> str:
        char = self.next()
        if char in _CLASSES:
            return _CLASSES[char]
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "s":
            return _SPACE if inside else f"[{_SPACE}]"
        if char == "S" and not inside:
            return f"[^{_SPACE}]"
        if char.isascii() and not char.isalnum() and char.isprintable():
            return _literal(char)
        self.unfit(f"`\\{char}`")

    def one_of(self) -> str:
        """A character class: single characters, ranges and shorthands."""
        negated = self.peek() == "^"
        self.at += negated
        made = ""
        while not made or self.peek() != "]":
            first = self.member()
            if self.peek() == "-" and self.peek(1) != "]":
                self.at += 1
                last = self.member()
                if len(first) != 1 or len(last) != 1 or first > last:
                    self.unfit("an odd range")
                made += f"{_inside(first)}-{_inside(last)}"
                if self.peek() == "-" and self.peek(1) != "]":
                    self.unfit("an odd range")
            else:
                made += _inside(first) if len(first) == 1 else first
        self.at += 1
        return f"[{'^' if negated else ''}{made}]"

    def member(self) -> str:
        """A literal character, or the text of a shorthand, which is longer."""
        char = self.next()
        if char == "\\":
            text = self.escaped(inside=True)
            return self.pattern[self.at - 1] if not self.pattern[self.at - 1].isalnum() else text
        if char in "[]" or (char == "&" and self.peek() == "&"):
            self.unfit(f"`{char}` in brackets")
        return char

    def quantifier(self) -> tuple[str, int]:
        """The text of a quantifier, and its bounds."""
        quantifier, count = "", 1
        if self.peek() in ("*", "+", "?"):
            quantifier = self.next()
        elif self.peek() == "{":
            match = _COUNT.match(self.pattern, self.at)
            if match is None:
                self.wrong("`{` without counts")
            low, high = int(match[1]), int(match[3] or match[1])
            if low > high:
                self.wrong(f"{match[0]} counts down")
            quantifier, count = match[0], max(low, high, 1)
            self.at = match.end()
        if quantifier and self.peek() == "?":
            self.at += 1
            quantifier += "?" if self.captures else ""
        if quantifier and self.peek() in ("*", "+", "?", "{"):
            self.unfit(f"`{self.peek()}` behind a quantifier")
        return quantifier, count


def _literal(char: str) -> str:
    return "\\" + char if char.isascii() and not char.isalnum() and char.isprintable() and char != " " else char


def _inside(char: str) -> str:
    return "\\" + char if char in r"\]^-[" else char
