"""Reading a table on the local disk, whole and filtered: into one Arrow table (or Polars frame),
and batch by batch.

deltaplane and deltalake each write the table again. Plain pyarrow reads the same files without the
log.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support import harness
from support.harness import Case, Contestant, Task, main, scale_of
from support.rows import AMOUNT_LIMIT, ROWS, WRITERS, data_files, file_of, in_memory

if TYPE_CHECKING:
    import polars as pl

CODEC = "zstd"


def _rows(table: Any) -> int:
    return int(table.num_rows)


def _count(batches: Iterable[Any]) -> int:
    return sum(batch.num_rows for batch in batches)


def _expression(case: Mapping[str, Any]) -> Any:
    """The case's filter for pyarrow."""
    import pyarrow.parquet as pq

    return pq.filters_to_expression([tuple(part) for part in case["filters"]]) if case["filters"] else None


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    path, sql = case["path"], case["sql"]
    if case["streamed"]:
        return Task(lambda: _count(DeltaTable(path).scan(predicate=sql).batches()))
    return Task(lambda: DeltaTable(path).to_pyarrow_table(filters=sql), _rows)


def deltalake_dataset(case: Mapping[str, Any], scratch: Path) -> Task:
    """deltalake's log, pyarrow's reader."""
    from deltalake import DeltaTable

    path, filters = case["path"], [tuple(part) for part in case["filters"]] or None
    if not case["streamed"]:
        return Task(lambda: DeltaTable(path).to_pyarrow_table(filters=filters), _rows)
    expression = _expression(case)
    return Task(lambda: _count(DeltaTable(path).to_pyarrow_dataset().to_batches(filter=expression)))


def deltalake_engine(case: Mapping[str, Any], scratch: Path) -> Task:
    """deltalake's own engine, DataFusion."""
    import pyarrow as pa
    from deltalake import DeltaTable

    path, sql = case["path"], case["sql"]
    if case["streamed"]:
        return Task(lambda: _count(pa.RecordBatchReader.from_stream(DeltaTable(path).scan(predicate=sql))))
    return Task(lambda: pa.RecordBatchReader.from_stream(DeltaTable(path).scan(predicate=sql)).read_all(), _rows)


def polars(case: Mapping[str, Any], scratch: Path) -> Task:
    import polars as pl

    return _lazy(case, lambda: pl.scan_delta(case["path"]))


def polars_by_room(case: Mapping[str, Any], scratch: Path) -> Task:
    """The same call of Polars, which imports deltaplane under the name of deltalake."""
    import deltaplane.deltalake

    deltaplane.deltalake.install()
    return polars(case, scratch)


def deltaplane_polars(case: Mapping[str, Any], scratch: Path) -> Task:
    import deltaplane.polars

    return _lazy(case, lambda: deltaplane.polars.scan(case["path"]))


def _lazy(case: Mapping[str, Any], scan: Callable[[], pl.LazyFrame]) -> Task:
    import polars as pl

    conditions = []
    for column, comparison, value in case["filters"]:
        field = pl.col(column)
        conditions.append({">=": field >= value, "<=": field <= value, ">": field > value}[comparison])

    def frame() -> pl.LazyFrame:
        lazy = scan()
        return lazy.filter(*conditions) if conditions else lazy

    if case["streamed"]:
        return Task(lambda: sum(batch.height for batch in frame().collect_batches(maintain_order=False)))
    return Task(lambda: frame().collect(), lambda rows: int(rows.height))


def pyarrow(case: Mapping[str, Any], scratch: Path) -> Task:
    import pyarrow.dataset as ds

    files = [str(path) for path in data_files(case["path"])]
    expression = _expression(case)
    if case["streamed"]:
        return Task(lambda: _count(ds.dataset(files).to_batches(filter=expression)))
    return Task(lambda: ds.dataset(files).to_table(filter=expression), _rows)


CONTESTANTS: dict[str, Contestant] = {
    "deltaplane": deltaplane,
    "deltalake dataset": deltalake_dataset,
    "deltalake engine": deltalake_engine,
    "Polars scan_delta": polars,
    "Polars scan_delta, deltaplane.deltalake": polars_by_room,
    "deltaplane.polars": deltaplane_polars,
    "pyarrow, files only": pyarrow,
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, help="rows of the table, instead of the scale's")


def _table(writer: str, rows: int) -> str:
    path = harness.CACHE / f"table-{writer}-{rows}"
    shutil.rmtree(path, ignore_errors=True)
    WRITERS[writer](in_memory(file_of(rows)), str(path), CODEC)
    return str(path)


def cases(options: argparse.Namespace) -> list[Case]:
    rows = options.rows or ROWS[scale_of(options)]
    first, count = rows // 2, rows // 100
    least = 0.99 * AMOUNT_LIMIT
    by_id = [("id", ">=", first), ("id", "<=", first + count - 1)]
    whole: dict[str, Any] = {"sql": None, "filters": []}
    clustered = {"sql": f"id BETWEEN {first} AND {first + count - 1}", "filters": by_id}
    scattered = {"sql": f"amount > {least}", "filters": [("amount", ">", least)]}
    all_cases = []
    for writer in ("deltaplane", "deltalake"):
        path = _table(writer, rows)
        queries = (("all", whole, rows), ("1 % by id", clustered, count), ("1 % by amount", scattered, None))
        for what, query, expected in queries:
            for streamed in (False, True):
                name = f"{rows:,} rows by {writer}, {what}, {'streamed' if streamed else 'one table'}"
                arguments = {"path": path, **query, "streamed": streamed}
                all_cases.append(
                    Case(name, list(CONTESTANTS), arguments, calls=2, expected=expected, size=rows, target="F1")
                )
    return all_cases


if __name__ == "__main__":
    main("scan", CONTESTANTS, cases, arguments)
