"""The names by which this process opened tables: where each is, and how its catalog's entry follows
the commits.

The log is the truth: a catalog that is away after a commit is a warning.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from deltaplane import _native
from deltaplane.exceptions import DeltaError, InvalidArgumentError, TableAlreadyExistsError, TableNotFoundError
from deltaplane.io.retry_limit import bounded_after_commit
from deltaplane.metastores.entry import TableFacts
from deltaplane.metastores.metastore import Metastore, facts_of, without_version
from deltaplane.metastores.options import CATALOG, TIMEOUT, of_store, option

__all__ = ["keep_in_step", "metastore", "resolve"]

_log = logging.getLogger(__name__)

# Time limit of a catalog's answers after a commit, unless the option says another one.
_AFTER_COMMIT = "5s"


@dataclass
class _Binding:
    """A name by which this process opened or made the table of a location."""

    uri: str
    name: str
    options: dict[str, str] | None
    # Whether a missing entry is made at the next commit.
    makes_entry: bool
    # What the entry is known to say.
    facts: TableFacts | None = None


# By the scheme of names: the scheme of the catalog's address, and the address without an option.
_CATALOGS = {"hive": ("thrift", None), "glue": ("glue", "glue://")}

# By location, then by catalog and name. It has an entry for each table that was opened by a name.
_bindings: dict[str, dict[tuple[str, str], _Binding]] = {}
_lock = threading.Lock()


def metastore(uri: str, options: Mapping[str, str] | None = None) -> Metastore:
    """The catalog at an address: `thrift://host:port` or `glue://region`.

    Raises:
        InvalidArgumentError: another kind of address.
        ImportError: the catalog's extra isn't installed.
    """
    from deltaplane.metastores.glue import GlueCatalog
    from deltaplane.metastores.hive import HiveMetastore

    scheme = uri.partition("://")[0].lower()
    if scheme == "thrift":
        return HiveMetastore(uri, options)
    if scheme == "glue":
        return GlueCatalog(uri, options)
    raise InvalidArgumentError(
        "the option catalog is the address of a Hive metastore, thrift://host:port, or of Glue, glue://region"
    )


def resolve(text: str, options: dict[str, str] | None, *, creates: bool) -> tuple[str, dict[str, str] | None]:
    """The location of a name, and the options of its store; `table_address` describes both."""
    scheme, _, name = text.partition("://")
    uri = _catalog_of(scheme.lower(), options)
    catalog = metastore(uri, options)
    is_new = False
    try:
        where = catalog.location(name)
    except TableNotFoundError:
        if not creates:
            raise
        where, is_new = catalog.default_location(name), True
    with _lock:
        _bindings.setdefault(_key(where), {})[uri, name] = _Binding(uri, name, options, is_new)
    return where, of_store(options)


def _catalog_of(scheme: str, options: Mapping[str, str] | None) -> str:
    expected, default = _CATALOGS[scheme]
    said = option(options, CATALOG) or default
    if said is None:
        raise InvalidArgumentError(
            f"a name {scheme}://schema.table needs the storage option {CATALOG}: {expected}://host:port"
        )
    if not said.lower().startswith(f"{expected}://"):
        raise InvalidArgumentError(f"the storage option {CATALOG} of a name {scheme}://… is an address {expected}://…")
    return said


def keep_in_step(location: str) -> None:
    """Called after a commit to a location: updates the entries of the names by which this process
    opened the table, if the commit changed its metadata, and makes the entry of a new table.

    Never raises an error of the catalog or the store, since the commit is durable.
    """
    with _lock:
        bindings = list(_bindings.get(_key(location), {}).values())
    for binding in bindings:
        try:
            _follow(binding, location)
        except (DeltaError, ImportError) as e:
            _log.warning(
                "the commit is safe, but the catalog's entry %s wasn't updated, and other programs may see older columns "
                "and properties there until it is refreshed or the next such commit: %s",
                binding.name,
                e,
            )


def _follow(binding: _Binding, location: str) -> None:
    with bounded_after_commit():
        snapshot = _native.Snapshot.open(location, of_store(binding.options))
        facts = facts_of(snapshot)
    if binding.facts == without_version(facts):
        return
    catalog = metastore(binding.uri, {TIMEOUT: _AFTER_COMMIT, **(binding.options or {})})
    if binding.makes_entry:
        try:
            catalog.register(binding.name, location, facts)
        except TableAlreadyExistsError:
            # Another creator of the same table came first: its entry may be of an older version.
            _refresh(catalog, binding.name, location, snapshot)
        binding.makes_entry = False
    else:
        _refresh(catalog, binding.name, location, snapshot)
    binding.facts = without_version(facts)


def _refresh(catalog: Metastore, name: str, location: str, snapshot: _native.Snapshot) -> None:
    where = catalog.location(name)
    if _key(where) != _key(location):
        raise InvalidArgumentError(f"the name is another location's now, {where}'s")
    catalog.refresh(name, snapshot=snapshot)


def _key(location: str) -> str:
    """One text for the spellings of a location."""
    scheme, separator, rest = location.partition("://")
    if separator:
        scheme = {"s3a": "s3", "s3n": "s3"}.get(scheme.lower(), scheme.lower())
        return f"{scheme}://{rest.rstrip('/')}"
    return location.removeprefix("file:").rstrip("/")
