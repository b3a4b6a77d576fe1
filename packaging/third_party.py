"""Writes THIRD-PARTY-LICENSES: the crates of Cargo.lock whose code is in a wheel on Linux, macOS or
Windows, and the texts of licences in their sources. `make licenses` runs it. Compiles nothing.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from archives import ROOT

TARGETS = (
    *("x86_64-unknown-linux-gnu", "x86_64-unknown-linux-musl", "aarch64-unknown-linux-gnu"),
    *("aarch64-unknown-linux-musl", "x86_64-apple-darwin", "aarch64-apple-darwin", "x86_64-pc-windows-msvc"),
)
TEXTS = re.compile(r"(?:licen[cs]e|copying|copyright|unlicense)", re.IGNORECASE)
HEAD = """THIRD-PARTY LICENSES

A wheel of deltaplane contains compiled code of these crates, and of the C sources in them. Which of
them a wheel has depends on its platform. `make licenses` writes this file from Cargo.lock.

CRATES
"""
RULE = "-" * 80


def linked(target: str) -> dict[str, dict[str, object]]:
    """Packages of registries, by id, that the module needs on a platform apart from build scripts
    and macros."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    open_ids = [name for name, package in packages.items() if package["name"] == "deltaplane-python"]
    reached: set[str] = set()
    while open_ids:
        crate = open_ids.pop()
        kinds = {kind for build in packages[crate]["targets"] for kind in build["kind"]}
        if crate not in reached and "proc-macro" not in kinds:
            reached.add(crate)
            edges = nodes[crate]["deps"]
            open_ids += [edge["pkg"] for edge in edges if any(kind["kind"] is None for kind in edge["dep_kinds"])]
    return {name: packages[name] for name in reached if packages[name]["source"] is not None}


def texts(folder: Path) -> list[str]:
    """The texts of licences of a crate: those in its folder, and those of C sources below it."""
    files = [path for path in folder.iterdir() if path.is_file()]
    files += [path for path in folder.glob("*/*") if path.is_file()] + list(folder.glob("*/*/LICENSE*"))
    chosen = [path for path in files if TEXTS.match(path.name) and path.suffix not in (".rs", ".toml", ".html")]
    return [tidy(path.read_text(errors="replace")) for path in sorted(chosen)]


def tidy(text: str) -> str:
    """A text without spaces at the ends of lines, by which copies of it differ."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def main() -> None:
    packages: dict[str, dict[str, object]] = {}
    for target in TARGETS:
        packages |= linked(target)
    crates = sorted(packages.values(), key=lambda package: (str(package["name"]), str(package["version"])))
    users: dict[str, list[str]] = {}
    lines = []
    for package in crates:
        name = f"{package['name']} {package['version']}"
        where = f" ({package['repository']})" if package["repository"] else ""
        lines.append(f"{name}: {package['license'] or 'see its text'}{where}")
        own_texts = texts(Path(str(package["manifest_path"])).parent)
        for text in own_texts or [f"(The crate has no text of its licence: {package['license']}.)"]:
            users.setdefault(text, []).append(name)
    parts = [HEAD + "\n".join(lines), "\nLICENSES"]
    for text, names in sorted(users.items(), key=lambda item: item[1]):
        parts.append(f"\n{RULE}\nOf:\n" + "\n".join(f"  {name}" for name in names) + f"\n\n{text}")
    (ROOT / "THIRD-PARTY-LICENSES").write_text("\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
