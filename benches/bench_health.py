"""The facts of a health report, without the page: all files' statistics, the newest commits, the
log's directory.

The bar is the bare stream of all files with their statistics, from which the report's figures are
computed.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support import sizes
from support.harness import Case, Task, main
from support.logs import NAMES, Log


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    return Task(lambda: DeltaTable(case["path"]).report(), lambda report: report.facts.files.count)


def stream_alone(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    return Task(lambda: sum(batch.num_rows for batch in DeltaTable(case["path"]).plan()))


CONTESTANTS = {"deltaplane": deltaplane, "deltaplane, the stream alone": stream_alone}


def cases(options: argparse.Namespace) -> list[Case]:
    all_cases = []
    for kind, files in sizes.logs(options, ["own"], ["json", "structs"]):
        log = Log(files, kind)
        series = f"health report, {NAMES[kind]}"
        all_cases.append(Case(log.name, list(CONTESTANTS), log.arguments(), expected=files, series=series, size=files))
    return all_cases


if __name__ == "__main__":
    main("health", CONTESTANTS, cases, sizes.arguments)
