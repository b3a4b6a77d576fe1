"""What the package says of itself agrees with what it is built from and with what ran: versions,
Pythons, bounds, licences.
"""

from __future__ import annotations

import platform
import re
import tomllib
from typing import Any

import pytest

from structure import repo

versions = repo.packaging_script("run_versions")


def toml(path: str) -> dict[str, Any]:
    return tomllib.loads((repo.ROOT / path).read_text())


PROJECT = toml("pyproject.toml")["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
# A requirement as pyproject.toml writes it: a name, then bounds.
REQUIREMENT = re.compile(r"([\w-]+)(>=[\d.]+)(,<[\d.]+)?")


def pythons(classifiers: list[str]) -> set[str]:
    """The versions of Python that classifiers name."""
    return {match[1] for text in classifiers if (match := re.search(r"Python :: (3\.\d+)$", text))}


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def within(version: str, requirement: str) -> bool:
    """Whether a version is within a requirement's bounds."""
    match = REQUIREMENT.fullmatch(requirement)
    assert match, requirement
    upper = match[3]
    return numbers(version) >= numbers(match[2][2:]) and (upper is None or numbers(version) < numbers(upper[2:]))


def ran() -> list[dict[str, str]]:
    """The combinations that docs/versions.md lists."""
    return list(versions.recorded((repo.ROOT / "docs/versions.md").read_text()))


def test_the_changelog_has_the_version() -> None:
    version = toml("Cargo.toml")["workspace"]["package"]["version"]
    heads = re.findall(r"^## (.*)$", (repo.ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heads[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d{{2}}-\d{{2}}", heads[1])


def test_classifiers_are_what_ran() -> None:
    # CI runs `.ci/run` with this interpreter: it is the one of the checkout's environment.
    assert "make" in (repo.ROOT / ".ci/run").read_text()
    mine = ".".join(platform.python_version_tuple()[:2])
    assert pythons(PROJECT["classifiers"]) == {row["Python"].rpartition(".")[0] for row in ran()}
    assert mine in pythons(PROJECT["classifiers"])


def test_the_lowest_python_is_the_same_everywhere() -> None:
    lowest = min(pythons(PROJECT["classifiers"]), key=numbers)
    short = lowest.replace(".", "")
    assert PROJECT["requires-python"] == f">={lowest}"
    assert f"abi3-py{short}" in toml("Cargo.toml")["workspace"]["dependencies"]["pyo3"]["features"]
    tools = toml("pyproject.toml")["tool"]
    assert tools["ruff"]["target-version"] == f"py{short}"
    assert tools["mypy"]["python_version"] == lowest


def test_every_extra_has_bounds_and_belongs_to_all() -> None:
    for extra, requirements in EXTRAS.items():
        if extra != "all":
            assert [text for text in requirements if REQUIREMENT.fullmatch(text) is None] == [], extra
    [everything] = EXTRAS["all"]
    assert everything == f"deltaplane[{','.join(extra for extra in EXTRAS if extra != 'all')}]"


def test_spark_keeps_pandas_3_out() -> None:
    [pandas] = [text for text in EXTRAS["spark"] if text.startswith("pandas")]
    assert within("2.3.3", pandas)
    assert not within("3.0.0", pandas)
    assert all(row["pandas"].startswith("2.") for row in ran() if row["pyspark"] != "–")


def test_lower_bounds_ran() -> None:
    """A bound that nothing ran with is a guess. `make test-sparks` runs old versions of PySpark."""
    rows = [row for row in ran() if row["chosen"] == "lowest"]
    assert rows
    for text in [*PROJECT["dependencies"], *(text for extra in versions.EXTRAS for text in EXTRAS[extra])]:
        match = REQUIREMENT.fullmatch(text)
        assert match
        for row in rows:
            if match[1] in versions.SHOWN:
                bound, version = numbers(match[2][2:]), numbers(row[match[1]])
                assert version[: len(bound)] == bound, text
                assert not any(version[len(bound) :]), text


def test_the_lowest_versions_are_tested() -> None:
    """`make test-lowest` installs each lower bound."""
    text = (repo.ROOT / "requirements/lowest.in").read_text()
    pins = {name: numbers(pin) for name, pin in re.findall(r"^([\w-]+)==([\d.]+)$", text, re.MULTILINE)}
    requirements = [*PROJECT["dependencies"], *(text for extra in EXTRAS if extra != "all" for text in EXTRAS[extra])]
    for requirement in requirements:
        match = REQUIREMENT.fullmatch(requirement)
        assert match
        # These two run with the versions that lowest.in names beside the reasons.
        if match[1] not in ("pyspark", "botocore"):
            bound = numbers(match[2][2:])
            assert pins[match[1]][: len(bound)] == bound, requirement
            assert not any(pins[match[1]][len(bound) :]), requirement


def test_tested_versions_are_within_the_bounds() -> None:
    locked = dict(re.findall(r"^([\w.-]+)==([\w.]+)", (repo.ROOT / "requirements/dev.lock").read_text(), re.MULTILINE))
    requirements = [*PROJECT["dependencies"], *(text for extra in EXTRAS if extra != "all" for text in EXTRAS[extra])]
    outside = [text for text in requirements if not within(locked.get(text.partition(">")[0], "0"), text)]
    assert outside == []


def test_both_environments_have_one_maturin() -> None:
    def maturin(lock: str) -> list[str]:
        return re.findall(r"^maturin(?:\[\w+\])?==(\S+)", (repo.ROOT / lock).read_text(), re.MULTILINE)

    assert maturin("requirements/packaging.lock") == maturin("requirements/dev.lock") != []


def test_licences_are_judged_for_platforms_that_are_listed() -> None:
    targets = repo.packaging_script("third_party").TARGETS
    assert set(toml("deny.toml")["graph"]["targets"]) <= set(targets)


def test_what_the_claim_to_need_no_lock_rests_on() -> None:
    """Rust's compiler checks frozen classes for use by several threads; docs/adr/0069-wheels.md has
    the rest of the audit."""
    assert any("Free Threading" in text for text in PROJECT["classifiers"])
    sources = {path: path.read_text() for path in (repo.ROOT / "rust/python/src").rglob("*.rs")}
    modules = [text for source in sources.values() for text in re.findall(r"#\[pyo3::pymodule(.*?)\]", source)]
    assert modules == ["(gil_used = false)"]
    classes = [text for source in sources.values() for text in re.findall(r"#\[pyclass(.*?)\]", source)]
    assert len(classes) > 10
    assert [text for text in classes if "frozen" not in text] == []
    assert [str(path) for path, text in sources.items() if re.search(r"static mut|unsafe impl", text)] == []


def test_the_profile_of_wheels_names_crates_that_exist() -> None:
    packages = {package["name"] for package in toml("Cargo.lock")["package"]}
    assert set(toml("Cargo.toml")["profile"]["wheel"]["package"]) - packages == set()


# --- the checks can fail ---


@pytest.mark.parametrize(
    ("version", "requirement", "is_within"),
    [
        ("18.0", "pyarrow>=18", True),
        ("17.9", "pyarrow>=18", False),
        ("3.0.0", "pandas>=2.2,<3", False),
        ("2.10", "pandas>=2.2,<3", True),
    ],
)
def test_bounds_are_read(version: str, requirement: str, is_within: bool) -> None:
    assert within(version, requirement) is is_within


def test_pythons_are_read() -> None:
    assert pythons(["Programming Language :: Python :: 3", "Programming Language :: Python :: 3.10"]) == {"3.10"}


def test_a_page_of_versions_is_read_again() -> None:
    row = dict.fromkeys(versions.COLUMNS, "1.2")
    assert versions.recorded(versions.page([row])) == [row]
