"""Verbs that change a table or follow its changes, and `sql` with parameters, files and limits."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.cli.app import run


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def calling(*arguments: str) -> str:
        code = run(arguments)
        said = capsys.readouterr()
        assert (code, said.err) == (0, "")
        return said.out

    return calling


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_create_and_alter(tmp_path: Path, call: Callable[..., str]) -> None:
    where = str(tmp_path / "o`dd")
    columns = "id BIGINT NOT NULL, day DATE, `a b` STRING"
    options = ["--property", "delta.columnMapping.mode=name", "--property", "own=it's", "--comment", "o'clock"]
    made = json.loads(call("create", where, columns, "-p", "day", *options, "--json"))
    assert made[0]["version"] == 0
    table = DeltaTable(where)
    assert [(f.name, f.nullable) for f in table.schema().fields] == [("id", False), ("day", True), ("a b", True)]
    assert table.metadata().partition_columns == ["day"]
    assert table.metadata().description == "o'clock"
    assert table.metadata().configuration["own"] == "it's"
    call("create", where, "x INT", "--if-not-exists")
    assert call("alter", where, "ADD COLUMNS (channel STRING AFTER id)")
    assert [f.name for f in DeltaTable(where).schema().fields] == ["id", "channel", "day", "a b"]
    call("create", str(tmp_path / "c"), "x INT, s STRUCT<y: INT>", "-c", "s.y", "-c", "x")
    assert DeltaTable(str(tmp_path / "c")).detail().column("clusteringColumns")[0].as_py() == ["s.y", "x"]


def test_copy_into_loads_each_file_once(tmp_path: Path, call: Callable[..., str]) -> None:
    where, drop = str(tmp_path / "t"), tmp_path / "drop"
    call("create", where, "id BIGINT, name STRING")
    drop.mkdir()
    (drop / "a.csv").write_text("id;name\n1;x\n")
    (drop / "b.txt").write_text("id;name\n9;y\n")
    load = ["copy-into", where, str(drop), "csv", "--pattern", "*.csv", "--format-option", "header=true"]
    load += ["--format-option", "sep=;", "--json"]
    assert json.loads(call(*load))["num_loaded_files"] == 1
    assert json.loads(call(*load))["num_skipped_files"] == 1
    assert json.loads(call(*load, "--force"))["num_inserted_rows"] == 1
    assert DeltaTable(where).to_pyarrow_table().to_pylist() == [{"id": 1, "name": "x"}] * 2


@pytest.fixture
def changed(tmp_path: Path) -> str:
    """A table with a change data feed: two rows, an update, a delete, an append."""
    where = str(tmp_path / "t")
    rows = pa.table({"id": [1, 2], "name": ["a", "b"]})
    write_deltalake(where, rows, configuration={"delta.enableChangeDataFeed": "true"})
    DeltaTable(where).update(updates={"name": "'c'"}, predicate="id = 2")
    DeltaTable(where).delete("id = 1")
    write_deltalake(where, pa.table({"id": [7], "name": ["g"]}), mode="append")
    return where


def test_changes_and_tail(changed: str, call: Callable[..., str]) -> None:
    kinds = [(row["_change_type"], row["id"]) for row in _lines(call("changes", changed, "1", "2", "--json"))]
    assert sorted(kinds) == [("delete", 1), ("update_postimage", 2), ("update_preimage", 2)]
    assert len(_lines(call("changes", changed, "1970-01-01", "--json"))) == 6
    assert len(_lines(call("changes", changed, "0", "-n", "1", "-c", "id", "--json"))) == 1
    assert _lines(call("tail", changed, "--since", "2", "--json")) == [{"id": 7, "name": "g"}]
    assert _lines(call("tail", changed, "--since", "2", "-c", "id", "-w", "id > 7", "--json")) == []
    assert call("tail", changed) == ""
    assert "g" in call("tail", changed, "--since", "2")


def test_generate_and_purge(changed: str, call: Callable[..., str]) -> None:
    assert json.loads(call("generate", changed, "--dry-run", "--json"))["manifests"]
    assert not Path(changed, "_symlink_format_manifest").exists()
    call("generate", changed)
    assert Path(changed, "_symlink_format_manifest").is_dir()
    DeltaTable(changed).alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    write_deltalake(changed, pa.table({"id": list(range(100)), "name": ["z"] * 100}), mode="append")
    DeltaTable(changed).delete("id = 50")
    version = DeltaTable(changed).version()
    call("purge", changed, "--dry-run")
    assert DeltaTable(changed).version() == version
    call("purge", changed)
    assert DeltaTable(changed).version() == version + 1
    assert DeltaTable(changed).deletion_vectors().read_all().num_rows == 0


def test_sql_takes_parameters_files_and_limits(
    changed: str, call: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = tmp_path / "q.sql"
    query.write_text("SELECT id, :text AS v FROM t WHERE id >= :least ORDER BY id;\n")
    tables = ["-t", f"t={changed}", "--json"]
    shown = json.loads(call("sql", "-f", str(query), "-a", "least=3", "-a", "text=it's :least", *tables))
    assert shown == [{"id": 7, "v": "it's :least"}]
    shown = json.loads(call("sql", "-f", str(query), "-a", "least=0", "-a", 'text="5"', "-n", "1", *tables))
    assert shown == [{"id": 2, "v": "5"}]
    exact = json.loads(call("sql", "SELECT :x AS x", "-a", "x=0.10", "--json"))
    assert exact == [{"x": "0.10"}]
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 1 AS one"))
    assert json.loads(call("sql", "-f", "-", "--json")) == [{"one": 1}]
    assert "the first 2 rows" in call("sql", "SELECT * FROM VALUES (1), (2), (3)", "-n", "2")
    wide = call("sql", "SELECT 1 AS a, 2 AS b, 3 AS c, 4 AS d, 5 AS e, 6 AS f, 7 AS g")
    assert [line.split() for line in wide.splitlines()][:2] == [["a", "1"], ["b", "2"]]


def test_history_shows_only_metrics_that_are_not_zero(changed: str, call: Callable[..., str]) -> None:
    shown = call("history", changed)
    assert "=1" in shown
    assert "=0" not in shown


def test_log_events_are_printed_on_demand(changed: str, capsys: pytest.CaptureFixture[str]) -> None:
    import logging

    log = logging.getLogger("deltaplane")
    level, handlers = log.level, list(logging.getLogger().handlers)
    try:
        assert run(["--log-level", "debug", "sql", "DELETE FROM t WHERE id = 7", "-t", f"t={changed}"]) == 0
        assert logging.getLogger("deltaplane").level == logging.DEBUG
    finally:
        log.setLevel(level)
        logging.getLogger().handlers[:] = handlers
