"""Proofs that need real processes: killed writers, racing writers together with deltalake, and the
files synced before a commit is acknowledged. `python -m crash.processes kills` and `races` from
`tests/` run them in full and write docs/reliability/kills.json and processes.json, for all stores
or the named ones; the tests run shorter versions.
"""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from crash.killing import Place, Seen, kill_loop, on_disk
from deltaplane import DeltaTable, write_deltalake
from stores.servers import StoreServer, moto, versitygw

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "reliability"
APPENDER = Path(__file__).with_name("appender.py")
ROUNDS, PROCESSES, APPENDS = 200, 8, 100
RACE_SECONDS = 1500


def on_s3(server: StoreServer) -> Place:
    """A new bucket, whose tables are copied for inspection."""
    import boto3

    bucket, options = server.new_bucket(), server.options
    client = boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        aws_access_key_id=options["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=options["AWS_SECRET_ACCESS_KEY"],
        region_name=options["AWS_REGION"],
    )

    def files(table: str, scratch: Path) -> Path:
        name, prefix = bucket.removeprefix("s3://"), table.removeprefix(f"{bucket}/") + "/"
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=name, Prefix=prefix):
            for item in page.get("Contents", ()):
                path = scratch / item["Key"].removeprefix(prefix)
                path.parent.mkdir(parents=True, exist_ok=True)
                client.download_file(name, item["Key"], str(path))
        return scratch

    return Place(bucket, options, 6, 0.3, files)


# --- racing writers ---------------------------------------------------------------------------------------------------


@dataclass
class Race:
    """The number of successful appends of several processes, and the errors of the others."""

    library: str
    appends: int
    succeeded: int
    failures: list[str]
    seconds: float
    # Rows that are duplicated, or that belong to an acknowledged append and are missing.
    wrong_rows: int


def race(library: str, table: str, options: dict[str, str], processes: int, appends: int) -> Race:
    """Each process appends its own rows, one per commit; all start together."""
    write_deltalake(table, pa.table({"id": pa.array([], pa.int64())}), storage_options=options)
    command = [sys.executable, str(APPENDER), library, table, json.dumps(options), str(appends)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = [subprocess.Popen([*command, str(n * appends)], text=True, **pipes) for n in range(processes)]
    try:
        for process in running:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert first == "ready\n", process.communicate()
        began = time.monotonic()
        for process in running:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        ended = [process.communicate(timeout=RACE_SECONDS) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    seconds = time.monotonic() - began
    assert [process.returncode for process in running] == [0] * processes, [said for _, said in ended]
    outcomes = [json.loads(line) for said, _ in ended for line in said.splitlines()]
    done = {line["id"] for line in outcomes if "failed" not in line}
    opened = DeltaTable(table, storage_options=options)
    ids = opened.to_pyarrow_table()["id"].to_pylist()
    wrong = len(ids) - len(set(ids)) + len(done - set(ids))
    failures = sorted(line["failed"] for line in outcomes if "failed" in line)
    return Race(library, processes * appends, len(done), failures, seconds, wrong)


# --- what is synced ---------------------------------------------------------------------------------------------------

_APPEND = """
import os, sys
import pyarrow as pa
from deltaplane import write_deltalake
write_deltalake(sys.argv[1], pa.table({"id": [1]}), mode="append")
os.write(1, b"acknowledged")
"""
_CALL = re.compile(r"^\d+ +(?P<name>\w+)\((?P<arguments>.*)\) += \d")


def synced_before(table: str) -> list[str]:
    """The system calls of one append, in order: syncs and links of the table's files, until it
    returns.

    From strace: `sync NAME` and `link NAME`, names relative to the table, drafts by their
    directory.
    """
    calls = "trace=fsync,fdatasync,link,linkat,rename,renameat,renameat2,write"
    command = ["strace", "-f", "-y", "-s", "32", "-e", calls, "-o", f"{table}.strace"]
    subprocess.run([*command, sys.executable, "-c", _APPEND, table], check=True, capture_output=True, timeout=120)
    said = [order for line in Path(f"{table}.strace").read_text().splitlines() if (order := _order(line, table))]
    return said[: said.index("acknowledged")]


def _order(line: str, table: str) -> str | None:
    match = _CALL.match(re.sub(r"<\.\.\. (\w+) resumed>", "", line))
    if match is None:
        return None
    name, arguments = match["name"], match["arguments"]
    if name == "write":
        return "acknowledged" if '"acknowledged"' in arguments else None
    paths = [path for path in re.findall(r'[<"](/[^>"]*)[>"]', arguments) if path.startswith(table)]
    if not paths:
        return None
    relative = str(Path(paths[-1]).relative_to(table))
    verb = "sync" if name in ("fsync", "fdatasync") else "link"
    return f"{verb} {re.sub(r'[^/]*.tmp$', 'draft', relative)}"


def check_synced(order: list[str], version: int) -> None:
    """A commit is linked only after its bytes and its data files are synced, and acknowledged only
    after its name is synced."""
    commit = f"link _delta_log/{version:020}.json"
    placed = order.index(commit)
    data = next(i for i, call in enumerate(order) if call.startswith("link ") and call.endswith(".parquet"))
    named = order[data].removeprefix("link ")
    assert f"sync {named}" in order[data:placed], "the data file is synced before the commit tells its name"
    assert "sync ." in order[data:placed], "the data file's directory is synced before the commit"
    assert "sync _delta_log/draft" in order[:placed], "the commit is synced before it has its name"
    assert "sync _delta_log" in order[placed:], "the commit's directory is synced before the call returns"


# --- all of it --------------------------------------------------------------------------------------------------------


def killed(name: str, place: Place, scratch: Path, rounds: int) -> dict[str, object]:
    began = time.monotonic()
    seen: Seen = kill_loop(place, scratch, rounds)
    return {
        f"{name}: writers killed": seen.kills,
        f"{name}: of these inside a write": seen.kills_inside,
        f"{name}: writes begun": seen.writes,
        f"{name}: commits": seen.commits,
        f"{name}: commits in place whose writer didn't live to say so": seen.untold,
        f"{name}: seconds": round(time.monotonic() - began),
    }


def raced(name: str, root: str, options: dict[str, str]) -> list[list[object]]:
    rows: list[list[object]] = []
    for library in ("deltaplane", "deltalake"):
        done = race(library, f"{root}/{library}", options, PROCESSES, APPENDS)
        print(done, flush=True)
        assert done.wrong_rows == 0 or library != "deltaplane"
        assert not done.failures or library != "deltaplane", done.failures
        rows.append(
            [name, library, done.appends, done.succeeded, len(done.failures), done.wrong_rows, round(done.seconds)]
        )
    return rows


# The stores on which processes are killed and race, by their names in the proofs.
S3_SERVERS = {"S3 (moto)": moto, "S3 (versitygw)": versitygw}
STORES = ("local disk", *S3_SERVERS)


@contextmanager
def on_each(stores: Sequence[str]) -> Iterator[Iterator[tuple[str, Place, Path]]]:
    """The location on each store, with a local directory for files besides the tables."""
    with tempfile.TemporaryDirectory() as root, ExitStack() as running:

        def places() -> Iterator[tuple[str, Place, Path]]:
            for n, name in enumerate(stores):
                scratch = Path(root) / str(n)
                (scratch / "server").mkdir(parents=True)
                if name in S3_SERVERS:
                    yield name, on_s3(running.enter_context(S3_SERVERS[name](scratch / "server"))), scratch
                else:
                    yield name, on_disk(scratch), scratch

        yield places()


def recorded(name: str) -> dict[str, Any]:
    """The results of an earlier run, which a run over some stores retains for the others."""
    path = RESULTS / f"{name}.json"
    return dict(json.loads(path.read_text())) if path.exists() else {"figures": {}, "tables": []}


def kills(rounds: int, stores: Sequence[str]) -> None:
    figures: dict[str, object] = {} if stores == STORES else recorded("kills")["figures"]
    with on_each(stores) as places:
        for name, place, scratch in places:
            figures |= killed(name, place, scratch, rounds)
            print(figures, flush=True)
    report(
        "kills",
        "Killed writers",
        [
            "Writers that append, overwrite, update, delete and write checkpoints are killed (SIGKILL) at random instants."
            " After each kill the table opens, its versions have no gap, every write that returned is there, none is there"
            " twice, its rows are those of a serial history, and an independent verifier finds no fault.",
        ],
        figures,
        [],
    )


def races(stores: Sequence[str]) -> None:
    tables = recorded("processes")["tables"]
    rows = [row for row in tables[0]["rows"] if row[0] not in stores] if tables else []
    with on_each(stores) as places:
        for name, place, _ in places:
            rows += raced(name, place.root, place.options)
    rows.sort(key=lambda row: STORES.index(row[0]))
    with tempfile.TemporaryDirectory() as scratch:
        table = f"{scratch}/synced"
        write_deltalake(table, pa.table({"id": [1]}))
        order = synced_before(table)
        check_synced(order, 1)
    report(
        "processes",
        "Racing writers, synced commits",
        [
            f"{PROCESSES} processes append {APPENDS} times each to one table: none of deltaplane's appends fails. deltalake"
            " runs the same loop with its own defaults, to compare.",
            "On local disk, before a write returns, its data file, the file's directory, the commit and the log's"
            " directory are synced, in this order, and the commit gets its name only when its bytes are safe (strace).",
        ],
        {},
        [
            {
                "title": f"{PROCESSES} processes, {APPENDS} appends each",
                "head": ["store", "library", "appends", "succeeded", "failed", "rows lost or doubled", "seconds"],
                "rows": rows,
            },
            {
                "title": "What one append asks of the system before it returns",
                "head": ["call", "file"],
                "rows": [call.split(" ", 1) for call in order],
            },
        ],
    )


def report(name: str, title: str, claims: list[str], figures: dict[str, object], tables: list[object]) -> None:
    content = {"title": title, "claims": claims, "figures": figures, "tables": tables}
    content["how"] = f"cd tests && ../.venv/bin/python -m crash.processes {'kills' if name == 'kills' else 'races'}"
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    logging.getLogger("deltaplane").setLevel(logging.CRITICAL)
    wanted = tuple(sys.argv[2:]) or STORES
    if sys.argv[1] == "kills":
        kills(ROUNDS, wanted)
    else:
        races(wanted)
