"""The view of the checkout that the structure tests share: its files, and text without comments and
strings.

Defines no rule.
"""

from __future__ import annotations

import functools
import importlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]

# By convention a test module is at the end of a Rust file; it isn't shipped.
_TESTS = re.compile(r"^\s*#\[cfg\((?:test|all\(test)\b[^\n]*\]\s*(?:#\[[^\n]*\]\s*)*mod\s+\w+\s*\{", re.MULTILINE)
# A comment, a string, or a char that looks like the start of one.
_RUST_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>b?r(?P<hash>\#*)".*?"(?P=hash)|b?"(?:\\.|[^"\\])*")|b?'(?:\\.|[^'\\])'""",
    re.DOTALL,
)


@functools.cache
def files() -> tuple[str, ...]:
    """Every file of the project, tracked or new, relative to the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return tuple(sorted(name for name in set(listed.splitlines()) if (ROOT / name).is_file()))


def sources(prefix: str, *suffixes: str) -> dict[str, str]:
    """Text by path of the project's files under `prefix` with one of the suffixes."""
    return {name: (ROOT / name).read_text() for name in files() if name.startswith(prefix) and name.endswith(suffixes)}


def packaging_script(name: str) -> ModuleType:
    """The module of a script in the folder `packaging`, which imports its neighbours by their bare
    names."""
    folder = str(ROOT / "packaging")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


def shipped_rust(text: str) -> str:
    """A Rust file without its test module."""
    tests = _TESTS.search(text)
    return text[: tests.start()] if tests else text


def is_rust_test(path: str) -> bool:
    """Whether a whole Rust file is a test: a crate's integration test, or a separate
    `mod tests;`."""
    return "tests" in path.removesuffix(".rs").split("/")[2 if path.startswith("rust/") else 0 :]


def rust_code(text: str) -> str:
    """Rust code without comments and with empty strings: identifiers stay on their lines."""
    return _RUST_TOKEN.sub(lambda token: ('""' if token["string"] else " ") + "\n" * token[0].count("\n"), text)


def rust_tokens(text: str) -> Iterator[re.Match[str]]:
    """The comments and literals of Rust code in order, as matches with the groups `comment` and
    `string`."""
    return _RUST_TOKEN.finditer(text)


def rust_strings(text: str) -> list[str]:
    """The string literals of Rust code, in order, comments left out."""
    literals = [token["string"] for token in _RUST_TOKEN.finditer(text) if token["string"]]
    return [literal.lstrip("br#").rstrip("#")[1:-1] for literal in literals]


def cycles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The groups of nodes that reach one another (Tarjan's strongly connected components of two
    nodes or more)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for target in edges.get(node, ()):
            if target not in order:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], order[target])
        if low[node] == order[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                groups.append(sorted(group))

    for node in edges:
        if node not in order:
            visit(node)
    return sorted(groups)


def climbs(edges: Mapping[str, Iterable[str]], layers: Iterable[Iterable[str]]) -> list[str]:
    """Uses of a higher layer by a lower one, and nodes without a layer. The lowest layer comes
    first."""
    height = {name: level for level, layer in enumerate(layers) for name in layer}
    nodes = sorted({*edges, *(target for targets in edges.values() for target in targets)})
    problems = [
        f"`{name}` is in no layer: give it a place in the list in this test" for name in nodes if name not in height
    ]
    for node, targets in sorted(edges.items()):
        up = sorted(t for t in targets if t in height and node in height and height[t] > height[node])
        problems += [f"`{node}` uses `{target}`, which is above it" for target in up]
    return problems


def stale(edges: Mapping[str, Iterable[str]], layers: Iterable[Iterable[str]]) -> list[str]:
    """Names in layers that aren't nodes."""
    return [
        f"`{name}` has a layer and is no module: take it out" for layer in layers for name in layer if name not in edges
    ]
