"""Rules for every file: its size, its head, and names that are allowed in one place only."""

from __future__ import annotations

import ast
import json
import re
import tomllib
import warnings
from pathlib import PurePosixPath

import pytest

from structure import repo

# Lines from which a warning is shown, and maximum.
LOOK_AGAIN, HARD_LIMIT = 600, 1000
# A head names the file's responsibility and its limits, in few lines.
HEAD_LINES = 5

SOURCES = [
    n
    for n in repo.files()
    if n.endswith((".rs", ".py", ".pyi")) and n.startswith(("rust/", "python/", "tests/", "benches/", "packaging/"))
]

FEATURES_ROOM = "rust/protocol/src/features/"
# The names of protocol section 6. `domainMetadata` is missing on purpose: an action has the same
# name.
FEATURE_NAMES = set(
    """
    appendOnly invariants checkConstraints changeDataFeed generatedColumns columnMapping identityColumns
    allowColumnDefaults deletionVectors timestampNtz v2Checkpoint rowTracking clustering inCommitTimestamp
    vacuumProtocolCheck typeWidening typeWidening-preview variantType variantType-preview variantShredding
    variantShredding-preview icebergCompatV1 icebergCompatV2 icebergCompatV3 materializePartitionColumns
    checkpointProtection catalogManaged coordinatedCommits-preview catalogOwned-preview geospatial timestampNanos
    collations icebergWriterCompatV1
    """.split()
)
# Legitimate uses of a name outside of that room: path → names.
FEATURE_NAMES_ELSEWHERE: dict[str, set[str]] = {
    "rust/protocol/src/properties/known.rs": {"appendOnly"},  # the property delta.appendOnly
    "rust/protocol/src/schema.rs": {"timestampNtz"},  # a spelling of the type in schemas
    # what Unity's API requires of a table, as its server states it
    "rust/catalog/src/managed_features.rs": {
        *("appendOnly", "catalogManaged", "changeDataFeed", "checkConstraints", "clustering", "columnMapping"),
        *("deletionVectors", "domainMetadata", "generatedColumns", "identityColumns", "inCommitTimestamp"),
        *("invariants", "rowTracking", "v2Checkpoint", "vacuumProtocolCheck"),
    },
    # deltalake's own lists, which other libraries import
    "python/deltaplane/deltalake/_features.py": {
        *("appendOnly", "invariants", "timestampNtz", "variantType", "variantType-preview")
    },
}

SPARK_INTERNALS = "org.apache.spark.sql.execution"
# The callers of Spark's internals, the Java text for Spark's compiler, and names that differ
# between versions of Spark.
WITH_INTERNALS = {
    "python/deltaplane/spark/jvm/internals.py",
    "python/deltaplane/spark/jvm/java_sources.py",
    "python/deltaplane/spark/jvm/spark_versions.py",
}


def line_count(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


def head(path: str, text: str) -> list[str]:
    """The lines of a file's opening documentation; empty if it has none."""
    if path.endswith(".rs"):
        lines = text.removeprefix("#![no_main]\n").splitlines()
        return lines[: next((i for i, line in enumerate(lines) if not line.startswith("//!")), len(lines))]
    doc = ast.get_docstring(ast.parse(text))
    return [line for line in (doc or "").splitlines() if line.strip()]


def is_public_doc(path: str) -> bool:
    """Whether the head is a page for users, which may be longer."""
    return PurePosixPath(path).name in ("__init__.py", "_native.pyi", "lib.rs")


def feature_names(path: str, text: str) -> set[str]:
    """The feature names that occur as whole string literals in shipped code outside of their
    room."""
    if path.startswith(FEATURES_ROOM) or repo.is_rust_test(path):
        return set()
    if path.endswith(".rs"):
        literals = set(repo.rust_strings(repo.shipped_rust(text)))
    else:
        literals = {
            n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant) and isinstance(n.value, str)
        }
    return literals & FEATURE_NAMES - FEATURE_NAMES_ELSEWHERE.get(path, set())


def with_internals(texts: dict[str, str]) -> list[str]:
    return [path for path, text in texts.items() if SPARK_INTERNALS in text]


def licence_of(path: str, text: str) -> str | None:
    """The SPDX expression of a manifest."""
    if path.endswith(".json"):
        return json.loads(text).get("license")
    tables = tomllib.loads(text)
    if path == "Cargo.toml":
        return tables["workspace"]["package"].get("license")
    if path.endswith("Cargo.toml"):
        licence = tables["package"].get("license")
        return "Apache-2.0" if licence == {"workspace": True} else licence
    return tables["project"].get("license")


@pytest.mark.parametrize("path", SOURCES)
def test_no_file_is_too_long(path: str) -> None:
    lines = line_count((repo.ROOT / path).read_text())
    if lines > LOOK_AGAIN:
        warnings.warn(f"{path} has {lines} lines: look again whether it is still one idea", stacklevel=1)
    assert lines <= HARD_LIMIT


@pytest.mark.parametrize("path", SOURCES)
def test_every_file_says_what_it_owns(path: str) -> None:
    lines = head(path, (repo.ROOT / path).read_text())
    assert lines, "begin the file with what it owns and what it must not know"
    assert is_public_doc(path) or len(lines) <= HEAD_LINES


def test_feature_names_stand_in_their_room_only() -> None:
    shipped = {**repo.sources("python/deltaplane/", ".py")}
    shipped |= {
        path: text
        for path, text in repo.sources("rust/", ".rs").items()
        if "/src/" in path and "rust/testing/" not in path
    }
    names_by_path = {path: sorted(names) for path, text in shipped.items() if (names := feature_names(path, text))}
    assert names_by_path == {}, f"ask the feature instead of naming it, or put its code under {FEATURES_ROOM}"


def test_spark_internals_stand_in_their_modules() -> None:
    assert {*with_internals(repo.sources("python/deltaplane/", ".py"))} <= WITH_INTERNALS


def test_every_manifest_names_the_licence() -> None:
    manifests = [p for p in repo.files() if PurePosixPath(p).name in ("Cargo.toml", "pyproject.toml", "package.json")]
    assert "Cargo.toml" in manifests
    assert "pyproject.toml" in manifests
    assert {p: licence_of(p, (repo.ROOT / p).read_text()) for p in manifests} == dict.fromkeys(manifests, "Apache-2.0")
    assert "Apache License" in (repo.ROOT / "LICENSE").read_text()[:200]


# --- the checks can fail ---


def test_lines_are_counted_with_and_without_a_last_newline() -> None:
    assert [line_count(text) for text in ("", "a", "a\n", "a\nb", "a\n" * 1001)] == [1, 1, 1, 2, 1001]


def test_a_missing_and_a_long_head_are_seen() -> None:
    assert head("a.rs", "// a comment\nfn f() {}") == []
    assert head("a.py", "# a comment\nimport os") == []
    assert len(head("a.rs", "//! x\n" * 6 + "fn f() {}")) == 6
    assert len(head("a.py", '"""x\n\n' + "y\n" * 5 + '"""')) == 6


def test_a_stray_feature_name_is_seen() -> None:
    assert feature_names("rust/log/src/a.rs", 'if name == "rowTracking" {}') == {"rowTracking"}
    assert feature_names("rust/log/src/a.rs", 'let s = r#"rowTracking"#;') == {"rowTracking"}
    assert feature_names("rust/log/src/a.rs", '// "rowTracking"\nlet p = "delta.rowTracking";') == set()
    assert feature_names("rust/log/src/a.rs", '#[cfg(test)]\nmod t { const A: &str = "rowTracking"; }') == set()
    assert feature_names(FEATURES_ROOM + "row_tracking.rs", 'const NAME: &str = "rowTracking";') == set()
    assert feature_names("python/deltaplane/a.py", "x = ['deletionVectors']") == {"deletionVectors"}


def test_modules_with_spark_internals_are_seen() -> None:
    name = SPARK_INTERNALS + ".datasources.FileIndex"
    assert with_internals({"a.py": name, "b.py": "", "c.py": name}) == ["a.py", "c.py"]


def test_a_manifest_without_licence_is_seen() -> None:
    assert licence_of("rust/x/Cargo.toml", "[package]\nname = 'x'") is None
    assert licence_of("pyproject.toml", "[project]\nlicense = 'MIT'") == "MIT"
    assert licence_of("package.json", '{"name": "x"}') is None
    assert re.fullmatch(r"[\w.-]+", str(licence_of("Cargo.toml", (repo.ROOT / "Cargo.toml").read_text())))
