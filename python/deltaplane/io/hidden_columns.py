"""The reserved names of a scan's hidden columns, which no column of a table has. A scan by a user
also takes `_file`, `_row`, `_row_id` and `_row_commit_version`, unless a column has the name.
"""

from __future__ import annotations

__all__ = ["FILE", "PLACE", "ROW", "ROW_COMMIT_VERSION", "ROW_ID"]

# The decoded path of a row's file, and the row's position in it (P124).
FILE, ROW = "__deltaplane_path", "__deltaplane_position"
PLACE = (FILE, ROW)
# A row's id and the version that last wrote it (P143).
ROW_ID, ROW_COMMIT_VERSION = "__deltaplane_id", "__deltaplane_version"
