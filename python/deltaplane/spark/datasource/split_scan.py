"""Reads the rows of a split of files in a Spark task, by the Rust core; defines what travels to the
task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltaplane import _native
from deltaplane.io.session_options import Carried, carried_for
from deltaplane.spark.execution.carried import files_place
from deltaplane.spark.jvm.internals import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["SPLIT_BYTES", "SplitScan"]

# Bytes of files that one task reads; Spark's own default for files.
SPLIT_BYTES = 128 << 20


@dataclass(frozen=True)
class SplitScan:
    """The state shared by all splits of a scan. The snapshot stays in the planning process."""

    location: str
    store: dict[str, str] | None
    scan: _native.SplitScan
    columns: StructType
    # The task's access to the store; received when it is unpickled.
    carried: Carried | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        snapshot: _native.Snapshot,
        location: str,
        store: dict[str, str] | None,
        columns: StructType,
        predicate: _native.Predicate | None = None,
        *,
        changes: bool = False,
    ) -> SplitScan:
        """Plans a scan of a version's rows, or of changed rows, with these columns; `location` and
        `store` are the table's, as the planning process opened it."""
        place, store = files_place(location, store, snapshot.location)
        carried = carried_for([(place, store)])
        return cls(place, store, _native.SplitScan.of(snapshot, predicate, changes), columns, carried)

    def rows(self, split: _native.Split) -> Iterator[pa.RecordBatch]:
        """Reads the rows of a split in the exact Arrow types that Spark expects."""
        import pyarrow as pa

        stream = self.scan.rows(self.location, self.store, self.columns.fieldNames(), split)
        expected = arrow_schema(self.columns)
        for batch in pa.RecordBatchReader.from_stream(stream):
            yield batch.cast(expected)
