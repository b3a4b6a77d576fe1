"""`df.mergeInto` for Delta tables: implements Spark's own merge builder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deltaplane.commands.merge.clauses import check
from deltaplane.spark.datasource.delta_options import merges_schema
from deltaplane.spark.delta_api.tables import DeltaMergeBuilder, DeltaTable
from deltaplane.spark.dml.merge import merge
from deltaplane.spark.errors.spark_errors import with_spark_errors
from deltaplane.spark.jvm.internals import Jvm
from deltaplane.spark.jvm.names import path_of, qualified_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["MergeWriter"]

_Add = Callable[[DeltaMergeBuilder], DeltaMergeBuilder]


@with_spark_errors
class MergeWriter:
    """A merge of a frame's rows into a table, run by `merge`; has the methods of PySpark's
    `MergeIntoWriter`."""

    def __init__(self, frame: DataFrame, name: str, condition: Column) -> None:
        spark, path = frame.sparkSession, path_of(name)
        self._table = DeltaTable.forName(spark, name)
        full = ["spark_catalog", "delta", path] if path is not None else qualified_name(spark, name).split(".")
        self._qualifiers = [part.strip("`") for part in full]
        alias = self._qualifiers[-1]
        self._builder = self._table.alias(alias).merge(frame, condition)
        self._spark = spark

    def whenMatched(self, condition: Column | None = None) -> _Clause:
        """A clause for matched rows."""
        return _Clause(self, "Matched", condition)

    def whenNotMatched(self, condition: Column | None = None) -> _Clause:
        """A clause for the frame's rows without a match."""
        return _Clause(self, "NotMatched", condition)

    def whenNotMatchedBySource(self, condition: Column | None = None) -> _Clause:
        """A clause for the table's rows without a match."""
        return _Clause(self, "NotMatchedBySource", condition)

    def withSchemaEvolution(self) -> MergeWriter:
        """Adds columns that only the frame has to the table, if a clause uses them."""
        self._builder = self._builder.withSchemaEvolution()
        return self

    def merge(self) -> None:
        """Runs the merge as one commit."""
        what, table = self._builder._what, self._table
        check(what.clauses)
        what = replace(what, merge_schema=what.merge_schema or merges_schema(self._spark))
        target = replace(table._target(), alias=self._qualifiers[-1], qualifiers=self._qualifiers)
        Jvm.of(self._spark)
        merge(target, what, table._settings(False))

    def _add(self, add: _Add) -> MergeWriter:
        self._builder = add(self._builder)
        return self


class _Clause:
    """A clause before the choice of its action."""

    def __init__(self, writer: MergeWriter, rows: str, condition: Column | None) -> None:
        self._writer, self._rows, self._condition = writer, rows, condition

    def updateAll(self) -> MergeWriter:
        """Assigns the frame's values to the table's columns of the same names."""
        return self._added("UpdateAll")

    def update(self, assignments: Mapping[str, Any]) -> MergeWriter:
        """Assigns new values to columns."""
        return self._added("Update", dict(assignments))

    def insertAll(self) -> MergeWriter:
        """Inserts the rows with the frame's columns."""
        return self._added("InsertAll")

    def insert(self, assignments: Mapping[str, Any]) -> MergeWriter:
        """Inserts rows with these values."""
        return self._added("Insert", dict(assignments))

    def delete(self) -> MergeWriter:
        """Deletes the rows."""
        return self._added("Delete")

    def _added(self, action: str, *values: Any) -> MergeWriter:
        name = f"when{self._rows}{action}"
        return self._writer._add(lambda builder: getattr(builder, name)(self._condition, *values))
