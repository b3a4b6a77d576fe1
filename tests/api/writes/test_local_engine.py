"""The embedded engine: its memory limit and its rows stay the same while it releases memory."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltaplane.commands.duckdb_engine import LocalEngine, Memory

ROWS = 200_000


def _limit(engine: LocalEngine) -> str:
    return str(engine.values("SELECT current_setting('memory_limit')")[0])


@pytest.mark.parametrize("limit", [None, "200MB"])
def test_rows_and_limit_are_the_same_while_memory_is_given_back(limit: str | None) -> None:
    with LocalEngine(Memory(limit=limit)) as engine:
        before = _limit(engine)
        rows = pa.table({"n": range(ROWS)})
        engine.adopt("s", rows.to_batches(), rows.schema)
        for _ in range(2):
            numbers = [n for batch in engine.batches("SELECT c0 FROM s ORDER BY c0 DESC") for n in batch[0].to_pylist()]
            assert numbers == list(range(ROWS))[::-1]
            assert _limit(engine) == before
