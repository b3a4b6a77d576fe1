"""`deltaplane fleet`: the tables of patterns, lists and catalogs, and a verb on each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from deltaplane import Catalog, DeltaTable, write_deltalake
from deltaplane.cli.app import run


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Tables a/orders, b/orders and b/stock, a folder without a table, and a file."""
    for name in ("a/orders", "b/orders", "b/stock"):
        write_deltalake(str(tmp_path / "lake" / name), pa.table({"x": [1]}))
    (tmp_path / "lake" / "c" / "orders").mkdir(parents=True)
    (tmp_path / "lake" / "readme.txt").write_text("a file")
    return tmp_path / "lake"


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, list[str]]]:
    def running(*arguments: str) -> tuple[int, list[str]]:
        code = run(["fleet", "--json", *arguments])
        said = capsys.readouterr()
        return code, [result["table"] for result in json.loads(said.out)] if said.out else [said.err]

    return running


def test_patterns_name_tables_only(lake: Path, ran: Callable[..., tuple[int, list[str]]]) -> None:
    assert ran(f"{lake}/*/orders", "--", "info") == (0, [f"{lake}/a/orders", f"{lake}/b/orders"])
    assert ran(f"{lake}/b/*", f"{lake}/?/orders", "--", "info")[1] == [
        *(f"{lake}/b/{name}" for name in ("orders", "stock")),
        f"{lake}/a/orders",
    ]
    code, said = ran(f"{lake}/z*", "--", "info")
    assert code == 3
    assert "no table matches" in said[0]


def test_lists_and_plain_locations(lake: Path, tmp_path: Path, ran: Callable[..., tuple[int, list[str]]]) -> None:
    names = tmp_path / "tables.txt"
    names.write_text(f"# ours\n{lake}/a/orders\n\n{lake}/b/*\n")
    assert ran(f"@{names}", "--", "info")[1] == [f"{lake}/{name}" for name in ("a/orders", "b/orders", "b/stock")]
    assert ran(f"@{tmp_path}/none.txt", "--", "info")[0] == 2


def test_the_tables_of_a_catalog(tmp_path: Path, ran: Callable[..., tuple[int, list[str]]]) -> None:
    uri = f"sqlite:///{tmp_path}/lake.db"
    catalog = Catalog(uri)
    catalog.create_catalog("main")
    catalog.create_schema("main.s")
    for name in ("b", "a"):
        catalog.create_table(f"main.s.{name}", pa.schema({"x": pa.int64()}))
    assert ran(uri, "--", "history", "-n", "1") == (0, ["uc://main.s.a", "uc://main.s.b"])


def test_a_failure_does_not_stop_the_others(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_deltalake(str(lake / "a/orders"), pa.table({"x": [2]}), mode="append")
    assert run(["fleet", "--json", f"{lake}/*/orders", "--", "schema", "-v", "1"]) == 3
    results = json.loads(capsys.readouterr().out)
    assert [result["exit_code"] for result in results] == [0, 3]
    assert results[0]["output"]["fields"][0]["name"] == "x"
    assert results[1]["error"]["kind"] == "VersionNotFound"
    Path(lake, "b/stock", DeltaTable(str(lake / "b/stock")).files()[0]).unlink()
    assert run(["fleet", f"{lake}/b/*", "--", "check"]) == 1
    shown = capsys.readouterr().out
    assert f"== {lake}/b/orders" in shown
    assert "not fine" in shown


def test_options_of_the_verb_are_passed_on(lake: Path) -> None:
    assert run(["fleet", f"{lake}/b/*", "--", "alter", "ADD COLUMNS (y INT)"]) == 0
    assert [f.name for f in DeltaTable(str(lake / "b/stock")).schema().fields] == ["x", "y"]


@pytest.mark.parametrize("words", [[], ["t"], ["--", "info"], ["t", "--"]])
def test_incomplete_commands_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", *words]) == 2
    assert "deltaplane: " in capsys.readouterr().err
