"""Reads the rows of a split of files in a Spark task, by the Rust core; defines what travels to the
task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane import _native
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
    table_schema: str
    mapping: str
    partition_columns: list[str]
    columns: StructType
    predicate: str | None = None

    @classmethod
    def of(
        cls,
        snapshot: _native.Snapshot,
        table_schema: str,
        store: dict[str, str] | None,
        columns: StructType,
        predicate: str | None = None,
    ) -> SplitScan:
        """Plans a scan of a version with these columns; `table_schema` is the JSON of the version's
        schema or of its change data feed's schema."""
        partition_columns = snapshot.info.partition_columns
        mapping = snapshot.column_mapping
        return cls(snapshot.location, store, table_schema, mapping, partition_columns, columns, predicate)

    def rows(self, split: str) -> Iterator[pa.RecordBatch]:
        """Reads the rows of a split in the exact Arrow types that Spark expects."""
        import pyarrow as pa

        stream = _native.scan_split(
            self.location,
            self.store,
            self.table_schema,
            self.mapping,
            self.partition_columns,
            self.columns.fieldNames(),
            self.predicate,
            split,
        )
        expected = arrow_schema(self.columns)
        for batch in pa.RecordBatchReader.from_stream(stream):
            yield batch.cast(expected)
