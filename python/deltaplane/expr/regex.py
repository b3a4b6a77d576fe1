"""A regular expression of Java in the words of RE2, where the two mean the same; what they don't share is refused by name.

Answers whether a text matches somewhere, so it needs no groups and no greediness. Used by `functions.patterns`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.typed import refuse

__all__ = ["LAST_TERMINATOR", "Pattern", "translated"]

# Of both, nested counts multiplied: RE2 builds as many states.
_MOST_REPEATS = 1000
_TERMINATORS = r"\n\r\x{85}\x{2028}\x{2029}"
# What `$` of Java may leave behind.
LAST_TERMINATOR = rf"(\r\n|[{_TERMINATORS}])\z"
_SPACE = r"\t\n\x0B\f\r "
_CLASSES = {"d": r"\d", "D": r"\D", "w": r"\w", "W": r"\W"}
_CONTROLS = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f"}
_COUNT = re.compile(r"\{(\d{1,4})(,(\d{1,4})?)?\}")


@dataclass(frozen=True)
class Pattern:
    """`text` for RE2. `at_end`: it ends with Java's `$`, so that a last line terminator may follow the match."""

    text: str
    at_end: bool


def translated(pattern: str) -> Pattern:
    """The pattern for RE2.

    Raises:
        InvalidArgumentError: not a regular expression.
        UnsupportedExpressionError: a construct that Java and RE2 understand differently, or one of them not at all.

    >>> translated("^(a|b)+c$").text == r"^(?:a|b)+c\\z"
    True
    """
    if "\0" in pattern:
        refuse("a zero byte in a regular expression")
    parser = _Parser(pattern)
    text, _ = parser.alternatives(depth=0)
    if parser.at < len(pattern):
        parser.wrong("a parenthesis is closed that isn't open")
    return Pattern(text, parser.ends)


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.ends = False

    def wrong(self, why: str) -> NoReturn:
        raise InvalidArgumentError(f"`{self.pattern}` is no regular expression: {why}")

    def unfit(self, what: str) -> NoReturn:
        refuse(f"{what} in the regular expression `{self.pattern}`")

    def peek(self, ahead: int = 0) -> str:
        return self.pattern[self.at + ahead : self.at + ahead + 1]

    def next(self) -> str:
        found = self.peek()
        if not found:
            self.wrong("it ends too early")
        self.at += 1
        return found

    def alternatives(self, depth: int) -> tuple[str, int]:
        """The text, and how many repetitions stand in each other at most."""
        if depth > 20:
            self.unfit("parentheses nested too deeply")
        parts = [self.sequence(depth)]
        while self.peek() == "|":
            self.at += 1
            parts.append(self.sequence(depth))
        return "|".join(text for text, _ in parts), max(repeats for _, repeats in parts)

    def sequence(self, depth: int) -> tuple[str, int]:
        made, most = "", 1
        while self.peek() not in ("", "|", ")"):
            if self.peek() == "$":
                made += self.end(depth)
                continue
            text, repeats = self.atom(depth)
            quantifier, count = self.quantifier()
            if quantifier and text == "^":
                self.unfit("a repeated `^`")
            if count * repeats > _MOST_REPEATS:
                self.unfit(f"more than {_MOST_REPEATS} repetitions")
            made, most = made + text + quantifier, max(most, count * repeats)
        return made, most

    def end(self, depth: int) -> str:
        self.at += 1
        if depth or self.peek() not in ("", "|"):
            self.unfit("`$` before the end")
        self.ends = True
        return r"\z"

    def atom(self, depth: int) -> tuple[str, int]:
        char = self.next()
        if char == "(":
            if self.peek() == "?" and self.peek(1) != ":":
                self.unfit(f"`(?{self.peek(1)}`")
            self.at += 2 if self.peek() == "?" else 0
            text, repeats = self.alternatives(depth + 1)
            if self.next() != ")":
                self.wrong("a parenthesis isn't closed")
            return f"(?:{text})", repeats
        if char == "[":
            return self.one_of(), 1
        if char == ".":
            return f"[^{_TERMINATORS}]", 1
        if char == "^":
            return char, 1
        if char == "\\":
            return self.escaped(inside=False), 1
        if char in "*+?":
            self.wrong(f"nothing is repeated by `{char}`")
        if char in "{}]":
            self.unfit(f"a bare `{char}`")
        return _literal(char), 1

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
        """A class of characters: single ones, ranges and shorthands."""
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
        """One character as it is, or the text of a shorthand, which is longer."""
        char = self.next()
        if char == "\\":
            text = self.escaped(inside=True)
            return self.pattern[self.at - 1] if not self.pattern[self.at - 1].isalnum() else text
        if char in "[]" or (char == "&" and self.peek() == "&"):
            self.unfit(f"`{char}` in brackets")
        return char

    def quantifier(self) -> tuple[str, int]:
        """The text of a quantifier, and how often it repeats at least or at most."""
        found, count = "", 1
        if self.peek() in ("*", "+", "?"):
            found = self.next()
        elif self.peek() == "{":
            match = _COUNT.match(self.pattern, self.at)
            if match is None:
                self.wrong("`{` without counts")
            low, high = int(match[1]), int(match[3] or match[1])
            if low > high:
                self.wrong(f"{match[0]} counts down")
            found, count = match[0], max(low, high, 1)
            self.at = match.end()
        if found and self.peek() == "?":
            self.at += 1
        if found and self.peek() in ("*", "+", "?", "{"):
            self.unfit(f"`{self.peek()}` behind a quantifier")
        return found, count


def _literal(char: str) -> str:
    return "\\" + char if char.isascii() and not char.isalnum() and char.isprintable() and char != " " else char


def _inside(char: str) -> str:
    return "\\" + char if char in r"\]^-[" else char
