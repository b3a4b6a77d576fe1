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


def json_members(stub: str) -> set[str]:
    """The stub's functions, properties and parameters whose names say that they are JSON text."""
    members = set[str]()
    for node in ast.walk(ast.parse(stub)):
        if isinstance(node, ast.FunctionDef):
            names = [node.name, *(argument.arg for argument in [*node.args.args, *node.args.kwonlyargs])]
            members |= {f"{node.name}: {name}" for name in names if re.search(r"(^|_)json(_|$)", name)}
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


def test_the_stub_names_json_only_where_the_list_says_so() -> None:
    assert json_members((repo.ROOT / STUB).read_text()) == set(entries()["stub"])


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


def test_json_in_a_stub_is_found() -> None:
    stub = "def schema_json() -> str: ...\ndef f(a_json: str) -> str: ...\ndef to_jsonish(json_text: str) -> str: ...\n"
    assert json_members(stub) == {"schema_json: schema_json", "f: a_json", "to_jsonish: json_text"}
