"""The directions of the Rust code: between crates, between the rooms of `protocol`, and no cycle
anywhere."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable

import pytest

from structure import repo
from structure.rust_modules import Crate

# The workspace crates that each crate may use. `python` is the boundary and may use all.
CRATES = {
    "boundary": set(),
    "catalog": {"protocol", "log", "store", "error"},
    "error": set(),
    "protocol": {"error"},
    "store": {"error"},
    "sorting": {"error"},
    "index": {"protocol", "store", "error"},
    "memory": set(),
    "log": {"protocol", "store", "sorting", "error"},
    "data": {"protocol", "store", "sorting", "error"},
    "operations": {"protocol", "store", "index", "log", "data", "error"},
    "spark_plan": {"protocol", "store", "log", "data", "operations", "error"},
    "python": {
        "boundary",
        "catalog",
        "error",
        "protocol",
        "store",
        "log",
        "data",
        "operations",
        "spark_plan",
        "memory",
    },
}

# The rooms of `protocol`, lowest first: each may use its own layer and lower ones.
PROTOCOL = (
    ("hidden_columns", "z85"),
    ("arrow_types", "curves", "expr", "schema"),
    ("actions", "deletion_vectors", "hint", "mapping", "partition_values", "paths", "properties"),
    ("schema_changes",),
    ("bloom_filters", "files", "replay", "segment", "stats_columns"),
    ("features",),
    ("checksum", "state"),
    ("changes", "conflict", "layout", "prune", "retained_files", "tail", "zorder"),
)

# The rooms of `log`, lowest first: each may use its own layer and lower ones.
LOG = (
    ("environment", "listing", "progress", "scan_report", "table_info", "table_schema"),
    ("checkpoint", "commit"),
    ("committer",),
    ("snapshot",),
    ("checkpoint_writer", "history"),
    ("transaction",),
    ("follow", "write"),
    ("commands",),
)

# Maximum number of files in a folder. `rust/python/src` has a file for each boundary class and for
# their shared parts.
MOST_FILES = 25
LONGER = {"rust/python/src": 27}

IMPURE = re.compile(
    r"\btokio\b|\basync\s+(?:fn|move)\b|\bstd::(?:fs|net)\b|\bSystemTime\b|\bInstant::now\b|\brand::|\bUtc::now\b"
)


def crate_names() -> list[str]:
    return sorted(name.split("/")[1] for name in repo.files() if re.fullmatch(r"rust/\w+/Cargo\.toml", name))


def workspace_dependencies(manifest: str) -> set[str]:
    """The workspace's own crates among a manifest's shipped dependencies."""
    tables = tomllib.loads(manifest)
    names = {*tables.get("dependencies", {}), *tables.get("build-dependencies", {})}
    for target in tables.get("target", {}).values():
        names |= {*target.get("dependencies", {})}
    own = {name.removeprefix("deltaplane-") for name in names if name.startswith("deltaplane-")}
    return {name.replace("-", "_") for name in own}


def impurities(text: str) -> list[str]:
    return IMPURE.findall(repo.rust_code(repo.shipped_rust(text)))


def crate(name: str) -> Crate:
    prefix = f"rust/{name}/src/"
    return Crate({path.removeprefix(prefix): text for path, text in repo.sources(prefix, ".rs").items()})


def module_cycles(modules: Crate) -> list[str]:
    """Cycles among the modules of one folder, at every depth. A folder's head counts as one with
    its members."""
    return [
        "::".join((*parent, "")) + " <-> ".join(g)
        for parent in modules.parents()
        for g in repo.cycles(modules.rooms(parent))
    ]


def long_shelves(paths: Iterable[str]) -> list[str]:
    """Folders with too many source files."""
    counts = Counter(path.rpartition("/")[0] for path in paths if path.endswith(".rs"))
    return [
        f"{folder} has {count} loose files: group them in folders"
        for folder, count in sorted(counts.items())
        if count > LONGER.get(folder, MOST_FILES)
    ]


@pytest.mark.parametrize("name", crate_names())
def test_crate_knows_only_what_it_may(name: str) -> None:
    # `testing` is for development: no shipped crate depends on it, so its dependencies don't
    # matter.
    allowed = CRATES.get(name, set(CRATES) if name == "testing" else set())
    known = workspace_dependencies((repo.ROOT / f"rust/{name}/Cargo.toml").read_text())
    assert known <= allowed, f"rust/{name} may not depend on {sorted(known - allowed)}"


@pytest.mark.parametrize("name", crate_names())
def test_no_module_cycles(name: str) -> None:
    findings = module_cycles(crate(name))
    assert not findings, "\n".join(findings)


def test_protocol_rooms_use_only_lower_ones() -> None:
    rooms = crate("protocol").rooms()
    problems = repo.climbs(rooms, PROTOCOL) + repo.stale(rooms, PROTOCOL)
    assert not problems, "\n".join(problems)


def test_log_rooms_use_only_lower_ones() -> None:
    problems = repo.climbs(crate("log").rooms(), LOG)
    assert not problems, "\n".join(problems)


def test_no_rust_folder_is_a_long_shelf() -> None:
    problems = long_shelves([path for path in repo.files() if path.startswith("rust/")])
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("path", list(repo.sources("rust/protocol/src/", ".rs")))
def test_protocol_is_pure(path: str) -> None:
    assert impurities((repo.ROOT / path).read_text()) == []


# --- the checks can fail ---


def test_a_forbidden_dependency_is_seen() -> None:
    assert workspace_dependencies('[dependencies]\ndeltaplane-log.workspace = true\nserde = "1"') == {"log"}
    assert workspace_dependencies("[target.'cfg(unix)'.dependencies]\ndeltaplane-data.workspace = true") == {"data"}


def test_impure_code_is_seen_and_talk_about_it_is_not() -> None:
    assert impurities("use std::fs;\npub async fn f() {}") == ["std::fs", "async fn"]
    assert (
        impurities('//! No tokio.\nconst A: &str = "std::fs"; // SystemTime\n#[cfg(test)]\nmod t { use std::fs; }')
        == []
    )


def test_a_cycle_is_seen_through_every_kind_of_path() -> None:
    spellings = [
        "use crate::b::B;",
        "use super::b::{self, B};",
        "fn f() -> crate::b::B {}",
        "use crate::{c::C, b};",
        "use crate::B;",
    ]
    for spelling in spellings:
        bad = Crate(
            {"lib.rs": "mod a; mod b; mod c;\npub use b::B;", "a.rs": spelling, "b.rs": "use crate::a::A;", "c.rs": ""}
        )
        assert module_cycles(bad) == ["a <-> b"], spelling


def test_a_cycle_inside_a_folder_is_seen() -> None:
    bad = {
        "lib.rs": "mod x;",
        "x/mod.rs": "mod a; mod b;",
        "x/a.rs": "use super::b::B;",
        "x/b.rs": "use crate::x::a::A;",
    }
    assert module_cycles(Crate(bad)) == ["x::a <-> b"]


def test_other_crates_comments_and_tests_make_no_cycle() -> None:
    good = {
        "lib.rs": "mod a; mod b;\npub use other::{Error, Result};",
        "a.rs": "use crate::{Error, Result}; use crate::b::B;",
        "b.rs": '// crate::a::A\nconst T: &str = "crate::a";\n#[cfg(test)]\nmod t { use crate::a::A; }',
        "b/tests.rs": "use crate::a::A;",
    }
    assert module_cycles(Crate(good)) == []
    assert Crate(good).rooms() == {"a": {"b"}, "b": set()}


def test_a_long_shelf_is_seen() -> None:
    room = [f"rust/a/src/b/{n}.rs" for n in range(MOST_FILES)]
    assert long_shelves([*room, "rust/a/src/b/c/d.rs", "rust/a/src/b/e.toml"]) == []
    assert long_shelves([*room, "rust/a/src/b/e.rs"]) == [
        f"rust/a/src/b has {MOST_FILES + 1} loose files: group them in folders"
    ]


def test_a_use_that_points_up_is_seen() -> None:
    bad = Crate({"lib.rs": "", "schema.rs": "use crate::prune::Pruner;", "prune.rs": "", "attic.rs": ""})
    assert repo.climbs(bad.rooms(), PROTOCOL) == [
        "`attic` is in no layer: give it a place in the list in this test",
        "`schema` uses `prune`, which is above it",
    ]
