"""Catalogs: names of tables. A file per kind of catalog; `Catalog` chooses it by the URI's scheme.

Converts arguments and results; the core asks Unity's open APIs and the embedded database.
"""

from __future__ import annotations

from deltaplane.catalogs.catalog import Catalog

__all__ = ["Catalog"]
