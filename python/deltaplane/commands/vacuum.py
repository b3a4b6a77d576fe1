"""VACUUM: selects files by a listing, an inventory or the log, and by the retention. The core finds
and deletes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from deltaplane import _native
from deltaplane.commands.progress import OnProgress, telling
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.io import records
from deltaplane.io.arrow import as_reader
from deltaplane.io.index_properties import has_indexes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Vacuum", "counted", "vacuum"]

_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Vacuum:
    """The arguments of VACUUM. `retention_hours` None means the table's properties. `commits` says
    when commits record it: if files are deleted, always, or never."""

    retention_hours: float | None = None
    enforce_retention: bool = True
    full: bool = False
    keep_versions: Sequence[int] = ()
    dry_run: bool = True
    commits: Literal["deleting", "always", "never"] = "deleting"


def vacuum(
    table: _native.Snapshot,
    what: Vacuum,
    inventory: Any,
    commit: records.CommitRequest,
    deletes: Callable[[list[str]], bool] | None = None,
    progress: OnProgress | None = None,
) -> records.VacuumResult:
    """Runs VACUUM; returns the result with the files' paths. `deletes` may delete files by other
    means, many at once, and returns whether it did."""
    rows = None if inventory is None else _inventory(inventory)
    request = _request(what, rows is not None, commit)
    result = _native.vacuum(table, request, rows, deletes=deletes, progress=telling(progress))
    _clean_indexes(table, what)
    return result


def counted(table: _native.Snapshot, what: Vacuum, commit: records.CommitRequest) -> records.VacuumResult:
    """Runs VACUUM; returns the result without the files' paths."""
    result = _native.vacuum(table, _request(what, False, commit), keys=False)
    _clean_indexes(table, what)
    return result


def _clean_indexes(table: _native.Snapshot, what: Vacuum) -> None:
    """Deletes objects of the table's indexes of keys that no manifest has named for a day; a
    failure is logged. Readers of every version use the newest manifest."""
    if not what.dry_run and has_indexes(table):
        table.clean_indexes(False)


def _request(what: Vacuum, has_inventory: bool, commit: records.CommitRequest) -> records.VacuumRequest:
    if what.retention_hours is not None and not 0 <= what.retention_hours < float("inf"):
        raise InvalidArgumentError(f"files are kept for 0 hours or more, not {what.retention_hours} (retention_hours)")
    if any(isinstance(v, bool) or not isinstance(v, int) or v < 0 for v in what.keep_versions):
        raise InvalidArgumentError(f"keep_versions is a list of version numbers, not {list(what.keep_versions)}")
    return records.VacuumRequest(
        retention_ms=None if what.retention_hours is None else round(what.retention_hours * _HOUR_MS),
        enforce_retention=what.enforce_retention,
        lite=not what.full and not has_inventory,
        keep_versions=list(what.keep_versions),
        dry_run=what.dry_run,
        commits=what.commits,
        commit=commit,
    )


def _inventory(inventory: Any) -> pa.RecordBatchReader:
    """The files among an inventory's rows, with delta-spark's columns."""
    import pyarrow as pa

    if isinstance(inventory, (list, tuple)):
        inventory = pa.Table.from_pylist(list(inventory)) if inventory else pa.table({name: [] for name in _INVENTORY})
    reader = as_reader(inventory)
    absent = sorted({*_INVENTORY} - {*reader.schema.names})
    if absent:
        raise InvalidArgumentError(f"an inventory has the columns {', '.join(_INVENTORY)}: {', '.join(absent)} lacks")
    schema = pa.schema([("path", pa.string()), ("length", pa.int64()), ("modificationTime", pa.int64())])

    def files() -> Any:
        import pyarrow.compute as pc

        for batch in reader:
            files_only = batch.filter(pc.invert(pc.fill_null(batch["isDir"].cast(pa.bool_()), False)))
            try:
                yield files_only.select(schema.names).cast(schema)
            except pa.ArrowException as e:
                raise InvalidArgumentError(f"an inventory's length and modificationTime are whole numbers: {e}") from e

    return pa.RecordBatchReader.from_batches(schema, files())


_INVENTORY = ("path", "length", "isDir", "modificationTime")
