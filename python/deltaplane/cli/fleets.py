"""The tables that patterns, lists and catalogs name."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import typer

from deltaplane import Catalog, DeltaTable, _native
from deltaplane.exceptions import DeltaError, TableNotFoundError
from deltaplane.report.health import Health

__all__ = ["FleetTable", "fleet_reports", "fleet_tables"]

_CATALOG = re.compile(r"(sqlite|postgresql|postgres|https?|thrift|glue)://", re.IGNORECASE)


class FleetTable(NamedTuple):
    """A table's location, and the catalog that has its name."""

    location: str
    catalog: str | None = None

    @property
    def options(self) -> dict[str, str]:
        """The storage options that the location needs in addition to those of the store."""
        return {} if self.catalog is None else {"catalog": self.catalog}


def fleet_tables(targets: Sequence[str], options: dict[str, str] | None) -> list[FleetTable]:
    """The tables of all targets, in their order, each once.

    Args:
        targets: locations; patterns with `*` and `?` for parts of a path, such as
            `s3://bucket/*/orders`; `@FILE` with one target in each line; catalogs, such as
            `sqlite:///lake.db`, whose tables of other formats are left out.
        options: access to the stores and catalogs.

    Raises:
        TableNotFoundError: a pattern or a catalog without a table.
        DeltaError: a store or a catalog can't be listed.
    """
    tables = [table for target in targets for table in _tables(target, options)]
    return list(dict.fromkeys(tables))


def fleet_reports(
    targets: Sequence[str], options: dict[str, str] | None
) -> Iterator[tuple[FleetTable, Health | DeltaError]]:
    """Each table of the targets with the facts of its report, or with the error for which there is
    none.

    Raises:
        TableNotFoundError, DeltaError: as `fleet_tables`.
    """
    for table in fleet_tables(targets, options):
        try:
            opened = DeltaTable(table.location, storage_options={**(options or {}), **table.options})
            yield table, opened.report().facts
        except DeltaError as e:
            yield table, e


def _tables(target: str, options: dict[str, str] | None) -> Iterator[FleetTable]:
    if target.startswith("@"):
        for line in _lines(Path(target[1:])):
            yield from _tables(line, options)
        return
    if _CATALOG.match(target):
        matches = list(_of_catalog(target, options))
    elif re.search(r"[*?]", target):
        matches = [FleetTable(place) for place in _matching(target, options)]
    else:
        matches = [FleetTable(target)]
    if not matches:
        raise TableNotFoundError(f"no table matches {target}")
    yield from matches


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as e:
        raise typer.BadParameter(f"the list {path} can't be read: {e}") from e
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _of_catalog(uri: str, options: dict[str, str] | None) -> Iterator[FleetTable]:
    catalog = Catalog(uri, storage_options=options)
    for schema in catalog.schemas():
        for name in catalog.tables(schema):
            if str(catalog.info(name).get("format") or "DELTA").upper() == "DELTA":
                yield FleetTable(catalog.location(name), uri)


def _matching(pattern: str, options: dict[str, str] | None) -> list[str]:
    """The tables whose locations match, by name. Lists only directories that can lead to one."""
    head, *parts = _split(pattern)
    places = [head]
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        places = [child for place in places for child in _children(place, part, options)]
        if is_last:
            places = [place for place in places if _is_table(place, options)]
    return sorted(places)


def _split(pattern: str) -> list[str]:
    """The directory above the first wildcard, and each part below it.

    >>> _split("s3://bucket/lake/*/orders"), _split("/data/t?")
    (['s3://bucket/lake', '*', 'orders'], ['/data', 't?'])
    """
    parts = pattern.rstrip("/").split("/")
    first = next(index for index, part in enumerate(parts) if re.search(r"[*?]", part))
    return ["/".join(parts[:first]) or ("/" if pattern.startswith("/") else "."), *parts[first:]]


def _children(place: str, part: str, options: dict[str, str] | None) -> list[str]:
    if not re.search(r"[*?]", part):
        return [f"{place.rstrip('/')}/{part}"]
    level = _native.RawStore.open(place, options).list_level("")
    folders = [] if level is None else [name.rstrip("/").rpartition("/")[2] for name in level[0]]
    return [f"{place.rstrip('/')}/{name}" for name in folders if fnmatch.fnmatchcase(name, part)]


def _is_table(place: str, options: dict[str, str] | None) -> bool:
    try:
        return DeltaTable.is_deltatable(place, options)
    except DeltaError:
        # The verb reports what is wrong with it.
        return True
