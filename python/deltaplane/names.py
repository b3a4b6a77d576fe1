"""The names of a package: its modules, its lazily imported public names, and renamed names.

An old name works for one minor version and warns. Only the tables here know old names; `arguments`
handles renamed arguments.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from deltaplane.exceptions import InvalidArgumentError

__all__ = [
    "RENAMED_ARGUMENTS",
    "late_names",
    "modules_in",
    "renamed_attribute",
    "renamed_name",
    "use_new_names",
    "warn_renamed",
]

# Old name of a keyword argument → its name since 0.2.
RENAMED_ARGUMENTS = {"told_as": "operation"}
# Old name of a module's class or function → its name since 0.2.
_RENAMED_NAMES = {"deltaplane.properties": {"ToldAs": "CommitOperation"}}


def modules_in(package: str, path: Iterable[str]) -> list[ModuleType]:
    """Imports the modules directly in a package, in the order of their names; subpackages are left
    out.

    Lists of plug-ins are folders: adding a file adds an entry, without a line elsewhere.

    Args:
        package: its full name.
        path: its `__path__`.

    >>> import deltaplane.expr.functions as functions
    >>> [module.__name__.rpartition(".")[2] for module in modules_in(functions.__name__, functions.__path__)][:2]
    ['arrays', 'bits']
    """
    import pkgutil

    names = sorted(module.name for module in pkgutil.iter_modules(path) if not module.ispkg)
    return [import_module(f"{package}.{name}") for name in names]


def late_names(
    namespace: dict[str, Any], modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Builds `__getattr__` and `__dir__` for a package that imports its public names at first use.
    `dir()` of the package lists what is public, and not what its own code imports.

    Args:
        namespace: the package's `globals()`, which caches each name after its first use.
        modules: public name → its module, relative to `deltaplane`.

    >>> read, names = late_names({"__name__": "deltaplane.example"}, {"DeltaError": "exceptions"})
    >>> read("DeltaError").__name__, names()
    ('DeltaError', ['DeltaError', '__name__'])
    >>> read("DeltaTabel")
    Traceback (most recent call last):
    AttributeError: module 'deltaplane.example' has no attribute 'DeltaTabel'
    """

    def read(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(f"deltaplane.{modules[name]}"), name)
        return value

    def names() -> list[str]:
        special = {name for name in namespace if name.startswith("__")}
        return sorted(special.union(namespace.get("__all__", modules)))

    return read, names


def warn_renamed(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Warns that a public name is deprecated and names its replacement.

    Args:
        old, new: both names as callers write them.
        stacklevel: number of calls between this function and the caller's own line.

    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     warn_renamed("told_as", "operation")
    >>> str(seen[0].message)
    'told_as is now called operation; the old name goes with the next minor version'
    """
    text = f"{old} is now called {new}; the old name goes with the next minor version"
    warnings.warn(text, DeprecationWarning, stacklevel=stacklevel)


def use_new_names(function: str, arguments: dict[str, Any], accepted: Any) -> dict[str, Any]:
    """Replaces old names among the keyword arguments of a call by their new ones.

    Args:
        function: the function's name, for messages.
        arguments: the keyword arguments of the call.
        accepted: names of the function's parameters.

    Raises:
        InvalidArgumentError: both the old and the new name are passed.

    >>> use_new_names("write", {"mode": "append"}, {"mode", "operation"})
    {'mode': 'append'}
    """
    old_names = [old for old in arguments if old in RENAMED_ARGUMENTS and old not in accepted]
    for old in old_names:
        new = RENAMED_ARGUMENTS[old]
        if new not in accepted:
            continue
        if new in arguments:
            raise InvalidArgumentError(f"{function}: {old} is the old name of {new}: give only {new}")
        warn_renamed(old, new, stacklevel=4)
        arguments = {new if name == old else name: value for name, value in arguments.items()}
    return arguments


def renamed_attribute(old: str, new: str) -> property:
    """A property under an attribute's old name, which warns and returns the attribute of the new
    name.

    >>> class Plan:
    ...     selected = 3
    ...     kept = renamed_attribute("kept", "selected")
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     Plan().kept
    3
    """

    def read(self: object) -> Any:
        warn_renamed(f"{type(self).__name__}.{old}", f"{type(self).__name__}.{new}")
        return getattr(self, new)

    return property(read, doc=f"The old name of `{new}`; it goes with the next minor version.")


def renamed_name(module: str, name: str) -> str:
    """The new name of a module's class or function, for the module's `__getattr__`; warns.

    Raises:
        AttributeError: the module never had this name.

    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     renamed_name("deltaplane.properties", "ToldAs")
    'CommitOperation'
    """
    new = _RENAMED_NAMES.get(module, {}).get(name)
    if new is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warn_renamed(f"{module}.{name}", f"{module}.{new}", stacklevel=4)
    return new
