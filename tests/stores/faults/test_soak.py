"""A short soak; `DELTAPLANE_SOAK_SECONDS=600` runs it for that time, with a seed of its own."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from stores.faults.soak import soak

SECONDS = os.environ.get("DELTAPLANE_SOAK_SECONDS")


@pytest.mark.slow
@pytest.mark.timeout(float(SECONDS or 20) + 600)
def test_faults_and_kills_cost_no_row(tmp_path: Path) -> None:
    score = soak(tmp_path, float(SECONDS or 20), 1 if SECONDS is None else int(time.time()))
    assert (score.lost, score.doubled, score.torn) == ([], [], []), score
    assert (score.wrong_reads, score.untyped) == ([], []), score
    assert (score.not_streamed, score.streamed_wrongly) == ([], []), score
    # A soak without writes, reads, kills or faults shows nothing.
    assert score.acknowledged, score
    assert score.reads, score
    assert score.streamed, score
    assert score.kills, score
    assert sum(score.faults.values()) > score.faults["none"], score


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_store_that_overwrites_commits_is_found(tmp_path: Path) -> None:
    """The planted fault: a later commit replaces an earlier one of the same version."""
    score = soak(tmp_path, 12, 1, overwrites=True)
    assert score.acknowledged, score
    assert score.lost, score
