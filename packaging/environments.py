"""Environments like a user's: a wheel installed in a fresh one, with nothing of this checkout, and
no Rust or Java unless asked for. Knows nothing of what is checked in them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

# What README's lines of shell and libraries call beside the environment's own programs.
PROGRAMS = (
    *("bash", "sh", "env", "uname", "cat", "ls", "dirname", "basename", "readlink", "ldconfig", "ps", "nice", "id"),
    *("rm", "mv", "cp", "mkdir", "chmod", "head", "tail", "sed", "grep", "awk", "tr", "sort", "find", "hostname"),
)
ABSENT = ("cargo", "rustc", "java")


def interpreter(version: str) -> Path:
    """The Python of this version (`3.12`), on the path or among pyenv's."""
    if program := shutil.which(f"python{version}"):
        works = subprocess.run([program, "-c", "import venv"], capture_output=True).returncode == 0
        if works:
            return Path(program)
    for folder in sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin"), reverse=True):
        return folder / "python"
    raise FileNotFoundError(f"no Python {version} on this machine")


class Environment:
    """A virtual environment in a folder. Its programs see only itself and a few of the system's."""

    def __init__(self, folder: Path, python: str | Path, java_home: str | None = None) -> None:
        self.folder = folder
        subprocess.run([str(python), "-m", "venv", str(folder)], check=True)
        scripts = folder / ("Scripts" if os.name == "nt" else "bin")
        self.python = scripts / "python"
        self.variables = {
            name: value
            for name, value in os.environ.items()
            if name in ("HOME", "LANG", "TMPDIR", "SYSTEMROOT", "TEMP", "TMP") or name.startswith(("PIP_", "SSL_"))
        }
        tools = folder / "tools"
        tools.mkdir()
        for program in PROGRAMS:
            if path := shutil.which(program):
                (tools / program).symlink_to(path)
        paths = [str(scripts), str(tools)]
        if java_home:
            paths.append(f"{java_home}/bin")
            self.variables["JAVA_HOME"] = java_home
        self.variables["PATH"] = os.pathsep.join(paths)
        self.variables |= {"PYSPARK_PYTHON": str(self.python), "PYSPARK_DRIVER_PYTHON": str(self.python)}
        self.variables["SPARK_LOCAL_IP"] = "127.0.0.1"

    def programs(self, names: Iterable[str]) -> list[str]:
        """Those of these programs that the environment sees."""
        return [name for name in names if shutil.which(name, path=self.variables["PATH"])]

    def install(self, requirements: Sequence[str], *options: str) -> None:
        """Installs packages from the registry, never by compiling them."""
        command = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options]
        # PySpark and its like are published as sources only; they compile nothing.
        subprocess.run([*command, *requirements], check=True, env=self.variables, stdin=subprocess.DEVNULL)

    def run(self, code: str) -> str:
        """What a program prints in a process of its own, apart from the user's packages."""
        command = [str(self.python), "-I", "-c", code]
        return subprocess.run(command, check=True, env=self.variables, capture_output=True, text=True).stdout

    def seconds(self, code: str, repetitions: int) -> float:
        """The shortest time of several processes that run this program, with the interpreter's own
        start."""
        times = []
        for _ in range(repetitions):
            begun = time.perf_counter()
            self.run(code)
            times.append(time.perf_counter() - begun)
        return min(times)
