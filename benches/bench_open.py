"""Opening a table, by the number of its files: version, protocol and schema, without any row.

deltalake reads the list of files immediately, unless `without_files` is set; both variants are
shown. The bar reads the same information by hand: the hint, the names, the commits after the
checkpoint, and the checkpoint's two state columns.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support import sizes
from support.adds import COLUMNS
from support.harness import Case, Task, main
from support.logs import NAMES, Log


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    def run() -> int:
        table = DeltaTable(case["path"])
        return table.version() + len(table.schema().fields)

    return Task(run)


def deltalake(case: Mapping[str, Any], scratch: Path, without_files: bool = False) -> Task:
    from deltalake import DeltaTable

    def run() -> int:
        table = DeltaTable(case["path"], without_files=without_files)
        return table.version() + len(table.schema().fields)

    return Task(run)


def deltalake_without_files(case: Mapping[str, Any], scratch: Path) -> Task:
    return deltalake(case, scratch, without_files=True)


def by_hand(case: Mapping[str, Any], scratch: Path) -> Task:
    import pyarrow.parquet as pq

    log = Path(case["path"]) / "_delta_log"

    def run() -> int:
        hint = json.loads((log / "_last_checkpoint").read_text())
        names = sorted(path.name for path in log.iterdir())
        commits = [n for n in names if n.endswith(".json") and n[:20].isdecimal() and int(n[:20]) > hint["version"]]
        for name in commits:
            for line in (log / name).read_text().splitlines():
                json.loads(line)
        metadata = pq.ParquetFile(case["checkpoints"][0]).read(columns=["metaData", "protocol"])["metaData"].drop_null()
        fields = json.loads(metadata[0].as_py()["schemaString"])["fields"]
        return int(commits[-1][:20]) + len(fields)

    return Task(run)


CONTESTANTS = {
    "deltaplane": deltaplane,
    "deltalake": deltalake,
    "deltalake without_files": deltalake_without_files,
    "by hand": by_hand,
}


def cases(options: argparse.Namespace) -> list[Case]:
    all_cases = []
    for kind, files in sizes.logs(options, ["json", "own"], []):
        log = Log(files, kind)
        expected = log.version + len(COLUMNS) + 1
        asked = sizes.asked(CONTESTANTS, files)
        all_cases.append(
            Case(log.name, asked, log.arguments(), 5, expected, f"open, {NAMES[kind]}", files, f"T1 {kind}")
        )
    return all_cases


if __name__ == "__main__":
    main("open", CONTESTANTS, cases, sizes.arguments)
