"""Gathers the facts of a health report from a table's log as plain values; reads no data file.

Uses the table's public methods and the figures of this package; knows nothing of the page.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.report.advice import Advice, advice
from deltaplane.report.bins import Bin, by_powers, by_share
from deltaplane.report.columns import Leaf, LiveFiles, live_files
from deltaplane.report.growth import Commits, Point, commits, growth
from deltaplane.report.overlap import Bounds, Depth, sound
from deltaplane.report.partitions import Partitions, partitions
from deltaplane.report.table_facts import clustering_of

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.advisor.advice import AdviceReport
    from deltaplane.compat import Compatibility
    from deltaplane.report.table_facts import Metadata
    from deltaplane.table.delta_table import DeltaTable

__all__ = ["Column", "Files", "Health", "Vectors", "gather"]

# Limits of the numbers of analysed and listed items, so that page size and memory don't grow with
# the table.
_MOST_COLUMNS = 32
_MOST_PARTITIONS = 12
_MOST_POINTS = 240
# OPTIMIZE rewrites files with at least this share of deleted rows by default.
_DELETED_RATIO = 0.05
_SHARE_STEPS = 10


@dataclass(frozen=True)
class Files:
    """The live files. `rows` excludes rows deleted by vectors; None without statistics. OPTIMIZE
    aims at `target_bytes` and joins files below `large_enough_bytes`."""

    count: int
    size_bytes: int
    rows: int | None
    smallest_bytes: int
    median_bytes: float
    largest_bytes: int
    target_bytes: int
    large_enough_bytes: float
    small_files: int
    small_bytes: int
    without_rows: int
    bins: tuple[Bin, ...]


@dataclass(frozen=True)
class Column:
    """A column's statistics and how well they distinguish files. `empty` files hold only nulls in
    the column; `unknown` files have no bounds, so every query reads them. `within` is the depth
    within a partition, None for tables without partitions."""

    name: str
    type: str
    is_key: bool
    empty: int
    unknown: int
    overall: Depth
    within: Depth | None

    @property
    def depth(self) -> Depth:
        """The depth for a query with a partition predicate, or the overall depth in a table without
        partitions."""
        return self.overall if self.within is None else self.within


@dataclass(frozen=True)
class Vectors:
    """Deletion vectors: `above` files (with `above_bytes`) have more than the share `ratio` of
    their rows deleted. `bins` is a histogram of the shares, of files with a known number of
    rows."""

    files: int
    deleted_rows: int
    ratio: float
    above: int
    above_bytes: int
    bins: tuple[Bin, ...]


@dataclass(frozen=True)
class Health:
    """All facts of a report. Times are in ms since 1970-01-01 UTC; `log` and `tombstones` are
    totals of the log's files and of removed files, by the names of their keys."""

    table: str
    name: str | None
    description: str | None
    id: str
    created_ms: int | None
    version: int
    timestamp_ms: int | None
    made_ms: int
    made_by: str
    partition_columns: tuple[str, ...]
    clustering_columns: tuple[str, ...]
    configuration: dict[str, str]
    compatibility: Compatibility
    files: Files
    vectors: Vectors
    partitions: Partitions | None
    columns: tuple[Column, ...]
    more_columns: int
    growth: tuple[Point, ...]
    commits: Commits | None
    log: dict[str, Any]
    tombstones: dict[str, int]
    judged: AdviceReport | None
    advice: tuple[Advice, ...]

    def to_dict(self) -> dict[str, Any]:
        """Converts the facts to plain values, for JSON."""
        return {name: _plain(value) for name, value in vars(self).items()}


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value


def gather(table: DeltaTable, most_commits: int, judged: AdviceReport | None = None) -> Health:
    """Gathers the facts of the table's current version; `judged` is the result of `advise`."""
    snapshot, metadata = table._snapshot, table.metadata()
    keys = clustering_of(table.domain_metadata(), snapshot.schema)
    with live_files(snapshot, keys, _MOST_COLUMNS) as live:
        files = _files(snapshot, live)
        vectors = _vectors(live)
        spread = _partitions(metadata, live)
        columns = tuple(_column(live, leaf, keys, spread is not None) for leaf in live.leaves)
        more = live.more_leaves
    totals = snapshot.commit_totals(most_commits)
    reached = totals and totals[-1].version == snapshot.version
    facts: dict[str, Any] = {
        "table": snapshot.uri,
        "name": metadata.name,
        "description": metadata.description,
        "id": metadata.id,
        "created_ms": metadata.created_time,
        "version": snapshot.version,
        "timestamp_ms": snapshot.timestamp_ms,
        "made_ms": int(time.time() * 1000),
        "made_by": f"deltaplane {_native.__version__}",
        "partition_columns": tuple(metadata.partition_columns),
        "clustering_columns": tuple(keys),
        "configuration": metadata.configuration,
        "compatibility": table.compatibility(),
        "files": files,
        "vectors": vectors,
        "partitions": spread,
        "columns": columns,
        "more_columns": more,
        "growth": _thinned(growth(totals, files.count, files.size_bytes)) if reached else (),
        "commits": commits(totals),
        "log": snapshot.log_folder().to_dict(),
        "tombstones": snapshot.tombstone_totals().to_dict(),
    }
    without = Health(**facts, judged=judged, advice=())
    return replace(without, advice=advice(without, judged))


def _files(snapshot: _native.Snapshot, live: LiveFiles) -> Files:
    import pyarrow.compute as pc

    sizes, records, deleted = live.column("size"), live.column("records"), live.column("deleted")
    total = _sum(sizes)
    target, enough = snapshot.aimed_file_size(total)
    small = pc.less(sizes, enough)
    bounds = pc.min_max(sizes).as_py()
    return Files(
        live.count,
        total,
        None if records.null_count else _sum(pc.subtract(records, deleted)),
        bounds["min"] or 0,
        pc.quantile(sizes, 0.5)[0].as_py() or 0.0,
        bounds["max"] or 0,
        target,
        enough,
        _sum(small),
        _sum(sizes.filter(small)),
        records.null_count,
        by_powers(sizes),
    )


def _vectors(live: LiveFiles) -> Vectors:
    import pyarrow as pa
    import pyarrow.compute as pc

    deleted = live.column("deleted")
    marked = pc.greater(deleted, 0)
    records, sizes = live.column("records").filter(marked), live.column("size").filter(marked)
    deleted = deleted.filter(marked)
    # A file without rows has no deleted rows.
    known = pc.fill_null(pc.greater(records, 0), False)
    shares = pc.divide(pc.cast(deleted.filter(known), pa.float64()), pc.cast(records.filter(known), pa.float64()))
    above = pc.greater(shares, _DELETED_RATIO)
    bins = by_share(pc.min_element_wise(shares, 1.0), _SHARE_STEPS)
    above_bytes = _sum(sizes.filter(known).filter(above))
    return Vectors(len(deleted), _sum(deleted), _DELETED_RATIO, _sum(above), above_bytes, bins)


def _partitions(metadata: Metadata, live: LiveFiles) -> Partitions | None:
    import pyarrow.compute as pc

    if not metadata.partition_columns:
        return None
    rows = pc.subtract(live.column("records"), live.column("deleted"))
    columns = tuple(metadata.partition_columns)
    return partitions(columns, live.column("partition"), live.column("size"), rows, _MOST_PARTITIONS)


def _column(live: LiveFiles, leaf: Leaf, keys: Sequence[str], partitioned: bool) -> Column:
    import pyarrow.compute as pc

    lows, highs, nulls = live.bounds(leaf)
    mask = sound(lows, highs)
    empty = pc.and_(pc.invert(mask), pc.fill_null(pc.equal(nulls, live.column("records")), False))
    bounded, void = _sum(mask), _sum(empty)
    bounds = Bounds(lows.filter(mask), highs.filter(mask))
    # Bounds may be long texts, so their memory is freed here.
    del lows, highs, nulls
    within = bounds.depth(_numbers(live.column("partition")).filter(mask)) if partitioned else None
    unknown = live.count - bounded - void
    return Column(leaf.name, leaf.type, leaf.name in keys, void, unknown, bounds.depth(), within)


def _numbers(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    """A number for each partition's key: smaller than the key and without a dictionary."""
    import pyarrow as pa

    return pa.chunked_array([chunk.indices for chunk in keys.chunks], pa.int32())


def _sum(values: pa.ChunkedArray) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(values).as_py() or 0)


def _thinned(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """Limits the number of points to what a chart can show; retains the first and the last."""
    step = -(-len(points) // _MOST_POINTS)
    return points if step <= 1 else (*points[:-1:step], points[-1])
