"""The cases of one library: functions with a name, run one after the other in the library's own
interpreter. `python run.py SCRIPT TABLES OUT` writes what happened to each.

Imports no library, and not deltaplane: the same scripts run on deltalake.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

Case = Callable[[dict[str, Any], Path], None]


class Named(NamedTuple):
    """A case; `limit` says why the library itself can't do it, whatever it runs on."""

    function: Case
    limit: str | None


CASES: dict[str, Named] = {}


def case(name: str, limit: str | None = None) -> Callable[[Case], Case]:
    """Names a function as a case: it gets the tables of `tables.make` and a new directory."""

    def add(function: Case) -> Case:
        CASES[name] = Named(function, limit)
        return function

    return add


def same(actual: Any, expected: list[dict[str, Any]]) -> None:
    """Asserts that a frame, a table of Arrow or a list of rows has exactly these rows, in any
    order."""
    assert sorted(map(_text, _rows(actual))) == sorted(map(_text, expected))


def _rows(data: Any) -> list[dict[str, Any]]:
    if isinstance(data, list):
        return data
    if hasattr(data, "to_pylist"):
        return data.to_pylist()
    return data.to_dicts() if hasattr(data, "to_dicts") else data.to_dict("records")


def _text(row: dict[str, Any]) -> str:
    return json.dumps({name: _plain(row[name]) for name in sorted(row)}, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """A value as JSON has it; each library has its own null and its own times."""
    if value is None or type(value).__name__ in ("NaTType", "NAType") or value != value:
        return None
    if isinstance(value, datetime):
        in_utc = value.replace(tzinfo=timezone.utc) if value.tzinfo is None else value.astimezone(timezone.utc)
        return in_utc.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return value.item() if hasattr(value, "item") else value


def run(tables: dict[str, Any], scratch: Path) -> dict[str, str]:
    """Case → `works`, or what it raised; wrong rows are an AssertionError."""
    outcomes = {}
    for number, (name, (function, _)) in enumerate(CASES.items()):
        folder = scratch / str(number)
        folder.mkdir()
        try:
            function(tables, folder)
        except BaseException as e:  # deltalake's panics are no Exception
            if isinstance(e, KeyboardInterrupt):
                raise
            first = str(e).strip().partition("\n")[0]
            outcomes[name] = "wrong rows" if isinstance(e, AssertionError) else f"{type(e).__name__}: {first}"[:300]
        else:
            outcomes[name] = "works"
    return outcomes
