"""REMOVE COLUMN MAPPING: rewrites files under the names of the table's columns, so that the mapping
can end (P114).

No row changes, but every file does: a concurrent append is a conflict.
"""

from __future__ import annotations

from typing import NamedTuple

from deltaplane.commands.dry_run import DryRun
from deltaplane.commands.rewriting import Operation, Rewriting, Settings, Target, rewriting
from deltaplane.compat import Protocol

__all__ = ["Unmapped", "remove_column_mapping"]


class Unmapped(NamedTuple):
    """The version without column mapping, None after a dry run, and the unchanged protocol."""

    version: int | None
    protocol: Protocol


def remove_column_mapping(target: Target, settings: Settings) -> Unmapped:
    """Ends the column mapping of a table in one commit; files that already have the columns' names
    stay."""
    protocols: dict[str, Protocol] = {}

    def run(job: Rewriting) -> dict[str, int]:
        protocols["before"] = Protocol.of(job.native.protocols.before)
        job.native.pick_renamed()
        job.reads_picked()
        job.copy_others()
        return job.commit(job.finish())

    done = rewriting(
        target, Operation("REMOVE COLUMN MAPPING", {}, data_change=False, remove_column_mapping=True), settings, run
    )
    return Unmapped(None if isinstance(done, DryRun) else done["version"], protocols["before"])
