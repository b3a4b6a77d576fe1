"""deltalake's MERGE: collects clauses in its SQL, then runs deltaplane's merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from deltaplane.deltalake._commits import commit_properties, hook_properties, writer_properties
from deltaplane.deltalake._dialect import spark_sql
from deltaplane.deltalake._filters import types_of
from deltaplane.deltalake._history import EARLY_FILTER, early_filter

if TYPE_CHECKING:
    import pyarrow as pa
    from arro3.core import Schema as ArrowSchema

    import deltaplane
    from deltaplane.properties import CommitProperties
    from deltaplane.schema import Schema

__all__ = ["PyMergeBuilder", "own_assignments"]


@dataclass
class _Clause:
    method: str
    predicate: str | None
    updates: Mapping[str, str] | None = None
    except_cols: list[str] | None = None


@dataclass
class PyMergeBuilder:
    """A merge in the making; each `when_…` method adds a clause."""

    source: Any
    arrow_schema: ArrowSchema
    predicate: str
    source_alias: str | None
    target_alias: str | None
    merge_schema: bool
    safe_cast: bool
    streamed_exec: bool
    max_spill_size: int | None
    max_temp_directory_size: int | None
    writer_properties: Any
    commit_properties: Any
    post_commithook_properties: Any
    clauses: list[_Clause] = field(default_factory=list)

    def when_matched_update(self, updates: dict[str, str], predicate: str | None) -> None:
        """Updates matched rows."""
        self.clauses.append(_Clause("when_matched_update", predicate, updates))

    def when_matched_update_all(self, predicate: str | None, except_cols: list[str] | None) -> None:
        """Updates all columns of matched rows."""
        self.clauses.append(_Clause("when_matched_update_all", predicate, None, except_cols or []))

    def when_matched_delete(self, predicate: str | None) -> None:
        """Deletes matched rows."""
        self.clauses.append(_Clause("when_matched_delete", predicate))

    def when_not_matched_insert(self, updates: dict[str, str], predicate: str | None) -> None:
        """Inserts rows of the source."""
        self.clauses.append(_Clause("when_not_matched_insert", predicate, updates))

    def when_not_matched_insert_all(self, predicate: str | None, except_cols: list[str] | None) -> None:
        """Inserts rows of the source with all columns."""
        self.clauses.append(_Clause("when_not_matched_insert_all", predicate, None, except_cols or []))

    def when_not_matched_by_source_update(self, updates: dict[str, str], predicate: str | None) -> None:
        """Updates rows that no row of the source matches."""
        self.clauses.append(_Clause("when_not_matched_by_source_update", predicate, updates))

    def when_not_matched_by_source_delete(self, predicate: str | None) -> None:
        """Deletes rows that no row of the source matches."""
        self.clauses.append(_Clause("when_not_matched_by_source_delete", predicate))

    def run(self, table: deltaplane.DeltaTable) -> dict[str, Any]:
        """Runs the merge on a table; returns its metrics."""
        schema = table.schema()
        source, commit = self.source, commit_properties(self.commit_properties)
        if not self.streamed_exec:
            # As in deltalake, such a source is held in memory, so that its keys are known.
            source = source.read_all()
            commit = self._with_early_filter(commit, source, list(table.metadata().partition_columns))
        merger = table.merge(
            source,
            spark_sql(self.predicate),
            self.source_alias,
            self.target_alias,
            self.merge_schema,
            writer_properties=writer_properties(self.writer_properties),
            max_spill_size=self.max_spill_size,
            max_temp_directory_size=self.max_temp_directory_size,
            commit_properties=commit,
            post_commithook_properties=hook_properties(self.post_commithook_properties),
        )
        for clause in _reachable(self.clauses):
            condition = None if clause.predicate is None else spark_sql(clause.predicate)
            method = getattr(merger, clause.method)
            if clause.updates is not None:
                method(self._assignments(clause.updates, schema), condition)
            elif clause.except_cols is not None and (assigned := self._of_source(clause.except_cols, schema)):
                getattr(merger, clause.method.removesuffix("_all"))(self._assignments(assigned, schema), condition)
            elif clause.except_cols is not None:
                method(condition, clause.except_cols or None)
            else:
                method(condition)
        return dict(merger.execute())

    def _with_early_filter(
        self, commit: CommitProperties, source: pa.Table, partition_columns: Sequence[str]
    ) -> CommitProperties:
        """The properties with the condition on the table's rows that the source's keys imply."""
        if self.source_alias is None or self.target_alias is None or not source.num_rows:
            return commit
        if any("not_matched_by_source" in clause.method for clause in self.clauses):
            return commit
        condition = early_filter(self.predicate, (self.source_alias, self.target_alias), source, partition_columns)
        if condition is None:
            return commit
        metadata = dict(commit.custom_metadata or {})
        parameters = {EARLY_FILTER: condition, **metadata.get("operationParameters", {})}
        return replace(commit, custom_metadata={**metadata, "operationParameters": parameters})

    def _of_source(self, except_cols: list[str], schema: Schema) -> dict[str, str] | None:
        """Each column of the source as an assignment, where values have to be cast; else None."""
        import pyarrow as pa

        own = {field.name: field.type for field in pa.schema(schema)}
        source = {field.name: field.type for field in pa.schema(self.arrow_schema)}
        names = [name for name in source if name not in except_cols and (name in own or self.merge_schema)]
        is_same = all(own.get(name, source[name]) == source[name] for name in names)
        if is_same or self.source_alias is None:
            return None
        return {_quoted(name): f"{self.source_alias}.{_quoted(name)}" for name in names}

    def _assignments(self, updates: Mapping[str, str], schema: Schema) -> dict[str, str]:
        plain = {_without_alias(column, self.target_alias): value for column, value in updates.items()}
        return own_assignments(plain, schema, safe_cast=self.safe_cast)


def _reachable(clauses: Sequence[_Clause]) -> list[_Clause]:
    """The clauses that can apply: none of a kind after one without a condition."""
    ended: set[str] = set()
    reachable = []
    for clause in clauses:
        kind = next(k for k in ("not_matched_by_source", "not_matched", "matched") if f"when_{k}" in clause.method)
        if kind not in ended:
            reachable.append(clause)
        if clause.predicate is None:
            ended.add(kind)
    return reachable


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _without_alias(column: str, alias: str | None) -> str:
    for spelled in (alias, f'"{alias}"', f"`{alias}`") if alias else ():
        if column.startswith(f"{spelled}."):
            return column.removeprefix(f"{spelled}.")
    return column


def own_assignments(
    updates: Mapping[str, str], schema: Schema, *, safe_cast: bool, operands: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Column → expression in Spark SQL.

    Args:
        updates: column → expression in deltalake's dialect.
        schema: the table's.
        safe_cast: values that a column's type doesn't have become null.
        operands: the types of the columns that the expressions use, if each name is one column.
    """
    types = types_of(schema)
    names = {name.lower(): name for name in types}
    assigned = {}
    for column, value in updates.items():
        expression = spark_sql(value, operands)
        path = _path(column, names)
        kind = types.get(names.get(column.strip('"`').lower(), ""))
        if kind is not None and kind not in ("struct", "array", "map", "variant"):
            cast = "try_cast" if safe_cast else "CAST"
            expression = f"{cast}({expression} AS {_SQL_TYPES.get(kind, kind)})"
        assigned[path] = expression
    return assigned


# Types whose names in a schema and in SQL differ.
_SQL_TYPES = {"long": "BIGINT", "integer": "INT", "short": "SMALLINT", "byte": "TINYINT"}


def _path(column: str, names: Mapping[str, str]) -> str:
    """A column's path; a name of the table with other characters gets backticks."""
    if column.lower() in names and not column.replace("_", "a").isalnum():
        return f"`{column.replace('`', '``')}`"
    return spark_sql(column)
