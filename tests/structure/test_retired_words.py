"""Keeps retired names out: `retired_words.toml` lists identifiers and file names that the code once
had.

Uses `repo`'s tokens of Rust; the list names the replacements.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

import pytest

from structure import repo

LIST = "tests/structure/retired_words.toml"

_WORD = re.compile(r"[A-Za-z_]\w*")


def listed() -> dict[str, Any]:
    return tomllib.loads((repo.ROOT / LIST).read_text())


def identifiers(text: str) -> set[str]:
    """The names in Rust code, including local variables, without comments and strings."""
    return set(_WORD.findall(repo.rust_code(text)))


def python_identifiers(text: str) -> set[str]:
    """The names in Python code, without comments and strings."""
    return {
        token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.NAME
    }


def local_names(text: str) -> set[str]:
    """The names that Python functions bind: parameters, variables and functions in functions. A
    method or a function of a module isn't among them: `Snapshot.of` may be right where `of` alone
    says nothing."""
    tree = ast.parse(text)
    named = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    named |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    named |= {
        node.name or "" for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar)
    }
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return named | {inner.name for outer in functions for inner in outer.body if isinstance(inner, ast.FunctionDef)}


def local_problems(texts: Mapping[str, str], rules: Mapping[str, Any]) -> list[str]:
    """Names of `[local]` that a function binds in one of its rooms, a folder or a file."""
    instead = rules["instead"]
    rooms = {room: [path for path in texts if path.startswith(room)] for room in rules["rooms"]}
    return [f"{room}: no such room" for room, paths in rooms.items() if not paths] + [
        f"{path}: a local or parameter `{name}` is retired: use {instead[name]}"
        for paths in rooms.values()
        for path in paths
        for name in sorted(local_names(texts[path]) & instead.keys())
    ]


def uses(texts: Mapping[str, str], retired: Iterable[Mapping[str, str]]) -> dict[tuple[str, str, str], str]:
    """The replacement, by kind (`identifier` or `file`), retired name and path of each use."""
    words = {kind: {r[kind]: r["instead"] for r in retired if kind in r} for kind in ("identifier", "file")}
    found = {}
    for path, text in texts.items():
        stem = PurePosixPath(path).stem
        if stem in words["file"]:
            found["file", stem, path] = words["file"][stem]
        names = python_identifiers(text) if path.endswith(".py") else identifiers(text)
        for name in names & words["identifier"].keys():
            found["identifier", name, path] = words["identifier"][name]
    return found


def problems(texts: Mapping[str, str], words: Mapping[str, Any]) -> list[str]:
    """Uses without an exception, exceptions without a use, and exceptions without a reason."""
    found = uses(texts, words["retired"])
    allowed = {
        (kind, e[kind], e["path"]): e.get("reason", "")
        for e in words.get("exception", [])
        for kind in ("identifier", "file")
        if kind in e
    }
    out = [
        f"{path}: the {kind} `{name}` is retired: use {instead}"
        for (kind, name, path), instead in sorted(found.items())
        if (kind, name, path) not in allowed
    ]
    out += [
        f"{path}: the exception for `{name}` is no longer needed" for _, name, path in sorted({*allowed} - {*found})
    ]
    out += [
        f"{path}: the exception for `{name}` gives no reason" for (_, name, path), why in allowed.items() if not why
    ]
    return out


def test_retired_words_stay_retired() -> None:
    found = problems(repo.sources("rust/", ".rs"), listed())
    assert not found, "\n".join(found)


def test_retired_words_of_the_package_stay_retired() -> None:
    found = problems(repo.sources("python/deltaplane/", ".py"), {"retired": listed()["retired_python"]})
    assert not found, "\n".join(found)


def test_locals_and_parameters_are_nouns() -> None:
    found = local_problems(repo.sources("python/deltaplane/", ".py"), listed()["local"])
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("kind", "least"), [("retired", 50), ("retired_python", 25)])
def test_each_retired_word_says_what_to_use(kind: str, least: int) -> None:
    retired = listed()[kind]
    assert len(retired) > least
    assert [r for r in retired if not r.get("instead") or ("identifier" in r) == ("file" in r)] == []
    names = [(kind, r[kind]) for r in retired for kind in ("identifier", "file") if kind in r]
    assert len(names) == len(set(names))


# --- the checks can fail ---

WORDS = {"retired": [{"identifier": "told", "instead": "stats"}, {"file": "near", "instead": "probe"}]}


def test_a_retired_identifier_and_file_name_are_seen() -> None:
    texts = {
        "rust/a/src/b.rs": "fn f() { let told = 1; }",
        "rust/a/src/near.rs": "",
        "rust/a/src/c.rs": "let told_by = 2;",
    }
    assert problems(texts, WORDS) == [
        "rust/a/src/near.rs: the file `near` is retired: use probe",
        "rust/a/src/b.rs: the identifier `told` is retired: use stats",
    ]


def test_words_in_comments_and_strings_are_no_identifiers() -> None:
    assert problems({"rust/a/src/b.rs": '// told\nconst A: &str = "told";\n/* told */'}, WORDS) == []


def test_an_exception_needs_a_use_and_a_reason() -> None:
    exception = {"identifier": "told", "path": "b.rs", "reason": "a protocol name"}
    words = {**WORDS, "exception": [exception]}
    assert problems({"b.rs": "let told = 1;"}, words) == []
    assert problems({"b.rs": ""}, words) == ["b.rs: the exception for `told` is no longer needed"]
    unreasoned = {**WORDS, "exception": [{**exception, "reason": ""}]}
    assert problems({"b.rs": "let told = 1;"}, unreasoned) == ["b.rs: the exception for `told` gives no reason"]


def test_a_retired_word_in_python_is_seen() -> None:
    words = {"retired": [{"identifier": "told", "instead": "statistics"}, {"file": "care", "instead": "maintenance"}]}
    texts = {"a.py": "told = 1", "b/care.py": "x = 'told'  # told"}
    assert problems(texts, words) == [
        "b/care.py: the file `care` is retired: use maintenance",
        "a.py: the identifier `told` is retired: use statistics",
    ]


def test_a_retired_local_in_a_room_is_seen() -> None:
    rules = {"rooms": ["a/", "gone/"], "instead": {"of": "data_type", "told": "counts"}}
    texts = {
        "a/b.py": "def f(of):\n    def told(): ...\n    return [x for x in of]",
        "a/c.py": "def told(): ...\nclass A:\n    def of(self): ...",
        "a/d.py": "told = 1",
        "e.py": "of = 1",
    }
    assert local_problems(texts, rules) == [
        "gone/: no such room",
        "a/b.py: a local or parameter `of` is retired: use data_type",
        "a/b.py: a local or parameter `told` is retired: use counts",
        "a/d.py: a local or parameter `told` is retired: use counts",
    ]
