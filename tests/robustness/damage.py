"""The proof: a process uses every hostile table and a number of damaged ones, and the outcomes are
counted.

`python -m robustness.damage` in the folder `tests` runs it in full and writes
docs/reliability/damage.json. The tests run a smaller version.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robustness import damaged, tables
from robustness.hostile import LIMIT_MB, MEMORY_MB, SECONDS, Met, Outcomes, meet

PROOF = Path(__file__).resolve().parents[2] / "docs" / "reliability" / "damage.json"
HOW = "cd tests && ../.venv/bin/python -m robustness.damage"


@dataclass
class Found:
    """The outcomes for some tables: name → problem, and the numbers of outcomes."""

    met: int = 0
    faults: dict[str, list[str]] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    mb: int = 0

    def add(self, name: str, outcomes: Outcomes, must_refuse_rows: bool) -> None:
        self.met += 1
        wrong = outcomes.faults()
        if must_refuse_rows and outcomes.did.get("rows", {}).get("outcome") == "ok":
            wrong.append("rows from elsewhere were read")
        if not outcomes.did:
            wrong.append("nothing was done")
        if wrong:
            self.faults[name] = wrong
        for did in outcomes.did.values():
            self.outcomes[did["outcome"]] += 1
            self.seconds = max(self.seconds, did["seconds"])
            self.mb = max(self.mb, did["mb"])


def hostile(root: Path, files_in_a_log: int, zeros: int) -> Found:
    """Uses every hostile table."""
    made = list(tables.tables(root, files_in_a_log, zeros))
    met = meet([Met(path, name in tables.COMMITS) for name, path, _ in made])
    total = Found()
    for name, path, escapes in made:
        total.add(name, met[path], escapes)
    return total


def at_random(root: Path, seeds: range) -> Found:
    """Uses a damaged table for each seed."""
    made = list(damaged.damaged(root, seeds))
    met = meet([Met(path, everything=False) for _, path in made])
    total = Found()
    for name, path in made:
        total.add(name, met[path], must_refuse_rows=False)
    return total


def figures(of_tables: Found, damaged_files: Found, seconds: float) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    for what, total in (("hostile tables", of_tables), ("damaged files", damaged_files)):
        done = total.outcomes.total()
        numbers |= {
            what: total.met,
            f"{what}: things done with them": done,
            f"{what}: of these with rows or a commit": total.outcomes["ok"],
            f"{what}: of these refused by a typed error": done - total.outcomes["ok"]
            if not total.faults
            else "see faults",
            f"{what}: longest, seconds": round(total.seconds, 1),
            f"{what}: most memory above the process's own, MB": total.mb,
            f"{what}: with a panic, an untyped error, a dead process, or beyond the bounds": len(total.faults),
        }
    return numbers | {"seconds": round(seconds)}


def main() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        of_tables = hostile(root, files_in_a_log=100_000, zeros=1 << 30)
        damaged_files = at_random(root, range(1_500))
    for name, wrong in (of_tables.faults | damaged_files.faults).items():
        print(f"{name}: {wrong}", file=sys.stderr)
    proof = {
        "title": "Damage and hostile tables",
        "claims": [
            "Reading, describing and changing a table with any content in its folder ends in rows or in a typed error: "
            "no panic, no untyped error, no dead process, "
            f"at most {SECONDS:.0f} seconds and {MEMORY_MB} MB each, in a process of {LIMIT_MB} MB of addresses.",
            "The hostile tables exhaust (brackets without end, a gigabyte of zeros as a commit, 100,000 files in the log, values of "
            "more than a hundred megabytes in a checkpoint, files that claim any number of rows), overflow (sizes, row ids, versions and "
            "times at the ends of their types), confuse (directories, links to themselves, doubled keys, NULs, columns of "
            f"other types) and lead elsewhere ({len(tables.ESCAPES)} ways to name another table's files: none is read).",
            "Damaged files are of every kind that a table has: commits, compactions, checkpoints, sidecars, hints, checksums, "
            "deletion vectors, data and change files, changed at random by a seed. What such a change leaves readable is believed: logs and Parquet pages carry no checksums.",
            "The parsers alone are tried on changed samples in `cargo test -p deltaplane-protocol --test hostile` "
            "(PROPTEST_CASES sets how many), where each is held to a multiple of its input in memory.",
        ],
        "figures": figures(of_tables, damaged_files, time.monotonic() - began),
        "how": HOW,
    }
    PROOF.write_text(json.dumps(proof, indent=1) + "\n", encoding="utf-8")
    return int(bool(of_tables.faults or damaged_files.faults))


if __name__ == "__main__":
    sys.exit(main())
