"""The effect of the local cache: opening a table and planning a selective query over an object
store with some milliseconds of latency.

`deltaplane` has the log in its cache, like the second process on a machine; `cold` fills an empty
cache, which includes writing the blocks; `without` has no cache. Each call opens the table again.
The store is a separate process.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support import sizes
from support.harness import Case, Task, main
from support.logs import NAMES, Log
from support.object_server import BUCKET, ObjectServer
from support.planners import by_id

# Time to the first byte of a request to a store in the same region.
DELAY_MS = 20


def _planning(case: Mapping[str, Any], cache: Path | None, cold: bool = False) -> Task:
    from deltaplane import DeltaTable
    from deltaplane.io.cache import clear_cache

    path = Path(case["path"])
    server = ObjectServer(str(path.parent), DELAY_MS)
    cached = {"cache_dir": "" if cache is None else str(cache)}

    def run() -> list[str]:
        table = DeltaTable(f"s3://{BUCKET}/{path.name}", storage_options=server.options | cached)
        return table.file_uris(case["sql"])

    def empty() -> None:
        if cache is not None and cold:
            clear_cache(cache)

    return Task(run, len, prepare=empty)


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    return _planning(case, scratch)


def deltaplane_cold(case: Mapping[str, Any], scratch: Path) -> Task:
    return _planning(case, scratch, cold=True)


def deltaplane_without(case: Mapping[str, Any], scratch: Path) -> Task:
    return _planning(case, None)


def deltalake(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltalake import DeltaTable

    path = Path(case["path"])
    server = ObjectServer(str(path.parent), DELAY_MS)
    predicate = [tuple(part) for part in case["filters"]]

    def run() -> list[str]:
        table = DeltaTable(f"s3://{BUCKET}/{path.name}", storage_options=server.options)
        return table.file_uris(file_pruning_predicate=predicate)

    return Task(run, len)


CONTESTANTS = {
    "deltaplane": deltaplane,
    "deltaplane, cold": deltaplane_cold,
    "deltaplane, without": deltaplane_without,
    "deltalake": deltalake,
}


def cases(options: argparse.Namespace) -> list[Case]:
    all_cases = []
    for kind, files in sizes.logs(options, ["json", "own"], []):
        log, query = Log(files, kind), by_id(Log(files, kind))
        name, series = f"{log.name}, {query.condition}, {DELAY_MS} ms away", f"cached plan, {NAMES[kind]}"
        asked = sizes.asked(CONTESTANTS, files)
        all_cases.append(
            Case(name, asked, log.arguments(**query.arguments), 3, query.files, series, files, f"cache {kind}")
        )
    return all_cases


if __name__ == "__main__":
    main("cache", CONTESTANTS, cases, sizes.arguments)
