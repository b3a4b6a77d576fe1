"""The engines of the interop tests behind one interface: write a table, read it at a version.

`cannot` lists the limitations of other engines, each with the reason; it never hides a difference
of deltaplane's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from interop.delta_spark import DeltaSpark


class Engine(Protocol):
    """Reads and writes whole tables."""

    def write(self, table: str, rows: pa.Table, mode: str = "append", partition_by: Sequence[str] = ()) -> None:
        """One commit."""

    def read(self, table: str, version: int | None = None) -> pa.Table:
        """All rows, columns in the table's order."""


class Ours:
    """deltaplane without Spark."""

    def write(self, table: str, rows: pa.Table, mode: str = "append", partition_by: Sequence[str] = ()) -> None:
        from deltaplane import write_deltalake

        write_deltalake(table, rows, mode=mode, partition_by=list(partition_by) or None)

    def read(self, table: str, version: int | None = None) -> pa.Table:
        from deltaplane import DeltaTable

        return DeltaTable(table, version=version).to_pyarrow_table()


class DeltaRs:
    """deltalake, in this process. Reads through its query engine and through its Arrow reader,
    which must agree."""

    def write(self, table: str, rows: pa.Table, mode: str = "append", partition_by: Sequence[str] = ()) -> None:
        import deltalake

        deltalake.write_deltalake(table, rows, mode=mode, partition_by=list(partition_by) or None)

    def read(self, table: str, version: int | None = None) -> pa.Table:
        import deltalake

        from interop.same import assert_same

        opened = deltalake.DeltaTable(table, version=version)
        names = [field.name for field in opened.schema().fields]
        queried = pa.table(deltalake.QueryBuilder().register("t", opened).execute("select * from t").read_all())
        read = pa.table(opened.to_pyarrow_table())
        assert_same(queried.select(names), read.select(names))
        return read.select(names)


def engine(name: str, delta_spark: DeltaSpark) -> Engine:
    """The engine of this name: `deltaplane`, `delta-spark` or `deltalake`."""
    engines: dict[str, Engine] = {"deltaplane": Ours(), "delta-spark": delta_spark, "deltalake": DeltaRs()}
    return engines[name]


# (engine, action, data set) → the reason why it fails; verified by hand with deltalake 1.6.
CANNOT = {
    ("deltalake", "write", "p:double"): "names a directory after all 300 digits and aborts",
    ("deltalake", "write", "p:dec"): "writes a small negative decimal as 0.00-1",
    ("deltalake", "read", "p:dec"): "reads a small negative decimal as 0.00-1",
    ("deltalake", "write", "p:bytes"): "writes the protocol's \\u escapes, which only deltaplane reads as bytes",
    ("deltalake", "bounds", "primitives"): "writes bounds of wide decimals that do not bound them",
}
