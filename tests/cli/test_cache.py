"""`deltaplane cache`: what is in the cache, for people and as JSON, and emptying it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from crash.memory_s3 import memory_s3
from deltaplane import DeltaTable, write_deltalake
from deltaplane.cli.app import run


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    with memory_s3() as server:
        _, options = server.client()
        location = f"s3://{server.bucket({})}/table"
        write_deltalake(location, pa.table({"x": [1]}), storage_options=options)
        # The write has the log's files in memory, which would answer without files in the cache.
        cached = {**options, "cache_dir": str(tmp_path), "cache_memory_bytes": "0"}
        DeltaTable(location, storage_options=cached)
    return tmp_path


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["cache", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_info_and_clear(filled: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    facts = json.loads(called(capsys, "info", "--path", str(filled), "--json"))
    assert (facts["path"], facts["entries"]) == (str(filled), 1)
    assert [table["entries"] for table in facts["tables"].values()] == [1]
    shown = called(capsys, "info", "--path", str(filled))
    assert "4.0 KiB" in shown
    assert "s3://bucket" in shown
    monkeypatch.setenv("DELTAPLANE_CACHE_DIR", str(filled))
    assert json.loads(called(capsys, "clear", "--json")) == {"freed_bytes": facts["size_bytes"]}
    assert "0 B" in called(capsys, "clear")
    assert json.loads(called(capsys, "info", "--json"))["entries"] == 0


def test_without_a_directory_it_says_how_to_name_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DELTAPLANE_CACHE_DIR", raising=False)
    assert run(["cache", "info"]) == 2
    assert "DELTAPLANE_CACHE_DIR" in capsys.readouterr().err
