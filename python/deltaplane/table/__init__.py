"""The `DeltaTable` class and its methods for reading, changing, maintaining and describing a
table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaplane.names import late_names

if TYPE_CHECKING:
    from deltaplane.table.alter import TableAlterer
    from deltaplane.table.delta_table import DeltaTable
    from deltaplane.table.merge import TableMerger
    from deltaplane.table.optimize import TableOptimizer

__all__ = ["DeltaTable", "TableAlterer", "TableMerger", "TableOptimizer"]

# Maps each public name to the module that defines it; modules are imported on first use.
_LATER = {
    "DeltaTable": "table.delta_table",
    "TableAlterer": "table.alter",
    "TableMerger": "table.merge",
    "TableOptimizer": "table.optimize",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(globals(), _LATER)
