"""`df.writeTo(table)` for Delta tables: Spark's second writer, with its verbs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrameWriterV2

from deltaplane import DeltaTable
from deltaplane.exceptions import (
    InvalidArgumentError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedExpressionError,
)
from deltaplane.properties import CommitOperation
from deltaplane.schema import Schema
from deltaplane.spark.datasource.delta_options import (
    default_properties,
    for_store,
    merges_schema,
    number,
    transaction,
    user_metadata,
    write_operation,
)
from deltaplane.spark.datasource.file_options import BLOOM_FILTERS, file_properties, is_own
from deltaplane.spark.datasource.stream_options import flag
from deltaplane.spark.delta_api.property_rules import refuse_properties
from deltaplane.spark.errors.spark_errors import with_spark_errors
from deltaplane.spark.execution.store_cast import as_table_takes, check_partitions
from deltaplane.spark.jvm.internals import Jvm
from deltaplane.spark.jvm.location import absolute_location
from deltaplane.spark.jvm.names import (
    FORMATS,
    check_free,
    check_unused,
    default_location,
    held_location,
    is_managed,
    path_of,
    register_name,
)
from deltaplane.spark.jvm.schema import delta_schema_json
from deltaplane.spark.jvm.session_catalogs import full_name, refuse_format
from deltaplane.spark.jvm.spark_versions import check_clusters_are_ours, has_sources
from deltaplane.spark.writing.frame_writer import write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

__all__ = ["WriterV2"]

# deltaplane's options; others are the store's.
_OWN = frozenset(
    "path txnappid txnversion usermetadata mergeschema overwriteschema optimizewrite targetfilesize maxrecordsperfile".split()
) | {BLOOM_FILTERS}


# Spark's text for a subquery in a condition that it hasn't analysed.
_SUBQUERY = re.compile(r"\b(listquery|scalarsubquery|exists)\(\)", re.IGNORECASE)


@with_spark_errors
class WriterV2(DataFrameWriterV2):
    """Writes to a Delta table if the name is a path's or a Delta table's, or if `using` requests
    it; otherwise Spark writes."""

    def __init__(self, df: DataFrame, table: str) -> None:
        super().__init__(df, table)
        self._frame, self._name = df, table
        self._provider: str | None = None
        self._options: dict[str, str] = {}
        self._properties: dict[str, str] = {}
        self._by: list[str] = []
        self._clusters: list[str] | None = None
        self._for_store: tuple[dict[str, str], dict[str, str] | None] | None = None

    # --- what is written, and how ---------------------------------------------------------------------------------------

    def using(self, provider: str) -> Any:
        self._provider = provider.lower()
        return super().using(provider)

    def option(self, key: str, value: Any) -> Any:
        self._options[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return super().option(key, value)

    def options(self, **options: Any) -> Any:
        for key, value in options.items():
            self.option(key, value)
        return self

    def tableProperty(self, property: str, value: str) -> Any:
        self._properties[property] = value
        return super().tableProperty(property, value)

    def partitionedBy(self, col: Any, *cols: Any) -> Any:
        if self._is_ours():
            self._by = [_column_of(self._spark, column) for column in (col, *cols)]
            return self
        return super().partitionedBy(col, *cols)

    def clusterBy(self, col: str, *cols: str) -> Any:
        self._clusters = [col, *cols]
        if has_sources():
            return super().clusterBy(col, *cols)
        check_clusters_are_ours(self._is_ours())
        return self

    # --- verbs ----------------------------------------------------------------------------------------------------------

    def create(self) -> None:
        if not self._is_ours():
            super().create()
            return
        self._make("CREATE TABLE")

    def replace(self) -> None:
        if not self._is_ours():
            super().replace()
            return
        self._make("REPLACE TABLE")

    def createOrReplace(self) -> None:
        if not self._is_ours():
            super().createOrReplace()
            return
        self._make("CREATE OR REPLACE TABLE")

    def append(self) -> None:
        if not self._is_written_here():
            super().append()
            return
        self._write(self._there(), "append")

    def overwrite(self, condition: Any) -> None:
        """Replaces the rows that match a condition."""
        if not self._is_written_here():
            super().overwrite(condition)
            return
        text = str(condition)
        if isinstance(condition, Column):
            text = Jvm.of(self._frame.sparkSession).condition_sql(self._frame.where(condition))
            if _SUBQUERY.search(text):
                raise UnsupportedExpressionError(
                    "a subquery can't stand here: write its result instead, or DELETE the rows by a condition with the subquery, "
                    "and append the new ones"
                )
        self._write(self._there(), "overwrite", None if text.lower() == "true" else text)

    def overwritePartitions(self) -> None:
        """Replaces the partitions with new rows; in a table without partitions, replaces all
        rows."""
        if not self._is_written_here():
            super().overwritePartitions()
            return
        location = self._there()
        check_partitions(self._frame.columns, location, self._store())
        self._write(location, "overwrite", dynamic=True)

    # --- within ---------------------------------------------------------------------------------------------------------

    def _is_ours(self) -> bool:
        own = full_name(self._frame.sparkSession, self._name)
        if self._provider is not None:
            if own is not None and self._provider not in FORMATS:
                advice = "leave using out, or write to spark_catalog"
                refuse_format(own, self._provider, said_by="the writer", advice=advice)
            return self._provider in FORMATS
        return own is not None or self._known() is not None

    def _is_written_here(self) -> bool:
        """Whether the rows go to a Delta table; an existing table's format takes precedence over
        `using`."""
        return self._known() is not None or self._is_ours()

    def _known(self) -> str | None:
        """The location for the name, if it has one."""
        path = path_of(self._name)
        return held_location(self._frame.sparkSession, self._name) if path is None else absolute_location(path)

    def _there(self) -> str:
        location = self._known()
        if location is None or not DeltaTable.is_deltatable(location, self._store()):
            raise TableNotFoundError(
                f"there is no Delta table `{self._name}` to be written to: create() makes one", table=location
            )
        return location

    def _make(self, statement: str) -> None:
        check_free(self._frame.sparkSession, self._name, replaces=statement != "CREATE TABLE")
        location = self._known()
        there = location is not None and DeltaTable.is_deltatable(location, self._store())
        if there and statement == "CREATE TABLE":
            raise TableAlreadyExistsError("a table is here already: append, or createOrReplace", table=location)
        if statement == "REPLACE TABLE" and not there:
            raise TableNotFoundError(f"there is no Delta table `{self._name}` to be replaced: use createOrReplace")
        if there and self._said("overwriteschema") == "false":
            raise InvalidArgumentError(
                "The usage of overwriteSchema is not allowed when replacing a Delta table: a table that is replaced gets the "
                "frame's columns; leave the option out, or use overwrite or append",
                table=location,
            )
        spark = self._frame.sparkSession
        stated = self._stated_path()
        if location is not None and stated is not None and absolute_location(stated) != absolute_location(location):
            raise InvalidArgumentError(
                f"the table {self._name} is at {location}, and the writer says {stated}: leave the place out, or drop the name first"
            )
        place = location or stated or default_location(spark, self._name)
        if location is None:
            check_unused(absolute_location(place), self._store(), even_tables=statement == "CREATE TABLE")
            there = DeltaTable.is_deltatable(absolute_location(place), self._store())
        self._write(place, "overwrite" if there else "error", makes=statement)
        if path_of(self._name) is None:
            register_name(spark, self._name, place, self._store(), managed=location is None and stated is None)

    def _stated_path(self) -> str | None:
        """The explicit location of a new table, if any."""
        path_option = next((value for key, value in self._options.items() if key.lower() == "path"), None)
        return path_option or self._properties.get("location")

    def _definition(self) -> dict[str, str]:
        """The properties of a new table. As in delta-spark, options with Delta's names set them; a
        write to an existing table ignores these options."""
        options = {key: value for key, value in self._options.items() if key.lower().startswith("delta.")}
        properties = {key: value for key, value in self._properties.items() if key not in ("comment", "location")}
        return {**properties, **options}

    def _said(self, option: str) -> str | None:
        """The value of an option, by its name in lower case."""
        return next((value.lower() for key, value in self._options.items() if key.lower() == option), None)

    def _store(self) -> dict[str, str] | None:
        others = {
            key: value
            for key, value in self._options.items()
            if not is_own(key, _OWN) and not key.lower().startswith("delta.")
        }
        if self._for_store is None or self._for_store[0] != others:
            # Unknown options are logged once.
            self._for_store = others, for_store(others, _OWN)
        return self._for_store[1]

    def _write(
        self, location: str, mode: Any, where: str | None = None, *, dynamic: bool = False, makes: str | None = None
    ) -> None:
        own = {key.lower(): value for key, value in self._options.items() if is_own(key, _OWN)}
        spark = self._frame.sparkSession
        merges = merges_schema(spark, own)
        # Settings of Spark in addition to a table's properties.
        properties = self._definition()
        if makes:
            columns = Schema.from_json(delta_schema_json(self._frame.schema)).fields
            refuse_properties(properties, columns, self._by)
        write(
            # As in delta-spark, values of other types are cast to the table's types.
            self._frame if makes else as_table_takes(self._frame, location, self._store(), grows=merges),
            location,
            mode,
            self._by if makes else None,
            "overwrite" if makes and mode == "overwrite" else "merge" if merges else None,
            where,
            transaction(spark, own),
            self._store(),
            user_metadata(spark, own),
            description=self._properties.get("comment") if makes else None,
            configuration=default_properties(spark, properties) if makes else None,
            target_file_size=number(own, "targetFileSize") if "targetfilesize" in own else None,
            writer_properties=file_properties(own),
            max_records_per_file=number(own, "maxRecordsPerFile") if "maxrecordsperfile" in own else None,
            optimize_write=flag(own, "optimizewrite") if "optimizewrite" in own else None,
            partition_overwrite_mode="dynamic" if dynamic else "static",
            cluster_by=self._clusters if makes else None,
            all_nullable=True,
            operation=write_operation(spark, own)
            if makes is None
            else CommitOperation.definition(
                makes,
                fills=True,
                replaces=mode == "overwrite",
                managed=is_managed(spark, self._name, self._stated_path()),
            ),
        )


def _column_of(spark: Any, column: Any) -> str:
    """The name of a partition column."""
    if isinstance(column, str):
        return column
    jvm = Jvm.of(spark)
    text = jvm.text_of(column)
    if jvm.column_kind(column) != "UnresolvedAttribute":
        raise UnsupportedExpressionError(
            f"Delta tables are partitioned by columns, not by {text}: add a generated column and partition by that"
        )
    parts: Sequence[str] = [part.strip("`") for part in text.split(".")]
    return parts[-1]
