"""Owns the call of the table verifier that lies beside the checkout: an independent reading of the Delta protocol.

Knows nothing of deltaplane. Called by the interop and crash tests on every table that deltaplane wrote.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interop.jars import delta_jars

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("DELTAPLANE_SHARED", ROOT.parent / "shared"))
VERIFY_SECONDS = 300


def verify(table: str, *, reference: bool = False) -> None:
    """Fails unless the verifier finds no problem; `reference` also asks a delta-spark session of the tool's own.

    Without the tool, a test that got this far is skipped.
    """
    tool = SHARED / "tools" / "verify_table.py"
    if not tool.is_file():
        pytest.skip("passed so far, but the verifier isn't beside the checkout: set DELTAPLANE_SHARED")
    against = ["--jars", ",".join(map(str, delta_jars())), "--probe-write"] if reference else ["--no-spark"]
    command = [sys.executable, str(tool), table, *against]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=VERIFY_SECONDS, cwd=Path(table).parent, env=environment
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-2000:]}"
    assert "VERDICT: OK" in done.stdout
