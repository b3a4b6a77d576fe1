"""Divisors that a branch of CASE or IF can't meet as zero, by the conditions before the branch, as
in `CASE WHEN n > 0 THEN x / n END`.

Judges trees alone, and knows no column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal

from deltaplane.expr.syntax import Call, Literal, Syntax

__all__ = ["branch_facts"]

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "==": "==", "<>": "<>", "!=": "!="}
# For a comparison with a number on its right: whether zero meets it.
_ZERO_MEETS: dict[str, Callable[[Decimal], bool]] = {
    "<": lambda n: n > 0,
    "<=": lambda n: n >= 0,
    ">": lambda n: n < 0,
    ">=": lambda n: n <= 0,
    "=": lambda n: n == 0,
    "==": lambda n: n == 0,
    "<>": lambda n: n != 0,
    "!=": lambda n: n != 0,
}


def branch_facts(call: Call, known: frozenset[Syntax]) -> Iterator[frozenset[Syntax]]:
    """For each argument of CASE or IF, the trees that aren't zero where the argument is evaluated;
    they may be null. `known` are those of the call itself.

    >>> from deltaplane.expr.syntax import parse
    >>> tree = parse("CASE WHEN n = 0 THEN n WHEN m > 0 THEN n / m ELSE 1 / n END")
    >>> [sorted(name.parts[0] for name in facts) for facts in branch_facts(tree, frozenset())]
    [[], [], ['n'], ['m', 'n'], ['n']]
    """
    for i in range(len(call.args)):
        if i % 2 == 0:
            # A condition, or the last value, is evaluated where no condition before it is true.
            yield known
        else:
            yield known | _nonzero(call.args[i - 1], True)
            known |= _nonzero(call.args[i - 1], False)


def _nonzero(condition: Syntax, holds: bool) -> frozenset[Syntax]:
    """The trees that aren't zero where a condition is true, or where it isn't true."""
    none: frozenset[Syntax] = frozenset()
    if type(condition) is not Call:
        return none
    if condition.name == "not":
        # Where NOT isn't true, its argument may also be null.
        return _nonzero(condition.args[0], False) if holds else none
    if condition.name == ("and" if holds else "or"):
        return none.union(*(_nonzero(arg, holds) for arg in condition.args))
    if condition.name not in _ZERO_MEETS:
        return none
    left, right = condition.args
    for tree, number, name in ((left, right, condition.name), (right, left, _MIRRORED[condition.name])):
        value = _number(number)
        # Zero must fail the test that holds, or pass the one that doesn't.
        if value is not None and _number(tree) is None and _ZERO_MEETS[name](value) != holds:
            return frozenset({tree})
    return none


def _number(node: Syntax) -> Decimal | None:
    if isinstance(node, Literal) and node.type.numeric and isinstance(node.value, str):
        return Decimal(node.value)
    return None
