"""RESTORE: resolves the target version; the core computes the difference and commits."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from deltaplane import _native
from deltaplane.commands.progress import OnProgress, telling
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.io import records
from deltaplane.io.storage_options import version_arguments

__all__ = ["restore"]


def restore(
    table: _native.Snapshot,
    target: int | datetime | str,
    *,
    ignore_missing_files: bool,
    ignore_unfinished_vacuum: bool,
    protocol_downgrade_allowed: bool,
    dry_run: bool,
    commit: records.CommitRequest,
    progress: OnProgress | None,
) -> dict[str, Any]:
    """Restores the table; returns the committed version (None for a dry run, or if nothing differs)
    and the metrics."""
    if target is None:
        raise InvalidArgumentError("say which version to go back to: a number, an ISO 8601 text or a datetime")
    version, timestamp_ms = version_arguments(target)
    request = records.RestoreRequest(
        version=version,
        timestamp_ms=timestamp_ms,
        timestamp=None if timestamp_ms is None else str(target),
        ignore_missing_files=ignore_missing_files,
        ignore_unfinished_vacuum=ignore_unfinished_vacuum,
        protocol_downgrade_allowed=protocol_downgrade_allowed,
        dry_run=dry_run,
        commit=commit,
    )
    return _native.restore(table, request, telling(progress)).to_dict()
