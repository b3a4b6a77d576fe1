"""The command line: each command for people and as JSON, and one line on stderr for every
failure."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, __version__, write_deltalake
from deltaplane.cli.app import run


@pytest.fixture
def path(tmp_table: Callable[[], str]) -> str:
    where = tmp_table()
    for n in range(3):
        data = pa.table({"day": ["mon", "tue"], "x": [n, 10 * n], "tags": [[{"k": "[bold]"}], None]})
        write_deltalake(where, data, mode="append", partition_by=["day"], description="a table")
    return where


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def calling(*arguments: str) -> str:
        code = run(arguments)
        captured = capsys.readouterr()
        assert (code, captured.err) == (0, "")
        return captured.out

    return calling


@pytest.fixture
def fail(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def failing(*arguments: str) -> str:
        assert run(arguments) != 0
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1
        assert captured.err.startswith('{"kind": ' if "--json" in arguments else "deltaplane: ")
        assert "Traceback" not in captured.err
        assert captured.out == ""
        return captured.err

    return failing


def loads(text: str) -> Any:
    return json.loads(text)


def test_info(path: str, call: Callable[..., str]) -> None:
    facts = loads(call("info", path, "--json"))
    expected = {
        "version": 2,
        "files": 6,
        "rows": 6,
        "columns": 3,
        "partition_columns": ["day"],
        "description": "a table",
    }
    assert {k: facts[k] for k in expected} == expected
    shown = call("info", path)
    assert re.search(r"version\s+2", shown)
    assert "partitioned by" in shown


def test_info_at_a_version(path: str, call: Callable[..., str]) -> None:
    assert loads(call("info", path, "--version", "0", "--json"))["rows"] == 2
    assert loads(call("info", path, "--version", "2999-01-01", "--json"))["version"] == 2


def test_history(path: str, call: Callable[..., str]) -> None:
    assert [e["version"] for e in loads(call("history", path, "--json", "-n", "2"))] == [2, 1]
    assert "WRITE" in call("history", path)


def test_files(path: str, call: Callable[..., str]) -> None:
    rows = loads(call("files", path, "--json"))
    assert (len(rows), {r["num_records"] for r in rows}) == (6, {1})
    assert len(loads(call("files", path, "--where", "day = 'mon' AND x = 2", "--json"))) == 1
    assert "6 files" in call("files", path, "-n", "1")


def test_schema(path: str, call: Callable[..., str]) -> None:
    assert [f["name"] for f in loads(call("schema", path, "--json"))["fields"]] == ["day", "x", "tags"]
    assert "partition" in call("schema", path)


def test_head(path: str, call: Callable[..., str]) -> None:
    rows = loads(call("head", path, "-n", "3", "-c", "x", "--json"))
    assert (len(rows), set(rows[0])) == (3, {"x"})
    assert loads(call("head", path, "--where", "x = 20", "--json")) == [{"day": "tue", "x": 20, "tags": None}]
    # Text from the table isn't markup.
    assert "[bold]" in call("head", path)


def test_checkpoint(path: str, call: Callable[..., str]) -> None:
    assert loads(call("checkpoint", path, "--json"))["checkpoint"] == 2
    assert "checkpoint" in call("checkpoint", path)


def test_version(call: Callable[..., str]) -> None:
    assert call("--version").strip() == __version__


def test_values_that_json_lacks_become_text(tmp_table: Callable[[], str], call: Callable[..., str]) -> None:
    from datetime import date, datetime, timezone
    from decimal import Decimal

    path = tmp_table()
    moment = datetime(2024, 1, 1, tzinfo=timezone.utc)
    write_deltalake(path, pa.table({"d": [Decimal("1.50")], "b": [b"\x00"], "day": [date(2024, 1, 1)], "at": [moment]}))
    (row,) = loads(call("head", path, "--json"))
    assert row == {"d": "1.50", "b": "AA==", "day": "2024-01-01", "at": "2024-01-01T00:00:00+00:00"}
    assert "1.50" in call("head", path)


def test_failures_are_one_line(path: str, tmp_path: Any, fail: Callable[..., str]) -> None:
    assert "nothing" in fail("info", str(tmp_path / "nothing"))
    assert "99" in fail("info", path, "--version", "99")
    assert "ISO 8601" in fail("info", path, "--version", "soon")
    assert "nosuch" in fail("head", path, "--where", "nosuch = 1")
    assert "key=value" in fail("info", path, "-o", "half-a-secret")
    assert "half-a-secret" not in fail("info", path, "-o", "half-a-secret")
    assert "nonsense" in fail("nonsense")
    assert "--nonsense" in fail("info", path, "--nonsense")
    assert "LOCATION" in fail("info").upper()


def test_storage_options_reach_the_store(path: str, call: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    opened = DeltaTable.__init__

    def spy(self: DeltaTable, *args: Any, **kwargs: Any) -> None:
        seen.append(kwargs["storage_options"])
        opened(self, *args, **kwargs)

    monkeypatch.setattr(DeltaTable, "__init__", spy)
    call("info", path, "-o", "aws_session_token=b=c", "-o", "aws_region=", "--json")
    assert seen == [{"aws_session_token": "b=c", "aws_region": ""}]


def test_the_installed_command_ends_with_its_code(tmp_path: Any) -> None:
    command = [sys.executable, "-c", "from deltaplane.cli import main; main()"]
    done = subprocess.run([*command, "info", str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert subprocess.run([*command, "--version"], capture_output=True, timeout=60).returncode == 0


def test_without_its_extra_it_says_what_to_install() -> None:
    script = "import sys; sys.modules['typer'] = None\nfrom deltaplane.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'deltaplane[cli]'" in done.stderr


def test_compat(path: str, call: Callable[..., str], fail: Callable[..., str]) -> None:
    report = loads(call("compat", path, "--json", "--set", "delta.enableDeletionVectors=true"))
    assert report["protocol"]["min_writer_version"] == 2
    assert all(e["reads"] for e in report["engines"])
    assert report["after"]["features"] == ["appendOnly", "deletionVectors", "invariants"]
    assert "delta-spark 1.0 to 1.1" in report["unreadable_for"]
    shown = call("compat", path, "--set", "delta.enableDeletionVectors=true")
    assert "deltaplane" in shown
    assert "protocol after" in shown
    assert DeltaTable(path).version() == 2
    assert "appendOnyl" in fail("compat", path, "--set", "delta.appendOnyl=true")
    assert "key=value" in fail("compat", path, "--set", "nonsense")


def test_sql(path: str, call: Callable[..., str], fail: Callable[..., str]) -> None:
    text = f"SELECT day, sum(x) AS s FROM delta.`{path}` GROUP BY day ORDER BY day"
    assert loads(call("sql", text, "--json")) == [{"day": "mon", "s": 3}, {"day": "tue", "s": 30}]
    assert "mon" in call("sql", text)
    done = loads(call("sql", "DELETE FROM t WHERE day = 'mon'", "-t", f"t={path}", "--json"))
    assert (done[0]["num_affected_rows"], DeltaTable(path).version()) == (3, 3)
    (newest, *_) = loads(call("sql", "DESCRIBE HISTORY t LIMIT 1", "--table", f"t={path}", "--json"))
    assert newest["operationParameters"] == {"predicate": "[\"day = 'mon'\"]"}
    assert "line 1, column 8: expected FROM, found `FORM`" in fail("sql", "DELETE FORM t")
    assert "-t name=location" in fail("sql", "SELECT 1", "-t", "t")


def test_sql_shows_columns_of_one_name(call: Callable[..., str], fail: Callable[..., str]) -> None:
    assert re.findall(r"\w+", call("sql", "SELECT 1 AS x, 2 AS x")) == ["x", "x", "1", "2"]
    assert "give them names with AS" in fail("sql", "SELECT 1 AS x, 2 AS x", "--json")


def test_optimize(path: str, call: Callable[..., str]) -> None:
    table = DeltaTable(path)
    before, small = table.version(), len(table.files())
    planned = loads(call("optimize", path, "--where", "day = 'mon'", "--dry-run", "--json"))
    assert (planned["numFilesAdded"], DeltaTable(path).version()) == (0, before)
    assert 1 < planned["numFilesToRewrite"] < small
    assert "numFilesToRewrite" in call("optimize", path, "--dry-run")
    done = loads(call("optimize", path, "--where", "day = 'mon'", "--json"))
    assert (done["numFilesRemoved"], done["versions"]) == (planned["numFilesToRewrite"], [before + 1])
    assert "numFilesAdded" in call("optimize", path, "--zorder", "x", "--curve", "hilbert")
    assert DeltaTable(path).history(1)[0]["operationParameters"]["zOrderBy"] == '["x"]'


# --- care ---


def test_advise(path: str, call: Callable[..., str], fail: Callable[..., str], tmp_path: Path) -> None:
    workload = tmp_path / "workload.txt"
    workload.write_text("-- past queries\nx = 1\n" + json.dumps({"predicate": "day = 'mon'", "weight": 3}) + "\n")
    report = loads(call("advise", path, "--predicates", str(workload), "--json"))
    assert (report["workload"], report["predicates"]) == ("given", 2)
    # x = 1 may be in two files, and Monday has three.
    assert report["candidates"][0]["reads"]["files"] == len(DeltaTable(path).files("x = 1")) + 3 * 3
    (advice,) = report["advice"]
    assert (advice["kind"], advice["commands"]["shell"]) == ("optimize", f"deltaplane optimize {path}")
    assert "nothing would pay" in call("advise", path, "-v", "0")
    assert "drawn from a sample" in call("advise", path)
    assert "can't be read" in fail("advise", path, "-p", str(tmp_path / "nothing"))


def test_maintain(path: str, call: Callable[..., str], fail: Callable[..., str]) -> None:
    would = loads(call("maintain", path, "--dry-run", "--json"))
    assert [(s["kind"], s["state"]) for s in would["steps"]] == [("optimize", "planned")]
    assert "skipped" in call("maintain", path, "--budget", "0")
    assert "budget" in fail("maintain", path, "--budget", "much")
    assert re.search(r"optimize +done", call("maintain", path, "--max-time", "1h", "--budget", "1GB"))
    assert len(DeltaTable(path).files()) == 2


def test_diff(path: str, call: Callable[..., str], fail: Callable[..., str]) -> None:
    assert {row["change"] for row in loads(call("diff", path, "0", "--json"))} == {"added"}
    DeltaTable(path).update({"x": "7"}, predicate="x = 20")
    lines = call("diff", path, "2", "-k", "day", "-k", "tags", "-c", "x", "--json").splitlines()
    (row,) = map(loads, lines)
    assert (row["change"], row["before"], row["after"]) == ("update", {"x": 20}, {"x": 7})
    assert "update" in call("diff", path, "2", "3", "--keys", "day", "--keys", "tags")
    assert "no rows differ" in call("diff", path, "2", "2", "-k", "day")
    assert len(call("diff", path, "0", "-k", "x", "-n", "1", "--json").splitlines()) == 1
    assert "--keys" in fail("diff", path, "0", "-c", "x")


def test_detail(path: str, call: Callable[..., str]) -> None:
    detail = loads(call("detail", path, "--json"))
    assert (detail["numFiles"], detail["partitionColumns"]) == (6, ["day"])
    assert "sizeInBytes" in call("detail", path)


def test_vacuum(path: str, call: Callable[..., str], fail: Callable[..., str]) -> None:
    write_deltalake(path, pa.table({"day": ["mon"], "x": [7], "tags": pa.nulls(1)}), mode="overwrite")
    assert "deletedFileRetentionDuration" in fail("vacuum", path, "--retain-hours", "0")
    soon = ("--retain-hours", "0", "--no-retention-check", "--lite")
    would = loads(call("vacuum", path, *soon, "--dry-run", "--json"))
    assert (would["dry_run"], len(would["files"])) == (True, 6)
    assert "would be deleted" in call("vacuum", path, *soon, "--dry-run")
    assert re.search(r"files +6", call("vacuum", path, *soon))
    assert loads(call("vacuum", path, "--json"))["files"] == []


def test_restore_and_clone(path: str, call: Callable[..., str], fail: Callable[..., str]) -> None:
    assert "numRemovedFiles" in call("restore", path, "0", "--dry-run")
    assert DeltaTable(path).version() == 2
    done = loads(call("restore", path, "0", "--json"))
    assert (done["version"], done["numRemovedFiles"], DeltaTable(path).count()) == (3, 4, 2)
    assert re.search("numRestoredFiles +4", call("restore", path, "2"))
    assert "99" in fail("restore", path, "99")
    done = loads(call("clone", path, f"{path}-clone", "--version", "0", "--json"))
    assert (done["numCopiedFiles"], DeltaTable(f"{path}-clone").count()) == (2, 2)
    assert "replace" in fail("clone", path, f"{path}-clone")
    call("clone", path, f"{path}-clone", "--replace", "--shallow")
    assert DeltaTable(f"{path}-clone", storage_options={"allow_external_files": path}).count() == 6


def test_convert(tmp_table: Callable[[], str], call: Callable[..., str], fail: Callable[..., str]) -> None:
    import pyarrow.parquet as pq

    where = tmp_table()
    pq.write_to_dataset(pa.table({"day": [1, 2], "x": [5, 6]}), where, partition_cols=["day"])
    assert "partition_by" in fail("convert", where)
    assert "column:type" in fail("convert", where, "-p", "day")
    assert loads(call("convert", where, "-p", "day:integer", "--json"))["files"] == 2
    assert DeltaTable(where).to_pyarrow_table(filters="day = 2")["x"].to_pylist() == [6]


def test_check_and_repair(path: str, call: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    from pathlib import Path

    assert "agree" in call("check", path, "--deep")
    gone = DeltaTable(path).files()[0]
    (Path(path) / gone).unlink()
    assert run(["check", path, "--json"]) == 1
    (finding,) = loads(capsys.readouterr().out)
    assert (finding["kind"], finding["path"]) == ("missing file", gone)
    assert run(["check", path]) == 1
    assert "missing file" in capsys.readouterr().out
    assert loads(call("repair", path, "--dry-run", "--json"))["files"] == [gone]
    assert "taken out" in call("repair", path)
    assert loads(call("check", path, "--json")) == []


def test_report(path: str, tmp_path: Path, call: Callable[..., str], fail: Callable[..., str]) -> None:
    page = tmp_path / "page.html"
    said = call("report", path, "-o", str(page))
    assert "nothing to do" in said
    assert page.read_text().startswith("<!doctype html>")
    facts = loads(call("report", path, "--json"))
    assert (facts["version"], facts["files"]["count"], facts["partitions"]["count"]) == (2, 6, 2)
    assert loads(call("report", path, "--version", "0", "--json"))["files"]["count"] == 2
    advised = loads(call("report", path, "--advise", "-o", str(page), "--json"))
    assert (advised["judged"]["workload"], facts["judged"]) == ("drawn", None)
    assert "Layouts that were tried" in page.read_text()
    DeltaTable(path).alter.set_table_properties({"delta.enableExpiredLogCleanup": "false"})
    assert "Log clean-up is switched off" in call("report", path)
    nowhere = str(tmp_path / "none" / "page.html")
    assert f"can't write {nowhere}: No such file or directory" in fail("report", path, "-o", nowhere)
