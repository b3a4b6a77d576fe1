"""By which columns a table keeps rows together (P152), under the names that users know.

Called by DESCRIBE DETAIL and by statements that replace tables.
"""

from __future__ import annotations

import json

from deltaplane.table import DeltaTable

__all__ = ["clustering_columns"]

_DOMAIN = "delta.clustering"
_PHYSICAL = "delta.columnMapping.physicalName"


def clustering_columns(table: DeltaTable) -> list[str]:
    """The columns' paths with dots; none where the table isn't clustered.

    >>> from deltaplane import sql
    >>> _ = sql("CREATE TABLE delta.`memory://doc-clustering/t` (day DATE, s STRUCT<x: INT>) CLUSTER BY (s.x, day)")
    >>> clustering_columns(DeltaTable("memory://doc-clustering/t"))
    ['s.x', 'day']
    """
    said = table.domain_metadata().get(_DOMAIN)
    if said is None:
        return []
    found = []
    for path in json.loads(said)["clusteringColumns"]:
        fields, names = json.loads(table.schema().to_json())["fields"], []
        for part in path:
            # A name that the schema hasn't is shown as it is.
            one = next(
                (f for f in fields if f["metadata"].get(_PHYSICAL, f["name"]) == part), {"name": part, "type": ""}
            )
            names.append(one["name"])
            fields = one["type"].get("fields", []) if isinstance(one["type"], dict) else []
        found.append(".".join(names))
    return found
