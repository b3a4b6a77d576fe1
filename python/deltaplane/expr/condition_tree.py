"""Converts Spark SQL conditions to the JSON tree that the Rust core evaluates and prunes files by.

Defines the constructs that the core supports: all others are refused by name, or left out of the
result of `understood`. Uses no table and no column types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr import tree
from deltaplane.expr.strings import unescape
from deltaplane.expr.syntax import Call, Cast, Literal, Name, Parser, Syntax, Token, shown
from deltaplane.expr.tree import Node
from deltaplane.expr.unparse import conjuncts

__all__ = ["condition_tree", "understood"]

_ADVICE = "use the Spark engine for it"
_COMPARED = {
    "=": "=",
    "==": "=",
    "<>": "!=",
    "!=": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "<=>": "<=>",
}
_SIGNS = ("+", "-", "*")
# Types of values that the core compares; functions of these names convert to them.
_CONVERSIONS = {
    "bigint": "long",
    "int": "integer",
    "smallint": "short",
    "tinyint": "byte",
    "double": "double",
    "float": "float",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "string": "string",
    "binary": "binary",
    "decimal": "decimal(10,0)",
}
_TYPES = {*_CONVERSIONS.values(), "timestamp_ntz"}


@dataclass(frozen=True)
class _Values(Call):
    """The plain values of a long IN list as text: cheaper than one node per value."""

    texts: tuple[str, ...] = ()


def condition_tree(text: str) -> Node:
    """The tree of a condition.

    Raises:
        InvalidArgumentError: the text isn't one condition of Spark SQL.
        UnsupportedExpressionError: a construct that the core can't evaluate, by name.

    >>> condition_tree("day = DATE '2024-01-01'")["op"]
    'compare'
    """
    node = _parsed(text)
    try:
        return _Reader(text).read(node)
    except RecursionError:
        _ConditionParser(text, []).wrong(_TOO_DEEP)


def understood(text: str) -> tuple[list[Node], bool]:
    """The trees of the conditions in a conjunction that the core can evaluate, and whether these
    are all of it.

    Every row that satisfies the condition satisfies each of the trees.

    Raises:
        InvalidArgumentError: the text isn't one condition of Spark SQL.

    >>> found, complete = understood("a = 1 AND length(b) > 2")
    >>> len(found), complete
    (1, False)
    """
    try:
        parts, complete = conjuncts(_parsed(text)), True
    except UnsupportedExpressionError:
        parts, complete = list(_readable_parts(text)), False
    nodes, reader = [], _Reader(text)
    for part in parts:
        try:
            nodes.append(reader.read(part))
        except UnsupportedExpressionError:
            complete = False
        except RecursionError:
            _ConditionParser(text, []).wrong(_TOO_DEEP)
    return nodes, complete


def _parsed(text: str) -> Syntax:
    if not text.strip():
        raise InvalidArgumentError("the predicate is empty: write a condition such as \"day = '2024-01-01'\", or None")
    parser = _ConditionParser(text)
    try:
        return parser.whole()
    except RecursionError:
        parser.wrong(_TOO_DEEP)


_TOO_DEEP = f"nested too deeply: write it flatter, such as IN for many values, or {_ADVICE}"


def _readable_parts(text: str) -> Iterator[Syntax]:
    """The conditions that AND joins at the top level of a text, without those that the parser
    refuses."""
    parser = _ConditionParser(text)
    for start, end in _top_level_parts(parser):
        part = _ConditionParser(text, parser.tokens[start:end])
        try:
            yield from conjuncts(part.whole())
        except UnsupportedExpressionError:
            continue


def _top_level_parts(parser: Parser) -> list[tuple[int, int]]:
    """The token ranges of the conditions that AND joins outside of parentheses."""
    parts, start, depth, betweens = [], 0, 0, 0
    for number in range(len(parser.tokens)):
        parser.at = number
        word = parser.peek()
        if word in ("(", "[", "case"):
            depth += 1
        elif word in (")", "]", "end"):
            depth -= 1
        elif depth > 0:
            continue
        elif word == "or":
            return [(0, len(parser.tokens))]
        elif word == "between":
            betweens += 1
        elif word == "and" and betweens > 0:
            betweens -= 1
        elif word == "and":
            parts.append((start, number))
            start = number + 1
    return [*parts, (start, len(parser.tokens))]


def _refuse(what: str, text: str) -> NoReturn:
    """Refuses a construct of a predicate by its name."""
    raise UnsupportedExpressionError(
        f"the predicate uses {what}, which the embedded engine doesn't evaluate as Spark does: "
        f"{_ADVICE}. The predicate: {shown(text)}"
    )


class _ConditionParser(Parser):
    """The parser of expressions, with errors for a condition and a fast path for long IN lists."""

    def __init__(self, sql: str, tokens: list[Token] | None = None) -> None:
        self._own_tokens = tokens
        super().__init__(sql)

    def _tokens(self) -> list[Token]:
        return super()._tokens() if self._own_tokens is None else self._own_tokens

    def wrong(self, why: str, place: int | None = None) -> NoReturn:
        where = "" if place is None else f"at character {place + 1}: "
        raise InvalidArgumentError(
            f"the predicate isn't a condition of Spark SQL ({where}{shown(why)}): {shown(self.sql)}"
        )

    def refuse(self, what: str) -> NoReturn:
        _refuse(what, self.sql)

    def next_token(self, text: str, position: int, before: list[Token]) -> Token | None:
        opens_a_list = len(before) > 1 and before[-1].text == "(" and before[-2].text.lower() == "in"
        if opens_a_list and before[-2].kind == "name" and (values := _LONG_LIST.match(text, position)) is not None:
            return Token("values", values.group(), position)
        return None

    def arguments(self, function: str = "") -> list[Syntax]:
        if self.peek() in ("select", "with") and self.peek(1) not in (",", ")"):
            self.refuse("a subquery")
        if self.kind() != "values":
            return super().arguments(function)
        texts = tuple(value.strip() for value in _VALUE.findall(self.tokens[self.at].text))
        self.at += 1
        self.expect(")")
        return [_Values("values", (), texts)]


_PLAIN = r"(?:-?\d+(?:\.\d+)?|'[^'\\]*')"
_VALUE = re.compile(_PLAIN)
# Shorter lists use the general path.
_LONG_LIST = re.compile(rf"\s*{_PLAIN}(?:\s*,\s*{_PLAIN}){{50,}}(?=\s*\))")


class _Reader:
    """Converts the syntax trees of one predicate; errors show its text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, node: Syntax) -> Node:
        """The tree of a condition or a value."""
        match node:
            case Name(parts):
                return tree.column(parts)
            case Literal():
                return self._literal(node)
            case Cast(arg, to):
                return self._cast(arg, str(to))
            case Call():
                return self._call(node)
        self._refuse("a lambda function")

    def _refuse(self, what: str) -> NoReturn:
        _refuse(what, self.text)

    def _call(self, node: Call) -> Node:
        name, args = node.name, node.args
        if name in ("and", "or"):
            parts = [self.read(arg) for arg in args]
            return tree.all_of(parts) if name == "and" else tree.any_of(parts)
        if name in _COMPARED:
            left, right = args
            return tree.compare(_COMPARED[name], self.read(left), self.read(right))
        if name in _SIGNS:
            left, right = args
            return {"op": "arithmetic", "sign": name, "left": self.read(left), "right": self.read(right)}
        if name == "between":
            value, low, high = (self.read(arg) for arg in args)
            return tree.all_of([tree.compare(">=", value, low), tree.compare("<=", value, high)])
        if name == "in":
            return self._in(args)
        if name == "like":
            return self._like(args)
        if name in ("startswith", "endswith", "contains") and len(args) == 2:
            return self._part_of_text(name, *args)
        if len(args) == 1:
            return self._of_one(name, args[0])
        self._refuse(_shown_call(name))

    def _of_one(self, name: str, arg: Syntax) -> Node:
        if name == "not":
            return tree.negated(self.read(arg))
        if name in ("isnull", "isnotnull"):
            test: Node = {"op": "is_null", "arg": self.read(arg)}
            return test if name == "isnull" else tree.negated(test)
        if name == "negative":
            return self._negative(arg)
        if name in _CONVERSIONS:
            return tree.cast(self.read(arg), _CONVERSIONS[name])
        self._refuse(_shown_call(name))

    def _in(self, args: tuple[Syntax, ...]) -> Node:
        value, *listed = args
        values = list[Node]()
        for item in listed:
            values += [self._plain(text) for text in item.texts] if isinstance(item, _Values) else [self.read(item)]
        return tree.is_in(self.read(value), values)

    def _plain(self, text: str) -> Node:
        if text.startswith("'"):
            return tree.literal(unescape(text[1:-1], "'"), "string")
        return tree.literal(text, self._exact_type(text))

    def _exact_type(self, text: str) -> str:
        type_name = tree.exact_type(text)
        if type_name is None:
            raise InvalidArgumentError(f"the predicate's number {shown(text)} has more than {tree.MAX_DIGITS} digits")
        return type_name

    def _like(self, args: tuple[Syntax, ...]) -> Node:
        value, pattern, *rest = args
        escape = self._text(rest[0], "LIKE with an escape that isn't a constant") if rest else "\\"
        if len(escape) != 1:
            raise InvalidArgumentError("the predicate's ESCAPE must be one character")
        return tree.like(self.read(value), self._text(pattern, "LIKE with a pattern that isn't a constant"), escape)

    def _part_of_text(self, name: str, value: Syntax, part: Syntax) -> Node:
        text = self._text(part, f"the function `{name}` with an argument that isn't a constant")
        if name == "startswith":
            return {"op": "starts_with", "arg": self.read(value), "prefix": text}
        quoted = "".join("\\" + c if c in "\\%_" else c for c in text)
        return tree.like(self.read(value), "%" + quoted + ("" if name == "endswith" else "%"))

    def _text(self, node: Syntax, otherwise: str) -> str:
        if isinstance(node, Literal) and isinstance(node.value, str) and node.type.name == "string":
            return node.value
        self._refuse(otherwise)

    def _cast(self, arg: Syntax, to: str) -> Node:
        if to not in _TYPES and not to.startswith("decimal("):
            raise UnsupportedExpressionError(
                f"the predicate casts to {to}, which the embedded engine doesn't do: {_ADVICE}. "
                f"The predicate: {shown(self.text)}"
            )
        return tree.cast(self.read(arg), to)

    def _negative(self, arg: Syntax) -> Node:
        """A signed number, or a conversion of one; a sign before any other value is refused."""
        if isinstance(arg, Cast) and isinstance(arg.arg, Literal):
            return tree.cast(self._negative(arg.arg), str(arg.to)) if str(arg.to) in _TYPES else self._refuse_sign()
        if isinstance(arg, Call) and arg.name == "negative":
            (inner,) = arg.args
            return self.read(inner) if _is_number(inner) else self._refuse_sign()
        if not _is_number(arg):
            self._refuse_sign()
        assert isinstance(arg, Literal)
        text = str(arg.value)
        turned = text[1:] if text.startswith("-") else "-" + text
        type_name = str(arg.type)
        if arg.type.integral and tree.exact_type(turned) not in ("integer", "long"):
            self._refuse_sign()
        return tree.literal(
            turned, tree.exact_type(turned) or type_name if type_name in ("integer", "long") else type_name
        )

    def _refuse_sign(self) -> NoReturn:
        self._refuse("`-` before a value that isn't a number")

    def _literal(self, node: Literal) -> Node:
        value, data_type = node.value, node.type
        if value is None:
            return tree.literal(None, "void")
        if isinstance(value, bool):
            return tree.literal("true" if value else "false", "boolean")
        if isinstance(value, bytes):
            return tree.literal(value.hex(), "binary")
        if data_type.interval:
            self._refuse("an interval")
        return tree.literal(value, str(data_type))


def _is_number(node: Syntax) -> bool:
    return isinstance(node, Literal) and isinstance(node.value, str) and node.type.numeric


def _shown_call(name: str) -> str:
    is_operator = not name.isidentifier() or name in ("div", "ilike", "rlike")
    return f"the {'operator' if is_operator else 'function'} `{name}`"
