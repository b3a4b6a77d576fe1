"""Jars of Maven Central that tests need, by their SHA-256: fetched once, and never part of what
users install.

A list has a line `<digest> <group>:<artifact>:<version>` for each jar; `python pinned_jars.py LIST`
fetches what is missing.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

CENTRAL = "https://repo1.maven.org/maven2"
CACHE = Path(__file__).resolve().parents[1] / ".cache"
SECONDS = 120


@dataclass(frozen=True)
class PinnedJars:
    """The jars of one list, whose name without a suffix is that of their folder below .cache, and
    the target of make that fetches them."""

    pinned: Path

    @property
    def name(self) -> str:
        """The list's name."""
        return self.pinned.stem

    @property
    def folder(self) -> Path:
        """Where the jars are."""
        return CACHE / self.name

    def addresses(self) -> dict[str, tuple[str, str]]:
        """Each jar's file name → its address and SHA-256."""
        jars = {}
        for line in self.pinned.read_text().splitlines():
            digest, coordinates = line.split()
            group, artifact, version = coordinates.split(":")
            name = f"{artifact}-{version}.jar"
            jars[name] = f"{CENTRAL}/{group.replace('.', '/')}/{artifact}/{version}/{name}", digest
        return jars

    def paths(self) -> list[Path]:
        """The jars; raises FileNotFoundError with the command to run if they are missing."""
        jars = [self.folder / name for name in self.addresses()]
        missing = [jar.name for jar in jars if not jar.is_file()]
        if missing:
            raise FileNotFoundError(f"no {', '.join(missing)} under {self.folder}: run `make {self.name}`")
        return jars

    def fetch(self) -> None:
        """Downloads missing jars; each gets its name once its checksum is right."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, (address, digest) in self.addresses().items():
            if (self.folder / name).is_file():
                continue
            with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as arriving:
                with urllib.request.urlopen(address, timeout=SECONDS) as answer:
                    shutil.copyfileobj(answer, arriving)
            content = Path(arriving.name)
            if hashlib.sha256(content.read_bytes()).hexdigest() != digest:
                content.unlink()
                raise SystemExit(f"{address} isn't the pinned file: its checksum differs")
            content.rename(self.folder / name)


if __name__ == "__main__":
    PinnedJars(Path(sys.argv[1])).fetch()
