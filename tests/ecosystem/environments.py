"""`python tests/ecosystem/environments.py`: installs an environment for each library whose tests
are in this directory, into `.cache/ecosystem`, from the locked packages of requirements/ecosystem.

`make ecosystem-packages` calls it. One installer (uv) fetches all packages at once and links those
that several environments have, so that each is fetched and stored once.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ROOT / "requirements" / "ecosystem"
CACHE = ROOT / ".cache" / "ecosystem"
INSTALL_SECONDS = 600


def libraries() -> list[str]:
    """The names of the environments."""
    return sorted(lock.stem for lock in LOCKS.glob("*.lock"))


def python(library: str) -> Path:
    """The interpreter of an environment.

    Raises:
        FileNotFoundError: it isn't installed, or for other versions than those that are locked.
    """
    folder = _folder(library)
    if not (folder / "complete").exists():
        raise FileNotFoundError(f"no {folder}: run `make ecosystem-packages`")
    return folder / "bin" / "python"


def locked(library: str, package: str) -> str:
    """The locked version of a package."""
    lines = (LOCKS / f"{library}.lock").read_text().splitlines()
    return next(line.partition("==")[2].split()[0] for line in lines if line.startswith(f"{package}=="))


def _folder(library: str) -> Path:
    lock = LOCKS / f"{library}.lock"
    return CACHE / f"{library}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"


def _installer() -> Path:
    """uv, which is installed into an environment of its own."""
    lock = LOCKS.parent / "uv.lock"
    folder = CACHE / f"uv-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _run(sys.executable, "-m", "venv", folder)
        _run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "-r", lock)
        (folder / "complete").touch()
    return folder / "bin" / "uv"


def install() -> None:
    """Installs what is missing, and removes what no lock file asks for any more."""
    uv = _installer()
    wanted = {_folder(library) for library in libraries()}
    for folder in wanted:
        if (folder / "complete").exists():
            continue
        lock = LOCKS / f"{folder.name.rpartition('-')[0]}.lock"
        settings = ["--cache-dir", CACHE / "packages", "--quiet"]
        _run(uv, "venv", *settings, "--clear", "--no-project", "--python", sys.executable, folder)
        only_locked = ["--require-hashes", "--no-deps", "--only-binary", ":all:"]
        _run(uv, "pip", "install", *settings, "--python", folder / "bin" / "python", *only_locked, "-r", lock)
        (folder / "complete").touch()
    for folder in CACHE.iterdir():
        if folder not in wanted and folder.name != "packages" and not folder.name.startswith("uv-"):
            shutil.rmtree(folder)


def _run(*command: str | Path) -> None:
    done = subprocess.run(
        [*map(str, command)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command[:4]))} failed:\n{done.stderr[-4000:]}")


if __name__ == "__main__":
    install()
