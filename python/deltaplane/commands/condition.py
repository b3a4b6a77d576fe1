"""Selects the rows of a command: the core's pruning and filter, and the rest of the condition for
DuckDB.

Spark's meaning throughout: a row is selected if the condition is true for it, not if it is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane import _native, expr
from deltaplane.commands.rewriting import Operation
from deltaplane.expr import Predicate
from deltaplane.expr.program import Check
from deltaplane.expr.row_filter import scan_filter, understands
from deltaplane.io.arrow import Scan

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PLACE", "PredicateSelection", "RowSelection", "condition_on", "met_by_all"]

# The columns that say where a row stands.
PLACE = ("_file", "_row")


@dataclass
class RowSelection:
    """The rows of one version that a command is about.

    Every selected row meets `tree`; `is_exact` says that no other row
    does. `sql` is the whole condition. With `reads_others` any row of the table may influence
    whether another one is selected.
    """

    sql: str | None = None
    tree: _native.Predicate | None = None
    is_exact: bool = True
    reads_others: bool = False

    def operation(self, name: str) -> Operation:
        """A command on these rows, as the log knows it."""
        return Operation(name, self.parameters, self.tree, condition=self.sql, reads_others=self.reads_others)

    @property
    def parameters(self) -> dict[str, str]:
        """What the history says of it."""
        return {"predicate": json.dumps([] if self.sql is None else [self.sql])}

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The places of the rows, in batches of the columns `_file` and `_row`."""
        raise NotImplementedError


class PredicateSelection(RowSelection):
    """A condition on one row each, bound to one version of a table; `check` decides where the tree
    doesn't suffice.

    Raises:
        InvalidArgumentError: not a condition, or an unknown column.
        UnsupportedExpressionError: a part that neither the core nor DuckDB evaluates as Spark does,
            by name.
    """

    def __init__(self, snapshot: _native.Snapshot, predicate: Predicate | None) -> None:
        super().__init__(None if predicate is None else str(predicate))
        self._snapshot = snapshot
        self.check: Check | None = None
        found = scan_filter(snapshot, predicate)
        self.tree, self.is_exact = found.tree, not found.checks
        if found.checks:
            (self.check,) = found.checks

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The places of the rows, in batches of the columns `_file` and `_row`."""
        if self.check is None:
            yield from Scan(self._snapshot.scan(list(PLACE), self.tree, encoded_files=True))
            return
        for batch in Scan(self._snapshot.scan([*self.check.columns, *PLACE], self.tree, encoded_files=True)):
            yield self.check.met(batch).select(list(PLACE))


def condition_on(snapshot: _native.Snapshot, given: Predicate | RowSelection | None) -> RowSelection:
    """What a command is given, bound to the version that it reads."""
    return given if isinstance(given, RowSelection) else PredicateSelection(snapshot, given)


def met_by_all(snapshot: _native.Snapshot, condition: str) -> tuple[_native.Predicate | None, bool]:
    """A tree that every row meets which meets a condition, None for all rows; and whether
    it is all of it."""
    trees, complete = expr.necessary(condition)
    bound = [tree for tree in trees if understands(snapshot, tree)]
    return _native.Predicate.all_of(bound), complete and len(bound) == len(trees)
