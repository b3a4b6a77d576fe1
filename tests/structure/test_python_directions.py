"""The directions of the Python package, which modules may load heavy packages, and what `import deltaplane` costs."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest

from structure import repo
from structure.python_modules import Package, imports, module_name

# The rooms of the package, lowest first: each may import its own layer and those before it.
LAYERS = (
    ("_native", "arguments", "exceptions", "names"),
    (
        "arrow_io",
        "cache",
        "compat",
        "credentials",
        "explanation",
        "expr",
        "gathering",
        "log_store",
        "options",
        "properties",
        "schema",
        "shown_schema",
    ),
    ("changes", "declarations", "dry_run", "log_store_check", "row_filter", "row_rules", "table_facts", "tail"),
    ("engine",),
    ("commands",),
    ("merging", "report", "write"),
    ("alter", "care", "convert", "dml", "group_commit", "layout", "loading", "once_writer", "serializable_reads"),
    ("described", "transaction", "writer"),
    ("upkeep",),
    ("same_table", "table"),
    ("__init__",),
    ("spark",),
    ("queries",),
    ("statements",),
    ("query",),
    ("create_text", "spark_created", "spark_immediate", "spark_results", "spark_views"),
    ("spark_no_table",),
    ("spark_names",),
    ("demo",),
    ("cli",),
)

# Loaded where they are used, inside a function: a user of one must not pay for the others.
HEAVY = {"pyspark", "py4j", "duckdb", "pandas", "polars", "pyarrow", "sqlglot", "typer", "rich", "jinja2", "numpy"}
# Nobody gets into these rooms without wanting what they load.
MAY_LOAD = {"spark", "spark_created", "spark_names", "spark_results", "cli", "demo"}

PREFIX = "python/deltaplane/"


def package() -> Package:
    return Package({path.removeprefix(PREFIX): text for path, text in repo.sources(PREFIX, ".py", ".pyi").items()})


def module_cycles(of: Package) -> list[str]:
    return [".".join((*parent, "")) + " <-> ".join(g) for parent in of.parents() for g in repo.cycles(of.rooms(parent))]


def loads(path: str, text: str) -> set[str]:
    """The heavy packages that importing a module would load."""
    module = module_name(path)
    if module[0] in MAY_LOAD:
        return set()
    return {one.path[0] for one in imports(module, text) if one.at_import and one.path[0] in HEAVY}


def test_rooms_import_only_lower_ones() -> None:
    problems = repo.climbs(package().rooms(), LAYERS) + repo.stale(package().rooms(), LAYERS)
    assert not problems, "\n".join(problems)


def test_no_module_cycles() -> None:
    found = module_cycles(package())
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", list(repo.sources(PREFIX, ".py")))
def test_heavy_packages_load_where_used(path: str) -> None:
    assert loads(path.removeprefix(PREFIX), (repo.ROOT / path).read_text()) == set()


def test_importing_the_package_loads_nothing_heavy_and_starts_no_thread() -> None:
    pytest.importorskip("deltaplane._native", reason="needs the built module: make develop")
    script = f"""
import os, sys, deltaplane
print(sorted({HEAVY!r} & set(sys.modules)), len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 1)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[] 1", "")


def test_a_task_of_spark_imports_little() -> None:
    pytest.importorskip("deltaplane._native", reason="needs the built module: make develop")
    pytest.importorskip("pyspark", reason="needs the extra spark")
    script = f"""
import sys, deltaplane.spark._tasks
rooms = ("deltaplane.spark.", "deltaplane.row_rules", "deltaplane.commands")
print(sorted({HEAVY!r} & set(sys.modules)), [m for m in sys.modules if m.startswith(rooms)])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[] ['deltaplane.spark._tasks']", "")


# --- the checks can fail ---


def test_an_import_that_points_up_is_seen_in_every_spelling() -> None:
    spellings = [
        "import deltaplane.table",
        "from deltaplane import table",
        "from .table import X",
        "from . import table",
    ]
    for spelling in [*spellings, "def f():\n    from deltaplane.table import X"]:
        bad = Package({"__init__.py": "", "changes.py": spelling, "table.py": ""})
        assert repo.climbs(bad.rooms(), LAYERS) == ["`changes` uses `table`, which is above it"], spelling
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
    """Libraries that a module imports and that neither Python nor `pip install deltaplane[all]` brings."""
    known = {*sys.stdlib_module_names, "deltaplane", *declared}
    return {one.path[0] for one in imports(module_name(path), text)} - known


def test_every_library_that_is_imported_is_a_dependency_of_the_package() -> None:
    project = tomllib.loads((repo.ROOT / "pyproject.toml").read_text())["project"]
    required = {re.split(r"[^A-Za-z0-9_-]", text)[0] for text in project["dependencies"]}
    assert required == {"pyarrow"}
    extras = {
        re.split(r"[^A-Za-z0-9_-]", text)[0] for texts in project["optional-dependencies"].values() for text in texts
    }
    # Spark brings py4j, and each library of rows brings numpy.
    declared = {*required, *extras, "py4j", "numpy"}
    found = {path: missing_distributions(path, text, declared) for path, text in repo.sources(PREFIX, ".py").items()}
    assert {path: names for path, names in found.items() if names} == {}
    assert missing_distributions("table.py", "def f():\n    import sqlglot", declared) == {"sqlglot"}
