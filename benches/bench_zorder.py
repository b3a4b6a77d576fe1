"""Bytes that look-ups of one value read, by order of the rows: section 6.2 of the Delta Lake paper.

Four uniform columns, such as addresses and ports. deltaplane also reads other engines' Z-ordered
tables, so only the order differs. A line's size is the total of the files that look-ups would read
after pruning: by the worst column (`least`), or by all (`average`); beside it the size of all
files.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from support import harness
from support.harness import Case, Contestant, Task, main, scale_of
from support.rows import SEED
from support.sparks import ENGINES, aim_at, is_there, session

NAMES = ["sourceIP", "sourcePort", "destIP", "destPort"]
ROWS = {"quick": 20_000, "small": 1_000_000, "full": 1_000_000}
# Growth: more files, of a thousand rows each up to the size that a machine sorts in reasonable
# time.
FILES = {"quick": [20, 40], "small": [100], "full": [100, 1_000, 10_000, 50_000]}
MOST_ROWS = 10_000_000
# With this many files only the best order is measured.
MANY_FILES = {"quick": 40, "full": 50_000}
# The minimum of four columns' averages: with few look-ups, one of them is small by chance.
LOOKUPS = {"quick": 20, "small": 500, "full": 500}
LOOKUPS_IN_MANY = 100
ORDERS = ("first column", "zorder", "hilbert", "kdtree")


def data(rows: int) -> pa.Table:
    """Columns of noise, the same each time."""
    chance = np.random.default_rng(SEED)
    return pa.table({name: chance.integers(0, 1 << (32 if "IP" in name else 16), rows) for name in NAMES})


def table_of(rows: int, files: int, order: str, by: str = "deltaplane") -> Path:
    """A table in this order, made if it doesn't exist."""
    path = harness.CACHE / f"ordered-{rows}-{files}-{order.replace(' ', '-')}-{by}-{SEED}"
    if not path.exists():
        from deltaplane import DeltaTable, write_deltalake

        unfinished = path.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        write_deltalake(str(unfinished), data(rows))
        table = DeltaTable(str(unfinished))
        columns, curve = (NAMES[:1], "zorder") if order == "first column" else (NAMES, order)
        size = table.get_add_actions()["size_bytes"][0].as_py()
        target = -(-size // files)
        if by == "deltaplane":
            # The names in ORDERS are the accepted literals, which the type checker can't infer.
            table.optimize.z_order(columns, curve=curve, target_size=target)  # type: ignore[arg-type]
        else:
            _order_elsewhere(by, str(unfinished), target)
        unfinished.rename(path)
    return path


def _order_elsewhere(by: str, path: str, target: int) -> None:
    """Another engine's Z-order of all columns."""
    if by == "deltalake":
        import deltalake

        deltalake.DeltaTable(path).optimize.z_order(NAMES, target_size=target)
        return
    # A process has one session, whose JVM should end with it.
    process = multiprocessing.get_context("spawn").Process(target=_order_on_spark, args=(path, target))
    process.start()
    process.join()
    if process.exitcode != 0:
        raise RuntimeError(f"delta-spark didn't order {path}")


def _order_on_spark(path: str, target: int) -> None:
    spark = session(harness.CACHE, ENGINES["delta-spark"].settings())
    aim_at(spark, target)
    spark.sql(f"OPTIMIZE delta.`{path}` ZORDER BY ({', '.join(NAMES)})").collect()
    spark.stop()


def bytes_read(path: str, rows: int, lookups: int) -> list[int]:
    """For each column, the bytes of the files that look-ups of existing values read."""
    from deltaplane import DeltaTable

    table = DeltaTable(path)
    actions = table.get_add_actions()
    sizes = dict(zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True))
    chance = np.random.default_rng(SEED + 1)
    values = data(rows)
    sizes_read = []
    for name in NAMES:
        looked_for = chance.choice(values[name].to_numpy(), lookups)
        sizes_read.append(sum(sizes[file] for value in looked_for for file in table.files([(name, "=", int(value))])))
    return sizes_read


def all_bytes(path: str, lookups: int) -> list[int]:
    """The bytes read without skipping."""
    from deltaplane import DeltaTable

    return [lookups * sum(DeltaTable(path).get_add_actions()["size_bytes"].to_pylist())] * len(NAMES)


def contestant(name: str, case: Mapping[str, Any], scratch: Path) -> Task:
    del scratch
    table = case["tables"].get(name, case["tables"]["deltaplane"])
    run: Callable[[], list[int]]
    if name == "all files":
        run = functools.partial(all_bytes, table, case["lookups"])
    else:
        run = functools.partial(bytes_read, table, case["rows"], case["lookups"])

    def read(totals: Sequence[int]) -> int:
        return max(totals) if case["figure"] == "least" else sum(totals) // len(totals)

    return Task(run, len, read)


PEERS = tuple(name for name in ("deltalake", "delta-spark") if is_there(name))
CONTESTANTS: dict[str, Contestant] = {n: functools.partial(contestant, n) for n in ("deltaplane", "all files", *PEERS)}


def _target(order: str, figure: str, few: bool, many: bool) -> str:
    if many and figure == "average":
        return f"skipping {order} many"
    return f"skipping {order} {figure}" if few else ""


def arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def cases(options: argparse.Namespace) -> list[Case]:
    scale = scale_of(options)
    made = []
    for files in FILES[scale]:
        rows = min(ROWS[scale] * max(1, files // 1_000), MOST_ROWS)
        lookups = LOOKUPS[scale] if files <= 1_000 else LOOKUPS_IN_MANY
        many = files == MANY_FILES.get(scale)
        for order in ("kdtree",) if many else ORDERS:
            # Other engines at the paper's size: more files with more rows take them too long.
            peers = PEERS if order == "zorder" and scale != "quick" and files == min(FILES[scale]) else ()
            arguments_of = functools.partial(
                lambda rows, lookups, files, order, engines, figure: {
                    "rows": rows,
                    "lookups": lookups,
                    "figure": figure,
                    "tables": {by: str(table_of(rows, files, order, by)) for by in engines},
                },
                rows,
                lookups,
                files,
                order,
                ["deltaplane", *peers],
            )
            made += [
                Case(
                    f"{order}, {figure}, {files:,} files",
                    ["deltaplane", "all files", *peers],
                    functools.partial(arguments_of, figure),
                    expected=len(NAMES),
                    series=f"{order}, {figure}" if figure == "average" else "",
                    size=files,
                    target=_target(order, figure, files == min(FILES[scale]), many),
                )
                for figure in ("least", "average")
            ]
    return made


if __name__ == "__main__":
    main("zorder", CONTESTANTS, cases, arguments)
