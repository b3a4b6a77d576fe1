"""Checks that an existing table matches a CREATE TABLE statement: CREATE TABLE with columns at a
LOCATION takes over the existing table, as in delta-spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltaplane.exceptions import TableAlreadyExistsError
from deltaplane.report.describe import clustering_columns
from deltaplane.schema import Field
from deltaplane.table.ddl_types import type_text, without_notes
from deltaplane.table.delta_table import DeltaTable

__all__ = ["check_same", "check_same_properties"]

# Properties that writers set themselves, which no statement contains.
_NOTED_OF_TABLES = (
    "delta.columnMapping.maxColumnId",
    "delta.inCommitTimestampEnablement",
    "delta.rowTracking.materialized",
)
# Properties that only change the table's protocol.
_OF_PROTOCOL = ("delta.feature.", "delta.minReaderVersion", "delta.minWriterVersion")


def check_same(
    table: DeltaTable,
    columns: Sequence[Field],
    partition_by: Sequence[str],
    cluster_by: Sequence[str],
    properties: Mapping[str, str],
) -> None:
    """Compares a table with a statement; properties are compared only if the statement names any.

    Raises:
        TableAlreadyExistsError: they differ; the message names the difference.
    """
    metadata = table.metadata()
    if difference := _difference(columns, table.schema().fields):
        _refuse(table, f"has other columns than the statement: {difference}", "the columns")
    for what, here, said in (
        ("partitioned", metadata.partition_columns, partition_by),
        ("clustered", clustering_columns(table), cluster_by),
    ):
        if [name.lower() for name in here] != [name.lower() for name in said]:
            _refuse(table, f"is {what} by ({', '.join(here)}), not by ({', '.join(said)})", f"what it is {what} by")
    check_same_properties(table, properties)


def check_same_properties(table: DeltaTable, properties: Mapping[str, str]) -> None:
    """Compares a table's properties with a statement's, if the statement names any.

    Raises:
        TableAlreadyExistsError: they differ.
    """
    metadata = table.metadata()
    said_of = {key: value for key, value in properties.items() if not key.startswith(_OF_PROTOCOL)}
    there = {key: value for key, value in metadata.configuration.items() if not key.startswith(_NOTED_OF_TABLES)}
    if said_of and said_of != there:
        _refuse(table, f"has the properties ({_listed(there)}), not ({_listed(said_of)})", "the properties")


def _refuse(table: DeltaTable, says: str, leave_out: str) -> None:
    raise TableAlreadyExistsError(
        f"the table that is here {says}. Say {leave_out} as the table has it, or nothing of the table but its LOCATION",
        table=table.location,
    )


def _difference(said: Sequence[Field], existing: Sequence[Field]) -> str | None:
    here, asked = ({field.name: field for field in fields} for fields in (existing, said))
    if missing := asked.keys() - here.keys():
        return f"it has no column `{asked[min(missing)].name}`"
    if more := here.keys() - asked.keys():
        return f"it has the column `{here[min(more)].name}` besides"
    for name, field in here.items():
        other = asked[name]
        if without_notes(field.to_value()) != without_notes({**other.to_value(), "name": field.name}):
            return f"it has `{_text(field)}`, the statement `{_text(other)}`"
    return None


def _text(field: Field) -> str:
    shown = without_notes(field.metadata)
    return f"{field.name} {type_text(field.type)}{'' if field.nullable else ' NOT NULL'}{f' {shown}' if shown else ''}"


def _listed(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(properties.items()))
