"""deltalake's forms of what commits and commands report: history, metrics, change feeds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import DeltaError, VersionNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from arro3.core import RecordBatchReader

    import deltaplane

_OWN = "deltaplane/"
# delta-spark's names of parameters and the names that delta-rs has for them, by operation.
_RENAMED = {"MERGE": {"predicate": "mergePredicate"}}


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


def without_unknown_rows(metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics of DELETE without a number of rows that isn't known."""
    if not metrics.get("num_deleted_rows") and metrics.get("num_removed_files"):
        return {name: value for name, value in metrics.items() if name != "num_deleted_rows"}
    return metrics


def optimize_metrics(metrics: dict[str, Any], *, ordered: bool) -> dict[str, Any]:
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
