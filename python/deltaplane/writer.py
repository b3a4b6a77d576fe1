"""Writing and its settings, under the module name from which deltalake's users import them."""

from deltaplane.properties import BloomFilterProperties, ColumnProperties, WriterProperties
from deltaplane.write.api import write_deltalake
from deltaplane.write.convert import convert_to_deltalake

__all__ = [
    "BloomFilterProperties",
    "ColumnProperties",
    "WriterProperties",
    "convert_to_deltalake",
    "write_deltalake",
]
