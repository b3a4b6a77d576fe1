"""FSCK: the core's findings in log and listing, and with `deep` those in every file."""

from __future__ import annotations

from typing import Any

from deltaplane import _native
from deltaplane.commands.progress import OnProgress, telling

__all__ = ["check"]


def check(table: _native.Snapshot, *, deep: bool, progress: OnProgress | None = None) -> list[dict[str, Any]]:
    """All findings, those of the listing first."""
    tell = telling(progress)
    findings = _native.check(table, tell)
    if deep:
        # Missing files were already reported.
        gone = [finding.path for finding in findings if finding.kind.startswith("missing")]
        findings += [finding for finding in _native.check_rows(table, tell) if finding.path not in gone]
    return [finding.to_dict() for finding in findings]
