"""Streams of the table's rows into DuckDB for a MERGE, with numbers of files instead of names.

Uses no clause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltaplane.exceptions import InternalError
from deltaplane.io.arrow import Scan
from deltaplane.io.hidden_columns import PLACE

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane import _native
    from deltaplane.commands.duckdb_engine import LocalEngine
    from deltaplane.commands.merge.matching import Members

__all__ = ["TargetRows"]

# Bytes of the table's rows that are held until the changed ones among them get their new values.
_HELD_BYTES = 32 << 20


class TargetRows:
    """Streams one table's rows into DuckDB; every file has one number throughout the command."""

    def __init__(self, snapshot: _native.Snapshot, engine: LocalEngine) -> None:
        self._snapshot, self._engine = snapshot, engine
        self._files: dict[str, int] = {}
        self._held: _Held | None = None

    @property
    def count(self) -> int:
        """The number of files whose rows were streamed."""
        return len(self._files)

    def numbers(self, paths: Sequence[str]) -> list[int]:
        """The numbers of files that were streamed before."""
        return [self._files[path] for path in paths]

    def scan(
        self,
        columns: Sequence[str],
        condition: _native.Predicate | None,
        members: Members | None = None,
        held: Sequence[str] = (),
    ) -> None:
        """Makes the relation `given`: these columns of the rows that can satisfy a condition, then
        file and row.

        With `held`, further columns of the same rows are read, too, and held in memory for `pick`,
        which then needn't read the files again. That is for few rows: if they are more than some
        megabytes, none is held, and the further columns aren't read from then on.
        """
        import pyarrow as pa

        wide = [*columns, *(name for name in held if name not in columns)]
        if members is not None and held:
            column, values, null_safe = members
            listed = values.read_all()
            scan = self._scan(wide, condition, (column, listed.to_reader(), null_safe))
            rows = self._holding(
                scan, len(columns), lambda: self._scan(columns, condition, (column, listed.to_reader(), null_safe))
            )
        else:
            scan = self._scan(columns, condition, members)
            rows = map(self._numbered, scan)
        schema = pa.schema([*(scan.schema.field(name) for name in columns), *self.position_fields()])
        self._engine.stream("given", rows, schema)

    def pick(self, scan: Scan, fields: Sequence[pa.Field]) -> None:
        """Makes the relation `picked` of a scan: its columns, then file and row. It may have rows
        that the scan hasn't."""
        import pyarrow as pa

        schema = pa.schema([*fields, *self.position_fields()])
        held = None if self._held is None else self._held.columns(fields)
        self._engine.stream("picked", map(self._numbered, scan) if held is None else held, schema)

    def _scan(self, columns: Sequence[str], condition: _native.Predicate | None, members: Members | None) -> Scan:
        return Scan(self._snapshot.scan([*columns, *PLACE], condition, encoded_files=True, members=members))

    def _holding(self, scan: Scan, count_joined: int, narrow: Callable[[], Scan]) -> Iterator[pa.RecordBatch]:
        """The first `count_joined` columns of a scan's rows, then file and row. All columns are
        held; if they need too much memory, the other rows come from `narrow`, which has the same
        rows in the same order."""
        held, size, count = _Held(scan.schema.names), 0, 0
        for batch in scan:
            if not batch.num_rows:
                continue
            numbered = self._numbered(batch)
            held.batches.append(numbered)
            size, count = size + numbered.nbytes, count + numbered.num_rows
            yield _placed(numbered, range(count_joined))
            if size > _HELD_BYTES:
                break
        else:
            self._held = held
            return
        place = held.last_place()
        held.batches.clear()
        yield from _after(place, count, map(self._numbered, narrow()))

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


@dataclass
class _Held:
    """Rows of the table in memory: their columns, then file and row."""

    names: Sequence[str]
    batches: list[pa.RecordBatch] = field(default_factory=list)

    def columns(self, fields: Sequence[pa.Field]) -> Iterator[pa.RecordBatch] | None:
        """These columns, then file and row; None if one isn't held, or has another type here."""
        if not self.batches or not {f.name for f in fields} <= set(self.names):
            return None
        numbers = [self.names.index(f.name) for f in fields]
        schema = self.batches[0].schema
        if any(schema.field(number).type != f.type for number, f in zip(numbers, fields, strict=True)):
            return None
        return (_placed(batch, numbers) for batch in self.batches)

    def last_place(self) -> list[int]:
        """File and row of the last row."""
        last = self.batches[-1]
        return [column[-1].as_py() for column in last.columns[-2:]]


def _placed(batch: pa.RecordBatch, numbers: Sequence[int]) -> pa.RecordBatch:
    """Columns of a batch, and its last two: file and row."""
    return batch.select([*numbers, batch.num_columns - 2, batch.num_columns - 1])


def _after(place: list[int], count: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows after the first `count`, of which the last one is at this place."""
    for batch in batches:
        if 0 < count <= batch.num_rows and [column[count - 1].as_py() for column in batch.columns[-2:]] != place:
            raise InternalError("two scans of one version have rows in different orders")
        if count < batch.num_rows:
            yield batch.slice(count)
        count = max(count - batch.num_rows, 0)
