"""Libraries that import deltalake read and write tables on deltaplane: every case of
`ecosystem/scripts`, in the library's own environment."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ecosystem import environments, libraries, tables
from ecosystem.libraries import LIBRARIES, Library

RECORDS = libraries.ROOT / "docs" / "ecosystem"
# Environments of scripts in `examples`, which tests/examples runs.
EXAMPLES = ["mlflow"]
NAMES = [library.environment for library in LIBRARIES]


def cases_of(library: Library) -> dict[str, str | None]:
    """The names of a script's cases, and their limits, without running it."""
    text = (libraries.SCRIPTS / f"{library.script}.py").read_text()
    matches = re.findall(r'^@case\("([^"]+)"(, limit=)?', text, re.MULTILINE)
    assert matches, library.script
    return {name: limit or None for name, limit in matches}


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Library], dict[str, Any]]]:
    """Runs a library when its first case is asked for."""
    results: dict[str, dict[str, Any]] = {}
    scratch = tmp_path_factory.mktemp("ecosystem")
    with libraries.prepared(scratch) as tables_file:

        def of(library: Library) -> dict[str, Any]:
            if library.name not in results:
                results[library.name] = libraries.run(library, tables_file, scratch / f"{library.script}.json")
            return results[library.name]

        yield of


ALL = [
    pytest.param(library, name, limit, id=f"{library.environment}-{name}")
    for library in LIBRARIES
    if not library.heavy
    for name, limit in cases_of(library).items()
]


@pytest.mark.slow
@pytest.mark.parametrize(("library", "name", "limit"), ALL)
def test_case(library: Library, name: str, limit: str | None, outcomes: Callable[[Library], dict[str, Any]]) -> None:
    outcome = outcomes(library)["outcomes"][name]
    if limit is None:
        assert outcome == "works"
    else:
        assert outcome != "works", "the library can do this now: remove the limit, and run `make ecosystem`"


@pytest.mark.parametrize("library", LIBRARIES, ids=NAMES)
def test_the_record_is_of_these_cases_and_versions(library: Library) -> None:
    record = json.loads((RECORDS / f"{library.environment}.json").read_text())
    assert record["versions"] == library.versions()
    expected = {name: limit is None for name, limit in cases_of(library).items()}
    assert {name: case["deltaplane"] == "works" for name, case in record["cases"].items()} == expected
    assert {name: "limit" not in case for name, case in record["cases"].items()} == expected


def test_every_environment_has_a_user() -> None:
    assert sorted([*NAMES, *EXAMPLES, *libraries.OTHERS]) == environments.libraries()


def test_the_page_is_up_to_date() -> None:
    command = [sys.executable, str(libraries.ROOT / "docs" / "generate_ecosystem.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_rows_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(libraries.SCRIPTS))
    import cases

    monkeypatch.setattr(cases, "CASES", {})
    made = tables.make(str(tmp_path / "tables"))

    @cases.case("right")
    def right(tables: dict[str, Any], new: Path) -> None:
        cases.same(list(reversed(tables["evolved"]["rows"])), tables["evolved"]["rows"])

    @cases.case("wrong")
    def wrong(tables: dict[str, Any], new: Path) -> None:
        cases.same(tables["evolved"]["rows"][1:], tables["evolved"]["rows"])

    @cases.case("refused")
    def refused(tables: dict[str, Any], new: Path) -> None:
        raise ValueError("no\nmore")

    (tmp_path / "scratch").mkdir()
    result = cases.run(made, tmp_path / "scratch")
    assert result == {"right": "works", "wrong": "wrong rows", "refused": "ValueError: no"}
