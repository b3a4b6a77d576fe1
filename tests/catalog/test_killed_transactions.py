"""A process that is killed within a transaction over two tables leaves all of it or nothing: at
every fourth call that changes something here, at every call by `make reliability`."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.killing import explore


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["server", "sqlite"])
def test_a_killed_process_leaves_all_or_nothing(kind: str, tmp_path: Path) -> None:
    figures = explore(tmp_path, kind, counts_reads=False, every=4)
    assert figures["in both tables"] > 0
    assert figures["in neither"] > 0
