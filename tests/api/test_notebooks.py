"""What notebooks and editors show: HTML without a scan, and names that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaplane
from deltaplane import DeltaTable, prove_erased, write_deltalake

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("a<b", pa.struct([("x", pa.int32())]))])
    rows = pa.Table.from_pylist([{"id": 1, "a<b": {"x": 2}}], schema)
    write_deltalake(str(tmp_path / "t"), rows, name=HOSTILE, configuration={"owner": HOSTILE})
    return DeltaTable(str(tmp_path / "t"))


SHOWN: dict[str, Callable[[DeltaTable], Any]] = {
    "table": lambda t: t,
    "schema": lambda t: t.schema(),
    "scan": lambda t: t.scan(["id"], "id > 0"),
    "dry run": lambda t: t.delete("id = 1", dry_run=True),
    "explanation": lambda t: t.explain("id = 1"),
    "compatibility": lambda t: t.compatibility(),
    "advice": lambda t: t.advise(),
    "maintenance": lambda t: t.maintain(dry_run=True),
    "erasure": lambda t: prove_erased(t, "id = 7 OR id = 8 OR id IN (9) OR `a<b`.x = 1"),
}


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("kind", SHOWN)
def test_results_are_html_without_a_read_of_rows(kind: str, table: DeltaTable) -> None:
    shown = SHOWN[kind](table)
    for path in Path(table.location).glob("*.parquet"):
        path.unlink()
    html = shown._repr_html_()
    tags = _Tags()
    tags.feed(html)
    assert tags.open == []
    assert tags.seen <= {"table", "thead", "tbody", "tr", "th", "td", "pre"}
    assert "<script" not in html
    assert len(html) > 30


def test_a_table_shows_its_name_version_and_columns(table: DeltaTable) -> None:
    html = table._repr_html_()
    cells = re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", html)
    assert cells[cells.index("version") :][:2] == ["version", "0"]
    assert cells[cells.index("id") :][:3] == ["id", "long", "NOT NULL"]
    assert "a&lt;b" in cells


def test_checkers_notice_misspelt_methods(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("from deltaplane import DeltaTable\ntable = DeltaTable('t')\ntable.vacum()\ntable.vacuum()\n")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-incremental", "--follow-imports=silent", str(program)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(__file__).parents[2],
    )
    assert re.findall(r'program.py:(\d+): error: "DeltaTable" has no attribute "vacum"', checked.stdout) == ["3"]


def test_dir_lists_the_public_names() -> None:
    assert set(deltaplane.__all__) == {name for name in dir(deltaplane) if not name.startswith("__")} | {"__version__"}
