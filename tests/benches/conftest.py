"""Makes the modules of `benches`, which are scripts without a package, importable, and keeps their
files out of the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

BENCHES = Path(__file__).resolve().parents[2] / "benches"


@pytest.fixture(autouse=True)
def benches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder in which the benches store files."""
    for folder in ("on_spark", "catalogs", "sql", "huge", "pages", ""):
        monkeypatch.syspath_prepend(str(BENCHES / folder))
    from support import harness

    monkeypatch.setattr(harness, "CACHE", tmp_path / "bench")
    return tmp_path / "bench"
