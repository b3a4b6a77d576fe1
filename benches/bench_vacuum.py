"""A dry run of VACUUM that lists a directory: a number of live files, and a tenth as many that no
commit names, all of them old. The answer is the number of files to delete. The bar is a walk of the
directory that only reads sizes and times.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from support import sizes
from support.harness import Case, Task, main
from support.sparks import ENGINES, is_there, session, task

FILES = {"quick": [1_000], "small": [10_000, 100_000], "full": [10_000, 100_000, 1_000_000]}
# A larger number takes minutes.
MOST_ON_SPARK = 10_000
# Files in one directory: about a day's in a table that is written every minute.
IN_A_PARTITION = 1_000
OLD_MS = 30 * 24 * 3600 * 1000


def _table(files: int, root: Path) -> Path:
    """The table, with empty files, since no file is read."""
    now = round(time.time() * 1000)
    (root / "_delta_log").mkdir(parents=True)
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in (("day", "integer"), ("x", "long"))]
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "00000000-0000-0000-0000-000000000000",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": ["day"],
                "configuration": {},
                "createdTime": now,
            }
        },
    ]
    log = root / "_delta_log/00000000000000000000.json"
    # Making the table must not count as memory: nothing is retained, and another process makes the
    # checkpoint.
    with log.open("w") as out:
        out.writelines(json.dumps(action) + "\n" for action in itertools.chain(actions, _adds(files, root, now)))
    checkpoint = "import sys, deltaplane; deltaplane.DeltaTable(sys.argv[1]).create_checkpoint()"
    subprocess.run([sys.executable, "-c", checkpoint, str(root)], check=True)
    return root


def _adds(files: int, root: Path, now: int) -> Iterator[dict[str, Any]]:
    """Makes the files, and yields the adds of the live ones."""
    old = (now - OLD_MS) / 1000
    for n in range(files + files // 10):
        day, name = n % files // IN_A_PARTITION, f"part-{n:05d}-{n:032x}.c000.snappy.parquet"
        if n % IN_A_PARTITION == 0 and n < files:
            (root / f"day={day}").mkdir()
        path = root / f"day={day}" / name
        path.touch()
        os.utime(path, (old, old))
        if n < files:
            values = {"partitionValues": {"day": str(day)}, "modificationTime": now - OLD_MS, "dataChange": True}
            yield {"add": {"path": f"day={day}/{name}", "size": 0, **values}}


def _task(case: Mapping[str, Any], scratch: Path, vacuum: Callable[[str], int]) -> Task:
    table = str(_table(case["files"], scratch / "table"))
    return Task(lambda: vacuum(table))


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    return _task(case, scratch, lambda path: len(DeltaTable(path).vacuum(full=True)))


def deltalake(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltalake import DeltaTable

    return _task(case, scratch, lambda path: len(DeltaTable(path).vacuum(full=True)))


def delta_spark(case: Mapping[str, Any], scratch: Path) -> Task:
    table = _table(case["files"], scratch / "table")
    spark = session(scratch, ENGINES["delta-spark"].settings())
    return task(lambda: spark.sql(f"VACUUM delta.`{table}` DRY RUN").count())


def walk(case: Mapping[str, Any], scratch: Path) -> Task:
    def ask(path: str) -> int:
        seen = sum(1 for top, _, names in os.walk(path) for name in names if os.stat(f"{top}/{name}").st_size >= 0)
        # Except for the commit; the bar can't tell which files would be deleted.
        return seen - 1 - int(case["files"])

    return _task(case, scratch, ask)


CONTESTANTS = {"deltaplane": deltaplane, "deltalake": deltalake, "a walk": walk}
if is_there("delta-spark"):
    CONTESTANTS["delta-spark"] = delta_spark


def cases(options: argparse.Namespace) -> list[Case]:
    return [
        Case(
            f"dry run, {files:,} files",
            [name for name in CONTESTANTS if name != "delta-spark" or files <= MOST_ON_SPARK],
            {"files": files},
            expected=files // 10,
            series="vacuum, dry run",
            size=files,
            target="vacuum",
        )
        for files in sorted(options.files or FILES[sizes.scale_of(options)])
    ]


if __name__ == "__main__":
    main("vacuum", CONTESTANTS, cases, sizes.arguments)
