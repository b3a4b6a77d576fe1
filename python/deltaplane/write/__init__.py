"""Writes rows: `write_deltalake`, checks of declarations, writers for grouped and for numbered
appends, and conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaplane.names import late_names

if TYPE_CHECKING:
    from deltaplane.write.api import WriteResult, write_deltalake
    from deltaplane.write.convert import convert_to_deltalake
    from deltaplane.write.group_writer import GroupWriter
    from deltaplane.write.once_writer import OnceWriter

__all__ = ["GroupWriter", "OnceWriter", "WriteResult", "convert_to_deltalake", "write_deltalake"]

# Maps each public name to its module.
_LATER = {
    "GroupWriter": "write.group_writer",
    "OnceWriter": "write.once_writer",
    "WriteResult": "write.api",
    "convert_to_deltalake": "write.convert",
    "write_deltalake": "write.api",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(globals(), _LATER)
