"""The code of the documentation's pages runs, and prints what they show.

`--update` writes the printed outputs into the pages; read the difference, and write `…` where an
output varies. Pages that need Spark are run by tests/spark/sessions/test_pages.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from pages import snippets

ROOT = snippets.ROOT
PAGES = [page for page in snippets.pages() if not snippets.is_for_spark((ROOT / page).read_text())]


@pytest.fixture
def own_logging() -> Iterator[None]:
    """Handlers and levels of the package's loggers as they were: a page may set them."""
    loggers = [logging.getLogger(name) for name in ("deltaplane", "deltaplane.commands")]
    before = [(list(logger.handlers), logger.level) for logger in loggers]
    yield
    for logger, (handlers, level) in zip(loggers, before, strict=True):
        logger.handlers[:] = handlers
        logger.setLevel(level)


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize("page", PAGES)
def test_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update: bool) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    text = (ROOT / page).read_text()
    wrong, new = snippets.run_page(page, text, {"__name__": "page"}, update)
    if update and new != text:
        (ROOT / page).write_text(new)
    assert wrong == []


def test_every_block_of_a_page_has_a_language() -> None:
    for page in snippets.pages():
        opened = [line for line in (ROOT / page).read_text().splitlines() if line.startswith("```")][::2]
        assert "```" not in opened, page


def test_the_check_sees_another_output() -> None:
    page = "```python\nprint(1)\nprint(2)\n```\n\n```text\n1\n…\n```\n"
    assert snippets.run_page("p", page, {}, False) == ([], page)
    wrong, new = snippets.run_page("p", page.replace("print(1)", "print(3)"), {}, True)
    assert wrong == ["p:2 prints\n    3\n    2\n"]
    assert new == "```python\nprint(3)\nprint(2)\n```\n\n```text\n3\n2\n```\n"
    assert snippets.run_page("p", page.split("\n\n")[0] + "\n", {}, False)[0]
    assert snippets.snippets("<!-- not run: needs a cloud -->\n" + page) == []
