"""The builder that `DeltaTable.merge` returns, under deltalake's names: collects clauses and runs
them as one commit.

`commands.merge` implements the clauses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, overload

from deltaplane.arguments import checked
from deltaplane.commands.dry_run import DryRun
from deltaplane.commands.merge.clauses import Action, Clause, Kind, check, expression
from deltaplane.io.tracing import traced

if TYPE_CHECKING:
    from deltaplane.table.results import MergedRows

__all__ = ["MERGE_METRICS", "TableMerger"]

# Metrics that the result always has, even if no row changed.
MERGE_METRICS = (
    "num_source_rows",
    "num_output_rows",
    *(f"num_target_rows_{done}" for done in ("inserted", "updated", "deleted", "copied")),
    *(f"num_target_files_{done}" for done in ("added", "removed")),
    *(f"{what}_time_ms" for what in ("execution", "scan", "rewrite")),
)


@checked(updates="Mapping[str, Sql]", predicate="Sql | None")
class TableMerger:
    """A merge, run by `execute`. Clauses of a kind are tried in the order of their calls: the first
    clause with a true condition applies to a row, and only the last clause of a kind may lack a
    condition.

    Expressions are Spark SQL over the columns of both tables, qualified by aliases; expressions for
    rows of only one table can use only that table's columns.

    >>> import pyarrow as pa
    >>> from deltaplane import DeltaTable, write_deltalake
    >>> _ = write_deltalake("memory://doc-merger/t", pa.table({"id": [1, 2, 3], "n": [10, 20, 30]}))
    >>> table = DeltaTable("memory://doc-merger/t")
    >>> metrics = (
    ...     table.merge(pa.table({"id": [2, 4], "n": [5, 40]}), "t.id = s.id", source_alias="s", target_alias="t")
    ...     .when_matched_update({"n": "t.n + s.n"})
    ...     .when_not_matched_insert_all()
    ...     .when_not_matched_by_source_delete(predicate="t.id = 1")
    ...     .execute()
    ... )
    >>> [metrics[f"num_target_rows_{done}"] for done in ("updated", "inserted", "deleted")]
    [1, 1, 1]
    >>> sorted(map(tuple, (row.values() for row in table.to_pyarrow_table().to_pylist())))
    [(2, 25), (3, 30), (4, 40)]
    """

    def __init__(
        self, run: Callable[[Sequence[Clause], bool, bool], MergedRows | DryRun], table: object = None
    ) -> None:
        self._run = run
        # The table, for traces.
        self._table = table
        self._clauses: list[Clause] = []
        self._of_itself = False

    def with_source_of_itself(self) -> TableMerger:
        """Declares that the source was derived from the table's own rows, so that every concurrent
        change of rows is a conflict."""
        self._of_itself = True
        return self

    def when_matched_update(self, updates: Mapping[str, str], predicate: str | None = None) -> TableMerger:
        """Updates matched rows: column (or field of a struct, by its path) → expression."""
        return self._with("matched", "update", predicate, dict(updates))

    def when_matched_update_all(
        self, predicate: str | None = None, except_cols: Sequence[str] | str | None = None
    ) -> TableMerger:
        """Updates matched rows: assigns each column of the source, except `except_cols`, to the
        column of the same name."""
        return self._with("matched", "update", predicate, None, except_cols)

    def when_matched_delete(self, predicate: str | None = None) -> TableMerger:
        """Deletes matched rows."""
        return self._with("matched", "delete", predicate)

    def when_not_matched_insert(self, updates: Mapping[str, str], predicate: str | None = None) -> TableMerger:
        """Inserts source rows without a match: column → expression over the source. Other columns
        get their default, generated or identity value, or null."""
        return self._with("not_matched", "insert", predicate, dict(updates))

    def when_not_matched_insert_all(
        self, predicate: str | None = None, except_cols: Sequence[str] | str | None = None
    ) -> TableMerger:
        """Inserts source rows without a match, with each column of the source except
        `except_cols`."""
        return self._with("not_matched", "insert", predicate, None, except_cols)

    def when_not_matched_by_source_update(
        self, updates: Mapping[str, str], predicate: str | None = None
    ) -> TableMerger:
        """Updates rows that match no row of the source."""
        return self._with("not_matched_by_source", "update", predicate, dict(updates))

    def when_not_matched_by_source_delete(self, predicate: str | None = None) -> TableMerger:
        """Deletes rows that match no row of the source."""
        return self._with("not_matched_by_source", "delete", predicate)

    @overload
    def execute(self, *, dry_run: Literal[False] = False) -> MergedRows: ...
    @overload
    def execute(self, *, dry_run: Literal[True]) -> DryRun: ...
    @traced("MERGE")
    def execute(self, *, dry_run: bool = False) -> MergedRows | DryRun:
        """Runs the merge as one commit; the table's object moves to the committed version.

        Args:
            dry_run: whether to write nothing and return the planned changes as a `DryRun`. Reads
                the source, so a stream can't be used again.

        Returns:
            `num_target_rows_inserted`, `_updated`, `_deleted` and `_copied`, `num_source_rows`,
            `num_output_rows`, `num_target_files_added`, `_removed` and, after a commit, `_scanned`
            (those with rows that the join read), times in milliseconds and the other metrics of the
            commit. Nothing is committed if no row changes.

        Raises:
            InvalidArgumentError: no clause, an unreachable clause, an invalid expression, an
                unknown or ambiguous column, several source rows that change one row, an append-only
                table (P100), or a row for which computing a value fails.
            SchemaMismatchError: a value's type is incompatible with its column.
            ConstraintViolationError: a new row or value violates a constraint (P101-P105).
            UnsupportedExpressionError: deltaplane can't evaluate the named expression with Spark's
                result.
            DeltaConcurrentModificationException: another writer first changed rows that the merge
                read; nothing was committed.
        """
        check(self._clauses)
        return self._run(self._clauses, dry_run, self._of_itself)

    def _with(
        self,
        kind: Kind,
        action: Action,
        predicate: str | None,
        values: Mapping[str, str] | None = None,
        except_cols: Sequence[str] | str | None = None,
    ) -> TableMerger:
        if predicate is not None:
            expression(predicate, "a clause's predicate")
        for column, value in (values or {}).items():
            expression(value, f"the new value of `{column}`")
        # A single string is one column name, not a sequence of names.
        excepted = (except_cols,) if isinstance(except_cols, str) else tuple(except_cols or ())
        self._clauses.append(Clause(kind, action, predicate, values, excepted))
        return self
