"""deltalake's ways to read rows with pyarrow: datasets of files, and filters of pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltaplane.deltalake._errors import deltalake_errors
from deltaplane.exceptions import DeltaProtocolError, UnsupportedFeatureError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

    from deltaplane.deltalake.table import DeltaTable


def dataset(
    table: DeltaTable,
    predicate: Any,
    filesystem: Any,
    parquet_read_options: ds.ParquetReadOptions | None,
    schema: pa.Schema | None,
    as_large_types: bool,
) -> ds.Dataset:
    """The files that may hold matching rows, over deltalake's file system; over a file system that
    renders files, where pyarrow can't read them itself."""
    import pyarrow.fs as pa_fs

    from deltaplane.deltalake.fs import DeltaStorageHandler
    from deltaplane.table.arrow_dataset import has_unreadable_files

    raw = table._table
    if not filesystem and has_unreadable_files(raw.inner):
        filesystem = None
    elif not filesystem:
        handler = DeltaStorageHandler.from_table(raw, table._storage_options, raw.get_add_file_sizes())
        filesystem = pa_fs.PyFileSystem(handler)
    elif isinstance(filesystem, str):
        filesystem, _ = pa_fs.FileSystem.from_uri(filesystem)
    try:
        with deltalake_errors():
            return raw.inner.to_pyarrow_dataset(
                raw._predicate(predicate),
                filesystem=filesystem,
                parquet_read_options=parquet_read_options,
                schema=schema,
                as_large_types=as_large_types,
            )
    except UnsupportedFeatureError as e:
        raise DeltaProtocolError(f"this is not supported using pyarrow Datasets: {e}") from e


def rows(table: DeltaTable, predicate: Any, columns: list[str] | None, filesystem: Any, filters: Any) -> pa.Table:
    """The rows that meet pyarrow's filters, in the files that may meet the predicate."""
    import pyarrow as pa
    from pyarrow.parquet import filters_to_expression

    from deltaplane.table.arrow_dataset import has_unreadable_files

    expression = None if filters is None else filters_to_expression(filters)
    table._check_readable()
    if filesystem is None and has_unreadable_files(table._table.inner):
        # Faster than a dataset, which renders such files for pyarrow.
        read = table._table.inner.to_pyarrow_table(predicate)
        read = read.cast(pa.schema(table.schema()))
        read = read if expression is None else read.filter(expression)
        return read if columns is None else read.select(columns)
    files = table.to_pyarrow_dataset(file_pruning_predicate=predicate, filesystem=filesystem)
    return files.to_table(columns=columns, filter=expression)
