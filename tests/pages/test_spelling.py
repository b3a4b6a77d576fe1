"""The words of the documentation are spelt well, as `typos` judges them; `test_prose.py` has the
rules of style, and the words that the glossary retired."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from structure import repo

sys.path.insert(0, str(repo.ROOT / "docs" / "building"))

import site_build

PAPERS = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md")


def misspelt(*paths: Path) -> list[str]:
    """What `typos` reports for files and folders."""
    program = site_build.PACKAGES / "bin" / "typos"
    assert program.is_file(), f"no {program}: run `make site-packages`"
    settings = repo.ROOT / "docs" / "building" / "typos.toml"
    command = [program, "--config", settings, "--format", "brief", *paths]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout.splitlines()


def test_words_are_spelt_well() -> None:
    assert misspelt(repo.ROOT / "docs", *(repo.ROOT / name for name in PAPERS)) == []


def test_a_misspelt_word_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Recieve rows\n\nA comit is atomic.\n")
    assert len(misspelt(page)) == 2
