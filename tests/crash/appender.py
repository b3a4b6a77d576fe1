"""Owns one of several processes that append to one table at once. Started by `test_processes.py`."""

from __future__ import annotations

import sys

import pyarrow as pa

from deltaplane import write_deltalake


def main(table: str, first: int, count: int) -> None:
    """Waits for a line, so that all begin together; then appends one row a commit and prints each version."""
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(first, first + count):
        print(write_deltalake(table, pa.table({"id": [number]}), mode="append").version, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
