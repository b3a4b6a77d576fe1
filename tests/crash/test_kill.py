"""Kill -9 at any instant leaves a table that opens, holds every write that returned, and goes on.

DELTAPLANE_CRASH_ROUNDS sets the number of kills (10 unless told, a fifth of it on S3); `make reliability` has 200 of each.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conftest import S3Server
from crash.killing import kill_loop, on_disk
from crash.processes import on_s3

ROUNDS = int(os.environ.get("DELTAPLANE_CRASH_ROUNDS", "10"))


@pytest.mark.slow
@pytest.mark.timeout(120 + 30 * ROUNDS)
def test_kill_at_any_instant(tmp_path: Path) -> None:
    seen = kill_loop(on_disk(tmp_path), tmp_path, ROUNDS)
    assert seen.kills_inside, "no kill fell into a write: the test shows nothing"


@pytest.mark.slow
@pytest.mark.timeout(120 + 30 * ROUNDS)
def test_kill_at_any_instant_on_s3(tmp_path: Path, moto_server: S3Server) -> None:
    seen = kill_loop(on_s3(moto_server), tmp_path, max(ROUNDS // 5, 2))
    assert seen.kills_inside, "no kill fell into a write: the test shows nothing"
