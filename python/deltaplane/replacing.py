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
    """Refuses what replacing a table doesn't change: its properties, its comment and how it is clustered.

    Raises:
        UnsupportedFeatureError: says which one, and what to do.
    """
    metadata = table.metadata()
    own = {_known(k): v for k, v in metadata.configuration.items() if k not in _MADE_BY_WRITERS}
    asked = {_known(key): value for key, value in properties.items()}
    differ = sorted(k for k in {*own, *asked} if own.get(k) != asked.get(k))
    if differ:
        raise UnsupportedFeatureError(
            f"replacing a table keeps its properties, and {', '.join(differ)} would be other ones: ALTER the table "
            "before, or name them with the values that they have",
            table=table.table_uri,
        )
    if (metadata.description or None) != comment:
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
