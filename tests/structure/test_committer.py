"""No path around what decides a table's commits: a catalog's table is a wrapped store, so no crate
above may open another store of its own, read the log by file paths, or name staged commits."""

from __future__ import annotations

import re

from structure import repo

CRATES = ("rust/log/src/", "rust/operations/src/", "rust/spark_plan/src/", "rust/index/src/")
ROOM = "rust/log/src/committer/"
# Stores come from the callers of these crates.
OPENS = re.compile(r"\bStore::open\w*\(|\bopen_in_session\(")
STAGED = re.compile(r"\bSTAGED_DIR\b|\bstaged_(?:commit|name|version)\(|_staged_commits")
# Files on the local disk: only data files, and checks whether there are any.
LOCAL_PATH = re.compile(r"\.local_path\((?!\"\"\))")
LOCAL_PATHS = {
    "rust/log/src/checkpoint/file.rs",
    "rust/log/src/checkpoint_writer/mod.rs",
    "rust/log/src/transaction/mod.rs",
}


def shipped() -> dict[str, str]:
    sources = {}
    for crate in CRATES:
        for path, text in repo.sources(crate, ".rs").items():
            if not repo.is_rust_test(path) and not path.endswith("/testing.rs"):
                sources[path] = repo.rust_code(repo.shipped_rust(text))
    return sources


def uses(pattern: re.Pattern[str], sources: dict[str, str]) -> set[str]:
    return {path for path, text in sources.items() if pattern.search(text)}


def test_no_crate_above_opens_a_store_of_its_own() -> None:
    assert uses(OPENS, shipped()) == set()


def test_staged_commits_are_named_by_the_committer_alone() -> None:
    assert {path for path in uses(STAGED, shipped()) if not path.startswith(ROOM)} == set()
    assert uses(STAGED, shipped())


def test_the_log_is_not_read_by_file_paths() -> None:
    assert uses(LOCAL_PATH, shipped()) == LOCAL_PATHS | {f"{ROOM}log_store.rs", f"{ROOM}buffer_store.rs"}


def test_patterns_find_what_they_are_for() -> None:
    assert OPENS.search("let s = Store::open_uncached(&location)?;")
    assert STAGED.search("paths::staged_commit(&name)")
    assert LOCAL_PATH.search("store.local_path(&key)")
    assert not LOCAL_PATH.search('store.local_path("")')
