"""Checks the documentation: files and names in ARCHITECTURE.md, docs, the decision records and
tests/README.md exist, ARCHITECTURE.md fits ten kilobytes, and the decision records are numbered
without gaps and listed in their index.
"""

from __future__ import annotations

import fnmatch
import functools
import posixpath
import re
from collections.abc import Collection
from pathlib import PurePosixPath

import pytest

from structure import repo

ARCHITECTURE_BYTES = 10 * 1024
PAPERS = [
    *("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "RELEASING.md", "SECURITY.md", "tests/README.md"),
    *(name for name in repo.files() if re.fullmatch(r"(?:docs/(?:[\w-]+/)*|examples/(?:\w+/)?)[\w-]+\.md", name)),
]
RECORD = re.compile(r"docs/adr/(\d{4})-[a-z0-9-]+\.md")
SECTIONS = ["## Context", "## Choice", "## Price", "## Where it is held"]

_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
# A file or folder from the root of the checkout. A path with `<name>` in it matches many.
_PATH = re.compile(
    r"(?<![\w./-])(?:rust|python|tests|docs|benches|examples|packaging|requirements|\.ci|\.github)/[\w./*<>-]*\w"
)
_BARE_FILE = re.compile(r"`([\w-]+\.(?:rs|py|pyi|md|toml))`")
_MODULE = re.compile(r"`(deltaplane(?:\.[A-Za-z_]\w*)+)[`(]")
# Names of tests: those of pytest, and Rust tests in snake case.
_TEST = re.compile(r"`(test_\w+|[a-z]+(?:_[a-z]+){7,})`")
_MAKE = re.compile(r"(?<![\w-])make ([a-z][a-z-]*)[`\s]*(?=[`|]|$|PYTEST)", re.MULTILINE)


def known_paths(files: Collection[str]) -> set[str]:
    """Every file and every folder of the project."""
    return {str(p) for name in files for p in (PurePosixPath(name), *PurePosixPath(name).parents)}


def slugs(markdown: str) -> set[str]:
    """The anchors of a page's headings."""
    heads = re.findall(r"^#+ (.*)$", _FENCED.sub("", markdown), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def broken_links(paper: str, text: str, files: Collection[str], texts: dict[str, str]) -> list[str]:
    """The links within the project without a target; `texts` has the pages whose anchors are
    checked."""
    known, broken = known_paths(files), []
    for link in _LINK.findall(_FENCED.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(paper), path)) if path else paper
        page = text if target == paper else texts.get(target)
        if target not in known or (anchor and page is not None and anchor not in slugs(page)):
            broken.append(link)
    return broken


def missing_paths(text: str, files: Collection[str]) -> list[str]:
    """The files and folders that a page names and that don't exist."""
    known, prose = known_paths(files), _FENCED.sub("", text)
    names = {posixpath.basename(name) for name in files}
    paths = [path for path in _PATH.findall(prose) if "<" not in path]
    paths_missing = {path for path in paths if not any(fnmatch.fnmatch(name, path) for name in known)}
    return sorted(paths_missing | {name for name in _BARE_FILE.findall(prose) if name not in names})


def missing_modules(text: str, sources: dict[str, str], core: str = "") -> list[str]:
    """The dotted names below `deltaplane` that are neither a module, nor a name in one, nor a
    string in the code.

    `sources` has the files of the package by their paths below its folder, `core` the text of the
    Rust crates.
    """
    strings = (core, *sources.values())
    missing = []
    for dotted in _MODULE.findall(_FENCED.sub("", text)):
        parts, depth = dotted.split(".")[1:], 0
        while depth < len(parts) and any(p.startswith(_module(parts[: depth + 1])) for p in sources):
            depth += 1
        homes = [module for module in sources if module.startswith(_homes(parts[:depth]))]
        is_name = depth == len(parts) or any(re.search(rf"\b{parts[depth]}\b", sources[home]) for home in homes)
        if not is_name and not any(f'"{dotted}"' in source for source in strings):
            missing.append(dotted)
    return missing


def missing_tests(text: str, code: str) -> list[str]:
    """The tests that a page names and that no code defines."""
    return [name for name in _TEST.findall(text) if not re.search(rf"\b(?:def|fn) {name}\(", code)]


def _module(parts: list[str]) -> tuple[str, ...]:
    path = "/".join(parts)
    return (f"{path}.py", f"{path}/")


def _homes(parts: list[str]) -> tuple[str, ...]:
    """Files that may define a module's name: its own file, or its folder's head."""
    path = "/".join(parts)
    return (f"{path}.py", f"{path}/__init__.py") if parts else ("__init__.py",)


def wrong_records(texts: dict[str, str], index: str) -> list[str]:
    """The problems of the decision records and of their index."""
    numbers = [int(match[1]) for path in sorted(texts) if (match := RECORD.fullmatch(path))]
    wrong = [] if numbers == list(range(1, len(texts) + 1)) else [f"the numbers are {numbers}"]
    for number, (path, text) in enumerate(sorted(texts.items()), 1):
        title = text.partition("\n")[0]
        if not title.startswith(f"# {number}. ") or not re.search(r"^Status: \w+", text, re.MULTILINE):
            wrong.append(f"{path} must begin with `# {number}. Title` and have a status")
        if [line for line in text.splitlines() if line.startswith("## ")] != SECTIONS:
            wrong.append(f"{path} must have the sections {SECTIONS}")
        row = f"| {number} | [{title.partition('. ')[2]}]({posixpath.basename(path)}) |"
        if row not in index.splitlines():
            wrong.append(f"docs/adr/README.md must have the line `{row}`")
    return wrong


@functools.cache
def package() -> dict[str, str]:
    prefix = "python/deltaplane/"
    return {path.removeprefix(prefix): text for path, text in repo.sources(prefix, ".py", ".pyi", ".java").items()}


@functools.cache
def core() -> str:
    return "\n".join(repo.sources("rust/", ".rs").values())


@functools.cache
def code_of_tests() -> str:
    return "\n".join(repo.sources("tests/", ".py").values())


@functools.cache
def pages() -> dict[str, str]:
    return {name: (repo.ROOT / name).read_text() for name in repo.files() if name.endswith(".md")}


def test_architecture_is_short() -> None:
    assert len((repo.ROOT / "ARCHITECTURE.md").read_bytes()) <= ARCHITECTURE_BYTES, "write a record in docs/adr instead"


@pytest.mark.parametrize("paper", PAPERS)
def test_what_a_paper_names_exists(paper: str) -> None:
    text, files = (repo.ROOT / paper).read_text(), repo.files()
    assert broken_links(paper, text, files, pages()) == []
    assert missing_paths(text, files) == []
    assert missing_modules(text, package(), core()) == []
    assert missing_tests(text, code_of_tests() + core()) == []
    targets = set(re.findall(r"^([a-z-]+):", (repo.ROOT / "Makefile").read_text(), re.MULTILINE))
    assert [name for name in _MAKE.findall(text) if name not in targets] == []


def test_decision_records_are_numbered_and_listed() -> None:
    texts = {path: (repo.ROOT / path).read_text() for path in repo.files() if RECORD.fullmatch(path)}
    assert len(texts) >= 40
    strays = [path for path in repo.files() if path.startswith("docs/adr/") and path not in texts]
    assert strays == ["docs/adr/README.md"]
    assert wrong_records(texts, (repo.ROOT / "docs/adr/README.md").read_text()) == []


# --- the checks can fail ---

FILES = ("docs/a.md", "docs/adr/0001-x.md", "python/deltaplane/table.py", "rust/log/src/lib.rs", "Makefile")


def test_a_broken_link_is_seen() -> None:
    page = "# The A page\n[one](a.md) [two](../Makefile) [three](b.md) [`four`](adr) [five](https://x.y) [six](#the-a-page)"
    assert broken_links("docs/a.md", page, FILES, {}) == ["b.md"]
    assert broken_links("docs/a.md", "[x](#gone) [y](a.md#gone) [z](../rust/store)", FILES, {}) == [
        "#gone",
        "a.md#gone",
        "../rust/store",
    ]
    assert broken_links("README.md", "[x](docs/a.md#b) [y](docs/a.md#c)", FILES, {"docs/a.md": "## B"}) == [
        "docs/a.md#c"
    ]


def test_a_missing_path_is_seen() -> None:
    text = "`rust/log/src`, rust/log/src/lib.rs, `rust/log/src/<name>.rs`, `docs/*.md`, `table.py` and my/docs/x"
    assert missing_paths(text, FILES) == []
    assert missing_paths("rust/store, `gone.rs` and `docs/*.json`.\n```\ntests/in/code\n```", FILES) == [
        "docs/*.json",
        "gone.rs",
        "rust/store",
    ]


def test_a_missing_module_is_seen() -> None:
    sources = {
        "__init__.py": "from .table import DeltaTable",
        "table.py": "class DeltaTable: ...",
        "spark/__init__.py": "",
    }
    good = "`deltaplane.table.DeltaTable`, `deltaplane.DeltaTable(x)`, `deltaplane.spark` and `deltaplane`"
    assert missing_modules(good, sources) == []
    assert missing_modules("`deltaplane.chair`, `deltaplane.table.Leg` and `deltaplane.spark.read`", sources) == [
        "deltaplane.chair",
        "deltaplane.table.Leg",
        "deltaplane.spark.read",
    ]
    assert missing_modules("`deltaplane.key`", sources, 'const KEY: &str = "deltaplane.key";') == []


def test_a_missing_test_is_seen() -> None:
    text = "`test_one`, `two_is_a_sentence_of_more_than_seven_words` and `a_short_name`"
    assert (
        missing_tests(text, "def test_one(path: Path) -> None:\nfn two_is_a_sentence_of_more_than_seven_words() {")
        == []
    )
    assert missing_tests(text, "test_one") == ["test_one", "two_is_a_sentence_of_more_than_seven_words"]


def test_a_missing_target_of_make_is_seen() -> None:
    assert _MAKE.findall("`make paint` and\n    make dry\n| `make fmt` |") == ["paint", "dry", "fmt"]
    assert _MAKE.findall("these make tables small") == []


def test_wrong_records_are_seen() -> None:
    def record(number: int) -> str:
        return "\n".join([f"# {number}. Title", "Status: accepted", *SECTIONS])

    first, three = "docs/adr/0001-a.md", "docs/adr/0003-c.md"
    row = "| 1 | [Title](0001-a.md) |"
    assert wrong_records({first: record(1)}, row) == []
    assert "the numbers are [1, 3]" in wrong_records({first: record(1), three: record(3)}, row)
    assert len(wrong_records({first: record(2)}, row)) == 1
    assert len(wrong_records({first: record(1).replace("## Price\n", "")}, row)) == 1
    assert wrong_records({first: record(1)}, "") == [f"docs/adr/README.md must have the line `{row}`"]
