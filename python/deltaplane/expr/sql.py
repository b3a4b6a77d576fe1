"""Spark SQL conditions to the JSON tree, by sqlglot's parser (imported on first use).

Owns the list of what is understood: everything else is refused with its name. Called by `expr.parse` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar

from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr import lists, strings, tree
from deltaplane.expr.tree import Node

if TYPE_CHECKING:
    from sqlglot import exp

_ADVICE = "use the Spark engine for it"

T = TypeVar("T")


def from_sql(text: str) -> Node:
    """The tree of a condition."""
    return _parsed(text, lambda reader, condition: reader.read(condition))


def understood(text: str) -> tuple[list[Node], bool]:
    """The trees of those parts of a condition, joined by AND, that are understood, and whether that is all of it.

    A row that meets the condition meets each of them.
    """

    def read(reader: _Reader, condition: exp.Expr) -> tuple[list[Node], bool]:
        found, complete = [], True
        for part in reader.conjuncts(condition):
            try:
                found.append(reader.read(part))
            except UnsupportedExpressionError:
                complete = False
        return found, complete

    return _parsed(text, read)


def _parsed(text: str, read: Callable[[_Reader, exp.Expr], T]) -> T:
    import sqlglot
    from sqlglot.errors import SqlglotError

    if not text.strip():
        raise InvalidArgumentError("the predicate is empty: write a condition such as \"day = '2024-01-01'\", or None")
    try:
        without_strings, found = strings.lift(text)
        lifted, long_lists = lists.lift(without_strings)
        parsed = sqlglot.parse(lifted, dialect="spark")
        if len(parsed) != 1 or parsed[0] is None:
            raise InvalidArgumentError(f"the predicate isn't one condition: {_shown(text)}")
        return read(_Reader(text, found, long_lists), parsed[0])
    except strings.WrongText as e:
        raise InvalidArgumentError(
            f"the predicate isn't a condition of Spark SQL (at character {e.place + 1}: {e}): {_shown(text)}"
        ) from e
    except SqlglotError as e:
        errors = getattr(e, "errors", None)
        reason = errors[0].get("description") if errors else str(e).splitlines()[0]
        raise InvalidArgumentError(f"the predicate isn't a condition of Spark SQL ({reason}): {_shown(text)}") from e
    except RecursionError as e:
        raise InvalidArgumentError(
            f"the predicate is nested too deeply: write it flatter, such as IN for many values, or {_ADVICE}. "
            f"The predicate: {_shown(text)}"
        ) from e


def _shown(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "…"


class _Reader:
    """Reads one parsed condition; `found` are its string literals, `long_lists` those of its lists that were lifted."""

    def __init__(self, text: str, found: list[str], long_lists: list[list[str]]) -> None:
        from sqlglot import exp

        self.text = text
        self.found = found
        self.long_lists = long_lists
        self.exp = exp
        comparisons = {
            exp.EQ: "=",
            exp.NEQ: "!=",
            exp.LT: "<",
            exp.LTE: "<=",
            exp.GT: ">",
            exp.GTE: ">=",
            exp.NullSafeEQ: "<=>",
        }
        signs = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
        self.readers: dict[type[exp.Expr], Callable[[exp.Expr], Node]] = {
            **{kind: self._comparison(cmp) for kind, cmp in comparisons.items()},
            **{kind: self._arithmetic(sign) for kind, sign in signs.items()},
            exp.Paren: lambda n: self.read(n.this),
            exp.And: self._chain,
            exp.Or: self._chain,
            exp.Not: lambda n: tree.negated(self.read(n.this)),
            exp.NullSafeNEQ: lambda n: tree.negated(tree.compare("<=>", self.read(n.this), self.read(n.expression))),
            exp.Column: self._column,
            exp.Dot: self._column,
            exp.Literal: self._literal,
            exp.Null: lambda n: tree.literal(None, "void"),
            exp.Boolean: lambda n: tree.literal("true" if n.this else "false", "boolean"),
            exp.HexString: lambda n: tree.literal(str(n.this), "binary"),
            exp.Concat: lambda n: tree.literal(self._string(n), "string"),
            exp.Neg: self._negative,
            exp.Is: self._is,
            exp.Between: self._between,
            exp.In: self._in,
            exp.Like: self._like,
            exp.Escape: self._like,
            exp.StartsWith: lambda n: {
                "op": "starts_with",
                "arg": self.read(n.this),
                "prefix": self._string(n.expression),
            },
            exp.EndsWith: lambda n: tree.like(self.read(n.this), "%" + self._quoted(n.expression)),
            exp.Contains: lambda n: tree.like(self.read(n.this), "%" + self._quoted(n.expression) + "%"),
            exp.Cast: self._cast,
            exp.TryCast: self._cast,
            exp.Anonymous: self._function,
        }

    def read(self, node: exp.Expr) -> Node:
        reader = self.readers.get(type(node))
        return reader(node) if reader else self._refuse(node)

    def conjuncts(self, node: exp.Expr) -> list[exp.Expr]:
        """The conditions that a condition joins by AND."""
        while isinstance(node, self.exp.Paren):
            node = node.this
        if isinstance(node, self.exp.And):
            return [*self.conjuncts(node.this), *self.conjuncts(node.expression)]
        return [node]

    def _refuse(self, node: exp.Expr) -> NoReturn:
        exp = self.exp
        if isinstance(node, exp.Anonymous):
            what = f"the function `{node.name}`"
        elif isinstance(node, exp.Func):
            what = f"the function `{node.sql_name().lower()}`"
        else:
            what = f"`{type(node).__name__}`"
        raise UnsupportedExpressionError(
            f"the predicate uses {what}, which the embedded engine doesn't evaluate as Spark does: "
            f"{_ADVICE}. The predicate: {_shown(self.text)}"
        )

    def _comparison(self, cmp: str) -> Callable[[exp.Expr], Node]:
        return lambda n: tree.compare(cmp, self.read(n.this), self.read(n.expression))

    def _arithmetic(self, sign: str) -> Callable[[exp.Expr], Node]:
        return lambda n: {
            "op": "arithmetic",
            "sign": sign,
            "left": self.read(n.this),
            "right": self.read(n.expression),
        }

    def _chain(self, node: exp.Expr) -> Node:
        # Long chains lean to the left: a loop, not a recursion.
        kind, args = type(node), []
        while type(node) is kind:
            args.append(self.read(node.expression))
            node = node.this
        args.append(self.read(node))
        args.reverse()
        return tree.all_of(args) if kind is self.exp.And else tree.any_of(args)

    def _column(self, node: exp.Expr) -> Node:
        parts: list[exp.Expr] = []
        inner = node
        # `Dot.parts` leaves out what isn't a name: the function in `named_struct('q', x).q`.
        while isinstance(inner, self.exp.Dot):
            parts.insert(0, inner.expression)
            inner = inner.this
        parts = [*(inner.parts if isinstance(inner, self.exp.Column) else [inner]), *parts]
        if not all(isinstance(p, self.exp.Identifier) for p in parts):
            self._refuse(node)
        return tree.column(p.name for p in parts)

    def _literal(self, node: exp.Expr) -> Node:
        text = str(node.this)
        return tree.literal(self._string(node), "string") if node.is_string else self._number(text)

    def _number(self, text: str) -> Node:
        if "e" in text.lower():
            return tree.literal(text, "double")
        type_name = tree.exact_type(text)
        if type_name is None:
            raise InvalidArgumentError(f"the predicate's number {_shown(text)} has more than {tree.MAX_DIGITS} digits")
        return tree.literal(text, type_name)

    def _negative(self, node: exp.Expr) -> Node:
        exp, inner, negative = self.exp, node.this, True
        while isinstance(inner, exp.Neg | exp.Paren):
            negative ^= isinstance(inner, exp.Neg)
            inner = inner.this
        number = inner.this if isinstance(inner, exp.Cast) else inner
        if not isinstance(number, exp.Literal) or self._is_text(number):
            self._refuse(node)
        text = ("-" if negative else "") + str(number.this)
        value = tree.literal(text, "string") if number.is_string else self._number(text)
        return tree.cast(value, self._type(inner)) if isinstance(inner, exp.Cast) else value

    def _is_text(self, node: exp.Expr) -> bool:
        # sqlglot writes the digits of `1.5BD` as a string of its own.
        return bool(node.is_string) and strings.lower(str(node.this), self.found) != str(node.this)

    def _string(self, node: exp.Expr) -> str:
        exp = self.exp
        if isinstance(node, exp.Literal) and node.is_string:
            return strings.lower(str(node.this), self.found)
        if isinstance(node, exp.Concat):
            # Strings side by side are one string.
            return "".join(self._string(part) for part in node.expressions)
        self._refuse(node)

    def _quoted(self, node: exp.Expr) -> str:
        """A string as part of a LIKE pattern that matches it alone."""
        return "".join("\\" + c if c in "\\%_" else c for c in self._string(node))

    def _is(self, node: exp.Expr) -> Node:
        what = node.expression
        if isinstance(what, self.exp.Null):
            return {"op": "is_null", "arg": self.read(node.this)}
        if isinstance(what, self.exp.Boolean):
            return tree.compare("<=>", self.read(node.this), self.read(what))
        self._refuse(node)

    def _between(self, node: exp.Expr) -> Node:
        if node.args.get("symmetric"):
            self._refuse(node)
        value = self.read(node.this)
        low, high = self.read(node.args["low"]), self.read(node.args["high"])
        return tree.all_of([tree.compare(">=", value, low), tree.compare("<=", value, high)])

    def _in(self, node: exp.Expr) -> Node:
        if any(node.args.get(k) for k in ("query", "unnest", "field")):
            self._refuse(node)
        if not node.expressions:
            raise InvalidArgumentError(f"the predicate's IN needs a value: write FALSE for none: {_shown(self.text)}")
        first = node.expressions[0]
        values = lists.lower(str(first.this), self.long_lists) if isinstance(first, self.exp.Literal) else None
        if values is not None:
            return tree.is_in(self.read(node.this), [self._plain(value) for value in values])
        return tree.is_in(self.read(node.this), [self.read(e) for e in node.expressions])

    def _plain(self, value: str) -> Node:
        if value.startswith("'"):
            return tree.literal(strings.lower(value[1:-1], self.found), "string")
        return self._number(value)

    def _like(self, node: exp.Expr) -> Node:
        escape = "\\"
        like = node
        if isinstance(node, self.exp.Escape):
            escape = self._string(node.expression)
            like = node.this
            if len(escape) != 1:
                raise InvalidArgumentError("the predicate's ESCAPE must be one character")
        if not isinstance(like, self.exp.Like):
            self._refuse(like)
        made = tree.like(self.read(like.this), self._string(like.expression), escape)
        return tree.negated(made) if like.args.get("negate") else made

    def _cast(self, node: exp.Expr) -> Node:
        return tree.cast(self.read(node.this), self._type(node))

    def _type(self, node: exp.Expr) -> str:
        to = node.args["to"]
        name = to.this.name if hasattr(to.this, "name") else str(to.this)
        if name == "DECIMAL":
            sizes = [str(p.this.this) for p in to.expressions]
            if all(size.isdecimal() and len(size) < 3 for size in sizes):
                precision, scale = (*map(int, sizes), *(10, 0)[len(sizes) :])
                return f"decimal({precision},{scale})"
        known = _TYPES.get(name)
        if known is None or to.expressions:
            raise UnsupportedExpressionError(
                f"the predicate casts to {_shown(to.sql('spark'))}, which the embedded engine doesn't do: {_ADVICE}. "
                f"The predicate: {_shown(self.text)}"
            )
        return known

    def _function(self, node: exp.Expr) -> Node:
        name, args = node.name.lower(), node.expressions
        if len(args) == 1 and name in ("isnull", "isnotnull"):
            return {"op": "is_null" if name == "isnull" else "is_not_null", "arg": self.read(args[0])}
        if len(args) == 1 and name in _CAST_FUNCTIONS:
            return tree.cast(self.read(args[0]), _CAST_FUNCTIONS[name])
        self._refuse(node)


_TYPES = {
    "BIGINT": "long",
    "INT": "integer",
    "SMALLINT": "short",
    "TINYINT": "byte",
    "DOUBLE": "double",
    "FLOAT": "float",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TEXT": "string",
    "BINARY": "binary",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp",
    "TIMESTAMPLTZ": "timestamp",
    "TIMESTAMPNTZ": "timestamp_ntz",
}
_CAST_FUNCTIONS = {
    "bigint": "long",
    "int": "integer",
    "smallint": "short",
    "tinyint": "byte",
    "decimal": "decimal(10,0)",
    "binary": "binary",
}
