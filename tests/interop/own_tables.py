"""Tables for measuring engines that the shared corpus lacks: made by deltaplane, with their rows.

Uses no engine.
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
        """The columns with their Delta types, as far as needed here."""
        types = {f.name: "variant" if f.metadata else str(f.type) for f in self.rows.schema}
        return [{"name": name, "type": t, "metadata": {}} for name, t in types.items()]

    def make(self, path: str) -> None:
        """Writes the table to an unused path."""
        half = self.rows.num_rows // 2
        options = {"configuration": dict(self.configuration), "partition_by": list(self.partition_by) or None}
        write_deltalake(path, self.rows.slice(0, half), **options)
        write_deltalake(path, self.rows.slice(half), mode="append")
        # Makes the files store row ids, if the table has any.
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
    # With the minimal protocol, without constraints, which are a feature of their own.
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
