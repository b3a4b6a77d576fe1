"""Additional columns with a row's position and id. Uses no frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["FILE", "ROW", "ROW_ID", "Places"]

# The URI of a row's file and the row's position in it (P124), under names that no other writer
# gives to a column.
FILE, ROW = "__deltaplane_file", "__deltaplane_row"
# A row's stored id, null if the id follows from the row's position (P142).
ROW_ID = "__deltaplane_row_id"


@dataclass(frozen=True)
class Places:
    """The additional columns; `stored_ids` is the physical column of row ids if it is wanted."""

    stored_ids: str | None = None

    def relation_schema(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """The schema of the file relation, including the additional columns that are read from
        files."""
        if self.stored_ids is None:
            return schema
        stored = {"name": self.stored_ids, "type": "long", "nullable": True, "metadata": {}}
        return {**schema, "fields": [*schema["fields"], stored]}
