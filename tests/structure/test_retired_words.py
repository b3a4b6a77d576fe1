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
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

import pytest

from structure import repo

LIST = "tests/structure/retired_words.toml"

_WORD = re.compile(r"[A-Za-z_]\w*")
# A name after a dot or two colons is a member's; one before `(`, `!` or two colons is a function's,
# a macro's or a module's.
_RUST_LOCAL = re.compile(r"(?:(?<=\.\.)|(?<![\w.:'])|(?<=[^:]:))(?!fn\b)(?<!fn )([a-z_]\w*)\b(?!\s*(?:::|\(|!(?!=)))")


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


def rust_local_names(text: str) -> set[str]:
    """The names that Rust code uses for variables, parameters and fields: words that no `fn`,
    path or macro is called by. `of` in `Node::of(tree)` and in `node.of(tree)` isn't among them,
    and `tree` is."""
    return set(_RUST_LOCAL.findall(repo.rust_code(text)))


def local_problems(texts: Mapping[str, str], rules: Mapping[str, Any]) -> list[str]:
    """Names of `[local]` that a function binds in one of its rooms, a folder or a file, without an
    exception; and exceptions without a use or a reason."""
    instead = rules["instead"]
    rooms = {room: [path for path in texts if path.startswith(room)] for room in rules["rooms"]}
    uses = {
        (path, name)
        for path in {*chain(*rooms.values())}
        for name in local_names_of(path, texts[path]) & instead.keys()
    }
    allowed = {(e["path"], e["local"]): e.get("reason", "") for e in rules.get("exception", [])}
    return (
        [f"{room}: no such room" for room, paths in rooms.items() if not paths]
        + [
            f"{path}: a local or parameter `{name}` is retired: use {instead[name]}"
            for path, name in sorted(uses - allowed.keys())
        ]
        + [f"{path}: the exception for `{name}` is no longer needed" for path, name in sorted(allowed.keys() - uses)]
        + [f"{path}: the exception for `{name}` gives no reason" for (path, name), why in allowed.items() if not why]
    )


def local_names_of(path: str, text: str) -> set[str]:
    return rust_local_names(text) if path.endswith(".rs") else local_names(text)


def uses(texts: Mapping[str, str], retired: Iterable[Mapping[str, str]]) -> dict[tuple[str, str, str], str]:
    """The replacement, by kind (`identifier` or `file`), retired name and path of each use."""
    words = {kind: {r[kind]: r["instead"] for r in retired if kind in r} for kind in ("identifier", "file")}
    hits = {}
    for path, text in texts.items():
        stem = PurePosixPath(path).stem.removeprefix("test_").removeprefix("bench_")
        if stem in words["file"]:
            hits["file", stem, path] = words["file"][stem]
        names = python_identifiers(text) if path.endswith(".py") else identifiers(text)
        for name in names & words["identifier"].keys():
            hits["identifier", name, path] = words["identifier"][name]
    return hits


def problems(texts: Mapping[str, str], words: Mapping[str, Any]) -> list[str]:
    """Uses without an exception, exceptions without a use, and exceptions without a reason."""
    hits = uses(texts, words["retired"])
    allowed = {
        (kind, e[kind], e["path"]): e.get("reason", "")
        for e in words.get("exception", [])
        for kind in ("identifier", "file")
        if kind in e
    }
    out = [
        f"{path}: the {kind} `{name}` is retired: use {instead}"
        for (kind, name, path), instead in sorted(hits.items())
        if (kind, name, path) not in allowed
    ]
    out += [f"{path}: the exception for `{name}` is no longer needed" for _, name, path in sorted({*allowed} - {*hits})]
    out += [
        f"{path}: the exception for `{name}` gives no reason" for (_, name, path), why in allowed.items() if not why
    ]
    return out


def test_retired_words_stay_retired() -> None:
    findings = problems(repo.sources("rust/", ".rs"), listed())
    assert not findings, "\n".join(findings)


def test_retired_words_of_the_package_stay_retired() -> None:
    findings = problems(repo.sources("python/deltaplane/", ".py"), {"retired": listed()["retired_python"]})
    assert not findings, "\n".join(findings)


def test_retired_file_names_stay_retired_in_tests_and_benches() -> None:
    files = {path: "" for room in ("tests/", "benches/") for path in repo.sources(room, ".py")}
    words = listed()
    findings = problems(files, {"retired": [r for kind in ("retired", "retired_python") for r in words[kind]]})
    assert not findings, "\n".join(findings)
    wrong = problems({"tests/test_near.py": ""}, WORDS)
    assert wrong == ["tests/test_near.py: the file `near` is retired: use probe"]


def test_locals_and_parameters_are_nouns() -> None:
    texts = repo.sources("python/deltaplane/", ".py")
    for room in ("tests/", "benches/", "docs/", "examples/", "packaging/"):
        texts |= repo.sources(room, ".py")
    errors = local_problems(texts, listed()["local"])
    assert not errors, "\n".join(errors)


def test_locals_and_parameters_of_rust_are_nouns() -> None:
    errors = local_problems(repo.sources("rust/", ".rs"), listed()["local_rust"])
    assert not errors, "\n".join(errors)


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


def test_an_exception_for_a_local_needs_a_use_and_a_reason() -> None:
    exception = {"local": "told", "path": "a/b.py", "reason": "a protocol name"}
    rules = {"rooms": ["a/"], "instead": {"told": "counts"}, "exception": [exception]}
    assert local_problems({"a/b.py": "told = 1"}, rules) == []
    assert local_problems({"a/b.py": ""}, rules) == ["a/b.py: the exception for `told` is no longer needed"]
    unreasoned = {**rules, "exception": [{**exception, "reason": ""}]}
    assert local_problems({"a/b.py": "told = 1"}, unreasoned) == ["a/b.py: the exception for `told` gives no reason"]


def test_a_retired_local_of_rust_is_seen() -> None:
    rules = {"rooms": ["a/"], "instead": {"of": "data_type", "told": "counts"}}
    lines = {
        "let": "let told = 1;",
        "pattern": "let (a, told) = b();",
        "match": "match a { Some(told) => 1, None => 2 }",
        "parameter": "fn f(told: u8) {}",
        "closure": "a.map(|told| 1);",
        "field": "struct A { told: u8 }",
        "range": "a[..told]",
    }
    for kind, line in lines.items():
        seen = local_problems({f"a/{kind}.rs": line}, rules)
        assert seen == [f"a/{kind}.rs: a local or parameter `told` is retired: use counts"], kind
    assert (
        local_problems({"a/b.rs": 'fn of(a: u8) { A::of(a); b.of(a); c.told; of(a); told::d(); "told" }'}, rules) == []
    )
