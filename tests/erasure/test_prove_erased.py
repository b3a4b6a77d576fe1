"""A planted value is found in each place where a table can hold it, and nowhere after it is
gone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, prove_erased, write_deltalake
from deltaplane.cli.app import run
from deltaplane.commands.erasure import ErasureReport, SearchTerms
from deltaplane.exceptions import InvalidArgumentError

EMAIL = "ada@example.org"
WHERE = f"email = '{EMAIL}'"


def _rows(*emails: str) -> pa.Table:
    return pa.table({"id": list(range(len(emails))), "email": list(emails)})


def _places(report: ErasureReport) -> set[str]:
    return {trace.place for trace in report.traces}


def _made(where: Path, emails: tuple[str, ...] = ("a@x.org", EMAIL, "z@x.org"), **properties: str) -> DeltaTable:
    write_deltalake(str(where), _rows(*emails), configuration={k.replace("_", "."): v for k, v in properties.items()})
    return DeltaTable(str(where))


def _in_rows(where: Path) -> DeltaTable:
    return _made(where)


def _in_vectors(where: Path) -> DeltaTable:
    table = _made(where, delta_enableDeletionVectors="true")
    table.delete("id = 1")
    return table


def _in_older_versions(where: Path) -> DeltaTable:
    table = _made(where)
    table.delete("id = 1")
    return table


def _in_unreferenced_files(where: Path) -> DeltaTable:
    table = _made(where, ("a@x.org", "z@x.org"))
    other = _made(where.parent / "other")
    shutil.copy(where.parent / "other" / other.files()[0], where / "part-left-over.parquet")
    return table


def _in_change_files(where: Path) -> DeltaTable:
    table = _made(where, ("a@x.org", "z@x.org"), delta_enableChangeDataFeed="true")
    table.update(updates={"email": f"'{EMAIL}'"}, predicate="id = 1")
    table.update(updates={"email": "'b@x.org'"}, predicate="id = 1")
    return table


def _in_statistics(where: Path) -> DeltaTable:
    table = _made(where, (EMAIL, EMAIL))
    table.delete("id >= 0")
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    return table


def _in_commands(where: Path) -> DeltaTable:
    table = _made(where, ("a@x.org", "z@x.org"))
    table.delete(f"email = '{EMAIL}' OR id = 0")
    return table


def _in_partition_values(where: Path) -> DeltaTable:
    write_deltalake(str(where), _rows("a@x.org", EMAIL), partition_by=["email"])
    return DeltaTable(str(where))


def _in_checkpoints(where: Path) -> DeltaTable:
    table = _made(where, (EMAIL, EMAIL))
    table.create_checkpoint()
    for commit in (where / "_delta_log").glob("*.json"):
        commit.unlink()
    for checksum in (where / "_delta_log").glob("*.crc"):
        checksum.unlink()
    return DeltaTable(str(where))


def _in_index(where: Path) -> DeltaTable:
    table = _made(where)
    table.index.create(["email"])
    table.delete("id = 1")
    return table


PLACES: dict[str, tuple[Callable[[Path], DeltaTable], str, str]] = {
    "rows": (_in_rows, "rows", "DELETE"),
    "vectors": (_in_vectors, "deleted rows", "PURGE"),
    "older versions": (_in_older_versions, "older versions", "VACUUM"),
    "unreferenced files": (_in_unreferenced_files, "unreferenced files", "full VACUUM"),
    "change files": (_in_change_files, "change files", "VACUUM"),
    "statistics": (_in_statistics, "statistics", "checkpoint"),
    "commands": (_in_commands, "commands", "checkpoint"),
    "partition values": (_in_partition_values, "partition values", "DELETE"),
    "checkpoints": (_in_checkpoints, "statistics", "checkpoint"),
    "index": (_in_index, "index", "rebuild"),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_planted_value_is_found_in_each_place(case: str, tmp_path: Path) -> None:
    make, place, ended_by = PLACES[case]
    report = prove_erased(make(tmp_path / "t"), WHERE)
    traces = [trace for trace in report.traces if trace.place == place]
    assert traces, str(report)
    assert any(ended_by in trace.next for trace in traces)
    assert not report.is_erased
    if case == "checkpoints":
        assert any(trace.path.endswith(".parquet") and "_delta_log" in trace.path for trace in traces)
    assert report.not_searched == []


def test_an_index_that_is_rebuilt_is_no_trace_once_its_old_objects_are_gone(tmp_path: Path) -> None:
    table = _in_index(tmp_path / "t")
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    table.index.build(rebuild=True)
    (old,) = [trace for trace in prove_erased(table, WHERE).traces if trace.place == "index"]
    assert (old.path.endswith(".keys"), old.next) == (True, "VACUUM")
    assert old.until_ms is not None
    for item in (tmp_path / "t" / "_deltaplane_index").iterdir():
        os.utime(item, (old.until_ms / 1000 - 2 * 86_400,) * 2)
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert "index" not in _places(prove_erased(table, WHERE))
    assert table.index.describe()[0].covered_files == 1


def test_an_index_of_rows_that_never_matched_is_no_trace(tmp_path: Path) -> None:
    table = _made(tmp_path / "t", ("a@x.org", "z@x.org"))
    table.index.create(["email"])
    assert prove_erased(table, WHERE).is_erased
    assert _places(prove_erased(table, "email = 'a@x.org'")) >= {"rows"}


def test_a_value_in_the_local_cache_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltaplane.io import cache

    table = _made(tmp_path / "t", ("a@x.org", "z@x.org"))
    used = cache.CacheInfo(tmp_path, 3, 30, 0, None, {table._snapshot.uri: cache.CachedTable(entries=3, size_bytes=30)})
    monkeypatch.setattr(cache, "cache_info", lambda _path: used)
    report = prove_erased(table, WHERE, tmp_path)
    assert [(trace.place, "3 blocks" in trace.what) for trace in report.traces] == [("cache", True)]


def test_other_values_are_not_found(tmp_path: Path) -> None:
    table = _made(tmp_path / "t", ("ada@example.orga", "xada@example.org", "ADA@example.or"))
    table.update(updates={"email": "'b'"}, predicate="id = 0")
    report = prove_erased(table, WHERE)
    assert report.is_erased, str(report)
    assert report.objects > 3


def _erased(where: Path) -> DeltaTable:
    """A table from which the row was erased, as the documentation says."""
    table = _made(where, delta_enableDeletionVectors="true")
    table.delete("id = 1")
    table.purge()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    return table


def test_after_purge_and_vacuum_only_the_log_is_left(tmp_path: Path) -> None:
    report = prove_erased(_erased(tmp_path / "t"), WHERE)
    assert _places(report) <= {"statistics", "commands", "metadata"}
    assert all(trace.path.startswith("_delta_log/") and trace.until_ms is not None for trace in report.traces)


@pytest.mark.parametrize("mode", ["name", "none"])
def test_nested_and_renamed_columns_are_searched(mode: str, tmp_path: Path) -> None:
    where = str(tmp_path / "t")
    people = pa.array([{"name": "Ada", "born": 1815}, {"name": "Bob", "born": 1900}])
    properties = {"delta.columnMapping.mode": mode}
    write_deltalake(where, pa.table({"person": people, "n": [1, 2]}), configuration=properties)
    table = DeltaTable(where)
    if mode == "name":
        table.alter.rename_column("person.name", "called")
    name = "called" if mode == "name" else "name"
    table.delete("n = 1")
    report = prove_erased(table, f"person.{name} = 'Ada' OR n IN (1)")
    assert {"older versions", "statistics"} <= _places(report)
    assert [t.what for t in report.traces if t.place == "older versions"] == ["1 rows match"]
    assert prove_erased(table, f"person.{name} = 'Grace'").is_erased


def test_numbers_are_found_beside_their_columns_only(tmp_path: Path) -> None:
    table = _made(tmp_path / "t", ("a", "b", "c"))
    report = prove_erased(table, "id = 2")
    assert all("id" in trace.what for trace in report.traces if trace.place == "statistics")
    assert prove_erased(table, "id = 3").is_erased


def test_long_texts_are_found_by_the_beginning_that_bounds_keep(tmp_path: Path) -> None:
    name = "Augusta Ada Byron, Countess of Lovelace, 1815 to 1852"
    table = _made(tmp_path / "t", (name,))
    table.delete("id = 0")
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert "statistics" in _places(prove_erased(table, f"email = '{name}'"))


def test_objects_that_nobody_can_search_are_named(tmp_path: Path) -> None:
    table = _made(tmp_path / "t", ("a@x.org",))
    (tmp_path / "t" / "notes.txt").write_text(EMAIL)
    report = prove_erased(table, WHERE)
    assert report.not_searched == ["notes.txt"]
    assert not report.is_erased


def test_files_of_a_shallow_clones_source_are_named(tmp_path: Path) -> None:
    _made(tmp_path / "t").clone(str(tmp_path / "clone"), shallow=True)
    report = prove_erased(DeltaTable(str(tmp_path / "clone")), "email = 'nobody'")
    assert [Path(path).suffix for path in report.not_searched] == [".parquet"]
    assert not report.is_erased


@pytest.mark.parametrize(
    "where", ["email > 'a'", "email IS NULL", "email = id", "email = NULL", "NOT email = 'a'", "TRUE"]
)
def test_conditions_that_name_no_value_are_refused(where: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError):
        prove_erased(_made(tmp_path / "t", ("a",)), where)


def test_unknown_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no column `mail`"):
        prove_erased(_made(tmp_path / "t", ("a",)), "mail = 'a'")


TERMS: list[tuple[str, Any, list[str]]] = [
    (
        "id = 5",
        {"add": {"size": 5, "stats": json.dumps({"numRecords": 5, "minValues": {"id": 5}})}},
        ["add.stats.minValues.id"],
    ),
    (
        "id = 5",
        {"commitInfo": {"operationParameters": {"predicate": '["(id#12 = 5)"]'}}},
        ["commitInfo.operationParameters.predicate"],
    ),
    ("id = 5", {"commitInfo": {"operationMetrics": {"numFiles": "5"}}}, []),
    ("id = 5", {"add": {"partitionValues": {"id": "5", "other": "5"}}}, ["add.partitionValues.id"]),
    (
        "d = DATE '2024-05-01'",
        {"add": {"stats_parsed": {"maxValues": {"d": "2024-05-01"}}}},
        ["add.stats_parsed.maxValues.d"],
    ),
    (
        "t = TIMESTAMP '2024-05-01 10:00:00'",
        {"stats": json.dumps({"maxValues": {"t": "2024-05-01T10:00:00.000Z"}})},
        ["stats.maxValues.t"],
    ),
    ("x = 1.50", {"stats": {"minValues": {"x": 1.5}}}, ["stats.minValues.x"]),
    ("e = 'it''s'", {"commitInfo": {"predicate": "e = 'it\\'s'"}}, ["commitInfo.predicate"]),
]


@pytest.mark.parametrize(("where", "document", "paths"), TERMS)
def test_values_are_recognised_in_the_log(where: str, document: Any, paths: list[str]) -> None:
    assert list(SearchTerms.of(where).in_json(document, {})) == paths


@pytest.fixture
def erased_and_not(tmp_path: Path) -> tuple[str, str]:
    table = _in_vectors(tmp_path / "t")
    clean = _made(tmp_path / "clean", ("a@x.org",))
    return table.location, clean.location


def test_the_verb(erased_and_not: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    planted, clean = erased_and_not
    assert run(["prove-erased", planted, "--where", WHERE]) == 1
    assert "deleted rows" in capsys.readouterr().out
    assert run(["prove-erased", planted, "-w", WHERE, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["is_erased"] is False
    assert {trace["place"] for trace in report["traces"]} >= {"deleted rows"}
    assert run(["prove-erased", clean, "-w", WHERE]) == 0
    assert run(["prove-erased", clean]) == 2


def test_the_pages_example_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "erasing.md").read_text(encoding="utf-8")
    blocks = page.split("```python\n")[1:]
    assert len(blocks) == 2
    script = "\n".join(block.split("```")[0] for block in blocks)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "older versions" in done.stdout
