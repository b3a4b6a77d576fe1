"""UPDATE and DELETE of one row in a thousand, scattered over the whole table, and of one range of
it."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.changed_tables import MODES, tables, task
from support.harness import Case, Contestant, Task, main, scale_of
from support.rows import ROWS

EVERY = 1000


def condition(kind: str, rows: int) -> str:
    """In a form that both contestants understand."""
    return f"id % {EVERY} = 7" if kind == "scattered" else f"id >= {rows // 2} AND id < {rows // 2 + rows // EVERY}"


def contestant(name: str, case: Mapping[str, Any], scratch: Path) -> Task:
    where = condition(case["kind"], case["rows"])

    def change(table: Any) -> Any:
        if case["command"] == "delete":
            return table.delete(where)
        return table.update(updates={"amount": "amount + 1"}, predicate=where)

    return task(name, case, scratch, change, lambda m: m[f"num_{case['command']}d_rows"])


CONTESTANTS: dict[str, Contestant] = {n: functools.partial(contestant, n) for n in ("deltaplane", "deltalake")}


def arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def cases(options: argparse.Namespace) -> list[Case]:
    scale = scale_of(options)
    rows = ROWS[scale]
    shared = {"rows": rows}
    return [
        Case(
            f"{command} {kind}, {mode}",
            list(CONTESTANTS),
            functools.partial(
                lambda **arguments: {**arguments, "tables": tables(scale, arguments["mode"])},
                **shared,
                command=command,
                kind=kind,
                mode=mode,
            ),
            expected=rows // EVERY,
            target=f"{command} {kind} {mode}",
        )
        for command in ("update", "delete")
        for kind in ("scattered", "range")
        for mode in MODES
    ]


if __name__ == "__main__":
    main("update", CONTESTANTS, cases, arguments)
