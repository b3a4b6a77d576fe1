"""SIGKILL at any instant leaves a table that opens, has every acknowledged write, and can be
written again.

DELTAPLANE_CRASH_ROUNDS sets the number of kills (default 10, a tenth of it on each S3);
`make reliability` runs 200 of each.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crash.killing import kill_loop, on_disk
from crash.processes import S3_SERVERS, on_s3

ROUNDS = int(os.environ.get("DELTAPLANE_CRASH_ROUNDS", "10"))


@pytest.mark.slow
@pytest.mark.timeout(120 + 30 * ROUNDS)
def test_kill_at_any_instant(tmp_path: Path) -> None:
    seen = kill_loop(on_disk(tmp_path), tmp_path, ROUNDS)
    assert seen.kills_inside, "no kill fell into a write: the test shows nothing"


@pytest.mark.slow
@pytest.mark.parametrize("name", list(S3_SERVERS))
@pytest.mark.timeout(120 + 30 * ROUNDS)
def test_kill_at_any_instant_on_s3(name: str, tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with S3_SERVERS[name](tmp_path / "server") as server:
        seen = kill_loop(on_s3(server), tmp_path, max(ROUNDS // 10, 1))
    assert seen.kills_inside, "no kill fell into a write: the test shows nothing"
