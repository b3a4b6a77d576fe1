"""deltalake's forms of what commits and commands report: history, metrics, change feeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arro3.core import RecordBatchReader

    import deltaplane

_FEED = ("_change_type", "_commit_version", "_commit_timestamp")


def shown_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of the history without its version, which the caller counts."""
    return {name: value for name, value in entry.items() if name != "version"}


def without_unknown_rows(metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics of DELETE without a number of rows that isn't known."""
    if metrics.get("num_deleted_rows") is None:
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
    """The rows of a change feed, in deltalake's types: strings as views, times in milliseconds
    without a zone."""
    import pyarrow as pa

    from deltaplane.deltalake._arrow import as_arro3_reader, with_views

    reader = table.load_cdf(**arguments).to_reader()
    schema = with_views(reader.schema)
    kinds = {"_commit_version": pa.uint64(), "_commit_timestamp": pa.timestamp("ms")}
    for index, field in enumerate(schema):
        if field.name in kinds:
            schema = schema.set(index, pa.field(field.name, kinds[field.name]))
    return as_arro3_reader(reader, schema)
