"""Runs the Rust contract suite on the stores' servers, all in one run; as a program it writes
docs/reliability/stores.json.

`make prove-stores` calls `cd tests && python -m stores.contract`. This file has the promises of
each store as texts; the suite counts each figure at its assertion.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stores.servers import SERVERS

ROOT = Path(__file__).resolve().parents[2]
PROOF = ROOT / "docs" / "reliability" / "stores.json"
SUITE_SECONDS = 580
# The package selection of `make test`: another selection has other features of the dependencies and
# would compile them again.
SUITE = ("cargo", "test", "--quiet", "--workspace", "--exclude", "deltaplane-python", "--locked", "--test", "contract")

PROMISES: dict[str, dict[str, str]] = {
    "local files": {
        "atomic commit": "a synced temporary file that takes the commit's name by a move or a hard link, which fail when the name exists",
        "listing": "what a committed write made is listed at once, by every process of the machine",
        "durability": "file and directory are synced before a commit is acknowledged",
        "proved on": "the local disk",
        "not promised": "network file systems whose links aren't atomic or whose other machines list late",
    },
    "Amazon S3": {
        "atomic commit": "a conditional put (If-None-Match: *); 409 is asked again, since it means a simultaneous request",
        "listing": "strongly consistent, as the service promises",
        "durability": "the service's, once it has acknowledged the put",
        "proved on": "moto and versitygw",
        "not promised": "S3-compatible services that ignore the condition, or whose condition isn't atomic (versitygw 1.8.0 with `--sidecar` shows a taken name whose object can't be read yet): run the contract suite against yours",
    },
    "Azure Blob Storage, Data Lake Storage": {
        "atomic commit": "a conditional put (If-None-Match: *), answered 409 when the blob exists",
        "listing": "strongly consistent, as the service promises",
        "durability": "the service's, once it has acknowledged the put",
        "proved on": "Azurite, Microsoft's own emulator",
        "not promised": "names with a backslash, which Azure turns into a slash",
    },
    "Google Cloud Storage": {
        "atomic commit": "a put with x-goog-if-generation-match: 0, answered 412 when the object exists",
        "listing": "strongly consistent, as the service promises",
        "durability": "the service's, once it has acknowledged the put",
        "proved on": "a stub of the XML API in the tests, since no emulator has its preconditions; so the client's part is proved, the service's is its word",
        "not promised": "",
    },
    "HDFS": {
        "atomic commit": "a rename that doesn't overwrite, of a file that was synced under a hidden name; the NameNode does it for one caller",
        "listing": "consistent, as the NameNode's one lock has it",
        "durability": "every DataNode of the file's pipeline has synced its bytes, and the NameNode its journal, before a commit is acknowledged",
        "proved on": "the mini cluster of Hadoop 3.5.0: its own NameNode, or two of one name service, and one DataNode",
        "not promised": "names with a colon, erasure-coded and encrypted directories, observers that lag behind, clusters whose NameNode lost its journal; Kerberos is untested",
    },
    "memory": {
        "atomic commit": "a lock in this process",
        "listing": "consistent",
        "durability": "none: it ends with the process",
        "proved on": "itself",
        "not promised": "anything beyond one process",
    },
}


def run(servers: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """The suite's counts for each store; raises an assertion error with the output if a store
    fails."""
    with tempfile.TemporaryDirectory() as scratch:
        servers_file, report = Path(scratch) / "servers.json", Path(scratch) / "report.json"
        servers_file.write_text(json.dumps(servers))
        named = {"DELTAPLANE_TEST_SERVERS": str(servers_file), "DELTAPLANE_TEST_REPORT": str(report)}
        done = subprocess.run(
            [*SUITE, "servers", "--", "--ignored"],
            cwd=ROOT,
            env={**os.environ, **named},
            capture_output=True,
            text=True,
            timeout=SUITE_SECONDS,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        figures: dict[str, dict[str, int]] = json.loads(report.read_text())
    return figures


def run_all(scratch: Path) -> dict[str, dict[str, int]]:
    """Every server, the local disk and memory."""
    local = {"name": "local disk", "root": str(scratch / "tables"), "options": {}, "page": 1000}
    memory = {"name": "memory", "root": "memory://contract/proof", "options": {}, "page": 1000}
    with ExitStack() as running:
        descriptions = [local, memory]
        for name, start in SERVERS.items():
            (scratch / name).mkdir()
            descriptions.append(running.enter_context(start(scratch / name)).contract())
        return run(descriptions)


def proof(figures: dict[str, dict[str, int]]) -> dict[str, Any]:
    """The proof's page, as data."""
    total = {name: sum(store[name] for store in figures.values()) for name in next(iter(figures.values()))}
    return {
        "title": "Stores",
        "claims": [
            f"One suite holds for every store: {', '.join(figures)}.",
            f"In each of {total['races']} races for one name exactly one of 16 writers made the object: "
            f"{total['racing_puts']} conditional puts, {total['winners']} winners, and the object's bytes are the winner's.",
            f"All {total['seen_at_once']} racers found the object listed and whole through another connection as soon as they had their answer.",
            "Listings of more than a page are complete and in order; odd names come back as they were given.",
            "Streamed uploads are seen whole or not at all, also when they are given up or dropped.",
            "A missing bucket is an error, never an empty table.",
        ],
        "figures": {f"{store}: {name}": value for store, counted in figures.items() for name, value in counted.items()},
        "promises": PROMISES,
        "how": "make prove-stores",
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        text = json.dumps(proof(run_all(Path(place))), indent=2, ensure_ascii=False)
    PROOF.parent.mkdir(parents=True, exist_ok=True)
    PROOF.write_text(text + "\n")
    print(f"wrote {PROOF.relative_to(ROOT)}")
