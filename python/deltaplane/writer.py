"""Writing and its settings, where deltalake's users import them from."""

from deltaplane.convert import convert_to_deltalake
from deltaplane.properties import BloomFilterProperties, ColumnProperties, WriterProperties
from deltaplane.write import write_deltalake

__all__ = [
    "BloomFilterProperties",
    "ColumnProperties",
    "WriterProperties",
    "convert_to_deltalake",
    "write_deltalake",
]
