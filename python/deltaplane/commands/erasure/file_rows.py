"""Rows of single data files that satisfy a condition, whatever version the files belong to."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from deltaplane.commands.erasure.search_terms import SearchTerms
from deltaplane.exceptions import CorruptFileError, InvalidArgumentError
from deltaplane.io.hidden_columns import FILE

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane import _native
    from deltaplane.commands.erasure.table_objects import StoredFile
    from deltaplane.expr.program import Check

__all__ = ["Columns", "matching_rows"]

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_PHYSICAL = "delta.columnMapping.physicalName"


class _Column(NamedTuple):
    """A searched column: its name in the table and in files, its Arrow field and type in JSON."""

    name: str
    stored: str
    field: pa.Field
    kind: Any


class Columns:
    """The searched columns of a table, and the condition over them. `logical` maps names in files
    to names in the table."""

    def __init__(self, columns: list[_Column], logical: dict[str, str], condition: Check) -> None:
        self.searched = columns
        self.logical = logical
        self.condition = condition
        self._visible: dict[str, int] | None = None

    @classmethod
    def of(cls, snapshot: _native.Snapshot, terms: SearchTerms) -> Columns:
        """The columns of a version that a condition names.

        Raises:
            InvalidArgumentError: the table hasn't one of them.
        """
        import pyarrow as pa

        from deltaplane.expr.program import compile_boolean

        fields = snapshot.schema.to_value()["fields"]
        arrow = pa.schema(snapshot.arrow_schema())
        by_name = {field["name"].lower(): field for field in fields}
        missing = [name for name in terms.columns if name.lower() not in by_name]
        if missing:
            raise InvalidArgumentError(
                f"the table has no column `{missing[0]}` (it has {', '.join(f['name'] for f in fields)})"
            )
        searched = [by_name[name.lower()] for name in terms.columns]
        columns = [_Column(f["name"], _stored(f), arrow.field(f["name"]), f["type"]) for f in searched]
        return cls(columns, dict(_names(fields)), compile_boolean(terms.where, snapshot.schema))

    def visible_rows(self, snapshot: _native.Snapshot, terms: SearchTerms) -> dict[str, int]:
        """How many rows of each file the version shows that satisfy the condition."""
        if self._visible is None:
            from deltaplane.expr.row_filter import scan_filter
            from deltaplane.io.arrow import Scan

            rows = scan_filter(snapshot, terms.where).rows([FILE], snapshot.scan, snapshot.location)
            counts: dict[str, int] = {}
            for batch in Scan(rows).batches():
                for path in batch.column(0).to_pylist():
                    counts[path] = counts.get(path, 0) + 1
            self._visible = counts
        return self._visible


def _stored(field: Mapping[str, Any]) -> str:
    return str(field["metadata"].get(_PHYSICAL, field["name"]))


def _names(fields: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for field in fields:
        yield _stored(field), field["name"]
        if isinstance(field["type"], dict) and field["type"].get("type") == "struct":
            yield from _names(field["type"]["fields"])


def matching_rows(file: StoredFile, path: str, columns: Columns, partition: Mapping[str, str | None]) -> int:
    """The number of a file's rows that satisfy the condition, whether or not a version shows them.

    A column that the file lacks has its partition value, of the log or of the path, or null.

    Raises:
        CorruptFileError: the file isn't Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        reader = pq.ParquetFile(io.BufferedReader(file), coerce_int96_timestamp_unit="us")
    except (pa.ArrowInvalid, OSError) as e:
        raise CorruptFileError(str(e), path=path) from e
    of_path = dict(_unquoted(segment) for segment in path.split("/")[:-1] if "=" in segment)
    values = {**of_path, **{columns.logical.get(name, name): value for name, value in partition.items()}}
    with reader:
        stored = [c.stored for c in columns.searched if c.stored in reader.schema_arrow.names]
        total = 0
        batches = reader.iter_batches(columns=stored) if stored else _counted(reader.metadata.num_rows)
        for batch in batches:
            parts = {c.name: _column(batch, c, values) for c in columns.searched}
            total += columns.condition.met(pa.RecordBatch.from_pydict(parts)).num_rows
    return total


def _unquoted(segment: str) -> tuple[str, str | None]:
    name, value = segment.split("=", 1)
    return unquote(name), None if value == _NULL_PARTITION else unquote(value)


def _counted(rows: int) -> Iterator[pa.RecordBatch]:
    """Batches without columns, of this number of rows in all."""
    import pyarrow as pa

    while rows:
        part = min(rows, 65_536)
        rows -= part
        yield pa.RecordBatch.from_arrays([pa.nulls(part)], ["none"])


def _column(batch: pa.RecordBatch, column: _Column, values: Mapping[str, str | None]) -> pa.Array:
    import pyarrow as pa

    if column.stored in batch.schema.names:
        renamed = _renamed(batch.column(column.stored), column.kind)
        # A file that is older than a wider type has the narrower one.
        return renamed if pa.types.is_nested(renamed.type) else renamed.cast(column.field.type)
    text = values.get(column.name)
    return pa.array([text] * batch.num_rows, pa.string()).cast(column.field.type)


def _renamed(array: pa.Array, kind: Any) -> pa.Array:
    """A column whose nested fields have the table's names."""
    import pyarrow as pa

    if not (isinstance(kind, dict) and kind.get("type") == "struct"):
        return array
    parts = {part.name: index for index, part in enumerate(array.type)}
    fields = [field for field in kind["fields"] if _stored(field) in parts]
    children = [_renamed(array.field(parts[_stored(field)]), field["type"]) for field in fields]
    return pa.StructArray.from_arrays(children, names=[field["name"] for field in fields], mask=array.is_null())
