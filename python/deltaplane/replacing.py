"""What a table keeps when it is replaced by one without rows, or by a query's. Called by statements and `deltaplane.spark`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltaplane.described import clustering_columns
from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.table import DeltaTable

__all__ = ["check_kept"]

# Kept by the table itself, whatever a statement says.
_MADE_BY_WRITERS = (
    "delta.columnMapping.maxColumnId",
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)


def check_kept(
    table: DeltaTable, properties: Mapping[str, str | None], comment: str | None, cluster_by: Sequence[str] | None
) -> None:
    """Refuses what would go or stay without a word: properties and comments that aren't named, how it is clustered.

    Raises:
        UnsupportedFeatureError: says which one, and what to do.
    """
    metadata = table.metadata()
    own = {_known(k): v for k, v in metadata.configuration.items() if k not in _MADE_BY_WRITERS}
    asked = {_known(key): value for key, value in properties.items()}
    lost = sorted(own.keys() - asked.keys())
    if lost:
        raise UnsupportedFeatureError(
            f"replacing a table takes other properties instead of its own, and {', '.join(lost)} would be lost or stay: "
            "name them with their values, or UNSET them before",
            table=table.table_uri,
        )
    if metadata.description and comment is None:
        raise UnsupportedFeatureError(
            f"replacing a table keeps its comment ({metadata.description!r}): use COMMENT ON TABLE before",
            table=table.table_uri,
        )
    clustered = clustering_columns(table)
    if [c.lower() for c in clustered] != [c.lower() for c in cluster_by or []]:
        raise UnsupportedFeatureError(
            f"replacing a table keeps its clustering (by {', '.join(clustered) or 'nothing'}): use ALTER TABLE … "
            "CLUSTER BY before",
            table=table.table_uri,
        )


def _known(key: str) -> str:
    """A property's key; those of the protocol ignore case (P190)."""
    return key.lower() if key.lower().startswith("delta.") else key
