"""Writes docs/ecosystem.md from docs/ecosystem/*.json: what each library did on deltaplane and on
deltalake, as `make ecosystem` recorded it.

`--check` only reports whether the page is up to date.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "docs" / "ecosystem"
OWN_TESTS = "own-tests.json"
PAGE = ROOT / "docs" / "ecosystem.md"
WORKS = "works"

HEAD = """# Libraries that import deltalake

Each of these libraries runs in an environment of its own, with the locked versions of
`requirements/ecosystem`, and imports `deltaplane.deltalake` under the name `deltalake`
([how](deltalake.md)). The cases are the scripts of `tests/ecosystem/scripts`, which assert rows;
`make test` runs all of them on deltaplane, except Ray's, which `make ecosystem` runs. The right
column is what the same script does on the real deltalake 1.6.6.

This page is generated from `docs/ecosystem/*.json`: do not edit it. `make ecosystem` runs every
case on both and writes the page again.
"""


def records() -> list[dict[str, Any]]:
    """One record for each library, by name."""
    files = [path for path in sorted(RECORDS.glob("*.json")) if path.name != OWN_TESTS]
    return sorted((json.loads(path.read_text()) for path in files), key=lambda record: record["library"].lower())


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return (
        "\n".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |" for cells in lines)
        + "\n"
    )


def count(record: dict[str, Any], on: str) -> str:
    """How many of the cases work."""
    outcomes = [case[on] for case in record["cases"].values()]
    return f"{outcomes.count(WORKS)} of {len(outcomes)}"


def shown(outcome: str) -> str:
    """An outcome as a cell: long messages are cut."""
    return outcome if len(outcome) <= 120 else outcome[:117].rstrip() + "…"


def section(record: dict[str, Any]) -> str:
    """A library's cases."""
    rows = [[name, shown(case["deltaplane"]), shown(case["deltalake"])] for name, case in record["cases"].items()]
    limits = {name: case["limit"] for name, case in record["cases"].items() if case.get("limit")}
    notes = [_item(f"{name}: {limit}.") for name, limit in limits.items()]
    parts = [f"## {record['library']}\n", table(["case", "deltaplane", "deltalake"], rows), "".join(notes)]
    return "\n".join(part for part in parts if part)


def _item(text: str) -> str:
    settings = {"break_long_words": False, "break_on_hyphens": False}
    return "\n".join(textwrap.wrap(text, 100, initial_indent="- ", subsequent_indent="  ", **settings)) + "\n"


def own_tests() -> str:
    """The libraries' own tests of Delta tables."""
    record = json.loads((RECORDS / OWN_TESTS).read_text())
    rows = [
        [run["tests"], run["deltalake"], run["deltaplane"], f"{run['deltaplane'] / run['deltalake']:.1%}"]
        for run in record["runs"]
    ]
    total = [sum(run[on] for run in record["runs"]) for on in ("deltalake", "deltaplane")]
    rows.append(["all", *total, f"{total[1] / total[0]:.1%}"])
    reasons = [_item(f"{run['tests']}: {reason}.") for run in record["runs"] for reason in run["reasons"]]
    head = "## The libraries' own tests\n\n" + "\n".join(textwrap.wrap(record["how"], 100)) + "\n"
    return "\n".join(
        [head, table(["tests", "pass on deltalake", "of these on deltaplane", "share"], rows), "".join(reasons)]
    )


def page() -> str:
    """The page."""
    every = records()
    head = ["library", "versions", "cases that work on deltaplane", "on deltalake"]
    rows = [[r["library"], r["versions"], count(r, "deltaplane"), count(r, "deltalake")] for r in every]
    return "\n".join([HEAD, table(head, rows), *map(section, every), own_tests()])


def main() -> int:
    """Writes or checks the page."""
    if "--check" in sys.argv[1:]:
        old = not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page()
        if old:
            print(f"{PAGE.relative_to(ROOT)} is out of date: run docs/generate_ecosystem.py")
        return int(old)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
