"""Tables made to exhaust, overflow, confuse or mislead a reader, and tables with a randomly damaged
file: every action on them yields rows or a typed error, in bounded time and memory (`damage.py`
runs the full version).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from robustness import damage
from robustness.hostile import Outcomes


def test_every_hostile_table_ends_in_rows_or_a_typed_error(tmp_path: Path) -> None:
    total = damage.hostile(tmp_path, files_in_a_log=3_000, zeros=128 << 20)
    assert total.faults == {}
    assert total.outcomes["ok"] > 100


def test_every_damaged_file_ends_in_rows_or_a_typed_error(tmp_path: Path) -> None:
    total = damage.at_random(tmp_path, range(60))
    assert total.faults == {}
    # Some damage has an effect, and not every damage loses a table.
    assert total.outcomes["ok"] > total.outcomes["CorruptFile"] + total.outcomes["CorruptLog"] > 10


@pytest.mark.parametrize(
    ("outcome", "what"),
    [
        ({"outcome": "untyped PanicException"}, "PanicException"),
        ({"seconds": 99.0}, "99.0 s"),
        ({"mb": 9999}, "9999 MB"),
    ],
)
def test_faults_are_told(outcome: dict[str, object], what: str) -> None:
    line = {"did": "rows", "outcome": "ok", "text": "", "seconds": 0.0, "mb": 0, **outcome}
    assert what in str(Outcomes({"rows": line}).faults())
    total = damage.Found()
    total.add("a table", Outcomes({"rows": {**line, "seconds": 0.0, "mb": 0, "outcome": "ok"}}), must_refuse_rows=True)
    assert total.faults == {"a table": ["rows from elsewhere were read"]}
