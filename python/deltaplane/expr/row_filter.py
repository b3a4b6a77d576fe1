"""Selects rows by a predicate: the core prunes and filters, and DuckDB evaluates the rest of the
predicate.

Follows Spark: a row is selected if the condition is true for it; null doesn't select.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from deltaplane import expr
from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr import Predicate, columns_of
from deltaplane.io.arrow import KeptErrors, Scan

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane import _native
    from deltaplane.expr.program import Check

    Rows = _native.Scan
    # Starts a scan of the rows with these columns that satisfy a predicate.
    Start = Callable[[Sequence[str] | None, _native.Predicate | None], Rows]
    # Binds a predicate to the columns of rows, and raises if the core doesn't support it.
    Bind = Callable[[_native.Predicate], object]

__all__ = ["FilteredRows", "RowFilter", "row_filter", "scan_filter", "understands"]


class RowFilter(NamedTuple):
    """Every selected row satisfies `tree`, for the core, or None for all rows; `checks` select
    among these rows, all of which must be true."""

    tree: _native.Predicate | None = None
    checks: Sequence[Check] = ()

    def rows(self, columns: Sequence[str] | None, start: Start, location: str) -> Rows | FilteredRows:
        """The selected rows with these columns, or all of them for None; errors name the table at
        `location`."""
        if not self.checks:
            return start(columns, self.tree)
        if columns is None:
            return FilteredRows(start(None, self.tree), start(None, self.tree), self.checks, location)
        asked = {name.lower() for name in columns}
        needed = {name.lower(): name for check in self.checks for name in check.columns}
        extra = [name for key, name in needed.items() if key not in asked]
        return FilteredRows(start(columns, self.tree), start([*columns, *extra], self.tree), self.checks, location)


def row_filter(
    predicates: Sequence[Predicate | None], schema: Callable[[], _native.TableSchema], bind: Bind
) -> RowFilter:
    """The filter of some predicates, all of which must hold.

    Args:
        predicates: Spark SQL, or tuples as in `DeltaTable.scan`; None selects all rows.
        schema: the schema of the rows.
        bind: binds a predicate to the rows' columns, and raises if the core doesn't support it.

    Raises:
        InvalidArgumentError: not a condition, an unknown column, or a double-quoted text that may
            be a column.
        UnsupportedExpressionError: neither the core nor DuckDB can evaluate the named part with
            Spark's result.
    """
    from deltaplane._native import Predicate as Tree

    trees: list[Tree] = []
    checks: list[Check] = []
    for predicate in predicates:
        if not isinstance(predicate, str):
            tree = expr.parse(predicate, columns_of(schema))
            trees += [] if tree is None else [tree]
            continue
        expr.refuse_unclear(predicate, columns_of(schema))
        parts, complete = expr.necessary(predicate)
        bound = [part for part in parts if understands(bind, part)]
        trees += bound
        if not complete or len(bound) < len(parts):
            from deltaplane.expr.program import compile_boolean

            checks.append(compile_boolean(predicate, schema(), now_us=time.time_ns() // 1000))
    return RowFilter(Tree.all_of(trees), checks)


def scan_filter(snapshot: _native.Snapshot, *predicates: Predicate | None) -> RowFilter:
    """The filter of some predicates on the rows of one version.

    Raises:
        InvalidArgumentError, UnsupportedExpressionError: as `row_filter`.
    """
    return row_filter(predicates, lambda: snapshot.schema, lambda tree: snapshot.scan([], tree))


def understands(
    rows: _native.Snapshot | Bind, predicate: _native.Predicate, *, checked_elsewhere: bool = False
) -> bool:
    """Whether the core prunes and filters these rows by a predicate. Binds it; reads no file.

    Args:
        rows: a version of a table, or a function that binds a predicate to the columns of other
            rows.
        predicate: the tree.
        checked_elsewhere: whether another engine checks the whole expression, so that a tree with
            an unknown column or an invalid value only counts as not supported by the core.

    Raises:
        InvalidArgumentError: an unknown column, or a value of another type than its column's;
            unless the expression is checked elsewhere.
    """
    try:
        if callable(rows):
            rows(predicate)
        else:
            rows.scan([], predicate)
    except UnsupportedExpressionError:
        return False
    except InvalidArgumentError:
        if checked_elsewhere:
            return False
        raise
    return True


class FilteredRows:
    """Rows of the core that DuckDB filters during the read; each use starts again. `Scan` accepts
    it like the core's rows.

    `shown` has the columns of the result, which are the first ones of `native`.
    """

    def __init__(self, shown: Rows, native: Rows, checks: Sequence[Check], location: str) -> None:
        self._shown = shown
        self._native = native
        self._checks = checks
        self._location = location
        self._errors: KeptErrors | None = None

    def __arrow_c_schema__(self) -> object:
        return self._shown.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        import pyarrow as pa

        schema = pa.schema(self._shown)
        self._errors = errors = KeptErrors(self._batches(len(schema)), self._location)
        return pa.RecordBatchReader.from_batches(schema, iter(errors)).__arrow_c_stream__(requested_schema)

    def raise_error(self) -> None:
        """Raises the error that ended the last stream, if any."""
        if self._errors is not None:
            self._errors.raise_error()

    def _batches(self, width: int) -> Iterator[pa.RecordBatch]:
        from dataclasses import replace

        # A program has one connection, which concurrent streams can't share.
        checks = [replace(check, program=replace(check.program, _connection=None)) for check in self._checks]
        for batch in Scan(self._native).batches():
            for check in checks:
                batch = check.met(batch)
            if batch.num_rows:
                yield batch.select(list(range(width)))
