"""FSCK: what the core finds in log and listing, and with `deep` what reading every file finds.

Called by `deltaplane.care`.
"""

from __future__ import annotations

import json
from typing import Any

from deltaplane import _native

__all__ = ["check"]


def check(table: _native.Snapshot, *, deep: bool) -> list[dict[str, Any]]:
    """All findings, those of the listing first."""
    found: list[dict[str, Any]] = json.loads(_native.check(table))
    if deep:
        # What isn't there was told already.
        gone = [finding["path"] for finding in found if finding["kind"].startswith("missing")]
        found += [finding for finding in json.loads(_native.check_rows(table)) if finding["path"] not in gone]
    return found
