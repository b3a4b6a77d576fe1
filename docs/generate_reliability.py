"""Writes docs/reliability.md from docs/reliability/*.json: one file for each proof, written by the
program that ran it.

`--run` repeats every proof first, by the command in its file; `--check` only reports whether the
page is up to date. `make reliability` runs it, and the tests check the page. Independent of the
proofs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROOFS = ROOT / "docs" / "reliability"
PAGE = ROOT / "docs" / "reliability.md"


@dataclass(frozen=True)
class Proof:
    """One file: claims, figures, and the command that repeats the proof; tables for many figures,
    and promises of each store (store → aspect → text)."""

    title: str
    claims: list[str]
    figures: dict[str, Any]
    how: str
    tables: list[dict[str, Any]] = field(default_factory=list)
    promises: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Proof:
        """Reads a proof from a file; unknown members are figures."""
        said = json.loads(path.read_text(encoding="utf-8"))
        known = {f.name for f in fields(cls)}
        others = {name: value for name, value in said.items() if name not in known}
        return cls(**{k: v for k, v in said.items() if k in known} | {"figures": said.get("figures", {}) | others})


def proofs() -> list[Proof]:
    return [Proof.read(path) for path in sorted(PROOFS.glob("*.json"))]


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(shown(cell) for cell in cells)} |" for cells in lines) + "\n"


def shown(value: object) -> str:
    """A figure, formatted for a table cell."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(shown, value))
    return str(value).replace("|", "\\|")


def flat(figures: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Nested figures, named by their path."""
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from flat(value, f"{above}{name}: ")
        else:
            yield above + name, value


def item(claim: str) -> str:
    """A claim as an item of a list, in lines of at most 100 columns."""
    lines = textwrap.wrap(
        claim, 100, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines) + "\n"


def section(proof: Proof) -> str:
    parts = [f"## {proof.title}\n", "".join(map(item, proof.claims))]
    if proof.figures:
        parts.append(table(["figure", "value"], list(flat(proof.figures))))
    parts += [(f"**{t['title']}**\n\n" if "title" in t else "") + table(t["head"], t["rows"]) for t in proof.tables]
    return "\n".join([*parts, f"Repeat it: `{proof.how}`\n"])


def promised() -> str:
    """The promises per store, from all proofs."""
    promises = {store: by_aspect for proof in proofs() for store, by_aspect in proof.promises.items()}
    aspects = list(dict.fromkeys(aspect for by_aspect in promises.values() for aspect in by_aspect))
    rows = [[store, *(by_aspect.get(aspect, "") for aspect in aspects)] for store, by_aspect in promises.items()]
    return f"## What is promised, per store\n\n{table(['store', *aspects], rows)}"


def page() -> str:
    head = """# Reliability

What is claimed, what was run to prove it, and the result. This page is generated from
`docs/reliability/*.json`, each of which its proof wrote: do not edit it. `make reliability` repeats
every proof and writes the page again; CI runs a shorter form of each.
"""
    return "\n".join([head, promised(), *map(section, proofs())])


def run() -> int:
    """Runs every command once, though several files may come from it; returns the number of
    failures."""
    failed = 0
    for how in dict.fromkeys(proof.how for proof in proofs()):
        print(f"== {how}", flush=True)
        failed += subprocess.run(how, shell=True, cwd=ROOT).returncode != 0
    return failed


def main() -> int:
    if "--check" in sys.argv[1:]:
        old = not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page()
        if old:
            print(f"{PAGE.relative_to(ROOT)} is out of date: run docs/generate_reliability.py")
        return int(old)
    failed = run() if "--run" in sys.argv[1:] else 0
    PAGE.write_text(page(), encoding="utf-8")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
