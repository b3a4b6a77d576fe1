"""No function that Python calls is without `#[boundary]`, which turns a panic into an error."""

from __future__ import annotations

import re

from structure import repo

_EXPORTED = re.compile(r"((?:^[ \t]*#\[[^\n]*\n)*)^[ \t]*#\[(pymethods|pyfunction)\b", re.MULTILINE)


def unguarded(text: str) -> list[str]:
    """The exported blocks and functions that lack a `#[boundary]` before them."""
    return [found[2] for found in _EXPORTED.finditer(text) if "#[boundary]" not in found[1]]


def test_every_exported_function_is_guarded() -> None:
    sources = repo.sources("rust/python/src/", ".rs")
    exported = sum(len(_EXPORTED.findall(text)) for text in sources.values())
    assert exported > 40
    assert {path: found for path, text in sources.items() if (found := unguarded(text))} == {}


def test_a_function_without_it_is_seen() -> None:
    assert unguarded("#[boundary]\n#[pyfunction]\n#[pyo3(x)]\nfn f() {}\n\n#[pymethods]\nimpl A {}") == ["pymethods"]
    assert unguarded("#[pyfunction]\n#[boundary]\nfn f() {}") == ["pyfunction"], "pyo3 must see the guarded body"
