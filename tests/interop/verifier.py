"""Runs the independent verifier of the protocol (`tests/verifier`) on tables that deltaplane wrote,
and locates the shared corpus. Uses no deltaplane.
"""

from __future__ import annotations

import os
from pathlib import Path

from verifier import problems

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("DELTAPLANE_SHARED", ROOT.parent / "shared"))


def verify(table: str) -> None:
    """Fails unless the verifier finds no problem."""
    findings = problems(table)
    assert not findings, "\n".join([table, *findings])
