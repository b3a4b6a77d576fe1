"""CREATE [OR REPLACE] TABLE [IF NOT EXISTS] table SHALLOW | DEEP CLONE source [VERSION | TIMESTAMP
AS OF …] [TBLPROPERTIES (…)] [LOCATION …] [DRY RUN]: `create` parses the part before SHALLOW or
DEEP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltaplane.commands.clone import Clone as What
from deltaplane.commands.clone import check_parquet_clone, clone_parquet
from deltaplane.exceptions import TableNotFoundError
from deltaplane.io.storage_options import location_text
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.sources import Catalog
from deltaplane.queries.syntax import TableName
from deltaplane.statements.common.columns import properties
from deltaplane.statements.common.statement import Session, one_row, runs_tasks
from deltaplane.table.delta_table import DeltaTable
from deltaplane.write.convert import Conversion, FilesHere

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["Clone", "is_clone", "read_clone"]


@dataclass
class Clone:
    """The source, and the handling of an existing table."""

    source: TableName
    shallow: bool
    mode: str
    must_exist: bool
    location: Callable[[Catalog], str]
    properties: dict[str, str] = field(default_factory=dict)
    place: str | None = None
    dry_run: bool = False

    def run(self, session: Session) -> pa.Table:
        """Clones the table; returns one row with delta-spark's columns."""
        location, options = self.place or self.location(session.catalog), session.catalog.storage_options
        there = DeltaTable.is_deltatable(location, options)
        if self.must_exist and not there:
            raise TableNotFoundError("REPLACE TABLE needs a table: use CREATE OR REPLACE TABLE", table=location)
        if there and self.mode == "ignore":
            return one_row(**dict.fromkeys(_COLUMNS))
        replaces = self.mode == "overwrite"
        metrics: Mapping[str, Any] | None = self._of_parquet(session, location, replaces=replaces)
        if metrics is None:
            metrics = self._of_delta(session, location, replaces=replaces)
        return one_row(**{name: metrics[metric] for name, metric in _COLUMNS.items()})

    def _of_delta(self, session: Session, location: str, *, replaces: bool) -> Mapping[str, Any]:
        source, options = session.catalog.table(self.source), session.catalog.storage_options
        if session.spark is not None and runs_tasks(session.spark):
            from deltaplane.spark.dml.optimize import clone_by_tasks

            what = replace(self._what(replaces), source_name=self._source_name(session.spark))
            return clone_by_tasks(session.spark, source, location, what, options)
        return source.clone(
            location,
            self.shallow,
            replace=replaces,
            properties=self.properties,
            storage_options=options,
            dry_run=self.dry_run,
        )

    def _of_parquet(self, session: Session, location: str, *, replaces: bool) -> dict[str, int] | None:
        """Clones Parquet files, named by their path or as a table of the session's catalog, and
        returns the metrics; None for a Delta table.

        Raises:
            UnsupportedFeatureError: a deep clone of Parquet files, or a version of them.
        """
        parts, options = self.source.parts, session.catalog.storage_options
        by_path = len(parts) == 2 and parts[0].lower() == "parquet"
        in_catalog = session.spark is not None and runs_tasks(session.spark)
        if session.catalog.knows(parts) or self.source.path is not None or not (by_path or in_catalog):
            return None
        if in_catalog:
            from deltaplane.spark.delta_api.parquet_tables import clone

            assert session.spark is not None
            has_version = self.source.version is not None
            return clone(session.spark, parts, location, self._what(replaces), options, has_version=has_version)
        check_parquet_clone(self._what(replaces), self.source.shown, has_version=self.source.version is not None)
        source = Conversion(location_text(parts[1]), options, collect_stats=False)
        # Writes an absolute path as Hadoop does, since the history outlives this process's working
        # directory.
        place = parts[1] if ":/" in parts[1] else f"file:{Path(parts[1]).absolute()}"
        return clone_parquet(source, FilesHere(source), f"parquet.`{place}`", (location, options), self._what(replaces))

    def _source_name(self, spark: SparkSession) -> str | None:
        """The source's full name in Spark's catalog, which the history records; None for a path."""
        from deltaplane.spark.jvm.names import qualified_name

        return None if self.source.path is not None else qualified_name(spark, ".".join(self.source.parts))

    def _what(self, replaces: bool) -> What:
        return What(self.shallow, replaces, self.properties, self.dry_run)


_COLUMNS = {
    "source_table_size": "sourceTableSize",
    "source_num_of_files": "sourceNumOfFiles",
    "num_removed_files": "numRemovedFiles",
    "num_copied_files": "numCopiedFiles",
    "removed_files_size": "removedFilesSize",
    "copied_files_size": "copiedFilesSize",
}


def is_clone(cursor: Grammar) -> bool:
    """Whether the parsed table is followed by a CLONE clause."""
    return cursor.peek() in ("shallow", "deep") and cursor.peek(1) == "clone"


def read_clone(cursor: Grammar, mode: str, must_exist: bool, location: Callable[[Catalog], str]) -> Clone:
    """Parses the statement from SHALLOW or DEEP on."""
    shallow = cursor.take("shallow")
    if not shallow:
        cursor.expect("deep")
    cursor.expect("clone")
    made = Clone(cursor.table(alias=False), shallow, mode, must_exist, location)
    if cursor.take("tblproperties"):
        made.properties = properties(cursor)
    if cursor.take("location"):
        made.place = cursor.text("a location")
    if cursor.take("dry"):
        cursor.expect("run")
        made.dry_run = True
    return made
