"""Reads the live files of a version once, as columns in a temporary file, so that only one or two
columns are in memory at a time.

Uses the column names of a plan; computes no figure.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane.io.arrow import Scan

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane import _native

__all__ = ["Leaf", "LiveFiles", "live_files", "partition_values"]

# Rows per row group of the temporary file: few enough to limit memory while writing, enough for
# fast reads.
_GROUP_ROWS = 65_536
# Separator of the values in a partition's key, and replacement for null: control characters that
# values are unlikely to contain.
_NEXT, _NULL = "\x1f", "\x1e"


@dataclass(frozen=True)
class Leaf:
    """A leaf column whose files have bounds."""

    path: tuple[str, ...]
    type: str
    # Positions in the structs of minimum, maximum and null count; None if files have no such value.
    bounds: tuple[tuple[int, ...], tuple[int, ...]]
    nulls: tuple[int, ...] | None

    @property
    def name(self) -> str:
        """The leaf's dotted path."""
        return ".".join(self.path)


class LiveFiles:
    """Columns with a value for each live file: `size`, `records` (null without statistics),
    `deleted` (rows deleted by a vector), and for partitioned tables `partition`. Bounds are read
    leaf by leaf."""

    def __init__(self, file: Any, repeating: Sequence[str], leaves: Sequence[Leaf], more: int) -> None:
        import pyarrow.parquet as pq

        self._file = pq.ParquetFile(file, read_dictionary=list(repeating))
        self.leaves = tuple(leaves)
        # Number of leaves beyond the limit, which were skipped.
        self.more_leaves = more

    @property
    def count(self) -> int:
        """The number of files."""
        rows: int = self._file.metadata.num_rows
        return rows

    def column(self, name: str) -> pa.ChunkedArray:
        """Reads one whole column."""
        return self._file.read([name], use_threads=False)[name].unify_dictionaries()

    def bounds(self, leaf: Leaf) -> tuple[pa.ChunkedArray, pa.ChunkedArray, pa.ChunkedArray]:
        """Minimum, maximum and null count of each file."""
        n = self.leaves.index(leaf)
        return self.column(f"min_{n}"), self.column(f"max_{n}"), self.column(f"nulls_{n}")


@contextmanager
def live_files(snapshot: _native.Snapshot, first: Sequence[str], most_leaves: int) -> Iterator[LiveFiles]:
    """Reads the live files. At most `most_leaves` leaves are read; the leaves in `first` take
    precedence."""
    import pyarrow.parquet as pq

    reader = Scan(snapshot.plan(None)).to_reader()
    leaves_found = sorted(_leaves(reader.schema), key=lambda leaf: leaf.name not in first)
    leaves = leaves_found[:most_leaves]
    schema = _schema(reader.schema, leaves)
    # Columns with repeated values stay dictionary-encoded.
    repeating = [name for name in schema.names if name == "partition"]
    with tempfile.TemporaryFile() as file:
        with pq.ParquetWriter(file, schema, use_dictionary=repeating, write_statistics=False) as out:
            for group in _grouped(reader):
                out.write_table(_flat(group, leaves).cast(schema))
        file.seek(0)
        yield LiveFiles(file, repeating, leaves, len(leaves_found) - len(leaves))


def partition_values(key: str) -> tuple[str | None, ...]:
    """The partition values that a key of the column `partition` encodes."""
    return tuple(None if text == _NULL else text for text in key.split(_NEXT))


def _grouped(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    for batch in reader:
        waiting.append(batch)
        if sum(b.num_rows for b in waiting) >= _GROUP_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting.clear()
    if waiting:
        yield pa.Table.from_batches(waiting)


def _leaves(schema: pa.Schema) -> list[Leaf]:
    names = set(schema.names)
    if not {"min", "max"} <= names:
        return []
    lows, highs = (dict(_fields(schema.field(name).type)) for name in ("min", "max"))
    nulls = dict(_fields(schema.field("null_count").type)) if "null_count" in names else {}
    leaves = []
    for path, (position, kind) in lows.items():
        other = highs.get(path)
        if other is not None and other[1] == kind:
            leaves.append(Leaf(path, str(kind), (position, other[0]), nulls[path][0] if path in nulls else None))
    return leaves


def _fields(
    struct: pa.StructType, path: tuple[str, ...] = (), position: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[str, ...], tuple[tuple[int, ...], pa.DataType]]]:
    import pyarrow as pa

    for number in range(struct.num_fields):
        field = struct.field(number)
        here, place = (*path, field.name), (*position, number)
        if pa.types.is_struct(field.type):
            yield from _fields(field.type, here, place)
        else:
            yield here, (place, field.type)


def _schema(plan: pa.Schema, leaves: Sequence[Leaf]) -> pa.Schema:
    return _flat(plan.empty_table(), leaves).schema


def _flat(files: pa.Table, leaves: Sequence[Leaf]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    # Selects by position: two fields may have names that differ only in case, and a name may
    # contain dots.
    def leaf_values(column: str, place: tuple[int, ...]) -> pa.ChunkedArray:
        return pc.struct_field(files[column], list(place))

    nothing = pa.nulls(files.num_rows, pa.int64())
    columns: dict[str, Any] = {
        "size": files["size_bytes"],
        "records": files["num_records"],
        "deleted": pc.fill_null(pc.struct_field(files["deletion_vector"], "cardinality"), 0),
    }
    if "partition" in files.column_names:
        columns["partition"] = _keys(files["partition"])
    for n, leaf in enumerate(leaves):
        low, high = leaf.bounds
        columns[f"min_{n}"], columns[f"max_{n}"] = leaf_values("min", low), leaf_values("max", high)
        columns[f"nulls_{n}"] = nothing if leaf.nulls is None else leaf_values("null_count", leaf.nulls)
    return pa.table(columns)


def _keys(partitions: pa.ChunkedArray) -> pa.ChunkedArray:
    """A text key for each partition, from which its values can be decoded."""
    import pyarrow as pa
    import pyarrow.compute as pc

    fields = range(partitions.type.num_fields)
    texts = [pc.fill_null(_texts(pc.struct_field(partitions, [n])), _NULL) for n in fields]
    return pc.binary_join_element_wise(*texts, pa.scalar(_NEXT))


def _texts(values: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        # Binary values that aren't UTF-8 are shown in hexadecimal. Encoding the dictionary
        # suffices, since few distinct values occur in many rows.
        encoded = values.combine_chunks().dictionary_encode()
        shown = pa.array([v.hex() for v in encoded.dictionary.to_pylist()], pa.string())
        return pa.chunked_array([shown.take(encoded.indices)], pa.string())
