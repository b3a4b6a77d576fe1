"""The rows that a command is about: what the core prunes and filters by, and what is left for DuckDB to judge.

Spark's meaning throughout: a row is meant if the condition is true for it, not if it is null. Called by the commands.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltaplane import expr
from deltaplane.arrow_io import Scan
from deltaplane.commands.rewriting import Operation
from deltaplane.exceptions import UnsupportedExpressionError
from deltaplane.expr import Predicate
from deltaplane.expr.program import Check, compile_boolean
from deltaplane.expr.tree import all_of

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane import _native

__all__ = ["PLACE", "Condition"]

# The columns that say where a row stands.
PLACE = ("_file", "_row")


class Condition:
    """A condition bound to one version of a table.

    `tree` is met by every row that is meant, as JSON for the core; `check` decides where that doesn't suffice.

    Raises:
        InvalidArgumentError: not a condition, or an unknown column.
        UnsupportedExpressionError: a part that neither the core nor DuckDB evaluates as Spark does, by name.
    """

    def __init__(self, snapshot: _native.Snapshot, predicate: Predicate | None) -> None:
        self._snapshot = snapshot
        self.check: Check | None = None
        if not isinstance(predicate, str):
            self.tree = expr.parse(predicate)
            self.sql = None if predicate is None else str(predicate)
            return
        self.sql = predicate
        trees, complete = expr.necessary(predicate)
        bound = [tree for tree in trees if self._binds(tree)]
        self.tree = json.dumps(all_of([json.loads(tree) for tree in bound])) if bound else None
        if not complete or len(bound) < len(trees):
            self.check = compile_boolean(predicate, snapshot.schema_json(), now_us=time.time_ns() // 1000)

    def operation(self, name: str) -> Operation:
        """A command on these rows, as the log knows it."""
        return Operation(name, self.parameters, self.tree, condition=self.sql)

    @property
    def parameters(self) -> dict[str, str]:
        """What the history says of it."""
        return {"predicate": json.dumps([] if self.sql is None else [self.sql])}

    def _binds(self, tree: str) -> bool:
        try:
            self._snapshot.scan([], tree)
        except UnsupportedExpressionError:
            return False
        return True

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The places of the rows, in batches of the columns `_file` and `_row`."""
        if self.check is None:
            yield from Scan(self._snapshot.scan(list(PLACE), self.tree, encoded_files=True))
            return
        for batch in Scan(self._snapshot.scan([*self.check.columns, *PLACE], self.tree, encoded_files=True)):
            yield self.check.met(batch).select(list(PLACE))
