"""The Hive metastore behind `Catalog`."""

from __future__ import annotations

from collections.abc import Mapping

from deltaplane.metastores.front import Front
from deltaplane.metastores.hive import HiveMetastore

__all__ = ["Hive"]


class Hive(Front):
    """A Hive metastore at `thrift://host:port`; the arguments are those of `HiveMetastore`."""

    def __init__(self, uri: str, options: Mapping[str, str] | None = None) -> None:
        super().__init__("hive", HiveMetastore(uri, options), options)
