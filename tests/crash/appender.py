"""Owns one of several processes that append to one table at once, by deltaplane or deltalake.
Started by `processes.race`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa


def writer_of(library: str) -> Callable[..., Any]:
    if library == "deltalake":
        import deltalake

        return deltalake.write_deltalake
    import deltaplane

    return deltaplane.write_deltalake


def main(library: str, table: str, options: dict[str, str], count: int, first: int) -> None:
    """Waits for a line, so that all begin together; then appends one row a commit and tells what
    became of each."""
    write = writer_of(library)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(first, first + count):
        outcome: dict[str, Any] = {"id": number}
        try:
            write(table, pa.table({"id": [number]}), mode="append", storage_options=options)
        except Exception as e:  # noqa: BLE001 - whatever it is, it is counted
            outcome["failed"] = f"{type(e).__name__}: {e}"
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
