"""CLONE: handles an existing target; the core refers to or copies files and commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltaplane import _native
from deltaplane.commands.progress import OnProgress, telling
from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.io import records
from deltaplane.metastores.named import keep_in_step
from deltaplane.properties import commit_request

if TYPE_CHECKING:
    from deltaplane.write.convert import Conversion, Files

__all__ = ["Clone", "check_parquet_clone", "clone", "clone_parquet"]


@dataclass(frozen=True)
class Clone:
    """The arguments of a clone; `source_name` is the source's name in a catalog."""

    shallow: bool = True
    replace: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    source_name: str | None = None


def clone(
    source: _native.Snapshot,
    target: tuple[str, Mapping[str, str] | None],
    what: Clone,
    commit: records.CommitRequest,
    progress: OnProgress | None = None,
    copies: Callable[[list[tuple[str, str]]], list[int] | None] | None = None,
) -> dict[str, int]:
    """Clones and returns the metrics. `target` is a location with the options of its store.
    `copies` may copy files by other means: it receives their paths in the source and in the clone,
    and returns their sizes if it copied them."""
    request = _request(what, commit)
    done = _native.clone_table(source, *target, request, telling(progress), copies)
    if not what.dry_run:
        keep_in_step(target[0])
    return done.metrics


def clone_parquet(
    source: Conversion,
    reader: Files,
    name: str,
    target: tuple[str, Mapping[str, str] | None],
    what: Clone,
) -> dict[str, int]:
    """Makes a table that refers to existing Parquet files; returns the metrics. `name` is the
    files' name in the history.

    Describes the files by a temporary log in memory, and clones that.

    Raises:
        InvalidArgumentError, SchemaMismatchError: the files can't form a table.
        TableAlreadyExistsError: the target exists and may not be replaced.
    """
    location = source.log_in_memory(reader)
    try:
        log = _native.Snapshot.open(location, None)
        parquet = (source.location, source.options, name)
        request = _request(what, commit_request(None, None))
        done = _native.clone_table(log, *target, request, telling(None), None, parquet)
    finally:
        store = _native.RawStore.open(location, None)
        store.delete_all([path for path, *_ in store.list_all("")])
    if not what.dry_run:
        keep_in_step(target[0])
    return done.metrics


def check_parquet_clone(what: Clone, name: str, *, has_version: bool) -> None:
    """Refuses options that a clone of Parquet files doesn't support.

    Raises:
        UnsupportedFeatureError: a deep clone, or a version of the files.
    """
    if not what.shallow:
        raise UnsupportedFeatureError(
            f"{name} is no Delta table: only a SHALLOW CLONE is made of Parquet files; CREATE TABLE … AS SELECT copies rows"
        )
    if has_version:
        raise UnsupportedFeatureError(f"{name} is no Delta table, and has no versions: leave VERSION AS OF out")


def _request(what: Clone, commit: records.CommitRequest) -> records.CloneRequest:
    return records.CloneRequest(
        shallow=what.shallow,
        replace=what.replace,
        properties=dict(what.properties),
        source_name=what.source_name,
        dry_run=what.dry_run,
        commit=commit,
    )
