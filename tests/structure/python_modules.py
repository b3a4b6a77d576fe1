"""The imports between the modules of the Python package, and to other packages, from their syntax
trees.

Imports under `if TYPE_CHECKING:` do not count, those inside functions do.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

Module = tuple[str, ...]
PACKAGE = "deltaplane"
INIT = "__init__"


@dataclass(frozen=True)
class Import:
    """One imported dotted path; `names` are what `from path import …` took from it."""

    path: Module
    names: tuple[str, ...]
    at_import: bool


def module_name(path: str) -> Module:
    """`commands/duckdb_engine.py` → ("engine", "local"); `engine/__init__.py` → ("engine",
    "__init__")."""
    return tuple(path.removesuffix(".pyi").removesuffix(".py").split("/"))


def imports(module: Module, text: str) -> Iterator[Import]:
    """Every import of a module whose name is relative to the package; relative imports come out
    absolute."""
    yield from _walk(module, ast.parse(text).body, at_import=True)


def _walk(module: Module, body: list[ast.stmt], at_import: bool) -> Iterator[Import]:
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (Import(tuple(name.name.split(".")), (), at_import) for name in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            base = (PACKAGE, *module)[: -statement.level] if statement.level else ()
            path = (*base, *(statement.module.split(".") if statement.module else ()))
            yield Import(path, tuple(name.name for name in statement.names), at_import)
        elif isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test):
            yield from _walk(module, statement.orelse, at_import)
        else:
            later = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _walk(module, _inner(statement), at_import and not later)


def _inner(statement: ast.stmt) -> list[ast.stmt]:
    """The statements directly inside one, through handlers and cases."""
    statements: list[ast.stmt] = []
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            statements.append(child)
        elif isinstance(child, ast.excepthandler | ast.match_case):
            statements += child.body
    return statements


class Package:
    """The modules of the package, from the texts of its files (keys relative to the package's
    folder).

    Folders in `separate` are rooms of the package itself, under their dotted path, instead of parts
    of the parent folder.
    """

    def __init__(self, texts: Mapping[str, str], separate: Collection[Module] = ()) -> None:
        self.separate = separate
        self.imports = {module_name(path): tuple(imports(module_name(path), text)) for path, text in texts.items()}

    def _owner(self, path: Module) -> Module:
        """The module behind an absolute dotted path without the package's name: a file, or a
        folder's `__init__`."""
        while path and path not in self.imports and (*path, INIT) not in self.imports:
            path = path[:-1]
        return path if path in self.imports else (*path, INIT)

    def uses(self) -> dict[Module, set[Module]]:
        edges: dict[Module, set[Module]] = {module: set() for module in self.imports}
        for module, imported in self.imports.items():
            for statement in imported:
                if statement.path[:1] == (PACKAGE,):
                    targets = [(*statement.path[1:], name) for name in statement.names] or [statement.path[1:]]
                    edges[module] |= {self._owner(target) for target in targets} - {module}
        return edges

    def rooms(self, parent: Module = ()) -> dict[str, set[str]]:
        """Imports between the modules directly under `parent`, everything below each taken
        together.

        The package's own `__init__` is a room without uses, since it only lists public names. A
        folder's `__init__` belongs to the folder and is no room of its own.
        """
        depth = len(parent)
        inside = {m: m[depth] for m in self.imports if len(m) > depth and m[:depth] == parent and m != (*parent, INIT)}
        if not parent:
            inside[(INIT,)] = INIT
            for folder in self.separate:
                inside |= {m: ".".join(folder) for m in inside if m[: len(folder)] == folder}
        edges: dict[str, set[str]] = {room: set() for room in inside.values()}
        for module, targets in self.uses().items():
            if module in inside and module != (INIT,):
                edges[inside[module]] |= {inside[target] for target in targets if target in inside}
        return {room: targets - {room} for room, targets in edges.items()}

    def parents(self) -> list[Module]:
        """Every folder, the package's first."""
        return sorted({module[:-1] for module in self.imports})
