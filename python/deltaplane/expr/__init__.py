"""Converts predicates, as Spark SQL text or tuples, to the tree that the Rust core binds to a
table's schema.

Defines both notations; the core knows tables and types of columns. Constructs that the embedded
engine can't evaluate with Spark's result are refused by name, never approximated.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from deltaplane.expr.columns import NO_COLUMNS, Columns, columns_of

if TYPE_CHECKING:
    from deltaplane import _native

__all__ = ["NO_COLUMNS", "Columns", "Predicate", "columns_of", "necessary", "parse", "refuse_unclear"]

# Planning a query asks for the trees of each condition several times; longer texts are lists of
# values, which would fill the memory.
_MOST_CHARACTERS = 2_000

Predicate = str | list[tuple[str, str, Any]] | list[list[tuple[str, str, Any]]]


def refuse_unclear(condition: str, columns: Columns) -> None:
    """Refuses a condition with a double-quoted text that may be a column, according to `columns`.

    Raises:
        InvalidArgumentError: an ambiguous text; the message shows both spellings.
    """
    if '"' in condition:
        from deltaplane.expr.quoting import refuse_unclear as refuse

        refuse(condition, columns)


def parse(predicate: Predicate | None, columns: Columns = NO_COLUMNS) -> _native.Predicate | None:
    """The tree of a predicate for the core; `None` without a filter.

    Text is a Spark SQL condition. A list of `(column, operator, value)` tuples is a conjunction, a
    list of such lists a disjunction of conjunctions; operators are `= != < <= > >= in`, `not in`. A
    string value in a tuple is converted to the column's type; `None` means null. Timestamps without
    time zone are UTC. `columns` are the table's names, so that a double-quoted one is refused.

    >>> parse([("day", ">=", "2024-01-01")]).to_dict()["left"]["name"]
    ['day']
    """
    if predicate is None:
        return None
    from deltaplane._native import Predicate as Tree

    if isinstance(predicate, str):
        refuse_unclear(predicate, columns)
        from deltaplane.expr.condition_tree import condition_tree

        return Tree(condition_tree(predicate))
    from deltaplane.expr.tuples import from_tuples

    tree = from_tuples(predicate)
    return None if tree is None else Tree(tree)


def necessary(condition: str) -> tuple[list[_native.Predicate], bool]:
    """Predicates that every row which meets a Spark SQL condition also meets, and whether together
    they are equivalent to it.

    >>> necessary("day = '2024-01-01' AND length(name) > 3")[1]
    False
    """
    of_text = _necessary.__wrapped__ if len(condition) > _MOST_CHARACTERS else _necessary
    trees, complete = of_text(condition)
    return list(trees), complete


@lru_cache(maxsize=256)
def _necessary(condition: str) -> tuple[tuple[_native.Predicate, ...], bool]:
    from deltaplane._native import Predicate as Tree
    from deltaplane.expr.condition_tree import understood

    nodes, complete = understood(condition)
    return tuple(Tree(tree) for tree in nodes), complete
