"""deltalake's forms of what commits and commands report: history, metrics, change feeds."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import DeltaError, VersionNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from arro3.core import RecordBatchReader

    import deltaplane

_OWN = "deltaplane/"
# The parameter of a MERGE that holds the condition on the table which the source's keys imply.
EARLY_FILTER = "earlyFilter"
# delta-spark's names of parameters and the names that delta-rs has for them, by operation.
_RENAMED = {"MERGE": {"predicate": "mergePredicate", EARLY_FILTER: "predicate"}}


def shown_entry(info: dict[str, Any]) -> dict[str, Any]:
    """An entry of the history as deltalake has it: deltaplane's own metrics are numbers, parameters
    texts under delta-rs's names."""
    if _OWN not in str(info.get("engineInfo", "")):
        return info
    names = _RENAMED.get(info.get("operation", ""), {})
    parameters = info.get("operationParameters") or {}
    metrics = info.get("operationMetrics") or {}
    return {
        **info,
        "operationParameters": {names.get(key, key): _text(value) for key, value in parameters.items()},
        "operationMetrics": {key: _number(value) for key, value in metrics.items()},
    }


def _text(value: Any) -> Any:
    """A bool or a number as text, as delta-rs writes parameters."""
    return json.dumps(value) if isinstance(value, (bool, int, float)) else value


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value


_NAME = r'("(?:[^"]|"")+"|`(?:[^`]|``)+`|\w+)'
_EQUALITY = re.compile(rf"\s*{_NAME}\.{_NAME}\s*=\s*{_NAME}\.{_NAME}\s*(?:AND(?=\s)|$)", re.IGNORECASE)
# Most partitions that the condition names one by one.
_LISTED = 64


def early_filter(
    predicate: str, aliases: tuple[str, str], source: pa.Table, partition_columns: Sequence[str]
) -> str | None:
    """The condition on the table's rows which a source's keys imply, in DataFusion's SQL: values of
    partition columns, ranges of other columns.

    Args:
        predicate: the MERGE's; None is returned unless it compares only columns for equality.
        aliases: the source's and the table's.
        source: its rows.
        partition_columns: the table's.
    """
    keys, position = [], 0
    while position < len(predicate):
        match = _EQUALITY.match(predicate, position)
        if match is None:
            return None
        position = match.end()
        left, left_column, right, right_column = (_unquoted(name) for name in match.groups())
        by_alias = {left.lower(): left_column, right.lower(): right_column}
        if by_alias.keys() != {alias.lower() for alias in aliases}:
            return None
        here, there = (by_alias[alias.lower()] for alias in aliases)
        if here not in source.column_names:
            return None
        keys.append((here, there))
    partitions = [here for here, there in keys if there in partition_columns]
    texts = [_condition_of(keys, part) for part in _by_values(source, partitions)]
    return None if None in texts else " OR ".join(text for text in texts if text) or None


def _by_values(source: pa.Table, columns: Sequence[str]) -> list[pa.Table]:
    """The rows by their values of these columns, in order; all of them for too many values."""
    import pyarrow.compute as pc

    if not columns or any(source[name].null_count for name in columns):
        return [source]
    groups = source.group_by(list(columns)).aggregate([]).sort_by([(name, "ascending") for name in columns])
    if groups.num_rows > _LISTED:
        return [source]
    parts = []
    for values in groups.to_pylist():
        part = source
        for name, value in values.items():
            part = part.filter(pc.equal(part[name], value))
        parts.append(part)
    return parts


def _condition_of(keys: Sequence[tuple[str, str]], source: pa.Table) -> str | None:
    parts = [_values_condition(there, source[here]) for here, there in keys]
    return " AND ".join(part for part in parts if part) if None not in parts else None


def _unquoted(name: str) -> str:
    return name if name[0] not in '"`' else name[1:-1].replace(name[0] * 2, name[0])


def _values_condition(name: str, column: pa.ChunkedArray) -> str | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    kind, shown = column.type, name if name.isidentifier() else '"' + name.replace('"', '""') + '"'
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or column.null_count == len(column):
        return None
    bounds = pc.min_max(column)
    low, high = _literal(bounds["min"]), _literal(bounds["max"])
    if low is None or high is None:
        return None
    return f"{shown} = {low}" if low == high else f"{shown} >= {low} AND {shown} <= {high}"


def _literal(scalar: pa.Scalar) -> str | None:
    """A value in DataFusion's SQL; None for types that have no literal here."""
    import pyarrow as pa

    kind, value, kinds = scalar.type, scalar.as_py(), pa.types
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if kinds.is_boolean(kind) or kinds.is_integer(kind):
        return str(value).lower()
    if kinds.is_floating(kind):
        return repr(value)
    if kinds.is_decimal(kind):
        return f"'{value}'::decimal({kind.precision}, {kind.scale})"
    if kinds.is_date(kind):
        return f"'{value.isoformat()}'::date"
    if kinds.is_timestamp(kind):
        zone = "None" if kind.tz is None else f'Some("{kind.tz}")'
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"arrow_cast('{text}', 'Timestamp(Microsecond, {zone})')"
    return None


def without_unknown_rows(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics of DELETE without a number of rows that isn't known."""
    if not metrics.get("num_deleted_rows") and metrics.get("num_removed_files"):
        return {name: value for name, value in metrics.items() if name != "num_deleted_rows"}
    return dict(metrics)


def optimize_metrics(metrics: Mapping[str, Any], *, ordered: bool) -> dict[str, Any]:
    """Metrics of OPTIMIZE with deltalake's names of what was done."""
    # In one group, the group spans all files that were removed.
    span = {"maxBinSpanFiles": metrics["numFilesRemoved"]} if metrics.get("numBatches") == 1 else {}
    return {
        **metrics,
        **span,
        "plannerStrategy": "zOrder" if ordered else "preserveLocality",
        "preservedStableOrder": not ordered,
        "preserveInsertionOrder": not ordered,
    }


def change_feed(table: deltaplane.DeltaTable, **arguments: Any) -> RecordBatchReader:
    """The rows of a change feed, in deltalake's types: strings as views, and times of commits as
    the
    commits state them, in milliseconds without a zone.

    Raises:
        DeltaError: no version is in the range.
    """
    import pyarrow as pa

    from deltaplane.deltalake._arrow import as_arro3_reader, declared, with_views

    try:
        reader = table.load_cdf(**arguments).to_reader()
    except VersionNotFoundError as e:
        if arguments.get("starting_timestamp") is not None:
            raise DeltaError(f"The starting timestamp is greater than latest commit timestamp: {e}") from e
        raise DeltaError(f"Invalid table version: {arguments['starting_version']}: {e}") from e
    schema = with_views(declared(reader.schema, pa.schema(table.schema())))
    kinds = {"_commit_version": pa.uint64(), "_commit_timestamp": pa.timestamp("ms")}
    for index, field in enumerate(schema):
        if field.name in kinds:
            schema = schema.set(index, pa.field(field.name, kinds[field.name]))
    times = {entry.version: entry.info.get("timestamp") for entry in table._snapshot.history()}
    return as_arro3_reader(_with_times(reader, times), schema)


def _with_times(reader: pa.RecordBatchReader, times: dict[int, int | None]) -> pa.RecordBatchReader:
    """The rows with the times that commits state, where the feed has both columns."""
    import pyarrow as pa

    names = reader.schema.names
    if not {"_commit_version", "_commit_timestamp"} <= set(names):
        return reader
    index = names.index("_commit_timestamp")
    schema = reader.schema.set(index, pa.field("_commit_timestamp", pa.timestamp("ms")))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            known = batch.column(index).cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
            versions = batch.column(names.index("_commit_version")).to_pylist()
            stated = [times.get(version) or own for version, own in zip(versions, known, strict=True)]
            columns = list(batch.columns)
            columns[index] = pa.array(stated, pa.int64()).cast(pa.timestamp("ms"))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
