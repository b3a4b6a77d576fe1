"""Tables as Polars' lazy frames, whose files deltaplane's planner chooses.

Polars gives the selected columns and the condition of a query to the scan, which skips the files,
row groups and pages that the condition's comparisons rule out. Polars itself applies the condition
to the rows that are left, so that the answer is always that of Polars.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr import tree
from deltaplane.expr.matching_share import matching_share
from deltaplane.expr.row_filter import understands
from deltaplane.expr.tree import Node
from deltaplane.expr.tuples import value_node
from deltaplane.io.arrow import Scan
from deltaplane.table.delta_table import DeltaTable

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from deltaplane import _native
    from deltaplane.io.storage_options import StorageOptions, TableUri, VersionLike

__all__ = ["scan"]

_COMPARISONS = {"Eq": "=", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BOUNDS = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}
_INTEGERS = {"Int8", "Int16", "Int32", "Int64", "Int"}
_UNITS = {"Nanoseconds": 1_000, "Microseconds": 1, "Milliseconds": -1_000}
_EPOCH = dt.datetime(1970, 1, 1)
T = TypeVar("T")


@checked()
def scan(
    source: TableUri | DeltaTable,
    *,
    version: VersionLike | None = None,
    storage_options: StorageOptions | None = None,
) -> pl.LazyFrame:
    """A table as a lazy frame; no data file is opened before the frame is collected.

    A frame shows the version that was the newest one when it was made, or the requested one.
    Collecting it in Polars' streaming engine holds a few batches in memory.

    Args:
        source: the table's location, or an open table, whose version is read.
        version: a version, or a time (ISO 8601 text or a datetime), at which the table is read.
        storage_options: of the table's store, by name.

    Raises:
        InvalidArgumentError: `version` or `storage_options` together with an open table.
        TableNotFoundError, VersionNotFoundError: as for `DeltaTable`.
        ImportError: Polars isn't installed.

    >>> import polars as pl, pyarrow as pa
    >>> from deltaplane import write_deltalake
    >>> _ = write_deltalake("memory://doc-polars/t", pa.table({"x": [1, 2, 3], "y": ["a", "b", None]}))
    >>> scan("memory://doc-polars/t").filter(pl.col("x") >= 2).select("y").collect()["y"].to_list()
    ['b', None]
    """
    from polars.io.plugins import register_io_source

    table = _opened(source, version, storage_options)
    snapshot = table._snapshot
    schema = Scan(snapshot.scan(None)).schema
    types = _types(schema)

    def rows(
        columns: list[str] | None, condition: pl.Expr | None, limit: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        node, necessary = (None, None) if condition is None else _necessary(condition, schema, snapshot)
        files = _plain_files(table, schema.names if columns is None else columns, types, node, necessary)
        if files is not None:
            yield from _read_by_polars(files, columns or schema.names, condition, limit)
            return
        left = limit
        scanned = Scan(snapshot.scan(columns, necessary), snapshot.location).batches()
        # A limited scan ends with the first batch that suffices.
        for batches in _gathered(scanned, _FRAME_BYTES if limit is None else 0):
            # Polars takes a frame without columns for one without rows.
            frame = _frame(batches)
            if condition is not None:
                frame = frame.filter(condition)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame
            if left == 0:
                return

    return register_io_source(rows, schema=types, is_pure=True)


def _opened(source: TableUri | DeltaTable, version: VersionLike | None, options: StorageOptions | None) -> DeltaTable:
    if not isinstance(source, DeltaTable):
        return DeltaTable(source, version=version, storage_options=options)
    if version is not None or options is not None:
        raise InvalidArgumentError("an open table has its version and its options: pass its location with others")
    return source


# Types that Polars reads from Parquet as deltaplane does, whatever the writer.
_READ_ALIKE = "Int8 Int16 Int32 Int64 Float32 Float64 Boolean String Binary Decimal Date Datetime".split()
# Days and instants before this may be in the hybrid calendar of old versions of Spark.
_MODERN = dt.date(1900, 1, 1)
# Share of matching rows from which on Polars' own reader is the faster one.
_MANY = 0.4
# Files whose bounds are read to estimate how many rows match.
_BOUNDED = 64
# Files whose footers are read to estimate what a scan skips.
_FOOTERS = 4
# Most files whose footers are compared before the first one is read.
_MOST_FILES = 4096
# Bytes of Arrow data from which on Polars gets a frame.
_FRAME_BYTES = 8 << 20


def _plain_files(
    table: DeltaTable,
    columns: list[str],
    types: pl.Schema,
    node: Node | None,
    necessary: _native.Predicate | None,
) -> list[str] | None:
    """The paths of the files that may hold matching rows, if Polars' own reader gives the same rows
    for them and is the faster one: files on the local disk without deletion vectors, which have
    these columns in these types, and of whose rows many match; else None."""
    import polars as pl

    location, snapshot = table.location, table._snapshot
    if not hasattr(pl.LazyFrame, "collect_batches") or "://" in location or snapshot.column_mapping != "none":
        return None
    if not columns or set(columns) & set(table.metadata().partition_columns):
        return None
    wanted = {name: types[name] for name in columns}
    if any(kind.base_type().__name__ not in _READ_ALIKE for kind in wanted.values()):
        return None
    dated = [name for name, kind in wanted.items() if kind.is_temporal()]
    paths: list[str] = []
    for batch in Scan(snapshot.plan(necessary)).batches():
        if batch.column("deletion_vector").null_count < batch.num_rows:
            return None
        is_first = not paths
        if is_first and node is not None and necessary is not None and _skips_most(snapshot, node, necessary, batch):
            return None
        if not _is_modern(batch, dated):
            return None
        paths += batch.column("path").to_pylist()
        if len(paths) > _MOST_FILES:
            return None
    if not paths or any("%" in path or ":" in path or path.startswith("/") for path in paths):
        return None
    files = [os.path.join(location, path) for path in paths]
    return files if all(_has_columns(file, wanted) for file in files) else None


def _skips_most(snapshot: _native.Snapshot, node: Node, necessary: _native.Predicate, files: pa.RecordBatch) -> bool:
    """Whether deltaplane's reader, which decodes only the pages that may match, skips most rows:
    by the bounds few rows match, and the footers of the first files rule out most of their row
    groups. Files of one row group each don't tell."""
    groups, selected = snapshot.row_groups(necessary, _FOOTERS)
    if groups > min(files.num_rows, _FOOTERS):
        if 2 * selected > groups:
            return False
        # These are all files: at most this share of their rows matches.
        if files.num_rows <= _FOOTERS and selected < _MANY * groups:
            return True
    # Polars makes a series in its threads, which keep the processors busy for a while after it.
    lowest, highest = (_bounds(files, name).head(_BOUNDED).to_list() for name in ("min", "max"))
    return matching_share(node, lowest, highest) < _MANY


def _is_modern(files: pa.RecordBatch, names: list[str]) -> bool:
    """Whether the statistics of files exclude old days and instants in these columns."""
    import polars as pl

    if not names:
        return True
    lowest = _bounds(files, "min").struct
    for name in names:
        if name not in lowest.fields:
            return False
        days = lowest.field(name).cast(pl.Date)
        if days.null_count() > 0 or (days < _MODERN).any():
            return False
    return True


def _bounds(files: pa.RecordBatch, name: str) -> pl.Series:
    """Each file's bounds as a struct. pyarrow would load pandas for those that are instants."""
    return _frame(files.select([name]))[name]


def _has_columns(file: str, wanted: Mapping[str, Any]) -> bool:
    """Whether a file has these columns in these types; False for one that can't be read, which
    deltaplane's reader names."""
    import polars as pl

    try:
        own = pl.read_parquet_schema(file)
    except (OSError, pl.exceptions.PolarsError):
        return False
    return all(own.get(name) == kind for name, kind in wanted.items())


def _read_by_polars(
    files: list[str], columns: list[str], condition: pl.Expr | None, limit: int | None
) -> Iterator[pl.DataFrame]:
    import polars as pl

    lazy = pl.scan_parquet(files, glob=False, hive_partitioning=False, extra_columns="ignore", missing_columns="insert")
    if condition is not None:
        lazy = lazy.filter(condition)
    lazy = lazy.select(columns)
    yield from (lazy if limit is None else lazy.head(limit)).collect_batches()


def _gathered(batches: Iterator[pa.RecordBatch], least_bytes: int) -> Iterator[pa.Table]:
    """Batches joined until they have this number of bytes: Polars' threads wake up for each frame,
    and keep the processors from the reader for a while after it."""
    import pyarrow as pa

    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        gathered.append(batch)
        size += batch.get_total_buffer_size()
        if size >= least_bytes:
            yield pa.Table.from_batches(gathered)
            gathered, size = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered)


def _types(schema: pa.Schema) -> pl.Schema:
    """Polars' types of a schema's columns."""
    import pyarrow as pa

    # `empty_table` makes arrays of lists, for which pyarrow loads pandas: some 40 MB, and 0.2 s.
    return _frame(pa.Table.from_batches([], schema)).schema


def _frame(rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    import polars as pl

    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _necessary(
    condition: pl.Expr, schema: pa.Schema, snapshot: _native.Snapshot
) -> tuple[Node | None, _native.Predicate | None]:
    """A condition that is true for every row for which Polars' is, as a tree and for the core, or
    None for all rows."""
    from deltaplane._native import Predicate

    node = _node(json.loads(condition.meta.serialize(format="json")), schema)
    if node is None:
        return None, None
    predicate = Predicate(node)
    return (node, predicate) if understands(snapshot, predicate, checked_elsewhere=True) else (None, None)


def _node(expression: Any, schema: pa.Schema) -> Node | None:
    """The tree of what a Polars expression, as its JSON has it, needs of a row; None if unknown.

    Comparisons are taken only between a column and a constant of the column's own type: then Polars
    and Spark compare alike (NaN is equal to itself and above all other numbers; texts are compared
    by their bytes; null satisfies nothing).
    """
    match expression:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            known = [part for part in (_node(left, schema), _node(right, schema)) if part is not None]
            return tree.all_of(known) if known else None
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            either = [part for part in (_node(left, schema), _node(right, schema)) if part is not None]
            return tree.any_of(either) if len(either) == 2 else None
        case {"BinaryExpr": {"left": {"Column": str(name)}, "op": str(op), "right": constant}}:
            return _comparison(name, _COMPARISONS.get(op), constant, schema)
        case {"BinaryExpr": {"left": constant, "op": str(op), "right": {"Column": str(name)}}}:
            mirrored = _MIRRORED.get(_COMPARISONS.get(op, ""))
            return _comparison(name, mirrored, constant, schema)
        case {"Function": {"input": [{"Column": str(name)}, *inputs], "function": {"Boolean": function}}}:
            return _of_column(name, inputs, function, schema)
        case {"Function": {"input": [{"Column": str(name)}, constant], "function": {"StringExpr": "StartsWith"}}}:
            return _prefix(name, constant, schema)
    return None


def _of_column(name: str, inputs: list[Any], function: Any, schema: pa.Schema) -> Node | None:
    column = tree.column([name])
    match function:
        case "IsNull":
            return {"op": "is_null", "arg": column}
        case "IsNotNull":
            return {"op": "is_not_null", "arg": column}
        case {"IsBetween": {"closed": str(closed)}} if len(inputs) == 2 and closed in _BOUNDS:
            parts = zip(_BOUNDS[closed], inputs, strict=True)
            bounds = [_comparison(name, cmp, constant, schema) for cmp, constant in parts]
            known = [bound for bound in bounds if bound is not None]
            return tree.all_of(known) if known else None
        case {"IsIn": {"nulls_equal": False}} if len(inputs) == 1:
            return _membership(name, inputs[0], schema)
    return None


def _comparison(name: str, cmp: str | None, constant: Any, schema: pa.Schema) -> Node | None:
    value = _value(constant, schema.field(name).type)
    return None if cmp is None or value is None else tree.compare(cmp, tree.column([name]), value_node(value, name))


def _prefix(name: str, constant: Any, schema: pa.Schema) -> Node | None:
    value = _value(constant, schema.field(name).type)
    if not isinstance(value, str):
        return None
    escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return tree.like(tree.column([name]), f"{escaped}%")


def _membership(name: str, constant: Any, schema: pa.Schema) -> Node | None:
    """Polars writes the values of IN in Arrow's IPC format."""
    import pyarrow as pa

    match constant:
        case {"Literal": {"Scalar": {"List": list(content)}}}:
            values = pa.ipc.open_stream(bytes(content)).read_all().column(0)
        case _:
            return None
    if not _plain(values.type).equals(_plain(schema.field(name).type)):
        return None
    # Null satisfies nothing; an empty list leaves a condition that no row satisfies.
    items = [value_node(value, name) for value in values.to_pylist() if value is not None]
    return tree.is_in(tree.column([name]), items) if items else None


def _plain(kind: pa.DataType) -> pa.DataType:
    """One type for all layouts of texts, and one for those of bytes."""
    import pyarrow as pa

    texts = {pa.string(): pa.large_string(), pa.string_view(): pa.large_string()}
    return {**texts, pa.binary(): pa.large_binary(), pa.binary_view(): pa.large_binary()}.get(kind, kind)


def _value(constant: Any, kind: pa.DataType) -> Any:
    """The Python value of a constant of a column's own type; None for others, and for NaN, which
    JSON hasn't."""
    import pyarrow.types as types

    match constant:
        case {"Literal": {"Scalar": {**scalar}} | {"Dyn": {**scalar}}} if len(scalar) == 1:
            ((name, value),) = scalar.items()
        case _:
            return None
    match name, value:
        case _, int() if name in _INTEGERS and types.is_integer(kind) and not isinstance(value, bool):
            return value
        case "Float64" | "Float", float() | int() if types.is_float64(kind):
            return float(value)
        case "String", str() if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
            return value
        case "Boolean", bool() if types.is_boolean(kind):
            return value
        case "Date", int() if types.is_date(kind):
            return _moment(value * 86_400_000_000, lambda moment: moment.date())
        case "Decimal", [int(unscaled), int(), int(scale)] if types.is_decimal(kind):
            return Decimal(unscaled).scaleb(-scale) if abs(unscaled) < 10**28 else None
        case "Datetime", [int(ticks), str(unit), zone] if types.is_timestamp(kind):
            if (zone is None) != (kind.tz is None) or unit not in _UNITS:
                return None
            return _instant(ticks, _UNITS[unit], zone is not None)
    return None


def _instant(ticks: int, unit: int, has_zone: bool) -> dt.datetime | None:
    if unit > 0 and ticks % unit:
        return None
    micros = ticks // unit if unit > 0 else ticks * -unit
    return _moment(micros, lambda moment: moment.replace(tzinfo=dt.timezone.utc) if has_zone else moment)


def _moment(micros: int, shown: Callable[[dt.datetime], T]) -> T | None:
    """A moment, or None outside of the years that Python knows."""
    try:
        return shown(_EPOCH + dt.timedelta(microseconds=micros))
    except OverflowError:
        return None
