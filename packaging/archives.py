"""What the scripts of this folder share: the project's version and time, commands, and archives
that are the same bytes each time. Knows nothing of wheels.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
# The programs of requirements/packaging.lock, whose interpreter runs these scripts.
TOOLS = Path(sys.executable).parent
# A time for archives of a checkout without a commit: the first that the zip format can store.
EARLIEST = 315532800


def version() -> str:
    """The version of the workspace, which is the package's."""
    return str(tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"])


def epoch() -> int:
    """Seconds since 1970 that archives carry: `SOURCE_DATE_EPOCH`, or the last commit's time."""
    if chosen := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(chosen)
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    shown = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return int(shown) if shown else EARLIEST


def run(command: Iterable[str | Path], cwd: Path = ROOT, **variables: str) -> None:
    """Runs a command with additional environment variables, and fails as it fails."""
    words = [str(word) for word in command]
    print("+", " ".join(words), flush=True)
    subprocess.run(words, cwd=cwd, check=True, env={**os.environ, **variables}, stdin=subprocess.DEVNULL)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unpack(archive: Path, into: Path) -> Path:
    """Unpacks a source archive into a folder that is emptied first; returns the archive's one
    folder.

    Files get the present time instead of the archive's: cargo compares times only, and would take
    an earlier build for one of these sources.
    """
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    with tarfile.open(archive) as tar:
        tar.extractall(into, filter="data")
    for path in into.rglob("*"):
        if path.is_file():
            path.touch()
    [folder] = into.iterdir()
    return folder


def pack(folder: str, archive: Path, names: Mapping[str, Path]) -> None:
    """Writes a `.tar.gz` with these files, by their names in it below `folder`, whose bytes depend
    on the files and on `epoch` only."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as zipped:
        with tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for name, path in sorted(names.items()):
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size, entry.mtime = path.stat().st_size, epoch()
                entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
                with path.open("rb") as data:
                    tar.addfile(entry, data)
