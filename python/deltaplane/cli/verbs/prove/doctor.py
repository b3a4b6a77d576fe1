"""`deltaplane doctor`: lists what is installed and configured.

Uses the public API only. Shows names of variables and files, never their values.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from deltaplane import DeltaTable, __version__
from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, StoreOptions, store_options
from deltaplane.exceptions import DeltaError

__all__ = ["doctor"]

EXAMPLES = ("deltaplane doctor", "deltaplane doctor s3://bucket/orders -o aws_region=eu-central-1 --json")

# Variables of stores' own tools, and of deltaplane, by what they are for.
_VARIABLES = {
    "Amazon S3": r"AWS_\w+",
    "Azure": r"AZURE_\w+",
    "Google": r"GOOGLE_\w+",
    "deltaplane": r"DELTAPLANE_\w+",
    "Java": r"JAVA_HOME|SPARK_HOME|PYSPARK_\w+|HADOOP_CONF_DIR",
}
_FILES = {
    "Amazon S3": ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
    "Google": ("GOOGLE_APPLICATION_CREDENTIALS", "~/.config/gcloud/application_default_credentials.json"),
}
_OLDEST_JAVA = 17


def doctor(
    location: Annotated[str | None, typer.Argument(help="A table to open.", show_default=False)] = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Lists what is installed, which Java and cache are used, and where credentials would come
    from; opens a table if one is named. Exits with 1 if something is wrong."""
    packages, problems = _packages()
    java = _java()
    if java["needed"] and (java["version"] is None or java["version"] < _OLDEST_JAVA):
        problems.append(f"PySpark needs Java {_OLDEST_JAVA} or newer: set JAVA_HOME to one")
    opened = _opened(location, store_options(option), problems)
    facts: dict[str, Any] = {
        "deltaplane": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
        "java": java,
        "cache": os.environ.get("DELTAPLANE_CACHE_DIR"),
        "variables": _variables(),
        "credential_files": _credential_files(),
        "table": opened,
        "problems": problems,
    }
    render.doctor(facts, as_json=json)
    if problems:
        raise typer.Exit(1)


def _packages() -> tuple[dict[str, dict[str, str | None]], list[str]]:
    """The packages of the extras with their versions, and those outside of the bounds of an extra
    whose packages are all installed."""
    extras: dict[str, list[tuple[str, str, str | None]]] = {}
    for text in metadata.requires("deltaplane") or []:
        match = re.match(r"""([\w.-]+)\s*([^;]*);\s*extra == ['"](\w+)['"]""", text)
        if match is not None and match[1] != "deltaplane":
            extras.setdefault(match[3], []).append((match[1], match[2].strip(), _version(match[1])))
    packages: dict[str, dict[str, str | None]] = {}
    problems = []
    for extra, requirements in extras.items():
        is_used = all(version is not None for _, _, version in requirements)
        for name, bounds, version in requirements:
            packages.setdefault(name, {"version": version, "extra": extra, "bounds": bounds})
            if version is not None and is_used and not _within(version, bounds):
                problems.append(f"{name} {version} isn't within {bounds}: pip install 'deltaplane[{extra}]'")
    return packages, problems


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _within(version: str, bounds: str) -> bool:
    numbers = _numbers(version)
    for sign, bound in re.findall(r"(>=|<=|==|<|>)\s*([\d.]+)", bounds):
        other = _numbers(bound)
        met = {
            ">=": numbers >= other,
            "<=": numbers <= other,
            "<": numbers < other,
            ">": numbers > other,
            "==": numbers[: len(other)] == other,
        }
        if not met[sign]:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])


def _java() -> dict[str, Any]:
    """The Java that PySpark would start."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    version = None
    if program is not None:
        try:
            result = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False)
            match = re.search(r'version "(?:1\.)?(\d+)', result.stderr + result.stdout)
            version = int(match[1]) if match else None
        except (OSError, subprocess.SubprocessError):
            version = None
    try:
        metadata.version("pyspark")
        needed = True
    except metadata.PackageNotFoundError:
        needed = False
    return {"program": program, "version": version, "needed": needed}


def _variables() -> dict[str, list[str]]:
    """The names of the variables that are set, by what they are for."""
    named = {what: sorted(name for name in os.environ if re.fullmatch(form, name)) for what, form in _VARIABLES.items()}
    return {what: names for what, names in named.items() if names}


def _credential_files() -> dict[str, str]:
    """The files of credentials that exist, by the store that would read them."""
    paths = {what: os.environ.get(variable, default) for what, (variable, default) in _FILES.items()}
    return {what: path for what, path in paths.items() if Path(path).expanduser().is_file()}


def _opened(location: str | None, options: dict[str, str] | None, problems: list[str]) -> dict[str, Any] | None:
    if location is None:
        return None
    try:
        table = DeltaTable(location, storage_options=options)
    except DeltaError as e:
        problems.append(f"{location} can't be opened: {e}")
        return None
    return {"table": table.table_uri, "version": table.version()}
