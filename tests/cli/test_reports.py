"""`deltaplane reports`: a page for each table, and an index of them."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

from deltaplane import write_deltalake
from deltaplane.cli.app import run


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if tag == "a" and name == "href"]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for n in range(12):
        write_deltalake(str(tmp_path / "lake" / "a" / "orders"), pa.table({"x": [n]}), mode="append")
    write_deltalake(str(tmp_path / "lake" / "b" / "orders"), pa.table({"x": [1]}))
    write_deltalake(str(tmp_path / "lake" / "a" / "<b>"), pa.table({"x": [1]}))
    write_deltalake(str(tmp_path / "lake" / "c" / "broken"), pa.table({"x": [1]}))
    (tmp_path / "lake" / "c" / "broken" / "_delta_log" / f"{0:020}.json").write_text("{")
    return tmp_path / "lake"


def test_each_table_has_a_page_that_the_index_links(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "pages" / "of today"
    assert run(["reports", f"{lake}/*/*", str(lake / "a" / "orders"), "-o", str(folder), "--json"]) == 7
    counts = json.loads(capsys.readouterr().out)
    assert counts == {"index": str(folder / "index.html"), "tables": 4, "not read": 1}
    text = (folder / "index.html").read_text("utf-8")
    index = _Links()
    index.feed(text)
    assert sorted(index.links) == sorted(path.name for path in folder.iterdir() if path.name != "index.html")
    assert len(index.links) == 3
    for link in index.links:
        assert re.search(r"<title>.*: table health</title>", (folder / link).read_text("utf-8"))
    # The table without a report comes first, with its error; names of tables are text.
    tables = [word for word in index.words if word.startswith(str(lake))]
    assert tables[0] == str(lake / "c" / "broken")
    assert str(lake / "a" / "<b>") in tables
    assert "<b>" not in text
    assert "<script" not in text


def test_tables_of_the_same_name_have_pages_of_their_own(lake: Path, tmp_path: Path) -> None:
    same = tmp_path / "other" / "a" / "orders"
    write_deltalake(str(same), pa.table({"x": [1]}))
    folder = tmp_path / "pages"
    assert run(["reports", str(lake / "a" / "orders"), str(same), "-o", str(folder)]) == 0
    assert {path.name for path in folder.iterdir()} == {"index.html", "a-orders.html", "a-orders-2.html"}


def test_a_folder_that_cannot_be_written_is_a_usage_error(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run(["reports", str(lake / "b" / "orders"), "-o", str(tmp_path / "file")]) == 2
