"""A bounded number of random cases of each kind: no panic, no abort, no wrong rows.

`DELTAPLANE_FUZZ_SECONDS=3600` runs each kind for that time, from a seed of its own.
`python tests/robustness/fuzz.py KIND SEED 99 1` repeats a failed case.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

_FUZZ = Path(__file__).with_name("fuzz.py")
_CASES = {"valid": 60, "damaged": 60, "options": 60, "schema": 60}
_SECONDS = os.environ.get("DELTAPLANE_FUZZ_SECONDS")


# A long run must not end at the limit of other tests.
@pytest.mark.timeout(float(_SECONDS or 120) + 600)
@pytest.mark.parametrize("kind", _CASES)
def test_random_cases_end_in_their_rows_or_in_a_typed_error(kind: str) -> None:
    first, cases = (0, _CASES[kind]) if _SECONDS is None else (int(time.time()), 10**9)
    command = [sys.executable, str(_FUZZ), kind, str(first), _SECONDS or "120", str(cases)]
    # Runs in a process of its own: a crash must not end the tests, and its last line identifies the
    # case.
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    last = (ran.stdout.splitlines() or ["nothing ran"])[-1]
    failed = f"exit {ran.returncode} after `{last}`:\n{ran.stderr[-3000:]}"
    assert ran.returncode == 0, failed
    assert last.startswith("done"), failed
