"""The files of a directory as rows of a table: lists them, computes keys, reads them as a stream in
the table's types.

Knows a schema and no table; `formats` reads the content of files.
"""

from __future__ import annotations

import fnmatch
import hashlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from deltaplane import _native
from deltaplane.copying.compressed import decompressed, is_compressed
from deltaplane.copying.formats import FORMATS
from deltaplane.copying.load_history import KEY_BYTES
from deltaplane.exceptions import DeltaError, FileMissingError, InvalidArgumentError, SchemaMismatchError
from deltaplane.io.arrow import Scan

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.copying.formats import Opened

__all__ = ["SourceFiles", "SourceRows"]

# Schemes that are aliases for the same store.
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "wasb": "wasbs"}


@dataclass(frozen=True)
class SourceFiles:
    """Files below a directory, by relative path, with their sizes."""

    uri: str
    store: _native.RawStore
    sizes: Mapping[str, int]

    @classmethod
    def listed(
        cls, source: str, options: dict[str, str] | None, pattern: str | None, files: Sequence[str] | None
    ) -> SourceFiles:
        """Lists the data files: all, those that match the pattern, or the named ones.

        Raises:
            FileMissingError: one of `files` doesn't exist.
        """
        uri = _same(source)
        store = _native.RawStore.open(uri, options)
        if files is not None:
            return cls(uri, store, {path: store.head(path)[1] for path in files})
        sizes = {path: size for path, size, _, _ in store.list_all("") if _is_data(path)}
        if pattern is not None:
            match = re.compile(fnmatch.translate(pattern)).match
            sizes = {path: size for path, size in sizes.items() if match(path)}
        if not sizes and pattern is None:
            raise FileMissingError(f"there are no files to load below `{uri}`: say which directory", path=uri)
        return cls(uri, store, dict(sorted(sizes.items())))

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def keys(self) -> pa.Array:
        """The key of each file: the hash of its URI."""
        import pyarrow as pa

        return pa.array([self._key(path) for path in self.sizes], pa.binary(KEY_BYTES))

    def without(self, keys: pa.Array) -> SourceFiles:
        """The files whose keys aren't among these."""
        left = set(keys.to_pylist())
        return SourceFiles(self.uri, self.store, {p: n for p, n in self.sizes.items() if self._key(p) not in left})

    def _key(self, path: str) -> bytes:
        return hashlib.sha256(f"{self.uri}/{path}".encode()).digest()[:KEY_BYTES]


def _same(source: str) -> str:
    """Normalises all spellings of a directory to one URI; a path in a volume of a catalog stays."""
    if source.startswith("dbfs:/"):
        return source.rstrip("/")
    scheme, separator, rest = source.partition("://")
    if separator and scheme != "file":
        return f"{_SAME.get(scheme.lower(), scheme.lower())}://{rest.rstrip('/')}"
    return Path(unquote(rest) if separator else source).resolve().as_uri()


def _is_data(path: str) -> bool:
    return not any(part.startswith(("_", ".")) for part in path.split("/"))


class _Remote(io.RawIOBase):
    """An object of a store as a file that is read by ranges."""

    def __init__(self, store: _native.RawStore, path: str, size: int) -> None:
        super().__init__()
        self._store, self._path, self._size, self._position = store, path, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self._size if size is None or size < 0 else min(self._size, self._position + size)
        data = self._store.read_range(self._path, self._position, end) if end > self._position else b""
        self._position += len(data)
        return data


@dataclass
class SourceRows:
    """The rows of files as a stream, with the files' columns in the table's types.

    Raises:
        SchemaMismatchError: a column that the table lacks if `merges` is false; also raised by the
            stream.
        UnsupportedFeatureError: an unknown option.
    """

    files: SourceFiles
    format: str
    options: Mapping[str, str]
    schema: _native.TableSchema
    merges: bool
    count: int = 0
    reader: pa.RecordBatchReader = field(init=False)

    def __post_init__(self) -> None:
        import pyarrow as pa

        self._table = pa.schema(self.schema)
        self._own = {f.name.lower(): f for f in self._table}
        self._open = FORMATS[self.format](self._table, self.options, self.merges)
        schema = self._schema()
        self.reader = pa.RecordBatchReader.from_batches(schema, self._batches(schema))

    def _schema(self) -> pa.Schema:
        """The files' columns: the table's own in its types, others unchanged."""
        import pyarrow as pa

        seen: dict[str, pa.Field] = {}
        for path in self._filled():
            with self._named(path):
                columns = self._opened(path)[0]
                _check_names(columns.names)
                for field in columns:
                    name = field.name.lower()
                    own = self._own.get(name)
                    if own is None and not self.merges:
                        raise SchemaMismatchError(f"the table has no column `{field.name}`: add it, or use mergeSchema")
                    if own is None and name in seen:
                        pair = [pa.schema([seen[name]]), pa.schema([field.with_name(seen[name].name)])]
                        field = pa.unify_schemas(pair, promote_options="permissive").field(0)
                    seen[name] = field if own is None else own
        return pa.schema([f.with_nullable(True) for f in seen.values()] or list(self._table))

    def _filled(self) -> Iterator[str]:
        return (path for path, size in self.files.sizes.items() if size)

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for path in self._filled():
            with self._named(path):
                row = 0
                for batch in self._opened(path)[1]:
                    if self.format == "parquet":
                        # pyarrow reads strings without checking that they are UTF-8.
                        _native.check_batch(batch, row)
                    row += batch.num_rows
                    self.count += batch.num_rows
                    yield _as(batch, schema)

    def _opened(self, path: str) -> Opened:
        """A file's columns and its rows."""
        return self._open(lambda: self._file(path))

    def _file(self, path: str) -> pa.NativeFile | None:
        """The content of a file from its beginning; None if it is empty."""
        import pyarrow as pa

        def file() -> pa.NativeFile:
            return pa.PythonFile(_Remote(self.files.store, path, self.files.sizes[path]), mode="r")

        return decompressed(file, path) if self.format != "parquet" and is_compressed(path) else file()

    @contextmanager
    def _named(self, path: str) -> Iterator[None]:
        """Adds the file's name to errors."""
        import pyarrow as pa

        try:
            yield
        except SchemaMismatchError as e:
            raise SchemaMismatchError(f"{e} (in the file `{path}`)", path=path) from e
        except InvalidArgumentError as e:
            raise InvalidArgumentError(f"{e} (in the file `{path}`)", path=path) from e
        except DeltaError:
            # Other errors, such as failures of the store, may be OSErrors as well.
            raise
        except (pa.ArrowException, ValueError, OSError) as e:
            raise SchemaMismatchError(
                f"the file `{path}` can't be read as {self.format} with the table's types ({' '.join(str(e).split())})",
                path=path,
            ) from e


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A file's rows with the stream's columns; missing columns are null."""
    import pyarrow as pa

    there = {name.lower(): i for i, name in enumerate(batch.schema.names)}
    _check_names(batch.schema.names)
    columns = []
    for to in schema:
        index = there.get(to.name.lower())
        column = pa.nulls(batch.num_rows, to.type) if index is None else batch.column(index)
        text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        if text and not (pa.types.is_string(to.type) or pa.types.is_large_string(to.type)):
            raise SchemaMismatchError(f"the column `{to.name}` of type {to.type} takes no text")
        columns.append(column if column.type == to.type else _cast(column, to))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _check_names(names: Sequence[str]) -> None:
    if len({name.lower() for name in names}) < len(names):
        raise SchemaMismatchError("two of its columns have one name")


def _cast(values: pa.Array, to: pa.Field) -> pa.Array:
    """Converts a column's values. Arrow's own cast matches fields of structs by exact name, and
    drops the others."""
    import pyarrow as pa

    if not pa.types.is_nested(to.type) or _same_fields(to.name, to.type, values.type):
        return values.cast(to.type)
    rows = pa.RecordBatch.from_arrays([values], names=[to.name])
    table = _native.TableSchema.of_arrow(pa.schema([to]))
    cast = Scan(_native.rows_in_table_types(rows, table)).to_arrow().column(0).combine_chunks()
    return cast if cast.type == to.type else cast.cast(to.type)


def _same_fields(path: str, to: pa.DataType, source: pa.DataType) -> bool:
    """Whether the structs of a file have exactly the field names of the column's structs.

    Raises:
        SchemaMismatchError: a field that the column lacks, or two of one name.
    """
    import pyarrow as pa

    if pa.types.is_map(to) and pa.types.is_map(source):
        keys = _same_fields(f"{path}.key", to.key_type, source.key_type)
        return _same_fields(f"{path}.value", to.item_type, source.item_type) and keys
    if hasattr(to, "value_type") and hasattr(source, "value_type"):
        return _same_fields(f"{path}.element", to.value_type, source.value_type)
    if not pa.types.is_struct(to) or not pa.types.is_struct(source):
        return True
    own, seen, same = {f.name.lower(): f for f in to}, set[str](), True
    for field_ in source:
        name = field_.name.lower()
        if name in seen:
            raise SchemaMismatchError(f"two fields of the column `{path}` have the name `{field_.name}`, ignoring case")
        seen.add(name)
        if name not in own:
            raise SchemaMismatchError(
                f"the column `{path}` has a field `{field_.name}` that the table's lacks, and which would be lost: add it to "
                "the table first"
            )
        inside = _same_fields(f"{path}.{field_.name}", own[name].type, field_.type)
        same = same and inside and field_.name == own[name].name
    return same
