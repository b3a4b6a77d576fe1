"""The results of commands have the keys and the types of values that their types promise."""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.table import results

VECTORS = {"delta.enableDeletionVectors": "true"}


def _table(path: str, **properties: str) -> DeltaTable:
    for first in (0, 3, 6):
        rows = pa.table({"x": [first, first + 1, first + 2]})
        write_deltalake(path, rows, mode="append", configuration=properties)
    return DeltaTable(path)


def _merge(table: DeltaTable, keys: list[int]) -> Any:
    merging = table.merge(pa.table({"x": keys}), "t.x = s.x", "s", "t")
    return merging.when_matched_update_all().execute()


def _broken(table: DeltaTable) -> DeltaTable:
    Path(table.location, table.files()[0]).unlink()
    return table


RUNS: list[tuple[str, type, Callable[[DeltaTable], Any]]] = [
    ("delete", results.DeletedRows, lambda t: t.delete("x = 1")),
    ("delete nothing", results.DeletedRows, lambda t: t.delete("x = 100")),
    ("delete all", results.DeletedRows, lambda t: t.delete()),
    ("update", results.UpdatedRows, lambda t: t.update({"x": "x + 1"}, predicate="x = 1")),
    ("update nothing", results.UpdatedRows, lambda t: t.update({"x": "x + 1"}, predicate="x = 100")),
    ("merge", results.MergedRows, lambda t: _merge(t, [1, 2])),
    ("merge nothing", results.MergedRows, lambda t: _merge(t, [100])),
    ("purge", results.PurgedFiles, lambda t: t.purge()),
    ("purge after a delete", results.PurgedFiles, lambda t: (t.delete("x = 1"), t.purge())[1]),
    ("compact", results.OptimizedFiles, lambda t: t.optimize.compact()),
    ("plan of compact", results.OptimizedFiles, lambda t: t.optimize.compact(dry_run=True)),
    ("z_order", results.OptimizedFiles, lambda t: t.optimize.z_order(["x"])),
    ("restore", results.RestoredFiles, lambda t: t.restore(0)),
    ("plan of restore", results.RestoredFiles, lambda t: t.restore(0, dry_run=True)),
    ("clone", results.ClonedFiles, lambda t: t.clone(f"{t.location}-clone")),
    ("deep clone", results.ClonedFiles, lambda t: t.clone(f"{t.location}-copy", shallow=False)),
    ("repair", results.RemovedFiles, lambda t: _broken(t).repair()),
    ("forget_history", results.ForgottenHistory, lambda t: t.forget_history()),
    ("check", results.Problem, lambda t: _broken(t).check()[0]),
]


def _problems(result: dict[str, Any], declared: Any) -> list[str]:
    hints = get_type_hints(declared)
    problems = [f"{key} isn't declared" for key in result.keys() - hints.keys()]
    problems += [f"{key} is missing" for key in declared.__required_keys__ - result.keys()]
    for key, value in result.items():
        if key in hints and not _fits(value, hints[key]):
            problems.append(f"{key} is {value!r}, not {hints[key]}")
    return problems


def _fits(value: Any, hint: Any) -> bool:
    if get_origin(hint) in (Union, types.UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(item, get_args(hint)[0]) for item in value)
    return type(value) is hint


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["rewriting", "vectors"])
@pytest.mark.parametrize(("name", "declared", "run"), RUNS, ids=[run[0] for run in RUNS])
def test_a_result_is_as_declared(
    name: str,
    declared: type,
    run: Callable[[DeltaTable], Any],
    properties: dict[str, str],
    tmp_table: Callable[[], str],
) -> None:
    result = run(_table(tmp_table(), **properties))
    assert type(result) is dict
    assert _problems(result, declared) == []


def test_the_check_notices_each_kind_of_mistake() -> None:
    right = {"dry_run": True, "files_removed": ["a"]}
    assert _problems(right, results.RemovedFiles) == []
    wrong = [{"dry_run": True}, {**right, "more": 1}, {**right, "files_removed": [1]}, {**right, "dry_run": 1}]
    assert [len(_problems(result, results.RemovedFiles)) for result in wrong] == [1, 1, 1, 1]
