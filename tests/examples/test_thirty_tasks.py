"""Each of the thirty tasks of docs/thirty-tasks.md names where it is answered, and that exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from structure import repo, test_papers

PAGE = "docs/thirty-tasks.md"
TEXT = (Path(__file__).resolve().parents[2] / PAGE).read_text(encoding="utf-8")
PEOPLE = ["PySpark engineer", "Analyst", "Platform engineer"]


def tasks(text: str) -> dict[str, list[list[str]]]:
    """The rows of each person's table: number, task, where, call."""
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    rows = {
        section.partition("\n")[0]: re.findall(r"^\| (\d+ \|.*) \|$", section, re.MULTILINE) for section in sections
    }
    return {name: [[cell.strip() for cell in row.split("|")] for row in lines] for name, lines in rows.items()}


def missing(call: str) -> str | None:
    """What a call or a command names and that doesn't exist."""
    verbs = re.findall(r"^### `deltaplane ([a-z -]+)`", test_papers.pages()["docs/command-line.md"], re.MULTILINE)
    targets = re.findall(r"^([a-z-]+):", (repo.ROOT / "Makefile").read_text(), re.MULTILINE)
    kind, _, name = call.partition(" ")
    if kind == "make":
        return None if name in targets else call
    if kind == "deltaplane":
        return None if name in verbs else call
    parts = call.split(".")
    value: object = importlib.import_module(parts[0])
    for part in parts[1:]:
        if part == "spark":
            value = importlib.import_module("deltaplane.spark")
        elif not hasattr(value, part):
            return call
        else:
            value = getattr(value, part)
    return None


ROWS = [row for rows in tasks(TEXT).values() for row in rows]


def test_each_person_has_ten_tasks() -> None:
    assert {name: len(rows) for name, rows in tasks(TEXT).items()} == dict.fromkeys(PEOPLE, 10)
    assert [int(row[0]) for row in ROWS] == list(range(1, 31))
    assert len({row[1] for row in ROWS}) == 30


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_answer_of_a_task_exists(row: list[str]) -> None:
    _, task, where, call = row
    assert task
    assert re.search(r"\[[^\]]+\]\([^)]+\)", where), "a task needs a page that answers it"
    assert test_papers.broken_links(PAGE, where, repo.files(), test_papers.pages()) == []
    assert [name for name in re.findall(r"`([^`]+)`", call) if missing(name)] == []


# --- the checks can fail ---


def test_a_missing_answer_is_noticed() -> None:
    assert test_papers.broken_links(PAGE, "[x](gone.md) [y](spark.md#gone)", repo.files(), test_papers.pages()) == [
        "gone.md",
        "spark.md#gone",
    ]
    calls = [
        "make nothing",
        "deltaplane fly",
        "deltaplane.nothing",
        "deltaplane.spark.nothing",
        "deltaplane.DeltaTable.x",
    ]
    assert [missing(call) for call in calls] == calls
    assert missing("deltaplane.DeltaTable.version") is None
    assert tasks("## A\n\n| # | task |\n| --- | --- |\n| 1 | x | [y](z) | |\n") == {"A": [["1", "x", "[y](z)", ""]]}
