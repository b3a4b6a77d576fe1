"""Tables as a writer without checks leaves them, with arbitrary declarations."""

from __future__ import annotations

import json
from pathlib import Path

from deltaplane import DeltaTable
from deltaplane.schema import Field, Schema


def constrained(path: str, *fields: Field, **constraints: str) -> str:
    """A new table with these unchecked constraints."""
    DeltaTable.create(path, Schema(list(fields)), configuration={"delta.constraints.c": "true"})
    commit = Path(path) / "_delta_log" / f"{0:020}.json"
    configuration = {f"delta.constraints.{name}": sql for name, sql in constraints.items()}
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        action.get("metaData", {})["configuration"] = configuration
    commit.write_text("\n".join(map(json.dumps, actions)))
    commit.with_suffix(".crc").unlink(missing_ok=True)
    return path
