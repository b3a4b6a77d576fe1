"""The directions of the Python package, which modules may load heavy packages, and what
`import deltaplane` costs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping

import pytest

from structure import repo
from structure.python_modules import Package, imports, module_name

# The rooms of the package, lowest first: each may import its own layer and those before it.
LAYERS = (
    # Rust makes its objects, so that it is below the native module.
    ("io.records",),
    ("_native", "arguments", "exceptions", "names"),
    ("compat", "io", "properties", "schema"),
    ("metastores",),
    ("expr", "report"),
    ("commands",),
    ("write",),
    ("advisor", "copying", "writer"),
    ("table",),
    ("catalogs", "polars", "telemetry"),
    ("__init__",),
    ("spark",),
    ("queries",),
    ("statements",),
    ("query", "spark.session_hooks"),
    ("deltalake", "demo"),
    ("cli",),
)
# The rooms of deltaplane.spark. The session's hooks are above statements, which are above the other
# rooms.
SPARK_LAYERS = (
    ("errors",),
    ("jvm",),
    ("execution",),
    ("datasource",),
    ("scan",),
    ("dml",),
    ("writing",),
    ("stream",),
    ("delta_api",),
    ("session_hooks", "tables"),
)
SEPARATE = (("spark", "session_hooks"), ("io", "records"))

# Packages that are imported inside of functions only, so that users of one don't pay for the
# others.
HEAVY = {
    "botocore",
    "thrift",
    "pyspark",
    "py4j",
    "duckdb",
    "pandas",
    "polars",
    "pyarrow",
    "sqlglot",
    "typer",
    "rich",
    "jinja2",
    "numpy",
    "opentelemetry",
}
# Modules of Python that take longer to import than the package itself, and that `import deltaplane`
# must not load.
SLOW_OF_PYTHON = {"inspect", "ast", "dataclasses", "uuid", "asyncio", "subprocess", "tempfile", "urllib.request"}
# Rooms that may load heavy packages, since users import them only for that purpose.
MAY_LOAD = {"spark", "spark_created", "spark_names", "spark_results", "cli", "demo"}
# Modules that may load heavy packages: a class of pyarrow is their base.
MAY_LOAD_MODULES = {("deltalake", "fs", "fs_handler"), ("table", "rendered_files")}

PREFIX = "python/deltaplane/"


def package() -> Package:
    texts = {path.removeprefix(PREFIX): text for path, text in repo.sources(PREFIX, ".py", ".pyi").items()}
    return Package(texts, SEPARATE)


def module_cycles(package: Package) -> list[str]:
    return [
        ".".join((*parent, "")) + " <-> ".join(g)
        for parent in package.parents()
        for g in repo.cycles(package.rooms(parent))
    ]


def loads(path: str, text: str) -> set[str]:
    """The heavy packages that importing a module would load."""
    module = module_name(path)
    if module[0] in MAY_LOAD or module in MAY_LOAD_MODULES:
        return set()
    return {
        statement.path[0] for statement in imports(module, text) if statement.at_import and statement.path[0] in HEAVY
    }


def test_rooms_import_only_lower_ones() -> None:
    problems = repo.climbs(package().rooms(), LAYERS) + repo.stale(package().rooms(), LAYERS)
    assert not problems, "\n".join(problems)


def test_rooms_of_spark_import_only_lower_ones() -> None:
    problems = repo.climbs(package().rooms(("spark",)), SPARK_LAYERS)
    assert not problems, "\n".join(problems)


def late_names(text: str) -> dict[str, str]:
    """Public name → module, from a facade's list of lazily imported names."""
    names: dict[str, str] = {}
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "_LATER":
            names = ast.literal_eval(statement.value)
    return names


def definitions(text: str) -> set[str]:
    """The names that a module defines or imports at its top level."""
    names = set()
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in statement.names}
        elif isinstance(statement, ast.Assign):
            names |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return names


def missing_late_names(texts: Mapping[str, str]) -> list[str]:
    """Names that facades list but no module defines, and names that modules below a facade import
    from it."""
    wrong = []
    for facade, text in texts.items():
        for name, where in late_names(text).items():
            path = where.replace(".", "/")
            source = texts.get(f"{path}.py") or texts.get(f"{path}/__init__.py")
            if source is None or name not in {*definitions(source), *late_names(source)}:
                wrong.append(f"{facade}: {where} has no {name}")
    return wrong


def test_facades_list_names_that_exist() -> None:
    texts = {path.removeprefix(PREFIX): text for path, text in repo.sources(PREFIX, ".py").items()}
    assert sum(bool(late_names(text)) for text in texts.values()) == 7
    assert missing_late_names(texts) == []
    wrong = {"__init__.py": '_LATER = {"A": "low", "B": "none"}', "low.py": "C = 1"}
    assert missing_late_names(wrong) == ["__init__.py: low has no A", "__init__.py: none has no B"]


def hidden_names(facade: str, text: str, texts: Mapping[str, str]) -> set[str]:
    """Public names of a facade that a module in the same folder would hide: importing the module
    replaces the name."""
    folder = facade.removesuffix("__init__.py")
    beside = {path.removeprefix(folder).split("/")[0].removesuffix(".py") for path in texts if path.startswith(folder)}
    return late_names(text).keys() & beside


def test_no_module_hides_a_public_name() -> None:
    texts = {path.removeprefix(PREFIX): text for path, text in repo.sources(PREFIX, ".py").items()}
    hidden = {f: hidden_names(f, text, texts) for f, text in texts.items() if f.endswith("__init__.py")}
    assert {facade: names for facade, names in hidden.items() if names} == {}
    wrong = {"spark/__init__.py": '_LATER = {"write": "spark.a", "read": "spark.a"}', "spark/write/b.py": ""}
    assert hidden_names("spark/__init__.py", wrong["spark/__init__.py"], wrong) == {"write"}


def crowded(paths: Iterable[str], most: int = 25) -> dict[str, int]:
    """The folders with too many source files."""
    counts = Counter(path.rpartition("/")[0] for path in paths if path.endswith((".py", ".rs", ".java")))
    return {folder: count for folder, count in counts.items() if count > most}


def test_folders_of_the_package_tests_and_benches_are_small() -> None:
    for prefix in (PREFIX, "tests/", "benches/"):
        assert crowded(repo.sources(prefix, ".py")) == {}, prefix
    rooms = set(package().rooms()) - {".".join(folder) for folder in SEPARATE}
    folders = {room for room in rooms if (repo.ROOT / PREFIX / room).is_dir()}
    assert len(folders) <= 17, sorted(folders)
    assert len(rooms - folders) <= 11, sorted(rooms - folders)
    assert crowded([f"a/{n}.py" for n in range(26)]) == {"a": 26}


def test_no_module_cycles() -> None:
    findings = module_cycles(package())
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize("path", list(repo.sources(PREFIX, ".py")))
def test_heavy_packages_load_where_used(path: str) -> None:
    assert loads(path.removeprefix(PREFIX), (repo.ROOT / path).read_text()) == set()


def test_importing_the_package_loads_nothing_heavy_and_starts_no_thread() -> None:
    pytest.importorskip("deltaplane._native", reason="needs the built module: make develop")
    script = f"""
import os, sys, deltaplane
print(sorted({HEAVY | SLOW_OF_PYTHON!r} & set(sys.modules)), len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 1)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[] 1", "")


def test_a_task_of_spark_imports_little() -> None:
    pytest.importorskip("deltaplane._native", reason="needs the built module: make develop")
    pytest.importorskip("pyspark", reason="needs the extra spark")
    script = f"""
import sys, deltaplane.spark.execution.write_tasks
rooms = ("deltaplane.spark.", "deltaplane.commands")
print(sorted({HEAVY!r} & set(sys.modules)), [m for m in sys.modules if m.startswith(rooms)])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == (
        "[] ['deltaplane.spark.execution', 'deltaplane.spark.execution.write_tasks']",
        "",
    )


# --- the checks can fail ---


def test_an_import_that_points_up_is_seen_in_every_spelling() -> None:
    spellings = [
        "import deltaplane.table",
        "from deltaplane import table",
        "from .table import X",
        "from . import table",
    ]
    for spelling in [*spellings, "def f():\n    from deltaplane.table.delta_table import X"]:
        bad = Package({"__init__.py": "", "io.py": spelling, "table.py": ""})
        assert repo.climbs(bad.rooms(), LAYERS) == ["`io` uses `table`, which is above it"], spelling
    assert repo.climbs(Package({"attic.py": ""}).rooms(), LAYERS) == [
        "`attic` is in no layer: give it a place in the list in this test"
    ]


def test_a_layer_with_a_module_that_is_gone_is_seen() -> None:
    assert repo.stale({"table": set()}, [("attic", "table")]) == ["`attic` has a layer and is no module: take it out"]


def test_the_facade_is_above_what_it_lists() -> None:
    bad = Package({"__init__.py": "from .table import DeltaTable", "table.py": "from deltaplane import DeltaTable"})
    assert repo.climbs(bad.rooms(), LAYERS) == ["`table` uses `__init__`, which is above it"]


def test_a_cycle_is_seen_and_types_make_none() -> None:
    tree = {"__init__.py": "", "engine/__init__.py": "", "engine/a.py": "from .b import B"}
    assert module_cycles(Package({**tree, "engine/b.py": "from ..engine.a import A"})) == ["engine.a <-> b"]
    types_only = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import A"
    assert module_cycles(Package({**tree, "engine/b.py": types_only})) == []


def test_a_heavy_import_is_seen() -> None:
    assert loads("table.py", "try:\n    import pyarrow.parquet as pq\nexcept ImportError:\n    pass") == {"pyarrow"}
    assert loads("table.py", "class T:\n    from pandas import DataFrame") == {"pandas"}
    assert loads("table.py", "def f():\n    import pandas") == set()
    assert loads("spark/native.py", "import pyspark") == set()


def missing_distributions(path: str, text: str, declared: set[str]) -> set[str]:
    """Libraries that a module imports although neither Python nor `pip install deltaplane[all]`
    installs them."""
    known = {*sys.stdlib_module_names, "deltaplane", *declared}
    return {statement.path[0] for statement in imports(module_name(path), text)} - known


def test_every_library_that_is_imported_is_a_dependency_of_the_package() -> None:
    project = tomllib.loads((repo.ROOT / "pyproject.toml").read_text())["project"]
    required = {re.split(r"[^A-Za-z0-9_-]", text)[0] for text in project["dependencies"]}
    assert required == {"pyarrow"}
    extras = {
        re.split(r"[^A-Za-z0-9_-]", text)[0] for texts in project["optional-dependencies"].values() for text in texts
    }
    # Spark installs py4j, and each data frame library installs numpy. boto3 is used where it is
    # installed, and nothing needs it.
    # The distribution arro3-core has the package arro3, opentelemetry-api has opentelemetry.
    imported = {name.removesuffix("-core").removesuffix("-api") for name in extras}
    declared = {*required, *imported, "py4j", "numpy", "boto3"}
    missing = {path: missing_distributions(path, text, declared) for path, text in repo.sources(PREFIX, ".py").items()}
    assert {path: names for path, names in missing.items() if names} == {}
    assert missing_distributions("table.py", "def f():\n    import sqlglot", declared) == {"sqlglot"}


def test_the_hooks_of_sessions_are_a_room_of_their_own() -> None:
    texts = {
        "spark/__init__.py": "",
        "spark/session_hooks/a.py": "import deltaplane.statements",
        "statements.py": "import deltaplane.spark.b",
    }
    texts["spark/b.py"] = ""
    assert repo.climbs(Package(texts, SEPARATE).rooms(), LAYERS) == []
    assert module_cycles(Package(texts)) == ["spark <-> statements"]


def test_types_are_checked_for_the_lowest_python_that_is_supported() -> None:
    # mypy reports names of newer versions, such as typing.Unpack, as errors; the tests themselves
    # run on a newer Python.
    settings = tomllib.loads((repo.ROOT / "pyproject.toml").read_text())
    lowest = settings["project"]["requires-python"].removeprefix(">=")
    assert settings["tool"]["mypy"]["python_version"] == lowest
    assert settings["tool"]["ruff"]["target-version"] == "py" + lowest.replace(".", "")
