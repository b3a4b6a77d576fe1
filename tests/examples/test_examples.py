"""Runs every script of `examples` as its users do, and compares what it prints with its page."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
USE_CASES = "bi cdc features fraud gdpr iot medallion media mlflow scd2 siem variants".split()
MOST_LINES = 150


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_examples", ROOT / "docs" / "generate_examples.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pages = _generator()


@pytest.mark.slow
@pytest.mark.parametrize("name", USE_CASES)
def test_example(name: str, tmp_path: Path) -> None:
    assert pages.run(name, tmp_path) == pages.recorded(name), f"run docs/generate_examples.py {name}, and read the page"


def test_the_examples_are_the_twelve_use_cases() -> None:
    assert pages.names() == USE_CASES


@pytest.mark.parametrize("name", USE_CASES)
def test_a_script_is_short_and_checks_its_claims(name: str) -> None:
    source = (ROOT / "examples" / name / "main.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) <= MOST_LINES
    assert source.count("    assert ") >= 3


def test_the_pages_are_up_to_date(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["generate_examples.py", "--check"])
    assert pages.main() == 0, capsys.readouterr().out


# --- the checks can fail ---


def _example(folder: Path, code: str) -> None:
    (folder / "one").mkdir()
    (folder / "one" / "main.py").write_text(f'"""A title.\n\nText.\n\nWith your own data: change it.\n"""\n\n{code}\n')


def test_a_changed_script_and_a_changed_output_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pages, "EXAMPLES", tmp_path)
    monkeypatch.setattr(pages, "INDEX", tmp_path / "README.md")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    _example(tmp_path, 'print("5 rows")')
    (tmp_path / "README.md").write_text(pages.index())
    page = tmp_path / "one" / "README.md"
    page.write_text(pages.page("one", pages.run("one", tmp_path)))
    assert pages.recorded("one") == "5 rows\n"
    assert "## With your own data\n\nChange it." in page.read_text()

    monkeypatch.setattr(sys, "argv", ["generate_examples.py", "--check"])
    assert pages.main() == 0
    script = tmp_path / "one" / "main.py"
    script.write_text(script.read_text().replace("5 rows", "6 rows"))
    assert pages.main() == 1
    assert "one/README.md is out of date" in capsys.readouterr().out
    assert pages.run("one", tmp_path) != pages.recorded("one")


def test_a_script_that_fails_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "EXAMPLES", tmp_path)
    _example(tmp_path, 'assert False, "3 alerts are missing"')
    with pytest.raises(AssertionError, match="3 alerts are missing"):
        pages.run("one", tmp_path)
