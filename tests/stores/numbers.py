"""Rows identified by a number, and the numbers in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from deltaplane import DeltaTable


def rows(first: int, count: int = 1) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int64())})


def partitioned_rows(first: int, count: int) -> pa.Table:
    """Rows with the partition column `p`, whose value needs escaping in a path."""
    return rows(first, count).append_column("p", pa.array(["a/b é"] * count, pa.string()))


def ids(table: DeltaTable) -> list[int]:
    return sorted(table.to_pyarrow_table()["id"].to_pylist())
