"""The commands of a `DeltaTable` on a Spark Connect session: the client accesses the table directly
and runs commands on the embedded engine, as `deltaplane.DeltaTable` does. A merge collects the
source's rows in the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltaplane.commands.delete import delete
from deltaplane.commands.merge.assignments import Assignments
from deltaplane.commands.merge.clauses import Clause
from deltaplane.commands.merge.run import Merge, merge
from deltaplane.commands.rewriting import CommandResult, Settings, Target
from deltaplane.commands.update import update
from deltaplane.spark.datasource.session import portable_reader
from deltaplane.spark.delta_api.connect_sql import sql_of
from deltaplane.spark.jvm.older_pyspark import arrow_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltaplane.spark.dml.merge import SparkMerge
    from deltaplane.spark.dml.rewriting import Expression

__all__ = ["ClientTable", "newest_rows"]


@dataclass(frozen=True)
class ClientTable:
    """The newest version of a table, for one command."""

    target: Target
    settings: Settings
    alias: str | None

    def delete(self, condition: Expression | None) -> CommandResult:
        """Deletes as `deltaplane.spark.dml.delete.delete` does."""
        return delete(self.target, self._text(condition), self.settings)

    def update(self, values: Mapping[str, Expression], condition: Expression | None) -> CommandResult:
        """Updates as `deltaplane.spark.dml.update.update` does."""
        texts = {name: sql_of(value) for name, value in values.items()}
        return update(
            self.target,
            Assignments(self.target.snapshot.schema, texts, {}),
            self._text(condition),
            self.settings,
        )

    def merge(self, what: SparkMerge) -> CommandResult:
        """Merges as `deltaplane.spark.dml.merge.merge` does, with all of the source's rows in the
        client's memory."""
        source: Any = what.source
        rows = arrow_table(source)
        plain_merge = Merge(
            source=rows.to_reader(),
            predicate=sql_of(what.condition),
            clauses=[_plain_clause(clause) for clause in what.clauses],
            # Reads the alias from the frame's outermost step, if `alias` made it.
            source_alias=getattr(source._plan, "_alias", None),
            target_alias=self.alias,
            merge_schema=what.merge_schema,
        )
        return merge(self.target, plain_merge, self.settings)

    def _text(self, condition: Expression | None) -> str | None:
        return None if condition is None else sql_of(condition)


def newest_rows(spark: SparkSession, location: str, options: Mapping[str, str] | None) -> DataFrame:
    """The table's rows in the newest version at the time when the server first analyses the frame;
    the server may cache that version."""
    return portable_reader(spark, options).load(location)


def _plain_clause(clause: Clause) -> Clause:
    return replace(
        clause,
        condition=None if clause.condition is None else sql_of(clause.condition),
        values=None if clause.values is None else {name: sql_of(value) for name, value in clause.values.items()},
    )
