"""Requests and results cross between Rust and Python as classes: JSON is parsed only if another
program wrote it."""

from __future__ import annotations

import ast
import re
import tomllib
from typing import Any

import pytest

from structure import repo

LIST = "tests/structure/json_readers.toml"
STUB = "python/deltaplane/_native.pyi"
RECORDS = "python/deltaplane/io/records/"

# Names of values that are JSON if they are text.
_JSON_NAME = re.compile(r"(^|_)(json($|_)|(schema(_string|_text)?|spec|request|offset|adds|actions|commit_info)$)")


def is_loads(node: ast.AST) -> bool:
    """Whether a node calls `json.loads`, or passes it as a function."""
    return isinstance(node, ast.Attribute) and node.attr == "loads" and getattr(node.value, "id", None) == "json"


def readers(text: str) -> int:
    """The number of calls in a module that parse JSON text."""
    return sum(map(is_loads, ast.walk(ast.parse(text))))


def nested(text: str) -> list[int]:
    """The lines on which one expression parses JSON within JSON."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and is_loads(node.func)]
    return [call.lineno for call in calls if any(is_loads(part) for a in call.args for part in ast.walk(a))]


def _has_text(annotation: ast.expr | None) -> bool:
    """Whether an annotation has the type `str` in it."""
    return annotation is not None and any(isinstance(n, ast.Name) and n.id == "str" for n in ast.walk(annotation))


def _texts(node: ast.stmt) -> list[tuple[str, str]]:
    """The text parameters and the text result of a function, or a text attribute: the member and
    the name of the text."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [(node.target.id, node.target.id)] if _has_text(node.annotation) else []
    if not isinstance(node, ast.FunctionDef):
        return []
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    names = [a.arg for a in arguments if _has_text(a.annotation)]
    return [(node.name, name) for name in [*names, *([node.name] if _has_text(node.returns) else [])]]


def json_members(stub: str) -> set[str]:
    """The functions, properties, attributes and methods that take or give text which is JSON: by a
    name, or since the documentation of the function or of its class mentions JSON."""
    members = set[str]()
    for scope in [ast.parse(stub), *(n for n in ast.parse(stub).body if isinstance(n, ast.ClassDef))]:
        owner = f"{scope.name}." if isinstance(scope, ast.ClassDef) else ""
        documented = bool(owner) and "JSON" in (ast.get_docstring(scope) or "")
        for node in scope.body:
            says_so = documented or (isinstance(node, ast.FunctionDef) and "JSON" in (ast.get_docstring(node) or ""))
            members |= {owner + member for member, name in _texts(node) if says_so or _JSON_NAME.search(name)}
    return members


def modules() -> dict[str, str]:
    package = "python/deltaplane/"
    return {path.removeprefix(package): text for path, text in repo.sources(package, ".py").items()}


def entries() -> dict[str, Any]:
    return tomllib.loads((repo.ROOT / LIST).read_text())


def allowed() -> dict[str, tuple[int, str]]:
    return {entry["file"]: (entry["calls"], entry["reason"]) for entry in entries()["readers"]}


def test_json_is_read_only_where_the_list_says_so() -> None:
    counted = {path: count for path, text in modules().items() if (count := readers(text))}
    listed = {path: calls for path, (calls, _) in allowed().items()}
    assert counted == listed, (
        f"{LIST} has the number of json.loads of each file; lower it, and raise it for no core's text"
    )


def test_every_entry_has_a_reason_of_its_kind() -> None:
    kinds = set(entries()["kinds"])
    assert not {path: reason for path, (_, reason) in allowed().items() if reason not in kinds}


def test_no_json_within_json_is_read_in_one_expression() -> None:
    hits = {path: lines for path, text in modules().items() if (lines := nested(text))}
    assert not hits, "parse the outer text into a class first"


def test_no_text_of_the_core_is_json_but_where_the_list_says_so() -> None:
    stubs = [(repo.ROOT / STUB).read_text(), *repo.sources(RECORDS, ".py").values()]
    members = set[str]().union(*map(json_members, stubs))
    assert members == set(entries()["texts"]), "pass a class: `TableSchema`, `TailOffset`, or one of `io.records`"
    assert all(len(reason) > 10 for reason in entries()["texts"].values())


# --- the checks can fail ---


@pytest.mark.parametrize(
    ("text", "count", "lines"),
    [
        ("import json\nx = json.loads(a)\n", 1, []),
        ("import json\nx = map(json.loads, texts)\n", 1, []),
        ("import json\n\nx = json.loads(json.loads(a)['schema'])\n", 2, [3]),
        ("import tomllib\nx = tomllib.loads(a)\n", 0, []),
    ],
)
def test_what_is_found(text: str, count: int, lines: list[int]) -> None:
    assert (readers(text), nested(text)) == (count, lines)


@pytest.mark.parametrize(
    ("stub", "members"),
    [
        ("def f(a_json: str) -> int: ...", {"f"}),
        ("def f(json_rows: list[str] | None) -> int: ...", {"f"}),
        ("def f(a_json: bytes, table: str) -> int: ...", set()),
        ("def schema() -> str: ...", {"schema"}),
        ("def schema() -> TableSchema: ...", set()),
        ("def f(schema_mode: str) -> str: ...", set()),
        ("def f(*, start_offset: str) -> int: ...", {"f"}),
        ('def f(rows: str) -> int:\n    """Rows as JSON."""', {"f"}),
        ("class A:\n    schema_string: str\n    name: str", {"A.schema_string"}),
        ("class A:\n    @property\n    def spec(self) -> dict[str, str]: ...", {"A.spec"}),
        ('class A:\n    """Its columns as JSON."""\n    columns: str\n    count: int', {"A.columns"}),
    ],
)
def test_json_text_in_a_stub_is_found(stub: str, members: set[str]) -> None:
    assert json_members(stub) == members
