"""Refuses table properties that delta-spark refuses together with a table's columns or other
properties.

The embedded API accepts them: none of them makes a table that others can't read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deltaplane.exceptions import InvalidArgumentError, UnsupportedFeatureError
from deltaplane.schema import StructType

if TYPE_CHECKING:
    from deltaplane.schema import DataType, Field
    from deltaplane.table.delta_table import DeltaTable

__all__ = ["refuse_changed_properties", "refuse_properties", "replacing", "without_features"]

_FORMATS = "delta.universalformat.enabledformats"
_STATISTICS = "delta.dataskippingstatscolumns"
_CLUSTERING = "delta.feature.clustering"
_VECTORS = "delta.enabledeletionvectors"
_MANIFESTS = "delta.compatibility.symlinkformatmanifest.enabled"
_KNOWN_FORMATS = ("hudi", "iceberg")
_COMPAT = re.compile(r"delta\.enableicebergcompatv\d+")
# Commas and dots that aren't in backticks.
_COMMAS, _DOTS = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)"), re.compile(r"\.(?=(?:[^`]*`[^`]*`)*[^`]*$)")
# Column types without smallest and largest values in statistics.
_UNMEASURED = re.compile(r"(boolean|binary|array|map)\b")


def refuse_properties(
    properties: Mapping[str, str], columns: Sequence[Field], partition_by: Sequence[str], *, creates: bool = True
) -> None:
    """Refuses the properties of a table with these columns.

    Args:
        properties: all properties of the table.
        columns: its columns.
        partition_by: the names of its partition columns.
        creates: whether a statement creates or replaces the table.

    Raises:
        InvalidArgumentError: properties that exclude each other, or statistics for unsuitable
            columns.
        UnsupportedFeatureError: a universal format without the feature that it needs.
    """
    lower = {key.lower(): value for key, value in properties.items()}
    if _CLUSTERING in lower and creates:
        raise InvalidArgumentError(
            "DELTA_CREATE_TABLE_SET_CLUSTERING_TABLE_FEATURE_NOT_ALLOWED: the table feature clustering can't be enabled by a "
            "property: use CLUSTER BY (columns)"
        )
    _refuse_formats(lower)
    if _is_on(lower, _VECTORS) and _is_on(lower, _MANIFESTS):
        raise InvalidArgumentError(
            "DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED.PERSISTENT_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION: "
            "readers of symlink manifests don't know deletion vectors, so that deleted rows would come back: set only one of "
            "delta.enableDeletionVectors and delta.compatibility.symlinkFormatManifest.enabled"
        )
    if listed := lower.get(_STATISTICS):
        _refuse_statistics(listed, columns, {name.lower() for name in partition_by})


def refuse_changed_properties(table: DeltaTable, changed: Mapping[str, str]) -> None:
    """Refuses properties that an existing table gets by ALTER TABLE; as `refuse_properties`."""
    lower = {key.lower(): value for key, value in changed.items()}
    if _CLUSTERING in lower:
        raise InvalidArgumentError(
            "DELTA_ALTER_TABLE_SET_CLUSTERING_TABLE_FEATURE_NOT_ALLOWED: the table feature clustering can't be enabled by a "
            "property: use ALTER TABLE … CLUSTER BY (columns)",
            table=table.location,
        )
    metadata = table.metadata()
    own = {key.lower(): value for key, value in metadata.configuration.items()}
    # Another program may have stored values that the statement doesn't change.
    concerned = {_FORMATS, _STATISTICS} & lower.keys()
    if lower.keys() & {_VECTORS, _MANIFESTS}:
        concerned |= {_VECTORS, _MANIFESTS}
    merged = {**own, **lower}
    checked = {key: value for key, value in merged.items() if key in concerned or _COMPAT.fullmatch(key)}
    refuse_properties(checked, table.schema().fields, metadata.partition_columns, creates=False)


def replacing(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties among a writer's options that delta-spark checks where the table keeps its
    own."""
    return {key: value for key, value in properties.items() if key.lower() not in (_VECTORS, _MANIFESTS)}


def without_features(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that don't ask for a table feature."""
    return {key: value for key, value in properties.items() if not key.lower().startswith("delta.feature.")}


def _is_on(properties: Mapping[str, str], key: str) -> bool:
    return properties.get(key, "false").lower() == "true"


def _refuse_formats(properties: Mapping[str, str]) -> None:
    formats = [name.strip().lower() for name in properties.get(_FORMATS, "").split(",") if name.strip()]
    if unknown := [name for name in formats if name not in _KNOWN_FORMATS]:
        raise InvalidArgumentError(
            f"`{unknown[0]}` isn't a format of the table property `delta.universalFormat.enabledFormats`, which lists "
            f"{' or '.join(_KNOWN_FORMATS)}"
        )
    compatible = any(_COMPAT.fullmatch(key) and value.lower() == "true" for key, value in properties.items())
    if "iceberg" in formats and not compatible:
        raise UnsupportedFeatureError(
            "DELTA_UNIVERSAL_FORMAT_VIOLATION: the universal format iceberg needs IcebergCompat: set "
            "delta.enableIcebergCompatV2 and delta.columnMapping.mode = name in the same statement"
        )


def _refuse_statistics(listed: str, columns: Sequence[Field], partitions: set[str]) -> None:
    """Refuses statistics for columns that are missing, have no bounds, are partition columns, or
    are listed twice."""
    leaves: Counter[str] = Counter()
    for text in _COMMAS.split(listed):
        parts = [part.strip().strip("`").lower() for part in _DOTS.split(text.strip())]
        name = ".".join(parts)
        if not name:
            raise InvalidArgumentError(
                f"`{listed}` isn't a legal list of columns for `delta.dataSkippingStatsColumns`: a name is missing"
            )
        if parts[0] in partitions:
            raise InvalidArgumentError(
                f"DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_PARTITIONED_COLUMN: `{name}` is a partition column, whose values the "
                "log holds anyway: leave it out of delta.dataSkippingStatsColumns"
            )
        column, siblings = None, columns
        for i, part in enumerate(parts):
            column = next((field for field in siblings if field.name.lower() == part), None)
            if column is None:
                raise InvalidArgumentError(
                    f"`delta.dataSkippingStatsColumns` names `{text.strip()}`, which isn't a column of the table"
                )
            if not isinstance(column.type, StructType):
                # delta-spark looks at no type below a column.
                if i == 0:
                    _refuse_type(name, column.type)
                break
            siblings = column.type.fields
        assert column is not None
        leaves.update(_leaves_below(name, column.type))
    if twice := sorted(name for name, count in leaves.items() if count > 1):
        raise InvalidArgumentError(
            f"DELTA_DUPLICATE_DATA_SKIPPING_COLUMNS: delta.dataSkippingStatsColumns lists {', '.join(twice)} twice: list each "
            "column once"
        )


def _refuse_type(name: str, data_type: DataType) -> None:
    text = str(getattr(data_type, "type", data_type))
    if _UNMEASURED.match(text):
        raise InvalidArgumentError(
            f"DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_TYPE: `{name}` is of type {text}, which has no smallest and largest "
            "value in statistics: leave it out of delta.dataSkippingStatsColumns"
        )


def _leaves_below(name: str, data_type: DataType) -> list[str]:
    if not isinstance(data_type, StructType):
        return [name]
    return [leaf for f in data_type.fields for leaf in _leaves_below(f"{name}.{f.name.lower()}", f.type)]
