"""The names of `delta.tables`, so that a script only needs to change this import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaplane.names import late_names

if TYPE_CHECKING:
    from deltaplane.spark.delta_api.tables import (
        DeltaMergeBuilder,
        DeltaOptimizeBuilder,
        DeltaTable,
        DeltaTableBuilder,
        IdentityGenerator,
    )

__all__ = ["DeltaMergeBuilder", "DeltaOptimizeBuilder", "DeltaTable", "DeltaTableBuilder", "IdentityGenerator"]

# Maps each public name to its module.
_LATER = {
    "DeltaMergeBuilder": "spark.delta_api.tables",
    "DeltaOptimizeBuilder": "spark.delta_api.tables",
    "DeltaTable": "spark.delta_api.tables",
    "DeltaTableBuilder": "spark.delta_api.tables",
    "IdentityGenerator": "spark.delta_api.tables",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(globals(), _LATER)
