"""THIRD-PARTY-LICENSES and NOTICE are in step with Cargo.lock."""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from structure import repo

# Linux on x86-64: other platforms have more crates, which the file lists too.
PLATFORM = "x86_64-unknown-linux-gnu"


@functools.cache
def linked() -> dict[tuple[str, str], Path]:
    """Folder of each crate of a registry whose code is in a wheel, by name and version: what is
    needed to build the module on one platform, except by build scripts and macros."""
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", PLATFORM]
    metadata = json.loads(subprocess.run(command, cwd=repo.ROOT, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    macros = {id for id, package in packages.items() if any("proc-macro" in t["kind"] for t in package["targets"])}
    open_ids = [id for id, package in packages.items() if package["name"] == "deltaplane-python"]
    reached: set[str] = set()
    while open_ids:
        crate = open_ids.pop()
        if crate in reached or crate in macros:
            continue
        reached.add(crate)
        for dependency in nodes[crate]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                open_ids.append(dependency["pkg"])
    return {
        (packages[id]["name"], packages[id]["version"]): Path(packages[id]["manifest_path"]).parent
        for id in reached
        if packages[id]["source"] is not None
    }


def listed(text: str) -> set[tuple[str, str]]:
    """Names and versions in the part CRATES of the file."""
    part = text.partition("\nCRATES\n")[2].partition("\nLICENSES\n")[0]
    return set(re.findall(r"^([\w-]+) (\d\S*): ", part, re.MULTILINE))


def locked(text: str) -> set[tuple[str, str]]:
    """Names and versions in a Cargo.lock."""
    return set(re.findall(r'^name = "([^"]+)"\nversion = "([^"]+)"', text, re.MULTILINE))


def out_of_step(text: str, crates: Iterable[tuple[str, str]], lock: str) -> list[str]:
    """Crates that the file lacks, and those that it has although Cargo.lock doesn't."""
    named = listed(text)
    missing = [f"{name} {version} is missing" for name, version in sorted(set(crates) - named)]
    return missing + [f"{name} {version} isn't in Cargo.lock" for name, version in sorted(named - locked(lock))]


def lacking_notices(notice: str, folders: Iterable[Path]) -> list[str]:
    """The copyright lines of crates' own notices that are missing in ours."""
    lines = {
        line.strip()
        for folder in folders
        for path in folder.glob("NOTICE*")
        for line in path.read_text().splitlines()
        if "copyright" in line.lower()
    }
    return sorted(line for line in lines if line.lstrip("* ") not in notice)


def test_third_party_licenses_are_in_step_with_the_lock() -> None:
    text, lock = ((repo.ROOT / name).read_text() for name in ("THIRD-PARTY-LICENSES", "Cargo.lock"))
    assert len(linked()) > 100
    assert out_of_step(text, linked(), lock) == [], "run `make licenses`"


def test_the_notice_has_the_notices_of_crates() -> None:
    assert lacking_notices((repo.ROOT / "NOTICE").read_text(), linked().values()) == []


def test_texts_of_licences_are_there() -> None:
    text = (repo.ROOT / "THIRD-PARTY-LICENSES").read_text()
    licences = text.partition("\nLICENSES\n")[2]
    named = set(re.findall(r"^  ([\w-]+) (\d\S*)$", licences, re.MULTILINE))
    assert listed(text) - named == set()
    for words in ("Permission is hereby granted", "Apache License", "Redistribution and use in source and binary"):
        assert words in licences


# --- the checks can fail ---

LOCK = 'name = "a"\nversion = "1.0.0"\n'
FILE = "x\nCRATES\na 1.0.0: MIT\nb 2.0.0: MIT\nLICENSES\n"


def test_a_file_that_is_out_of_step_is_seen() -> None:
    assert out_of_step(FILE, [("a", "1.0.0")], LOCK) == ["b 2.0.0 isn't in Cargo.lock"]
    assert out_of_step(FILE, [("c", "3.0.0")], LOCK)[0] == "c 3.0.0 is missing"


def test_a_missing_notice_is_seen(tmp_path: Path) -> None:
    (tmp_path / "NOTICE.txt").write_text("Thing\n * Copyright Somebody\n")
    assert lacking_notices("", [tmp_path]) == ["* Copyright Somebody"]
    assert lacking_notices("Copyright Somebody", [tmp_path]) == []
