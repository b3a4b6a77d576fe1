"""The forge's workflows name files, profiles and actions that exist, and say that they are
untried."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml

from structure import repo

WORKFLOWS = [name for name in repo.files() if name.startswith(".github/workflows/")]
FORMS = [name for name in repo.files() if name.startswith(".github/ISSUE_TEMPLATE/")]


def read(path: str) -> dict[Any, Any]:
    loaded = yaml.safe_load((repo.ROOT / path).read_text())
    assert isinstance(loaded, dict)
    return loaded


def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def missing_files(text: str, files: tuple[str, ...]) -> list[str]:
    """The files of the checkout that commands name and that don't exist."""
    names = re.findall(r"(?<![\w./-])(?:packaging|requirements|\.ci)/[\w./-]*\w", text)
    return sorted({name for name in names if name not in files})


@pytest.mark.parametrize("path", WORKFLOWS)
def test_a_workflow_is_honest_and_bounded(path: str) -> None:
    text, workflow = (repo.ROOT / path).read_text(), read(path)
    assert text.startswith("# Untried")
    # YAML reads the key `on` as true.
    assert workflow[True]
    assert workflow["permissions"] == {"contents": "read"}
    assert all("runs-on" in job for job in workflow["jobs"].values())
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step)
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@(?:v\d+|release/v\d+)", step.get("uses", "a/b@v1"))
    assert missing_files(text, repo.files()) == []


def test_the_release_publishes_without_a_token_and_with_provenance() -> None:
    workflow = read(".github/workflows/release.yml")
    publish = workflow["jobs"]["publish"]
    assert set(publish["needs"]) == set(workflow["jobs"]) - {"publish"}
    assert publish["if"].startswith("startsWith(github.ref, 'refs/tags/v")
    assert publish["permissions"]["id-token"] == "write"
    assert any("attest" in step["uses"] for step in publish["steps"])
    assert "secrets." not in (repo.ROOT / ".github/workflows/release.yml").read_text()


def test_the_release_builds_with_the_profile_of_wheels() -> None:
    profiles = tomllib.loads((repo.ROOT / "Cargo.toml").read_text())["profile"]
    commands = [
        step["with"]["args"] for step in steps(read(".github/workflows/release.yml")) if "args" in step.get("with", {})
    ]
    assert len(commands) == 2
    for command in commands:
        match = re.search(r"--profile (\w+)", command)
        assert match is not None
        assert match[1] in profiles


@pytest.mark.parametrize("path", FORMS)
def test_a_form_is_read(path: str) -> None:
    form = read(path)
    if not path.endswith("config.yml"):
        assert {"name", "description", "body"} <= set(form)
        assert any(field.get("validations", {}).get("required") for field in form["body"])


# --- the checks can fail ---


def test_a_missing_file_is_seen() -> None:
    text = "run: python packaging/gone.py && cat requirements/dev.lock ./dist/x"
    assert missing_files(text, ("requirements/dev.lock",)) == ["packaging/gone.py"]
