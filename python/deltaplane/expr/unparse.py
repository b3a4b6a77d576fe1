"""Converts a syntax tree to the text of a condition, for constructs by which files can be pruned.

Parsing the text again gives the same tree, as a test checks.
"""

from __future__ import annotations

from deltaplane.expr.syntax import Call, Cast, Literal, Name, Syntax
from deltaplane.expr.types import SparkType
from deltaplane.expr.values import text_literal

__all__ = ["conjuncts", "unparse"]

_INFIX = {"=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", "+", "-", "*"}
_SUFFIXES = {"long": "L", "short": "S", "byte": "Y", "float": "F", "double": "D", "decimal": "BD"}
_TYPES = {
    **{name: name for name in ("string", "boolean", "binary", "date", "timestamp", "timestamp_ntz", "float", "double")},
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
}


def conjuncts(node: Syntax) -> list[Syntax]:
    """The conditions that AND joins."""
    if isinstance(node, Call) and node.name == "and":
        return [part for arg in node.args for part in conjuncts(arg)]
    return [node]


def unparse(node: Syntax) -> str | None:
    """The text of a tree; None if files can't be pruned by it.

    >>> from deltaplane.expr.syntax import parse
    >>> unparse(parse("t.day >= date '2024-01-01' and not x in (1, 2L)"))
    "((`t`.`day` >= CAST('2024-01-01' AS date)) AND (NOT (`x` IN (1, 2L))))"
    >>> unparse(parse("length(x) > 1")) is None
    True
    """
    if isinstance(node, Literal):
        return _literal(node)
    if isinstance(node, Name):
        return ".".join("`" + part.replace("`", "``") + "`" for part in node.parts)
    if isinstance(node, Cast):
        value, to = unparse(node.arg), _type(node.to)
        return None if value is None or to is None or node.attempt else f"CAST({value} AS {to})"
    # Queries have calls of their own, with more than arguments.
    if type(node) is not Call:
        return None
    args = [unparse(arg) for arg in node.args]
    texts = [arg for arg in args if arg is not None]
    return _call(node.name, texts) if len(texts) == len(args) else None


def _call(name: str, args: list[str]) -> str | None:
    if name in ("and", "or"):
        return "(" + f" {name.upper()} ".join(args) + ")"
    if name in _INFIX:
        return f"({args[0]} {name} {args[1]})"
    if name == "between":
        return f"({args[0]} BETWEEN {args[1]} AND {args[2]})"
    if name == "in":
        return f"({args[0]} IN ({', '.join(args[1:])}))"
    if name == "like":
        return f"({args[0]} LIKE {args[1]}{f' ESCAPE {args[2]}' if len(args) > 2 else ''})"
    template = {"not": "(NOT {})", "isnull": "({} IS NULL)", "isnotnull": "({} IS NOT NULL)"}.get(name)
    return template.format(*args) if template is not None and len(args) == 1 else None


def _literal(node: Literal) -> str | None:
    value, name = node.value, node.type.name
    if value is None:
        return "NULL"
    if node.type.interval:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if name == "string":
        return text_literal(value)
    plain = name == "integer" or (name == "decimal" and "." in value) or (name == "double" and "e" in value)
    return value if plain else value + _SUFFIXES[name]


def _type(to: SparkType) -> str | None:
    return f"decimal({to.precision},{to.scale})" if to.name == "decimal" else _TYPES.get(to.name)
