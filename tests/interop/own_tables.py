"""Owns the tables that engines are measured on where the shared corpus has none: made by
deltaplane, with their rows.

Knows no engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltaplane import DeltaTable, write_deltalake

VARIANT = pa.field(
    "v",
    pa.struct([("metadata", pa.binary()), ("value", pa.binary())]),
    metadata={"ARROW:extension:name": "arrow.parquet.variant"},
)
MAPPED = {"delta.columnMapping.mode": "name"}


@dataclass(frozen=True)
class OwnTable:
    """A table that is written in two halves."""

    rows: pa.Table
    configuration: Mapping[str, str]
    partition_by: tuple[str, ...] = ()

    def fields(self) -> list[dict[str, Any]]:
        """The columns as a schema of Delta would name them, as far as it matters here."""
        types = {f.name: "variant" if f.metadata else str(f.type) for f in self.rows.schema}
        return [{"name": name, "type": t, "metadata": {}} for name, t in types.items()]

    def make(self, path: str) -> None:
        """Writes it at a path where nothing is."""
        half = self.rows.num_rows // 2
        options = {"configuration": dict(self.configuration), "partition_by": list(self.partition_by) or None}
        write_deltalake(path, self.rows.slice(0, half), **options)
        write_deltalake(path, self.rows.slice(half), mode="append")
        # Row ids, where there are some, come to stand in files.
        DeltaTable(path).optimize.compact()


OWN: Mapping[str, OwnTable] = {
    "own-iceberg-compat-v3": OwnTable(
        pa.table(
            {
                "id": pa.array([1, 2, 3, 4], pa.int64()),
                "p": ["a", "b", "a", None],
                "items": pa.array([[1, 2], [], None, [3]], pa.list_(pa.int32())),
                "tags": pa.array([[("k", "v")], [], None, [("x", None)]], pa.map_(pa.string(), pa.string())),
            }
        ),
        {**MAPPED, "delta.enableRowTracking": "true", "delta.enableIcebergCompatV3": "true"},
        ("p",),
    ),
    # Of the protocol that every table has, without constraints, which are a feature of their own.
    "own-not-null": OwnTable(
        pa.table({"id": [1, 2, 3, 4]}, pa.schema([pa.field("id", pa.int64(), nullable=False)])), {}
    ),
    "own-variant-shredded": OwnTable(
        pa.table(
            {
                "id": pa.array([1, 2, 3], pa.int64()),
                # 1, null and "abc", in the encoding of the Parquet project.
                "v": pa.array(
                    [{"metadata": b"\x01\x00\x00", "value": v} if v else None for v in (b"\x0c\x01", None, b"\x0dabc")],
                    VARIANT.type,
                ),
            },
            pa.schema([("id", pa.int64()), VARIANT]),
        ),
        {"delta.enableVariantShredding": "true"},
    ),
}
