"""Converts users' data to Arrow and back, by Arrow's C data interface and pyarrow, which is
imported at first use.

Uses no table.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import DeltaError, InvalidArgumentError, InvalidTypeError, SchemaMismatchError
from deltaplane.io.arrow_views import without_views
from deltaplane.io.tracing import operation_of, place, stream_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from deltaplane import _native
    from deltaplane.expr.row_filter import FilteredRows

__all__ = ["KeptErrors", "Scan", "as_reader", "check_column_names", "in_table_types", "reads_again"]

_ACCEPTED = (
    "pass anything with __arrow_c_stream__ or __arrow_c_array__ (a pyarrow Table, RecordBatch or RecordBatchReader, "
    "a Polars or pandas DataFrame, a DuckDB relation), or an iterable of record batches"
)
# pyarrow's message for a type that Arrow's C interface lacks.
_FORMAT = re.compile(r"unsupported format string: '([^']*)'")
# Arrow's words around an error's own text in a stream that carries text alone.
_KINDS = re.compile(r"(?:(?:C Data interface error|Invalid|IOError|Unknown error): )+")
_TRACE = re.compile(r"\.? Detail: Python exception:.*", re.DOTALL)


def as_reader(data: Any) -> pa.RecordBatchReader:
    """A reader over the user's data; nothing is copied where the library shares its memory.

    A named pandas index is data and becomes a column; an unnamed one is a row number and is left
    out.

    Raises:
        TypeError: not Arrow data; says how to convert it.
        InvalidArgumentError: reading the data raised an exception, which is the cause; also raised
            by the reader. Exceptions of this package pass through unchanged.

    >>> import pyarrow as pa
    >>> as_reader([pa.record_batch({"x": [1]}), pa.record_batch({"x": [2]})]).read_all()["x"].to_pylist()
    [1, 2]
    """
    import pyarrow as pa

    if isinstance(data, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
        check_column_names(data.schema)
    rows = _reader(data)
    if isinstance(data, (list, tuple)) or not reads_again(data):
        rows = pa.RecordBatchReader.from_batches(rows.schema, map(partial(_alike, schema=rows.schema), _read(rows)))
    return rows


def in_table_types(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The rows in the Arrow types of a table with their columns, by the casts of an append:
    commands that evaluate rows before writing them then handle one layout per type. Rows that have
    these types already are unchanged.

    Raises:
        SchemaMismatchError: a type that tables don't have; from the reader also a value outside the
            type's range.
        InvalidArgumentError: two columns, or two fields of a struct, whose names differ only in
            case.

    >>> import pyarrow as pa
    >>> words = pa.table({"w": pa.array(["a", "a"]).dictionary_encode(), "n": pa.array([1, 2], pa.uint8())})
    >>> [str(t) for t in in_table_types(words.to_reader()).schema.types]
    ['string', 'int16']
    """
    import pyarrow as pa

    from deltaplane import _native

    empty = pa.RecordBatchReader.from_batches(rows.schema, [])
    schema = Scan(_native.rows_in_table_types(empty)).schema
    if schema.types == rows.schema.types:
        return rows

    def cast() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            yield from Scan(_native.rows_in_table_types(batch))

    return pa.RecordBatchReader.from_batches(schema, cast())


def check_column_names(schema: Any) -> None:
    """Refuses names with NUL characters, at every depth: the C interface would truncate them
    silently.

    Raises:
        InvalidArgumentError: such a name.
    """
    import pyarrow as pa

    fields = list(schema) if isinstance(schema, pa.Schema) else []
    while fields:
        field = fields.pop()
        if "\0" in field.name:
            raise InvalidArgumentError(
                f"the column name {field.name!r} holds a NUL character: name the column without it"
            )
        fields += [field.type.field(i) for i in range(field.type.num_fields)]


def _reader(data: Any) -> pa.RecordBatchReader:
    import pyarrow as pa

    if isinstance(data, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
        data = _exported(data)
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, Scan) or _is_from("deltaplane.table", "DeltaTable", data):
        # A C stream would transport only the text of an error.
        own: pa.RecordBatchReader = data.to_reader()
        return own
    if _is_from("pandas", "DataFrame", data):
        named = any(name is not None for name in data.index.names)
        return pa.Table.from_pandas(data, preserve_index=named).to_reader()
    if _is_from("polars", "LazyFrame", data):
        with _reading():
            data = data.collect()
    if hasattr(data, "__arrow_c_stream__"):
        # A source may evaluate its rows for this, as a relation of DuckDB before 2.0 does.
        with _reading():
            try:
                return pa.RecordBatchReader.from_stream(data)
            except pa.ArrowInvalid as e:
                raise _not_a_table(data, e) from None
    if hasattr(data, "__arrow_c_array__"):
        batch = _batch(data)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes, dict)):
        return _reader_of_batches(_read(data))
    raise InvalidTypeError(f"can't write a {_name(data)}: {_ACCEPTED}{_hint(data)}")


def _reader_of_batches(batches: Iterator[Any]) -> pa.RecordBatchReader:
    import pyarrow as pa

    first = next(batches, None)
    if first is None:
        raise InvalidTypeError(f"an empty iterable has no schema, so no table can be written from it: {_ACCEPTED}")
    if not hasattr(first, "__arrow_c_array__"):
        raise InvalidTypeError(f"can't write an iterable of {_name(first)}: {_ACCEPTED}{_hint([first])}")
    head = _batch(first)
    return pa.RecordBatchReader.from_batches(head.schema, chain([head], map(_batch, batches)))


def _read(batches: Iterable[Any]) -> Iterator[Any]:
    with _reading():
        yield from batches


def _alike(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Checks that a batch has the source's columns: a C stream would silently read the values of
    other columns."""
    if batch.schema.names != schema.names or batch.schema.types != schema.types:
        raise InvalidArgumentError(
            f"the source's rows can't be read: a batch has the columns ({_columns(batch.schema)}), the source "
            f"({_columns(schema)}): cast it"
        )
    return batch


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name}: {f.type}" for f in schema)


@contextmanager
def _reading() -> Iterator[None]:
    """Marks errors as raised by the user's data."""
    try:
        yield
    except DeltaError:
        raise
    except Exception as e:
        raise InvalidArgumentError(f"the source's rows can't be read: {_words(e)}") from e


def _words(e: Exception) -> str:
    """An error's own text, with its class name if Arrow added it."""
    import pyarrow as pa

    text = " ".join(_TRACE.sub("", str(e)).split())
    if isinstance(e, pa.ArrowException):
        return _KINDS.sub("", text, count=1) or type(e).__name__
    return f"{text} ({type(e).__name__})" if text else type(e).__name__


def _exported(data: Any) -> Any:
    """Data of pyarrow, without the views that its export can't have."""
    schema = data.schema
    plain = without_views(schema)
    return data if plain is schema else data.cast(plain)


def _batch(data: Any) -> pa.RecordBatch:
    import pyarrow as pa

    if isinstance(data, pa.RecordBatch):
        return _exported(data)
    try:
        return pa.record_batch(data)
    except pa.ArrowInvalid as e:
        raise _not_a_table(data, e) from None


def _not_a_table(data: Any, e: Exception) -> Exception:
    """The exception for data that pyarrow doesn't accept as a table, based on its message."""
    if "non-struct type" in str(e):
        return InvalidTypeError(f"can't write a {_name(data)}, which is one column and no table: {_ACCEPTED}")
    unknown = _FORMAT.search(str(e))
    if unknown is None:
        return InvalidArgumentError(f"the source's rows can't be read: {_words(e)}")
    types = {str(t): name for name, t in getattr(data, "schema", {}).items()} if _is_polars(data) else {}
    named = [f"`{name}` ({t})" for t, name in types.items() if "Int128" in t]
    subject = f"the column {', '.join(named)}" if named else f"a column of the Arrow format {unknown[1]!r}"
    return SchemaMismatchError(
        f"can't write {subject}: this type has no counterpart in Arrow and in Delta; cast the column first, for example to "
        "decimal(38,0), long or string"
    )


def _is_polars(data: Any) -> bool:
    return _is_from("polars", "DataFrame", data)


def reads_again(data: Any) -> bool:
    """Whether `as_reader` returns the same rows a second time: the data is in memory, not a stream.

    >>> import pyarrow as pa
    >>> table = pa.table({"x": [1]})
    >>> reads_again(table), reads_again(table.to_reader()), reads_again(iter(table.to_batches()))
    (True, False, False)
    """
    import pyarrow as pa

    if isinstance(data, (pa.Table, pa.RecordBatch, Scan, list, tuple)):
        return True
    return _is_from("pandas", "DataFrame", data) or _is_from("polars", "DataFrame", data)


def _is_from(module: str, name: str, data: Any) -> bool:
    """Whether `data` is an instance of a library's class, without importing the library."""
    cls = getattr(sys.modules.get(module), name, None)
    return cls is not None and isinstance(data, cls)


def _name(data: Any) -> str:
    cls = type(data)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"


def _hint(data: Any) -> str:
    if isinstance(data, dict):
        return "; a dict of columns becomes a table with pyarrow.table(data)"
    if isinstance(data, list) and data and isinstance(data[0], dict):
        return "; a list of rows becomes a table with pyarrow.Table.from_pylist(rows)"
    if hasattr(data, "toArrow"):
        return "; a Spark DataFrame is written by deltaplane.spark.write(df, path)"
    return ""


class KeptErrors:
    """Batches in an Arrow stream, which carries only the text of an error: keeps the exception
    itself.

    `location` is the table that errors then name.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], location: str) -> None:
        self._batches = batches
        self._location = location
        self._error: DeltaError | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches
        except DeltaError as e:
            # An error of another table's scan keeps that table's name.
            e.table = e.table or self._location
            self._error = e
            raise

    def raise_error(self) -> None:
        """Raises the error that ended the stream, if any."""
        if self._error is not None:
            raise self._error from self._error.__cause__


class Scan:
    """Unread rows of one table version, or of its changes. Each use starts the scan again, so that
    one object serves many readers.

    Any Arrow library accepts it: `pl.DataFrame(scan)`, `duckdb.from_arrow(scan)`, `pa.table(scan)`.
    `batches` and `to_reader` hold a few batches in memory, the other methods all rows.
    """

    def __init__(self, native: _native.Scan | _native.ArrowStream | FilteredRows, location: str | None = None) -> None:
        self._native = native
        # For traces: the table's location, and the operation that makes the scan.
        self._location, self._place = location, place()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        with operation_of("SCAN", self._location):
            return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows, without reading any."""
        import pyarrow as pa

        return pa.schema(self._native)

    def to_reader(self) -> pa.RecordBatchReader:
        """A `pyarrow.RecordBatchReader`, which reads on demand."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as record batches, one after the other."""
        with stream_of("SCAN", self._location, self._place) as made:
            with made:
                reader = self._stream()
            while True:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                except Exception:
                    self._native.raise_error()
                    raise
                yield batch

    __iter__ = batches

    def to_arrow(self) -> pa.Table:
        """All rows as a `pyarrow.Table`."""
        with stream_of("SCAN", self._location, self._place) as made:
            try:
                with made:
                    reader = self._stream()
                return reader.read_all()
            except Exception:
                self._native.raise_error()
                raise

    # The method's name in `pyarrow.RecordBatchReader`.
    read_all = to_arrow

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """All rows as a pandas DataFrame; `options` are those of `pyarrow.Table.to_pandas`."""
        frame: pd.DataFrame = self.to_arrow().to_pandas(**options)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """All rows as a Polars DataFrame."""
        import polars as pl

        with stream_of("SCAN", self._location, self._place) as made, made:
            try:
                return pl.DataFrame(self._native)
            except Exception:
                self._native.raise_error()
                raise

    def _stream(self) -> pa.RecordBatchReader:
        """A C reader. Its errors are text only, so the Python caller raises the core's own error
        instead."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_stream(self._native)

    def __repr__(self) -> str:
        return f"Scan({', '.join(self.schema.names)})"

    def _repr_html_(self) -> str:
        from deltaplane.io.html import table_html

        return table_html(("column of the scan", "type"), [(field.name, field.type) for field in self.schema])
