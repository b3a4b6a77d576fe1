"""Checks of a catalog's tables: whether they open, whether their logs agree with their files, and
whether the commits that only the catalog has are published.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltaplane.exceptions import DeltaError, UnsupportedFeatureError

if TYPE_CHECKING:
    from deltaplane.catalogs.catalog import Catalog
    from deltaplane.table.delta_table import DeltaTable

__all__ = ["Finding", "backfill_tables", "check_tables", "repair_tables"]


class Finding:
    """A problem of one table. `is_wrong` is false for what only takes space."""

    def __init__(self, table: str, problem: str, advice: str, *, is_wrong: bool = True) -> None:
        self.table = table
        self.problem = problem
        self.advice = advice
        self.is_wrong = is_wrong

    def __repr__(self) -> str:
        return f"Finding({self.table!r}, {self.problem!r})"


def check_tables(catalog: Catalog, within: str | None = None) -> list[Finding]:
    """Compares each Delta table with its files. Changes nothing.

    Raises:
        StoreUnavailableError, StoreDeniedError: the catalog can't be asked.
    """
    return [finding for name in _tables(catalog, within) for finding in _check(catalog, name)]


def repair_tables(catalog: Catalog, within: str | None = None) -> list[Finding]:
    """Publishes the commits of each managed table and cleans up its log, which deletes the staged
    files of proposals that lost; returns what a check finds afterwards. No row is changed.

    Raises:
        StoreUnavailableError, StoreDeniedError: the catalog can't be asked.
    """
    findings: list[Finding] = []
    for name in _tables(catalog, within):
        try:
            table = catalog.table(name)
            if _is_managed(catalog, name):
                table._snapshot.publish()
                table.cleanup_metadata()
        except UnsupportedFeatureError:
            # The catalog leaves clean-up to itself: the commits are published.
            pass
        except DeltaError as e:
            findings.append(_failed(name, e))
            continue
        findings += _check(catalog, name)
    return findings


def backfill_tables(catalog: Catalog, within: str | None = None) -> Iterator[tuple[str, int]]:
    """Publishes the commits of each managed table: its name, and the version up to which all are
    published.

    Raises:
        DeltaError: a table can't be opened, or a commit can't be published.
    """
    for name in _tables(catalog, within):
        if _is_managed(catalog, name):
            yield name, catalog.table(name)._snapshot.publish()


def _tables(catalog: Catalog, within: str | None) -> Iterator[str]:
    match len(within.split(".")) if within else 0:
        case 0:
            schemas = catalog.schemas()
        case 1:
            schemas = catalog.schemas(within)
        case 2:
            schemas = [str(within)]
        case _:
            yield str(within)
            return
    for schema in schemas:
        for name in catalog.tables(schema):
            if str(catalog.info(name)["format"] or "DELTA").upper() == "DELTA":
                yield name


def _is_managed(catalog: Catalog, name: str) -> bool:
    return str(catalog.info(name)["table_type"]) == "MANAGED"


def _check(catalog: Catalog, name: str) -> Iterator[Finding]:
    try:
        table: DeltaTable = catalog.table(name)
        problems = table.check()
    except DeltaError as e:
        yield _failed(name, e)
        return
    for problem in problems:
        orphan = problem["kind"] == "orphan"
        advice = "VACUUM deletes it" if orphan else f"deltaplane check {catalog.location(name)} says more"
        yield Finding(name, f"{problem['path'] or problem['kind']}: {problem['message']}", advice, is_wrong=not orphan)


def _failed(name: str, error: DeltaError) -> Finding:
    return Finding(name, str(error), "restore the table's files, or drop the name")
