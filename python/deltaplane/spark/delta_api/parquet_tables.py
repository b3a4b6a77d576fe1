"""Parquet tables of a session's catalog, and Parquet files at a path, as inputs of CONVERT TO DELTA
and SHALLOW CLONE."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.commands.clone import Clone, check_parquet_clone
from deltaplane.exceptions import InvalidArgumentError, TableNotFoundError, UnsupportedFeatureError
from deltaplane.spark.datasource.delta_options import default_properties
from deltaplane.spark.dml.optimize import clone_parquet_by_tasks, convert_by_tasks
from deltaplane.spark.jvm.catalog_entries import held_entry, held_property, held_table
from deltaplane.spark.jvm.internals import Jvm, NativeScanUnavailable
from deltaplane.spark.jvm.location import absolute_location
from deltaplane.spark.jvm.names import (
    FORMATS,
    MANAGED,
    default_location,
    drop_entry,
    qualified_name,
    register_name,
    shown_path,
)
from deltaplane.spark.jvm.schema import quoted, shown
from deltaplane.table.delta_table import DeltaTable
from deltaplane.write.convert import CatalogTable, Conversion, WouldConvert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltaplane.schema import Schema

__all__ = ["ParquetTable", "clone", "convert", "parquet_table"]

_log = logging.getLogger(__name__)

_CONVERTS, _CLONES = "CONVERT TO DELTA", "SHALLOW CLONE"
# The directory name for a null partition value.
_NULL = "__HIVE_DEFAULT_PARTITION__"
# Properties that a catalog sets itself.
_OF_CATALOG = ("spark.", "transient_lastDdlTime", "EXTERNAL", "numFiles", "totalSize")
# Formats whose files a path may name, none of which becomes a Delta table in place.
_OTHER_FORMATS = ("avro", "csv", "json", "orc", "text", "xml")


@dataclass(frozen=True)
class ParquetTable:
    """Parquet files at a location, with the entry of the session's catalog if they have a name.

    `is_delta`: the location or the name is already a Delta table's.
    """

    location: str
    name: str | None = None
    is_delta: bool = False
    entry: CatalogTable | None = None
    properties: Mapping[str, str] | None = None
    managed: bool = False

    @property
    def shown_name(self) -> str:
        """The name, formatted for error messages."""
        return "" if self.entry is None else self.entry.name.replace("`", "")

    @property
    def shown(self) -> str:
        """The source's name in the history of a clone."""
        if self.entry is not None:
            return self.shown_name
        place = shown_path(self.location)
        return f"parquet.`{'file:' if place.startswith('/') else ''}{place}`"


def parquet_table(
    spark: SparkSession, parts: Sequence[str], doing: str, options: dict[str, str] | None = None
) -> ParquetTable:
    """Resolves
    ``parquet.`path` ``, or a table of the session's catalog. `doing` is the calling command; `options`
    are those of a path's store.

    Raises:
        TableNotFoundError: the catalog has no such name.
        InvalidArgumentError: a view, or a table of another format.
    """
    name = ".".join(map(quoted, parts))
    if len(parts) == 2 and parts[0].lower() in ("parquet", *FORMATS) and held_entry(spark, name) is None:
        location = absolute_location(parts[1])
        return ParquetTable(location, is_delta=parts[0].lower() in FORMATS or _native.is_table(location, options))
    # Statements that change tables ignore temporary views.
    held = ("view", None) if doing == _CLONES and _is_temp_view(spark, parts) else held_entry(spark, name)
    if held is None and len(parts) == 2 and parts[0].lower() in _OTHER_FORMATS:
        held = (parts[0].lower(), parts[1])
    if held is None:
        raise TableNotFoundError(
            f"the session's catalog has no table or view `{'.'.join(parts)}`: give the files' path as parquet.`/path`"
        )
    kind, uri = held
    if kind == "view":
        raise InvalidArgumentError(f"{'.'.join(parts)} is a view, and {doing} takes a table: name the table itself")
    location = absolute_location(shown_path(uri if uri is not None else default_location(spark, name)))
    if kind.lower() in FORMATS:
        return ParquetTable(location, name, is_delta=True)
    if kind.lower() != "parquet":
        raise InvalidArgumentError(
            f"{'.'.join(parts)} has the format {kind}, and {doing} takes Parquet tables alone: write its rows to a new table"
        )
    return _held(spark, name, location)


def _is_temp_view(spark: SparkSession, parts: Sequence[str]) -> bool:
    try:
        return Jvm.of(spark).is_temp_view(spark, parts)
    except NativeScanUnavailable:
        return False


def _held(spark: SparkSession, name: str, location: str) -> ParquetTable:
    try:
        lines = Jvm.of(spark).catalog_entry(spark, name)
    except NativeScanUnavailable as e:
        raise UnsupportedFeatureError(
            f"what the catalog knows of {name} can't be read: {e}; give the files' path as parquet.`{location}`"
        ) from None
    fields: list[dict[str, Any]] = []
    columns, properties, managed = list[str](), dict[str, str](), False
    partitions: dict[str, dict[str, str | None]] | None = None
    root = shown_path(location).rstrip("/") + "/"
    for what, *said in lines:
        if what == "schema":
            fields = shown(json.loads(said[0]))["fields"]
        elif what == "column":
            columns.append(said[0])
        elif what == "property" and not said[0].startswith(_OF_CATALOG):
            properties[said[0]] = said[1]
        elif what == "managed":
            managed = True
        elif what == "tracked":
            partitions = {}
        elif what == "partition" and partitions is not None:
            place, values = shown_path(said[0]).rstrip("/"), dict(zip(said[1::2], said[2::2], strict=True))
            if not place.startswith(root):
                raise UnsupportedFeatureError(
                    f"the partition {values} of {name} is outside of the table, at {place}: a log names files below its own "
                    "table; INSERT the rows into a new table instead"
                )
            partitions[place.removeprefix(root)] = {
                column: None if value in ("", _NULL) else value for column, value in values.items()
            }
    shown_name = ".".join(map(quoted, qualified_name(spark, name).replace("`", "").split(".")))
    entry = CatalogTable(shown_name, fields, columns, partitions)
    return ParquetTable(location, name, _native.is_table(location, None), entry, properties, managed)


def convert(
    spark: SparkSession,
    parts: Sequence[str],
    columns: Schema | None = None,
    *,
    statistics: bool = True,
    dry_run: bool = False,
    options: dict[str, str] | None = None,
) -> tuple[str, WouldConvert | None]:
    """Turns Parquet files into a Delta table in place, and their catalog name into a Delta table's.
    An existing Delta table stays unchanged. Returns the location, and for a dry run the planned
    table.

    Raises:
        TableNotFoundError: the catalog has no such name.
        InvalidArgumentError: a view, a table of another format, files that can't form a table, or
            partition columns that differ from the catalog's.
        UnsupportedFeatureError: a partition is outside of the table's directory.
    """
    table = parquet_table(spark, parts, _CONVERTS, options)
    if not table.is_delta:
        _check_partitioning(table, columns)
        if table.entry is not None:
            what = Conversion(table.location, None, collect_stats=statistics, catalog_table=table.entry)
        else:
            strategy = None if columns is None else "hive"
            what = Conversion(table.location, options, "error", columns, strategy, statistics)
        properties = default_properties(spark, table.properties)
        would = convert_by_tasks(spark, what, dry_run=dry_run, configuration=properties)
        if dry_run:
            return table.location, would
    else:
        _log.warning("%s is a Delta table already: nothing was converted", table.location)
        if table.entry is not None:
            _check_properties(table)
    if table.name is not None and table.entry is not None and not dry_run:
        _hold_as_delta(spark, table.name, table)
    return table.location, None


def _check_partitioning(table: ParquetTable, columns: Schema | None) -> None:
    if columns is None or table.entry is None:
        return
    declared = ", ".join(f"{f.name} {f.type.to_value()}" for f in columns.fields)
    types = {field["name"]: field["type"] for field in table.entry.fields}
    held = ", ".join(f"{name} {types[name]}" for name in table.entry.partition_columns)
    if declared != held:
        raise InvalidArgumentError(
            f"the catalog partitions {table.shown_name} by ({held}), not by ({declared}): leave PARTITIONED BY out"
        )


def _check_properties(table: ParquetTable) -> None:
    """Refuses a table whose catalog entry and log have different properties, since one of both
    would be lost."""
    configuration = dict(DeltaTable(table.location).metadata().configuration)
    wanted = dict(table.properties or {})
    if {**configuration, **wanted} != configuration:
        raise InvalidArgumentError(
            f"the catalog gives {table.shown_name} the properties {wanted}, and the Delta table there has {configuration}: set "
            "them by ALTER TABLE of the path, or take them from the name, first"
        )


def _hold_as_delta(spark: SparkSession, name: str, table: ParquetTable) -> None:
    """Changes a Parquet table's catalog entry to the Delta table at the same location."""
    schema = json.dumps(shown(_native.Snapshot.open(table.location, None).schema.to_value()))
    properties = {MANAGED: "true"} if table.managed else {}
    Jvm.of(spark).change_catalog_entry(spark, name, "deltaplane", schema, properties)
    held = held_table(spark, name)
    if held is None or held[0] not in FORMATS or (held_property(spark, name, MANAGED) == "true") != table.managed:
        # Hive's catalog can't change an entry's format. The entry was made external before, so
        # dropping it keeps the files.
        drop_entry(spark, name)
        register_name(spark, name, table.location, managed=table.managed)


def clone(
    spark: SparkSession,
    parts: Sequence[str],
    target: str,
    what: Clone,
    options: Mapping[str, str] | None = None,
    *,
    has_version: bool = False,
) -> dict[str, int] | None:
    """Clones a Parquet table, or the files of a path, by reference; returns the metrics. Returns
    None if the name is a Delta table's. `has_version`: the statement requests a version of the
    source.

    Raises:
        TableNotFoundError, InvalidArgumentError, UnsupportedFeatureError: as in `convert`, or an
            unsupported kind of clone.
    """
    store = None if options is None else dict(options)
    table = parquet_table(spark, parts, _CLONES, store)
    if table.entry is None and parts[0].lower() != "parquet":
        return None
    check_parquet_clone(what, ".".join(parts), has_version=has_version)
    if table.is_delta:
        raise InvalidArgumentError(
            f"a Delta table is at {shown_path(table.location)}: clone it as delta.`{shown_path(table.location)}`"
        )
    what = replace(what, properties={**(table.properties or {}), **what.properties})
    conversion = Conversion(table.location, store, collect_stats=False, catalog_table=table.entry)
    return clone_parquet_by_tasks(spark, conversion, table.shown, target, what, options)
