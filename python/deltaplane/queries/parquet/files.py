"""Reads from the log what DuckDB needs to know of a table's files: their paths, partition values
and deleted rows.

Files that can't have a relevant row are left out. Rows of the files stay unread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from deltaplane.expr.arrow_compat import integers
from deltaplane.expr.duckdb_values import values_for_duckdb, zoneless
from deltaplane.queries.sources import DeltaSource

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane import DeltaTable

__all__ = ["FileGroup", "file_groups"]

# Positions of deleted rows are held in memory, at 16 bytes each and as much again in DuckDB.
_MOST_DELETED = 5_000_000
# From this many files on, whose mean number of rows is below that of DuckDB's vectors, DuckDB works
# longer on files than on rows, and twice as long as deltaplane's reader, which joins their rows.
_MANY_FILES = 32
_VECTOR_ROWS = 2048


@dataclass(frozen=True)
class FileGroup:
    """Files of a table: absolute paths, and partition values by the columns' ids.

    `deleted` are the rows that deletion vectors delete: `file`, the index in `paths`, and
    `position`. It is None if no file has a vector.
    """

    paths: Sequence[str]
    partitions: pa.Table
    deleted: pa.Table | None = None


def file_groups(rows: DeltaSource, conditions: Sequence[str], partitions: Mapping[str, str]) -> list[FileGroup] | None:
    """The relevant files: those without deletion vectors, and those with, if there are any.

    None if the positions of the deleted rows take too much memory, or the files are many and tiny.
    `partitions` are the names of the requested partition columns by id.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    batches = [_facts(batch, partitions) for batch in rows.files(conditions)]
    if not batches:
        return []
    files = pa.Table.from_batches(batches)
    if _are_many_and_tiny(files["rows"]):
        return None
    groups = [_group(rows.table, files.filter(pc.invert(files["marked"])))]
    marked = files.filter(files["marked"])
    if marked.num_rows:
        if (pc.sum(marked["deleted"]).as_py() or 0) > _MOST_DELETED:
            return None
        group = _group(rows.table, marked)
        deleted = _deleted_rows(rows.table, group.paths)
        if deleted is None:
            return None
        groups.append(FileGroup(group.paths, group.partitions, deleted))
    return [group for group in groups if group.paths]


def _facts(batch: pa.RecordBatch, partitions: Mapping[str, str]) -> pa.RecordBatch:
    """The needed facts of a batch of a plan; `deleted` are the rows of a deletion vector, and
    `marked` tells whether there is one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    vectors = batch["deletion_vector"]
    columns = {
        "path": batch["path"],
        "rows": batch["num_records"],
        "deleted": pc.struct_field(vectors, "cardinality"),
        "marked": pc.is_valid(vectors),
    }
    for id, name in partitions.items():
        values = pc.struct_field(batch["partition"], [name])
        columns[id] = values_for_duckdb(values, zoneless(values.type))
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _are_many_and_tiny(rows: pa.ChunkedArray) -> bool:
    """Whether that holds by the files' numbers of rows."""
    import pyarrow.compute as pc

    if len(rows) < _MANY_FILES or rows.null_count:
        return False
    total: int = pc.sum(rows).as_py()
    return total < len(rows) * _VECTOR_ROWS


def _group(table: DeltaTable, files: pa.Table) -> FileGroup:
    files = _typical_first(files)
    root = table._snapshot.location.rstrip("/")
    paths = [_absolute(root, path) for path in files["path"].to_pylist()]
    return FileGroup(paths, files.drop_columns(["path", "rows", "deleted", "marked"]))


def _typical_first(files: pa.Table) -> pa.Table:
    """Puts the file first whose number of rows is closest to the mean: DuckDB's join order counts
    the rows of the first file for each file."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = files["rows"]
    if len(rows) < 2 or rows.null_count == len(rows):
        return files
    distance = pc.abs(pc.subtract(rows.cast(pa.float64()), pc.mean(rows)))
    first = pc.index(distance, pc.min(distance)).as_py()
    return pa.concat_tables([files.slice(first, 1), files.slice(0, first), files.slice(first + 1)])


def _absolute(root: str, path: str) -> str:
    """A local file's absolute path, from its path in the log or its URI without percent-encoding;
    clones name the source's files by URIs."""
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    return path if path.startswith("/") else f"{root}/{path}"


def _deleted_rows(table: DeltaTable, paths: Sequence[str]) -> pa.Table | None:
    """The deleted rows of these files; None if the vector of a file isn't found by its path."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = {path: number for number, path in enumerate(paths)}
    schema = pa.schema([("file", pa.uint64()), ("position", pa.int64())])
    tables = []
    for batch in table.deletion_vectors():
        for uri, mask in zip(batch["filepath"].to_pylist(), batch["selection_vector"], strict=True):
            number = numbers.pop(_absolute("", unquote(uri)), None)
            if number is None:
                continue
            positions = pc.indices_nonzero(pc.invert(mask.values)).cast(pa.int64())
            files = integers([number] * len(positions)).view(pa.uint64())
            tables.append(pa.Table.from_arrays([files, positions], schema=schema))
    return pa.concat_tables(tables) if tables and not numbers else None
