"""Owns what a version says of its table, and what is known of features and properties."""

from __future__ import annotations

from typing import Any

from deltaplane.io.records.record import Record


class TableField(Record):
    """One column; `data_type` is a primitive type's name, or the type's parts by the names of a
    `schemaString`."""

    name: str
    data_type: str | dict[str, Any]
    nullable: bool
    metadata: dict[str, Any]


class TableInfo(Record):
    """The table's metadata without its columns."""

    id: str
    name: str | None
    description: str | None
    partition_columns: list[str]
    created_time: int | None
    configuration: dict[str, str]


class Protocol(Record):
    """A table's protocol; `features` are those that it lists or that its versions imply."""

    min_reader_version: int
    min_writer_version: int
    reader_features: list[str] | None
    writer_features: list[str] | None
    features: list[str]


class Protocols(Record):
    """A table's protocol before and after a commit; of a table that the commit makes, the lowest
    one before."""

    before: Protocol
    after: Protocol


class FeatureInfo(Record):
    """A feature that is known; `legacy`: the lowest reader and writer versions that imply it."""

    name: str
    reader: bool
    legacy: tuple[int, int] | None
    requires: list[str]
    reads: bool
    writes: bool


class PropertyInfo(Record):
    """A table property that Delta knows, or one of this project."""

    key: str
    values: str
    default: str | None
    meaning: str
    settable: bool


class CatalogEntry(Record):
    """A catalog, schema or table in a catalog's list; `location` is where a table's files are, or
    where managed tables are."""

    name: str
    full_name: str
    table_type: str | None
    format: str | None
    location: str | None
    comment: str | None
    owner: str | None
    id: str | None
    created_ms: int | None
