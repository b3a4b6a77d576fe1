"""CREATE TABLE [IF NOT EXISTS] table LIKE source [USING delta] [TBLPROPERTIES (…)] [LOCATION …]:
creates a table without rows with the definition of another one, which in a Spark session may have
another format or be a view. `create` parses the part before LIKE. As in delta-spark, a table like a
Delta table is one too, whatever format the statement of a Spark session names.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.properties import CommitOperation
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.sources import Catalog
from deltaplane.queries.syntax import TableName
from deltaplane.report.describe import clustering_columns
from deltaplane.schema import Schema
from deltaplane.statements.common.columns import properties, refuse_reserved
from deltaplane.statements.common.statement import Session, one_row
from deltaplane.table.ddl_types import without_notes
from deltaplane.table.delta_table import DeltaTable

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)

__all__ = ["OWN_PROPERTIES", "CreateLike", "read_like"]

# Properties that writers maintain for one table's own columns and versions.
OWN_PROPERTIES = (
    "delta.columnMapping.maxColumnId",
    "delta.requireCheckpointProtectionBeforeVersion",
    "delta.rowTracking.materialized",
)


@dataclass
class CreateLike:
    """The new table's location, and the source."""

    source: TableName
    mode: Literal["error", "ignore"]
    place: Callable[[Catalog], str]
    properties: dict[str, str] = field(default_factory=dict)
    location: str | None = None
    # The format in the statement, if it isn't Delta.
    format: str | None = None
    # Whether a catalog chose the location.
    managed: bool = False

    def run(self, session: Session) -> pa.Table:
        """Creates the table in one commit, with the source's columns, partitions, clustering,
        comment and properties."""
        location, options = self.location or self.place(session.catalog), session.catalog.storage_options
        source = self._definition(session)
        if self.mode == "ignore" and DeltaTable.is_deltatable(location, options):
            return one_row(operation="CREATE TABLE", version=None)
        made = DeltaTable.create(
            location,
            source.schema,
            self.mode,
            source.partition_by or None,
            description=source.description,
            configuration={**source.properties, **self.properties},
            storage_options=options,
            cluster_by=source.cluster_by or None,
            operation=CommitOperation.definition("CREATE TABLE", fills=False, managed=self.managed),
        )
        return one_row(operation="CREATE TABLE", version=made.version())

    def _definition(self, session: Session) -> _Definition:
        try:
            source = _Definition.of(session.catalog.table(self.source))
        except InvalidArgumentError:
            if (source_definition := self._of_spark(session)) is None:
                raise
            if self.format is not None:
                raise InvalidArgumentError(
                    f"CREATE TABLE … LIKE creates Delta tables: leave USING {self.format} out, or give the columns in CREATE "
                    f"TABLE … USING {self.format}"
                ) from None
            return source_definition
        if self.format is not None:
            _log.warning(
                "%s is a Delta table, so the table that is created like it is one too: the format %s has no effect",
                self.source.shown,
                self.format,
            )
        return source

    def _of_spark(self, session: Session) -> _Definition | None:
        """The definition of a session's table in another format, or of its view."""
        if session.spark is None or self.source.path is not None:
            return None
        from deltaplane.spark.jvm.catalog_entries import definition
        from deltaplane.spark.jvm.internals import is_connect
        from deltaplane.spark.jvm.schema import delta_schema_json, quoted

        if is_connect(session.spark):
            return None
        found_definition = definition(session.spark, ".".join(map(quoted, self.source.parts)))
        if found_definition is None:
            return None
        columns, partition_by, description, properties = found_definition
        from pyspark.sql.types import StructType

        schema = delta_schema_json(StructType.fromJson(json.loads(columns)), keeps_lengths=True)
        return _Definition(Schema.from_json(schema), partition_by, description, properties)


@dataclass
class _Definition:
    """The parts of a definition that the new table takes over."""

    schema: Schema
    partition_by: list[str]
    description: str | None
    properties: dict[str, str]
    cluster_by: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, source: DeltaTable) -> _Definition:
        """The definition of a Delta table."""
        metadata = source.metadata()
        return cls(
            Schema.from_json(json.dumps(without_notes(source.schema().to_value()))),
            metadata.partition_columns,
            metadata.description,
            {k: v for k, v in metadata.configuration.items() if not k.startswith(OWN_PROPERTIES)},
            clustering_columns(source),
        )


def read_like(cursor: Grammar, mode: Any, place: Callable[[Catalog], str]) -> CreateLike:
    """Parses the statement from LIKE on."""
    token = cursor.at
    cursor.expect("like")
    if mode == "overwrite":
        cursor.wrong(
            "expected another statement: a table that is there isn't replaced by LIKE", cursor.tokens[token].start
        )
    made = CreateLike(cursor.table(alias=False), mode, place)
    while True:
        if cursor.take("using") or (not cursor.own_queries and cursor.take("stored", "as")):
            if cursor.own_queries and cursor.peek() not in ("delta", "deltaplane"):
                cursor.expected("DELTA: give the columns in CREATE TABLE … USING for a table in another format")
            name = cursor.name("a format")
            made.format = None if name.lower() in ("delta", "deltaplane") else name
        elif cursor.take("tblproperties"):
            token, made.properties = cursor.at, properties(cursor)
            refuse_reserved(cursor, token, made.properties)
        elif cursor.take("location"):
            made.location = cursor.text("a location")
        else:
            return made
