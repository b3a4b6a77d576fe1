"""A table and its methods: reading, changing, maintaining and describing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaplane.names import late_names

if TYPE_CHECKING:
    from deltaplane.table.alter import TableAlterer
    from deltaplane.table.delta_table import DeltaTable
    from deltaplane.table.merge import TableMerger
    from deltaplane.table.optimize import TableOptimizer

__all__ = ["DeltaTable", "TableAlterer", "TableMerger", "TableOptimizer"]

# Public name → the module that has it.
_LATER = {
    "DeltaTable": "table.delta_table",
    "TableAlterer": "table.alter",
    "TableMerger": "table.merge",
    "TableOptimizer": "table.optimize",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(globals(), _LATER)
