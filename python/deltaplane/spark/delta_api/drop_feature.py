"""Refuses to drop the table features that delta-spark can't drop, for `DROP FEATURE` on Spark.

The embedded `TableAlterer.drop_feature` can drop more features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaplane import _native
from deltaplane.exceptions import InvalidArgumentError, UnsupportedFeatureError

if TYPE_CHECKING:
    from deltaplane.table.delta_table import DeltaTable

__all__ = ["refuse_fixed"]

# Features that delta-spark can't drop, in lower case.
_FIXED = frozenset("appendonly invariants changedatafeed generatedcolumns identitycolumns clustering".split())
# The writer version from which a protocol lists its features.
_FEATURE_TABLES = 7


def refuse_fixed(table: DeltaTable, feature: str) -> None:
    """Refuses to drop a feature that delta-spark can't drop, if the table has it; and refuses the
    name of a property.

    Raises:
        UnsupportedFeatureError: delta-spark can't drop the feature.
        InvalidArgumentError: the name is that of a table property.
    """
    name = feature.lower()
    if name in {known.key.lower() for known in _native.known_properties()}:
        raise InvalidArgumentError(
            f"`{feature}` is a table property and no table feature: ALTER TABLE … UNSET TBLPROPERTIES takes it away",
            table=table.location,
        )
    if name in _FIXED and _supports(table, name):
        raise UnsupportedFeatureError(
            f"the feature {feature} can't be dropped by Spark's DROP FEATURE, as in delta-spark: "
            f'deltaplane.DeltaTable(…).alter.drop_feature("{feature}") drops it',
            table=table.location,
        )


def _supports(table: DeltaTable, name: str) -> bool:
    protocol = _native.Snapshot.open(table.location, table.storage_options).protocol
    version = protocol.min_writer_version
    if version == _FEATURE_TABLES:
        return name in {feature.lower() for feature in protocol.writer_features or ()}
    legacy = {feature.name.lower(): feature.legacy for feature in _native.known_features()}[name]
    return legacy is not None and version >= legacy[1]
