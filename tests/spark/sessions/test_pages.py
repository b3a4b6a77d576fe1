"""The code of the documentation's pages that need Spark runs in one session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pages import snippets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = snippets.ROOT
PAGES = [page for page in snippets.pages() if snippets.is_for_spark((ROOT / page).read_text())]


@pytest.mark.parametrize("page", PAGES)
def test_page(page: str, enabled: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update: bool) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    text = (ROOT / page).read_text()
    names = {"__name__": "page", "spark": enabled, "builder": type(enabled).builder}
    wrong, new = snippets.run_page(page, text, names, update)
    if update and new != text:
        (ROOT / page).write_text(new)
    assert wrong == []
