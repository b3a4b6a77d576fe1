"""AWS Glue's data catalog behind `Catalog`."""

from __future__ import annotations

from collections.abc import Mapping

from deltaplane.metastores.front import Front
from deltaplane.metastores.glue import GlueCatalog

__all__ = ["Glue"]


class Glue(Front):
    """Glue at `glue://region`; the arguments are those of `GlueCatalog`."""

    def __init__(self, uri: str, options: Mapping[str, str] | None = None) -> None:
        super().__init__("glue", GlueCatalog(uri, options), options)
