"""Selects the rows of a command: the core prunes and filters, and DuckDB evaluates the rest of the
condition.

Follows Spark: a row is selected if the condition is true for it; null doesn't select.
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
from deltaplane.io.hidden_columns import PLACE

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PredicateSelection", "RowSelection", "condition_on", "met_by_all"]


@dataclass
class RowSelection:
    """The selected rows of one version.

    Every selected row satisfies `tree`; `is_exact` means that no other row does.
    `sql` is the whole condition. With `reads_others` any row of the table may influence the
    selection.
    """

    sql: str | None = None
    tree: _native.Predicate | None = None
    is_exact: bool = True
    reads_others: bool = False

    def operation(self, name: str) -> Operation:
        """A command on these rows, in the log's form."""
        return Operation(name, self.parameters, self.tree, condition=self.sql, reads_others=self.reads_others)

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters for the history."""
        return {"predicate": json.dumps([] if self.sql is None else [self.sql])}

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The positions of the rows, in batches of the columns `_file` and `_row`."""
        raise NotImplementedError


class PredicateSelection(RowSelection):
    """A condition on single rows, bound to one version of a table; `check` evaluates it if the tree
    isn't exact.

    Raises:
        InvalidArgumentError: not a condition, or an unknown column.
        UnsupportedExpressionError: neither the core nor DuckDB can evaluate the named part with
            Spark's result.
    """

    def __init__(self, snapshot: _native.Snapshot, predicate: Predicate | None) -> None:
        super().__init__(None if predicate is None else str(predicate))
        self._snapshot = snapshot
        self.check: Check | None = None
        row_filter = scan_filter(snapshot, predicate)
        self.tree, self.is_exact = row_filter.tree, not row_filter.checks
        if row_filter.checks:
            (self.check,) = row_filter.checks

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The positions of the rows, in batches of the columns `_file` and `_row`."""
        if self.check is None:
            yield from Scan(self._snapshot.scan(list(PLACE), self.tree, encoded_files=True))
            return
        for batch in Scan(self._snapshot.scan([*self.check.columns, *PLACE], self.tree, encoded_files=True)):
            yield self.check.met(batch).select(list(PLACE))


def condition_on(snapshot: _native.Snapshot, predicate: Predicate | RowSelection | None) -> RowSelection:
    """A command's argument, bound to the version that it reads."""
    return predicate if isinstance(predicate, RowSelection) else PredicateSelection(snapshot, predicate)


def met_by_all(snapshot: _native.Snapshot, condition: str) -> tuple[_native.Predicate | None, bool]:
    """A tree that every matching row satisfies (None for all rows), and whether it is
    equivalent to the condition."""
    trees, complete = expr.necessary(condition)
    bound = [tree for tree in trees if understands(snapshot, tree)]
    return _native.Predicate.all_of(bound), complete and len(bound) == len(trees)
