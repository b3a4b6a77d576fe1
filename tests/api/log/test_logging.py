"""The core's events in Python's `logging`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake


def test_a_commit_is_logged_with_its_table_and_version(
    caplog: pytest.LogCaptureFixture, tmp_table: Callable[[], str]
) -> None:
    table, before = tmp_table() + " 100%s", time.time()
    with caplog.at_level(logging.INFO, "deltaplane"):
        write_deltalake(table, pa.table({"x": [1]}))
    (record,) = [r for r in caplog.records if r.name == "deltaplane.log.transaction"]
    assert record.levelno == logging.INFO
    assert "committed" in record.getMessage()
    assert "100%s" in record.getMessage() or "100%25s" in record.getMessage()
    assert "version=0" in record.getMessage()
    assert before <= record.created <= time.time()


def test_a_checkpoint_that_cannot_be_used_is_a_warning(
    caplog: pytest.LogCaptureFixture, tmp_table: Callable[[], str]
) -> None:
    table = tmp_table()
    for n in range(2):
        write_deltalake(table, pa.table({"x": [n]}), mode="append")
    DeltaTable(table).create_checkpoint()
    (checkpoint,) = Path(table, "_delta_log").glob("*.checkpoint.parquet")
    checkpoint.write_bytes(b"PAR1 cut short")
    with caplog.at_level(logging.DEBUG, "deltaplane"):
        assert DeltaTable(table).to_pyarrow_table().num_rows == 2
        # Events from streaming rows are delivered when the next call of the core returns.
        assert DeltaTable(table).version() == 1
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert {r.name for r in warnings} == {"deltaplane.log.snapshot.open"}
    assert all("00000000000000000001.checkpoint.parquet" in r.getMessage() for r in warnings)


def test_what_nobody_asked_for_is_not_delivered(caplog: pytest.LogCaptureFixture, tmp_table: Callable[[], str]) -> None:
    with caplog.at_level(logging.WARNING, "deltaplane"):
        write_deltalake(tmp_table(), pa.table({"x": [1]}))
    assert not caplog.records


@pytest.mark.parametrize("vectors", [False, True])
def test_a_merge_says_its_phases(caplog: pytest.LogCaptureFixture, tmp_table: Callable[[], str], vectors: bool) -> None:
    path = tmp_table()
    properties = {"delta.enableDeletionVectors": "true"} if vectors else {}
    write_deltalake(path, pa.table({"k": [1, 2, 3], "n": [1, 2, 3]}), configuration=properties)
    merger = DeltaTable(path).merge(pa.table({"k": [2, 9], "n": [5, 6]}), "t.k = s.k", "s", "t")
    merger = merger.when_matched_update_all().when_not_matched_insert_all()
    with caplog.at_level(logging.DEBUG, "deltaplane.commands"):
        merger.when_not_matched_by_source_delete("t.k = 3").execute()
    said = [r for r in caplog.records if r.name == "deltaplane.commands"]
    copied = [] if vectors else ["copy"]
    phases = ["source", "join", "unmatched", "change", *copied, "insert", "files", "commit"]
    assert [vars(r)["phase"] for r in said if r.levelno == logging.INFO] == phases
    assert [vars(r)["phase"] for r in said if r.levelno == logging.DEBUG] == phases
    assert {(vars(r)["operation"], vars(r)["table"]) for r in said} == {("MERGE", DeltaTable(path).location)}
    assert all(vars(r)["ms"] >= 0 for r in said if r.levelno == logging.INFO)


def test_updates_and_deletes_say_theirs(caplog: pytest.LogCaptureFixture, tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    write_deltalake(path, pa.table({"k": [1, 2, 3]}))
    with caplog.at_level(logging.INFO, "deltaplane.commands"):
        DeltaTable(path).update({"k": "k + 1"}, predicate="k = 1")
        DeltaTable(path).delete("k = 3")
    said = [(vars(r)["operation"], vars(r)["phase"]) for r in caplog.records if r.name == "deltaplane.commands"]
    update = [("UPDATE", name) for name in ("find", "copy", "change", "files", "commit")]
    assert said == [*update, *(("DELETE", name) for name in ("find", "copy", "files", "commit"))]
