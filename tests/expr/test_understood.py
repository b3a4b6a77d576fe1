"""The trees that the core understands: commands, scans, MERGE and commands on Spark ask one
function, and get one answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, _native, expr, write_deltalake
from deltaplane.commands.condition import met_by_all
from deltaplane.commands.merge.matching import rows_that_can_match
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.row_filter import row_filter, understands
from deltaplane.spark.dml.conditions import bound

ROWS = pa.table(
    {
        "a": [1, 2],
        "s": ["x", "y"],
        "f": [1.5, 2.5],
        "b": [True, False],
        "st": [{"x": 1}, {"x": 2}],
        "arr": [[1], [2]],
        "d": pa.array([1, 2], pa.date32()),
        "bin": [b"a", b"b"],
        "dec": pa.array([1, 2], pa.decimal128(10, 2)),
    }
)
UNDERSTOOD = (
    "a = 1", "a = 1.5", "A > 1", "st.x = 1", "b", "not b", "d = '2020-01-01'", "a is null", "st is null", "s like 'x%'",
    "a in (1, 2)", "a between 1 and 2", "startswith(s, 'x')", "a <=> null", "a = 99999999999999999999", "bin = 'a'",
)  # fmt: skip
# Another engine must evaluate these.
NOT_UNDERSTOOD = ("a = true", "b = 1", "s = 1", "s > 1", "d = 1")
# An unknown column, or a value of another type than its column's.
WRONG = (
    "nope = 1",
    "nope is null",
    "st.y = 1",
    "nope.x = 1",
    "a = 'x'",
    "f = 'x'",
    "d = 'xx'",
    "st = 1",
    "arr = 1",
    "a",
)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("understood") / "t"
    write_deltalake(path, ROWS)
    return DeltaTable(path)._snapshot


def by_command(snapshot: Any, sql: str) -> bool:
    return met_by_all(snapshot, sql)[0] is not None


def by_scan(snapshot: Any, sql: str) -> bool:
    (tree,) = expr.necessary(sql)[0]
    asked: list[_native.Predicate] = []

    def bind(predicate: _native.Predicate) -> object:
        asked.append(predicate)
        return snapshot.scan([], predicate)

    try:
        row_condition = row_filter([sql], lambda: snapshot.schema, bind)
    except InvalidArgumentError as e:
        # The core doesn't support the tree, and DuckDB refuses the expression as well.
        if "embedded engine" in str(e):
            return False
        raise
    assert asked == [tree]
    return row_condition.tree is not None


def by_merge(snapshot: Any, sql: str) -> bool:
    plan: Any = SimpleNamespace(reads=[conjunct.to_dict() for conjunct in expr.necessary(sql)[0]], keys=[])
    return rows_that_can_match(snapshot, plan, engine=None) is not None  # type: ignore[arg-type]


def by_spark(snapshot: Any, sql: str) -> bool:
    session = SimpleNamespace(conf={"spark.sql.session.timeZone": "UTC"})
    target: Any = SimpleNamespace(snapshot=snapshot, spark=session)
    return bool(bound(target, expr.necessary(sql)[0]))


CALLERS = (by_command, by_scan, by_merge, by_spark)


@pytest.mark.parametrize("sql", [*UNDERSTOOD, *NOT_UNDERSTOOD])
@pytest.mark.parametrize("caller", CALLERS)
def test_every_caller_gives_the_same_answer(snapshot: Any, caller: Callable[[Any, str], bool], sql: str) -> None:
    (tree,) = expr.necessary(sql)[0]
    expected = sql in UNDERSTOOD
    assert understands(snapshot, tree) is expected
    assert understands(lambda text: snapshot.scan([], text), tree) is expected
    assert caller(snapshot, sql) is expected


@pytest.mark.parametrize("sql", WRONG)
def test_what_is_wrong_is_an_error_unless_another_engine_checks_it(snapshot: Any, sql: str) -> None:
    (tree,) = expr.necessary(sql)[0]
    for caller in (understands, by_command, by_scan):
        with pytest.raises(InvalidArgumentError):
            caller(snapshot, tree if caller is understands else sql)
    assert understands(snapshot, tree, checked_elsewhere=True) is False
    assert (by_merge(snapshot, sql), by_spark(snapshot, sql)) == (False, False)


def test_nobody_asks_the_core_on_its_own() -> None:
    """Only `understands` binds a tree to test whether that fails."""
    package = Path(expr.__file__).parent.parent
    paths = {path.relative_to(package).as_posix() for path in package.rglob("*.py") if "def _binds" in path.read_text()}
    assert paths == set()
