"""`deltaplane doctor`: what is installed, and nothing secret."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pyarrow as pa
import pytest

from deltaplane import write_deltalake
from deltaplane.cli.app import run


def test_it_lists_packages_java_and_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"x": [1]}))
    assert run(["doctor", str(tmp_path / "t"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["packages"]["duckdb"]["version"] == metadata.version("duckdb")
    assert facts["packages"]["pyspark"]["extra"] == "spark"
    assert facts["java"]["version"] >= 17
    assert facts["table"]["version"] == 0
    assert facts["problems"] == []
    assert run(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "duckdb" in shown
    assert "python" in shown


def test_values_of_variables_are_never_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t-value")
    monkeypatch.setenv("DELTAPLANE_STORAGE_OPTIONS", '{"aws_secret_access_key": "s3cr3t-value"}')
    for arguments in (["doctor"], ["doctor", "--json"]):
        assert run(arguments) == 0
        shown = capsys.readouterr().out
        assert "AWS_SECRET_ACCESS_KEY" in shown
        assert "s3cr3t-value" not in shown


def test_problems_are_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0.1" if name == "polars" else installed(name))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert run(["doctor", str(tmp_path / "none"), "--json"]) == 1
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert [any(word in problem for problem in problems) for word in ("polars 0.1", "Java", "can't be opened")] == [
        True
    ] * 3
