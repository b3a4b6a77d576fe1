"""The builder that `DeltaTable.merge` returns, under deltalake's names: collects clauses, runs them
as one commit.

What a clause does is `commands.merge`'s matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

from deltaplane.arguments import checked
from deltaplane.commands.dry_run import DryRun
from deltaplane.commands.merge.clauses import Action, Clause, Kind, check, expression

__all__ = ["MERGE_METRICS", "TableMerger"]

# What the result always holds, also where nothing was to do.
MERGE_METRICS = (
    "num_source_rows",
    "num_output_rows",
    *(f"num_target_rows_{done}" for done in ("inserted", "updated", "deleted", "copied")),
    *(f"num_target_files_{done}" for done in ("added", "removed")),
    *(f"{what}_time_ms" for what in ("execution", "scan", "rewrite")),
)


@checked(updates="Mapping[str, Sql]", predicate="Sql | None")
class TableMerger:
    """A merge to be run by `execute`. Clauses of a kind are tried in the order in which they were
    added: the first one whose condition is true applies to a row, and only the last may have none.

    Expressions are Spark SQL over the columns of both tables, told apart by their aliases; rows
    that only one table has see that table's columns alone.

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

    def __init__(self, run: Callable[[Sequence[Clause], bool, bool], dict[str, Any] | DryRun]) -> None:
        self._run = run
        self._clauses: list[Clause] = []
        self._of_itself = False

    def with_source_of_itself(self) -> TableMerger:
        """Says that the source was made of the table's own rows: then every change of rows by
        others is a conflict."""
        self._of_itself = True
        return self

    def when_matched_update(self, updates: Mapping[str, str], predicate: str | None = None) -> TableMerger:
        """Gives columns new values in rows that match: column (or field of a struct, by its path) →
        expression."""
        return self._with("matched", "update", predicate, dict(updates))

    def when_matched_update_all(
        self, predicate: str | None = None, except_cols: Sequence[str] | str | None = None
    ) -> TableMerger:
        """Gives each column of the source, but `except_cols`, to the table's column of its name."""
        return self._with("matched", "update", predicate, None, except_cols)

    def when_matched_delete(self, predicate: str | None = None) -> TableMerger:
        """Deletes rows that match."""
        return self._with("matched", "delete", predicate)

    def when_not_matched_insert(self, updates: Mapping[str, str], predicate: str | None = None) -> TableMerger:
        """Adds rows of the source that match none: column → expression over the source. Columns
        that aren't named get their default, generated or identity value, or null."""
        return self._with("not_matched", "insert", predicate, dict(updates))

    def when_not_matched_insert_all(
        self, predicate: str | None = None, except_cols: Sequence[str] | str | None = None
    ) -> TableMerger:
        """Adds rows of the source that match none, with each column of the source but
        `except_cols`."""
        return self._with("not_matched", "insert", predicate, None, except_cols)

    def when_not_matched_by_source_update(
        self, updates: Mapping[str, str], predicate: str | None = None
    ) -> TableMerger:
        """Gives columns new values in rows that match no row of the source."""
        return self._with("not_matched_by_source", "update", predicate, dict(updates))

    def when_not_matched_by_source_delete(self, predicate: str | None = None) -> TableMerger:
        """Deletes rows that match no row of the source."""
        return self._with("not_matched_by_source", "delete", predicate)

    @overload
    def execute(self, *, dry_run: Literal[False] = False) -> dict[str, Any]: ...
    @overload
    def execute(self, *, dry_run: Literal[True]) -> DryRun: ...
    def execute(self, *, dry_run: bool = False) -> dict[str, Any] | DryRun:
        """Runs the merge as one commit; the table's object then shows the new version.

        Args:
            dry_run: whether to write nothing and tell what would be done, as a `DryRun`. The source
                is read for it: a stream can't be read again afterwards.

        Returns:
            `num_target_rows_inserted`, `_updated`, `_deleted` and `_copied`, `num_source_rows`,
            `num_output_rows`, `num_target_files_added` and `_removed`, times in milliseconds and
            more: what the commit's metrics hold. Where no row changes nothing is committed.

        Raises:
            InvalidArgumentError: no clause, one that can never apply, a wrong expression, an
                unknown or ambiguous column, several rows of the source that change one row, an
                append-only table (P100), or a row for which a value can't be computed.
            SchemaMismatchError: a value of a type that its column doesn't take.
            ConstraintViolationError: a new row or value breaks a constraint (P101-P105).
            UnsupportedExpressionError: something that isn't evaluated here as Spark does, by name.
            DeltaConcurrentModificationException: another writer changed what the merge read first;
                nothing was committed.
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
        # One name is no sequence of letters.
        excepted = (except_cols,) if isinstance(except_cols, str) else tuple(except_cols or ())
        self._clauses.append(Clause(kind, action, predicate, values, excepted))
        return self
