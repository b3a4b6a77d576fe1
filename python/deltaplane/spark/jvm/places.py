"""The columns beside a table's that say where a row stands, and its id. Knows no frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["FILE", "ROW", "ROW_ID", "Places"]

# The URI of a row's file and the row's position in it (P124), under names that no other writer
# gives to a column.
FILE, ROW = "__deltaplane_file", "__deltaplane_row"
# The id that a file stores for a row, null where it follows from the row's place (P142).
ROW_ID = "__deltaplane_row_id"


@dataclass(frozen=True)
class Places:
    """What is shown beside the table's columns; `stored_ids` is the physical column of row ids,
    where they are wanted."""

    stored_ids: str | None = None

    def relation_schema(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """The schema of the relation of the files, with what is read from them beside the table's
        columns."""
        if self.stored_ids is None:
            return schema
        stored = {"name": self.stored_ids, "type": "long", "nullable": True, "metadata": {}}
        return {**schema, "fields": [*schema["fields"], stored]}
