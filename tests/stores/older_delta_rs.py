"""Appends by a delta-rs version with locks in DynamoDB; reads requests from its standard input.

A separate program, since the tests' environment has the current delta-rs, which lacks the lock
table. `test_lock_table_peer.py` starts it; it ends when its input does.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """One input line, `[table, first number, options]`; one output line: the committed version, or
    the error."""
    import deltalake.exceptions
    from arro3.core import Array, DataType, Table

    for line in sys.stdin:
        location, number, options = json.loads(line)
        rows = Table.from_arrays([Array([number], DataType.int64())], names=["id"])
        try:
            patient = deltalake.CommitProperties(max_commit_retries=100)
            deltalake.write_deltalake(location, rows, mode="append", storage_options=options, commit_properties=patient)
            answer = {"version": deltalake.DeltaTable(location, storage_options=options).version()}
        except (deltalake.exceptions.DeltaError, OSError) as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
