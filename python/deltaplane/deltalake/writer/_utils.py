"""deltalake's way to take a table or its location."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from deltaplane.exceptions import TableNotFoundError

if TYPE_CHECKING:
    from deltaplane.deltalake.table import DeltaTable


def try_get_table_and_table_uri(
    table_or_uri: str | Path | DeltaTable | os.PathLike[str], storage_options: dict[str, str] | None = None
) -> tuple[DeltaTable | None, str]:
    """The table, None if there is none at the location, and its location.

    Raises:
        ValueError: neither a table nor a location.
    """
    from deltaplane.deltalake.table import DeltaTable

    if isinstance(table_or_uri, DeltaTable):
        return table_or_uri, table_or_uri._table.table_uri()
    if not isinstance(table_or_uri, (str, os.PathLike)):
        raise ValueError("table_or_uri must be a str, Path or DeltaTable")
    location = os.fspath(table_or_uri)
    return try_get_deltatable(location, storage_options), location


def try_get_deltatable(
    table_uri: str | Path | os.PathLike[str], storage_options: dict[str, str] | None
) -> DeltaTable | None:
    """The table at a location, None if there is none."""
    from deltaplane.deltalake.table import DeltaTable

    try:
        return DeltaTable(table_uri, storage_options=storage_options)
    except TableNotFoundError:
        return None
