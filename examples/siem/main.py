"""Security events: find an attacker's connections among all of them.

Sensors append batches of network connections to the table `raw`. A job follows it and writes each
batch exactly once to the table `connections`, also after a restart. The files of that table are
then ordered by both addresses (Z-order, here along a Hilbert curve), so that a look-up by the
source and one by the destination both skip nearly all files. This is the first use case of section
5 of the Delta Lake paper.

The script plants three attackers that scan the ports of a host. A query finds them, and the
analyst's look-ups, by attacker and by victim, read at most 5 % of the files.

With your own data: sensors append with `write_deltalake` or `GroupWriter` from any process; the
job runs `DeltaTable.tail(follow=True)` for ever, and OPTIMIZE once an hour, on new files only
(leave `target_size` out: the default of 256 MiB is for large tables). Appends that are committed
meanwhile are no conflict.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import deltaplane
from deltaplane import DeltaTable, OnceWriter, write_deltalake

BATCHES, ROWS = 12, 20_000
ATTACKERS = {"192.0.2.140": "10.3.7.21", "198.51.100.23": "10.9.1.4", "203.0.113.77": "172.16.5.9"}
PORTS_SCANNED = 60


def connections(batch: int) -> pa.Table:
    """A batch of the sensors: usual traffic, and the scans of the batches 3, 6 and 9."""
    rng = np.random.default_rng(batch)
    hosts = [
        f"{net}.{n // 250}.{n % 250}" for net in ("10.3", "10.9", "172.16", "198.51", "203.0") for n in range(2000)
    ]
    source, destination = (rng.choice(hosts, ROWS).tolist() for _ in range(2))
    port = rng.choice([22, 53, 80, 443, 8080], ROWS).tolist()
    for number, (attacker, victim) in enumerate(ATTACKERS.items()):
        if batch == 3 * (number + 1):
            source += [attacker] * PORTS_SCANNED
            destination += [victim] * PORTS_SCANNED
            port += range(1000, 1000 + PORTS_SCANNED)
    seconds = pa.array(np.arange(len(port)) % 3600 + 3600 * batch + 1_790_000_000, pa.timestamp("s", "UTC"))
    columns = {"time": seconds.cast(pa.timestamp("us", "UTC")), "source": source, "destination": destination}
    return pa.table({**columns, "port": pa.array(port, pa.int32())})


def follow(raw: Path, writer: OnceWriter) -> None:
    """Copies what is new; the number of the last copied version is in the target's own log."""
    for rows in DeltaTable(raw).tail(since=writer.last_version("ingest")):
        writer.append(rows, "ingest", rows.version)


def share(table: DeltaTable, condition: str) -> float:
    """The share of the table's files that a scan with the condition reads."""
    return table.explain(condition).selected / len(table.files())


def main(folder: Path) -> None:
    raw, target = folder / "raw", folder / "connections"
    for batch in range(BATCHES):
        write_deltalake(raw, connections(batch), mode="append")
        if batch % 3 == 2:
            for _ in range(2):  # the second job is a restart: it has nothing to do
                follow(raw, OnceWriter(target))
    table = DeltaTable(target)
    assert table.count() == DeltaTable(raw).count() == BATCHES * ROWS + len(ATTACKERS) * PORTS_SCANNED
    print(f"{table.count():,} connections of {BATCHES} batches, each written once")

    lookups = [f"source = '{attacker}'" for attacker in ATTACKERS]
    lookups += [f"destination = '{victim}'" for victim in ATTACKERS.values()]
    print(f"before OPTIMIZE a look-up reads {max(share(table, c) for c in lookups):.0%} of the files")
    size = table.detail()["sizeInBytes"][0].as_py()
    table.optimize.z_order(["source", "destination"], curve="hilbert", target_size=size // 1400)

    scans = """
        SELECT source, destination, count(DISTINCT port) AS ports FROM connections
        GROUP BY source, destination HAVING count(DISTINCT port) >= 50 ORDER BY source
    """
    scanners = deltaplane.sql(scans, tables={"connections": table}).fetchall()
    assert scanners == [(attacker, victim, PORTS_SCANNED) for attacker, victim in sorted(ATTACKERS.items())]
    for attacker, victim, ports in scanners:
        print(f"{attacker} scanned {ports} ports of {victim}")

    for attacker in ATTACKERS:
        assert table.scan(["port"], f"source = '{attacker}'").to_arrow().num_rows == PORTS_SCANNED
    most = max(share(table, condition) for condition in lookups)
    assert most <= 0.05, most
    print("after OPTIMIZE each look-up by an address reads at most 5 % of the files")


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp()))
