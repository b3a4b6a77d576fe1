"""The room `deltaplane.deltalake` has the names and signatures of the installed deltalake."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

deltalake = pytest.importorskip("deltalake")

MODULES = (
    "",
    ".exceptions",
    ".fs",
    ".query",
    ".schema",
    ".table",
    ".transaction",
    ".writer",
    ".writer.convert_to",
    ".writer.properties",
    ".writer.writer",
)
# The room's own names, and names that deltalake has by its imports alone.
OWN = {"install"}
IMPORTED = {
    "Any",
    "Callable",
    "Iterable",
    "Literal",
    "Mapping",
    "NamedTuple",
    "Optional",
    "Path",
    "RecordBatchReader",
    "Sequence",
    "TYPE_CHECKING",
    "Table",
    "Union",
    "annotations",
    "cast",
    "dataclass",
    "datetime",
    "json",
    "logging",
    "overload",
    "timedelta",
    "timezone",
    "warnings",
}


def modules(name: str) -> tuple[ModuleType, ModuleType]:
    return importlib.import_module(f"deltalake{name}"), importlib.import_module(f"deltaplane.deltalake{name}")


def public(module: ModuleType) -> set[str]:
    """What a module defines or lists: not what it imports for itself."""
    listed = set(getattr(module, "__all__", ()))
    defined = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith(module.__name__)
    }
    constants = {name for name in vars(module) if name.isupper() and not name.startswith("_")}
    return (listed | defined | constants) - IMPORTED


@pytest.mark.parametrize("name", MODULES)
def test_modules_have_the_names_of_deltalake(name: str) -> None:
    theirs, ours = modules(name)
    assert {n for n in public(theirs) if not hasattr(ours, n)} == set()


def test_the_package_lists_the_names_of_deltalake() -> None:
    theirs, ours = modules("")
    assert set(ours.__all__) - OWN == set(theirs.__all__)
    assert ours.__version__ == theirs.__version__


def functions() -> list[tuple[str, str]]:
    """Module and dotted name of each public function and method."""
    callables = []
    for name in MODULES:
        theirs, _ = modules(name)
        for attribute in sorted(public(theirs)):
            value = getattr(theirs, attribute)
            if inspect.isclass(value):
                callables += [(name, f"{attribute}.{method}") for method in sorted(methods(value))]
            elif inspect.isfunction(value):
                callables.append((name, attribute))
    return callables


def methods(cls: type) -> set[str]:
    named = {n for n, value in vars(cls).items() if not n.startswith("_") and callable(getattr(cls, n))}
    return {*named, "__init__"} if "__init__" in vars(cls) and cls.__module__.startswith("deltalake") else named


def parameters(owner: Any, dotted: str) -> list[tuple[str, str, str]] | None:
    """Name, kind and default of each parameter; None where Python can't tell."""
    value = owner
    for part in dotted.split("."):
        value = getattr(value, part)
    try:
        signature = inspect.signature(value)
    except ValueError:
        return None
    # Native methods take `self` by position only, which no caller sees.
    seen = [p for p in signature.parameters.values() if p.name != "self"]
    return [(p.name, p.kind.name, "" if p.default is p.empty else repr(p.default)) for p in seen]


@pytest.mark.parametrize(("module", "dotted"), functions())
def test_functions_have_the_parameters_of_deltalake(module: str, dotted: str) -> None:
    theirs, ours = modules(module)
    wanted = parameters(theirs, dotted)
    assert wanted is None or parameters(ours, dotted) == wanted


def test_importing_the_room_loads_nothing_heavy() -> None:
    script = (
        "import sys, deltaplane.deltalake as d; d.install(); import deltalake; assert deltalake is d;"
        "print(sorted({'pyarrow', 'pandas', 'polars', 'duckdb', 'arro3'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_the_alias_shares_modules_and_classes() -> None:
    script = """
import importlib.metadata, deltaplane.deltalake
deltaplane.deltalake.install()
import deltalake.table, deltalake.writer.properties, deltalake._internal
import deltaplane.deltalake.table as own
assert deltalake.table is own and deltalake.DeltaTable is own.DeltaTable
assert own.__spec__.name == "deltaplane.deltalake.table"
assert importlib.metadata.version("deltalake") == deltalake.__version__
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_runs_under_the_alias(tmp_path: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys, deltalake\nprint(deltalake.DeltaTable.__module__, sys.argv[1:])\n")
    command = [sys.executable, "-m", "deltaplane.deltalake", str(script), "--x"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("deltaplane.deltalake.table ['--x']", "")
