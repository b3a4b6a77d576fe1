"""Runs the examples in the package's documentation, each module's in an empty folder of its own.

Examples of `deltaplane.spark` use a running session named `spark`.
"""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "python" / "deltaplane"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def with_examples() -> list[str]:
    """The dotted names of the modules with an example."""
    paths = sorted(path for path in PACKAGE.rglob("*.py") if ">>> " in path.read_text())
    dotted = [".".join(("deltaplane", *path.relative_to(PACKAGE).with_suffix("").parts)) for path in paths]
    return [name.removesuffix(".__init__") for name in dotted]


@pytest.mark.parametrize("name", with_examples())
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.chdir(tmp_path)
    known = {"spark": request.getfixturevalue("spark")} if name.startswith("deltaplane.spark.") else {}
    result = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS, extraglobs=known)
    assert result.attempted
    assert not result.failed
