"""Tables of which each column has a name that a command, a statement or the log uses itself."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from deltaplane import DeltaTable

NAMES = (
    # hidden columns by their short names, and what Spark calls them
    *("_file", "_row", "_row_id", "_row_commit_version", "_metadata"),
    # aliases within statements, and hidden columns of DuckDB
    *("s", "t", "f", "r", "d", "k", "x", "act", "sid", "side", "n", "gone", "come", "level", "before", "met", "rowid"),
    *("source", "target", "file_index", "file_row_number", "filename", "position", "unmatched", "rows", "base"),
    # fields of the log and of Spark's rows of files
    *("path", "size", "stats", "add", "remove", "num_records", "value", "key", "partition", "file_path", "row_index"),
)
PLAIN = {"delta.enableChangeDataFeed": "true"}
TRACKED = {**PLAIN, "delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}


def rows(firsts: Mapping[int, int]) -> pa.Table:
    """For each row's number the value of its first column; the next column's is one more."""
    columns = {name: [first + i for first in firsts.values()] for i, name in enumerate(NAMES)}
    return pa.table({"id_": list(firsts), **columns})


def everywhere(condition: str) -> str:
    """A condition on each column: `#` is its name, `%` its number, 0 for the first."""
    parts = (condition.replace("#", f"`{name}`").replace("%", str(i)) for i, name in enumerate(NAMES))
    return " AND ".join(f"({part})" for part in parts)


def firsts(path: str) -> dict[int, int]:
    """The table's rows as `rows` takes them, after a check of all columns."""
    table = DeltaTable(path).to_pyarrow_table().sort_by("id_")
    shown = dict(zip(table["id_"].to_pylist(), table[NAMES[0]].to_pylist(), strict=True))
    assert table.equals(rows(shown))
    return shown
