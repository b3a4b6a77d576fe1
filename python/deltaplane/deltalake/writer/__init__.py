"""deltalake's functions that write tables, and the settings of their files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltaplane.deltalake.writer.convert_to import convert_to_deltalake
    from deltaplane.deltalake.writer.properties import BloomFilterProperties, ColumnProperties, WriterProperties
    from deltaplane.deltalake.writer.writer import write_deltalake

__all__ = [
    "BloomFilterProperties",
    "ColumnProperties",
    "WriterProperties",
    "convert_to_deltalake",
    "write_deltalake",
]

_LATER = {
    "BloomFilterProperties": "deltalake.writer.properties",
    "ColumnProperties": "deltalake.writer.properties",
    "WriterProperties": "deltalake.writer.properties",
    "convert_to_deltalake": "deltalake.writer.convert_to",
    "write_deltalake": "deltalake.writer.writer",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in ("_conversion", "_utils", "convert_to", "properties", "writer"):
            return import_module(f"{__name__}.{name}")
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"deltaplane.{_LATER[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER})
