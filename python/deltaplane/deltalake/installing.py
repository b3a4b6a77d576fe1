"""Puts this package under the name `deltalake` into Python's imports.

Imports nothing of the package beforehand; each module is imported when it is asked for.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["NAME", "VERSION", "install"]

# The name that other programs import, and the version of it that this package equals.
NAME = "deltalake"
VERSION = "1.6.6"
_REAL = "deltaplane.deltalake"


class _Alias:
    """Finds `deltalake` and its modules: they are those of this package, not copies of them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of an aliased module; None for all other modules."""
        if name != NAME and not name.startswith(f"{NAME}."):
            return None
        try:
            real = import_module(_REAL + name.removeprefix(NAME))
        except ModuleNotFoundError as e:
            if e.name is not None and e.name.startswith(_REAL):
                return None
            raise
        return ModuleSpec(name, _Loader(real), origin=real.__file__, is_package=hasattr(real, "__path__"))

    def find_distributions(self, context: Any = None) -> Iterable[Any]:
        """The version of `deltalake`, for `importlib.metadata.version`."""
        name = getattr(context, "name", None)
        if name is None or name.lower() != NAME:
            return []
        return [_distribution()]


class _Loader(Loader):
    """Gives an import the existing module, with its own spec."""

    def __init__(self, real: ModuleType) -> None:
        self._real, self._spec = real, real.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of this package."""
        return self._real

    def exec_module(self, module: ModuleType) -> None:
        """Undoes what the import wrote to the module; its code has run already."""
        module.__spec__ = self._spec


def _distribution() -> Any:
    from importlib.metadata import Distribution

    class Named(Distribution):
        """The metadata of an installed `deltalake`."""

        def read_text(self, filename: str) -> str | None:
            known = {"METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n"}
            return known.get(filename)

        def locate_file(self, path: Any) -> Any:
            from pathlib import Path

            return Path(__file__).parent / path

    return Named()


_ALIAS: Any = _Alias()


def install() -> None:
    """From now on `import deltalake` imports this package, also in libraries. A second call changes
    nothing.

    Call it before other libraries import `deltalake`. For all programs of an environment, write
    `import deltaplane.deltalake; deltaplane.deltalake.install()` into its `sitecustomize.py`.

    Warns:
        RuntimeWarning: the package deltalake was imported before: objects of it stay as they are.
    """
    if _ALIAS not in sys.meta_path:
        sys.meta_path.insert(0, _ALIAS)
    others = [name for name in sys.modules if name == NAME or name.startswith(f"{NAME}.")]
    foreign = [name for name in others if not getattr(sys.modules[name], "__name__", "").startswith(_REAL)]
    if foreign:
        warnings.warn(
            f"{NAME} was imported before: call install() first, so that no object of it is left",
            RuntimeWarning,
            stacklevel=2,
        )
    for name in foreign:
        del sys.modules[name]
