"""All files of a table as Arrow: path, size, partition values, statistics; as one table, and batch
by batch.

The bar is pyarrow's plain decoding of the same columns of the checkpoint: without replay, and with
statistics as stored.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from support import sizes
from support.harness import Case, Task, main
from support.logs import NAMES, Log


def _rows(batches: Iterable[Any]) -> int:
    return sum(batch.num_rows for batch in batches)


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable
    from deltaplane.io.arrow import Scan

    if case["streamed"]:
        # The public call returns one table only; this is the stream that it reads.
        return Task(lambda: _rows(Scan(DeltaTable(case["path"])._snapshot.add_actions(statistics=True)).batches()))
    return Task(lambda: DeltaTable(case["path"]).get_add_actions(), lambda table: table.num_rows)


def deltalake(case: Mapping[str, Any], scratch: Path) -> Task:
    import pyarrow as pa
    from deltalake import DeltaTable

    return Task(lambda: pa.table(DeltaTable(case["path"]).get_add_actions()), lambda table: table.num_rows)


def bare_decode(case: Mapping[str, Any], scratch: Path) -> Task:
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = case["checkpoints"]
    names = ["path", "size", "modificationTime"]
    has_structs = "stats_parsed" in pq.ParquetFile(paths[0]).schema_arrow.field("add").type.names
    names += ["partitionValues_parsed", "stats_parsed"] if has_structs else ["partitionValues", "stats"]
    columns = [f"add.{name}" for name in names]

    def files(table: Any) -> int:
        adds = table["add"]
        # A row of the checkpoint's state has no file.
        return sum(chunk.field("path").drop_null().__len__() for chunk in adds.chunks)

    if case["streamed"]:

        def streamed() -> int:
            batches = (b for p in paths for b in pq.ParquetFile(p).iter_batches(columns=columns))
            return sum(files(pa.Table.from_batches([batch])) for batch in batches)

        return Task(streamed)
    return Task(lambda: pa.concat_tables([pq.ParquetFile(p).read(columns=columns) for p in paths]), files)


CONTESTANTS = {"deltaplane": deltaplane, "deltalake": deltalake, "pyarrow, checkpoint only": bare_decode}


def cases(options: argparse.Namespace) -> list[Case]:
    all_cases = []
    for kind, files in sizes.logs(options, ["own"], ["json", "structs"]):
        log = Log(files, kind)
        for streamed in (False, True):
            how = "streamed" if streamed else "one table"
            asked = [n for n in sizes.asked(CONTESTANTS, files) if not (streamed and n == "deltalake")]
            case = Case(
                f"{log.name}, {how}",
                asked,
                log.arguments(streamed=streamed),
                expected=files,
                series=f"all files, {NAMES[kind]}, {how}",
                size=files,
                target=f"T2 {kind} {how}",
            )
            all_cases.append(case)
    return all_cases


if __name__ == "__main__":
    main("state", CONTESTANTS, cases, sizes.arguments)
