"""The delta-spark jars exist, and the error for missing ones names the remedy."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from interop import jars


def test_the_jars_hold_delta() -> None:
    names = {name for jar in jars.delta_jars() for name in zipfile.ZipFile(jar).namelist()}
    assert "io/delta/sql/DeltaSparkSessionExtension.class" in names
    assert "io/delta/storage/LogStore.class" in names


def test_missing_jars_are_named_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "CACHE", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"delta-storage-4\.4\.0\.jar.*make jars"):
        jars.delta_jars()
