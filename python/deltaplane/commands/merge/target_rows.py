"""Streams of the table's rows into DuckDB for a MERGE, with numbers of files instead of names.

Uses no clause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deltaplane.io.arrow import Scan
from deltaplane.io.hidden_columns import PLACE

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane import _native
    from deltaplane.commands.duckdb_engine import LocalEngine
    from deltaplane.commands.merge.matching import Members

__all__ = ["TargetRows"]


class TargetRows:
    """Streams one table's rows into DuckDB; every file has one number throughout the command."""

    def __init__(self, snapshot: _native.Snapshot, engine: LocalEngine) -> None:
        self._snapshot, self._engine = snapshot, engine
        self._files: dict[str, int] = {}

    @property
    def count(self) -> int:
        """The number of files whose rows were streamed."""
        return len(self._files)

    def numbers(self, paths: Sequence[str]) -> list[int]:
        """The numbers of files that were streamed before."""
        return [self._files[path] for path in paths]

    def scan(self, columns: Sequence[str], condition: _native.Predicate | None, members: Members | None = None) -> None:
        """Makes the relation `given`: these columns of the rows that can satisfy a condition, then
        file and row."""
        import pyarrow as pa

        scan = Scan(self._snapshot.scan([*columns, *PLACE], condition, encoded_files=True, members=members))
        schema = pa.schema([*(scan.schema.field(name) for name in columns), *self.position_fields()])
        self._engine.stream("given", (self._numbered(batch) for batch in scan), schema)

    def pick(self, scan: Scan, fields: Sequence[pa.Field]) -> None:
        """Makes the relation `picked` of a scan: its columns, then file and row."""
        import pyarrow as pa

        schema = pa.schema([*fields, *self.position_fields()])
        self._engine.stream("picked", (self._numbered(batch) for batch in scan), schema)

    def places(self, sql: str) -> Iterator[pa.RecordBatch]:
        """A query's result of files and rows, with the files' names restored."""
        import pyarrow as pa

        for batch in self._engine.batches(sql):
            yield pa.RecordBatch.from_arrays(self.named(*batch.columns), names=list(PLACE))

    def named(self, files: pa.Array, rows: pa.Array) -> list[pa.Array]:
        """Converts numbers of files, and rows, to the columns `_file` and `_row`."""
        import pyarrow as pa

        return [pa.DictionaryArray.from_arrays(files, pa.array(list(self._files), pa.string())), rows]

    def _numbered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        index = batch.schema.get_field_index(PLACE[0])
        files = batch.column(index)
        numbers = [self._files.setdefault(file, len(self._files)) for file in files.dictionary.to_pylist()]
        return batch.set_column(index, "f", pa.array(numbers, pa.int32()).take(files.indices))

    @staticmethod
    def position_fields() -> list[pa.Field]:
        """The columns of a row's position: the number of its file, and the row in it."""
        import pyarrow as pa

        return [pa.field("f", pa.int32()), pa.field("r", pa.int64())]
