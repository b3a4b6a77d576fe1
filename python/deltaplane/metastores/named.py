"""Names of catalogs where a location is accepted: `hive://schema.table`, `glue://schema.table`.

Costs programs without names nothing: `bindings` is loaded for the first name.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from deltaplane.io.storage_options import TableUri, location_text, storage_options_text
from deltaplane.metastores.options import is_of_metastore, of_store

__all__ = ["keep_in_step", "table_address"]

# The schemes of names.
_SCHEMES = ("hive", "glue")


def table_address(
    table_uri: TableUri, storage_options: Mapping[str, object] | None, *, creates: bool = False
) -> tuple[str, dict[str, str] | None]:
    """A table's location, and the options of its store. A name is looked up in its catalog, at the
    address in the option `catalog`; a location is returned unchanged, without the options of a
    metastore, since a statement may name tables of both kinds.

    With `creates` the name of a missing table is a location below its schema's: after the first
    commit the table gets an entry.

    Raises:
        TableNotFoundError: the catalog has no such table, or no such schema.
        InvalidArgumentError: not a path, the name is something else's than a Delta table's, or
            no catalog is given.
        StoreUnavailableError, StoreDeniedError: the catalog doesn't answer, or refuses access.

    >>> table_address("s3://bucket/t", {"aws_region": "eu-north-1"})
    ('s3://bucket/t', {'aws_region': 'eu-north-1'})
    """
    text, options = location_text(table_uri), storage_options_text(storage_options)
    scheme, separator, _ = text.partition("://")
    if not separator or scheme.lower() not in _SCHEMES:
        return text, of_store(options) if is_of_metastore(options) else options
    from deltaplane.metastores.bindings import resolve

    return resolve(text, options, creates=creates)


def keep_in_step(location: str) -> None:
    """Called after a commit to a location: updates the entries of the names by which this process
    opened the table, if the commit changed its metadata, and makes the entry of a new table.

    Never raises an error of the catalog or the store, since the commit is durable.
    """
    bindings = sys.modules.get("deltaplane.metastores.bindings")
    if bindings is not None:
        bindings.keep_in_step(location)
