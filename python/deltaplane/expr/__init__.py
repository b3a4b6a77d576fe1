"""Converts predicates, as Spark SQL text or tuples, to the JSON tree that the Rust core binds to a
table's schema.

Defines both notations; the core knows tables and types of columns. Constructs that the embedded
engine can't evaluate with Spark's result are refused by name, never approximated.
"""

from __future__ import annotations

import json
from typing import Any

from deltaplane.expr.columns import NO_COLUMNS, Columns, columns_of

__all__ = ["NO_COLUMNS", "Columns", "Predicate", "columns_of", "necessary", "parse", "refuse_unclear"]

Predicate = str | list[tuple[str, str, Any]] | list[list[tuple[str, str, Any]]]


def refuse_unclear(condition: str, columns: Columns) -> None:
    """Refuses a condition with a double-quoted text that may be a column, according to `columns`.

    Raises:
        InvalidArgumentError: an ambiguous text; the message shows both spellings.
    """
    if '"' in condition:
        from deltaplane.expr.quoting import refuse_unclear as refuse

        refuse(condition, columns)


def parse(predicate: Predicate | None, columns: Columns = NO_COLUMNS) -> str | None:
    """The JSON tree of a predicate; `None` without a filter.

    Text is a Spark SQL condition. A list of `(column, operator, value)` tuples is a conjunction, a
    list of such lists a disjunction of conjunctions; operators are `= != < <= > >= in`, `not in`. A
    string value in a tuple is converted to the column's type; `None` means null. Timestamps without
    time zone are UTC. `columns` are the table's names, so that a double-quoted one is refused.

    >>> parse([("day", ">=", "2024-01-01")])
    '{"op": "compare", "cmp": ">=", "left": {"op": "column", "name": ["day"]}, ...}'
    """
    if predicate is None:
        return None
    if isinstance(predicate, str):
        refuse_unclear(predicate, columns)
        from deltaplane.expr.condition_tree import condition_tree

        return json.dumps(condition_tree(predicate))
    from deltaplane.expr.tuples import from_tuples

    tree = from_tuples(predicate)
    return None if tree is None else json.dumps(tree)


def necessary(condition: str) -> tuple[list[str], bool]:
    """JSON trees that every row which meets a Spark SQL condition also meets, and whether together
    they are equivalent to it.

    >>> necessary("day = '2024-01-01' AND length(name) > 3")[1]
    False
    """
    from deltaplane.expr.condition_tree import understood

    found, complete = understood(condition)
    return [json.dumps(tree) for tree in found], complete
