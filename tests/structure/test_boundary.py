"""The boundary `rust/python` only converts and calls: it is small, its functions are short, no
other crate uses PyO3, and every exported function has `#[boundary]`, which turns a panic into an
error.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

from structure import repo

PYO3_CRATES = {"rust/boundary/Cargo.toml", "rust/python/Cargo.toml"}

# Maximum lines of a boundary function, which extracts its arguments, releases the GIL, makes one
# call and wraps the result.
MOST_FUNCTION_LINES = 40
# Longer functions with their numbers of lines. A shortened function leaves the table; no function
# may be added.
LONGER_FUNCTIONS: dict[str, int] = {}
# Maximum lines of `rust/python/src`. The number may only decrease, down to 3,000.
MOST_LINES = 3000

# `#[boundary]` exports and guards; PyO3's own attributes export alone.
_GUARDED = re.compile(r"^[ \t]*#\[boundary\b", re.MULTILINE)
_UNGUARDED = re.compile(r"^[ \t]*#\[(?:pyo3::)?(pymethods|pyfunction)\b", re.MULTILINE)


def unguarded(text: str) -> list[str]:
    """The attributes that export a block or a function without `#[boundary]`."""
    return _UNGUARDED.findall(text)


def function_lengths(text: str) -> Iterator[tuple[str, int]]:
    """Each function with a body, and its number of lines from `fn` to its last brace."""
    code = repo.rust_code(text)
    for match in re.finditer(r"\bfn\s+(\w+)", code):
        start, depth = match.start(), 0
        for place in re.finditer(r"[{};\[\]]", code[start:]):
            token = place[0]
            depth += {"{": 1, "[": 1, "}": -1, "]": -1, ";": 0}[token]
            if token == ";" and depth == 0:
                break
            if token == "}" and depth == 0:
                yield match[1], code.count("\n", start, start + place.start()) + 1
                break


def uses_pyo3(manifest: str) -> bool:
    """Whether a crate's manifest has a dependency on PyO3, for any target or purpose."""
    tables = tomllib.loads(manifest)
    kinds = ("dependencies", "dev-dependencies", "build-dependencies")
    every = [tables, *tables.get("target", {}).values()]
    return any(name.startswith("pyo3") for table in every for kind in kinds for name in table.get(kind, {}))


def test_only_the_boundary_knows_python() -> None:
    manifests = repo.sources("rust/", "Cargo.toml")
    assert len(manifests) > 10
    assert {path for path, text in manifests.items() if uses_pyo3(text)} <= PYO3_CRATES


def test_functions_of_the_boundary_are_short() -> None:
    lengths = {
        f"{path} {name}": lines
        for path, text in repo.sources("rust/python/src/", ".rs").items()
        for name, lines in function_lengths(text)
    }
    assert len(lengths) > 200
    longer = {name: lines for name, lines in lengths.items() if lines > MOST_FUNCTION_LINES}
    assert longer == LONGER_FUNCTIONS, "move logic to a crate without Python, and keep the table true"


def test_the_boundary_does_not_grow() -> None:
    lines = sum(text.count("\n") for text in repo.sources("rust/python/src/", ".rs").values())
    assert lines <= MOST_LINES, "move logic to a crate without Python"


def test_every_exported_function_is_guarded() -> None:
    sources = repo.sources("rust/python/src/", ".rs")
    assert sum(len(_GUARDED.findall(text)) for text in sources.values()) > 40
    assert {path: names for path, text in sources.items() if (names := unguarded(text))} == {}


def test_a_function_without_it_is_seen() -> None:
    assert unguarded("#[boundary]\nfn f() {}\n\n#[pymethods]\nimpl A {}") == ["pymethods"]
    assert unguarded("#[pyo3::pyfunction]\n#[boundary]\nfn f() {}") == ["pyfunction"]
    assert unguarded("#[boundary(pickles)]\nimpl A {}") == []


def test_a_dependency_on_pyo3_is_seen() -> None:
    assert uses_pyo3("[dependencies]\npyo3.workspace = true")
    assert uses_pyo3("[target.'cfg(unix)'.dev-dependencies]\npyo3-build-config = \"1\"")
    assert not uses_pyo3('[dependencies]\nserde = "1"')


def test_lines_of_a_function_are_counted_to_its_brace() -> None:
    text = (
        'fn a(x: [u8; 2]) {\n    "}";\n    // }\n    if x { y }\n}\ntrait T {\n    fn b();\n    fn c() -> u8 { 1 }\n}\n'
    )
    assert list(function_lengths(text)) == [("a", 5), ("c", 1)]
