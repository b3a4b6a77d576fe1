"""Measures what engines read and write, feature by feature, on tables of the shared corpus; renews the entries of
`deltaplane/compat/engines.json` whose source is `measured`.

Run by hand (`make engines`), not by the tests: `python -m interop.measure_engines [--duckdb PYTHON]`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from interop.delta_spark import DeltaSpark
from interop.verifier import ROOT, SHARED

DATA = ROOT / "python" / "deltaplane" / "compat" / "engines.json"
# Values that writers make themselves are left out of the row that is appended.
MADE = ("delta.generationExpression", "delta.identity.start")

# The tables that use a feature, the plainest ones; a feature without one is judged by what else is said of it.
TABLES: Mapping[str, tuple[str, ...]] = {
    "appendOnly": ("ref-append-only-and-properties",),
    "invariants": ("ref-check-constraints-not-null-invariants",),
    "checkConstraints": ("dat-check_constraints",),
    "changeDataFeed": ("kernelrs-cdf-table-data-change",),
    "generatedColumns": ("ref-generated-columns",),
    "columnMapping": ("ref-columnmapping-name-rename-drop-add", "ref-columnmapping-id-rename-drop"),
    "identityColumns": ("ref-identity-columns",),
    "allowColumnDefaults": ("ref-column-defaults",),
    "deletionVectors": ("ref-dv-delete-update-merge", "deltaspark-table-with-dv-large"),
    "timestampNtz": ("ref-timestamp-ntz",),
    "v2Checkpoint": ("ref-checkpoint-v2-parquet-many-sidecars", "ref-checkpoint-v2-json-many-sidecars"),
    "domainMetadata": ("ref-domain-metadata-user-domains",),
    "rowTracking": ("ref-rowtracking-materialised",),
    "clustering": ("ref-liquid-clustering",),
    "inCommitTimestamp": ("ref-in-commit-timestamps",),
    "vacuumProtocolCheck": ("ref-vacuum-protocol-check",),
    "typeWidening": ("ref-typewidening-all-changes",),
    "typeWidening-preview": ("golden-type-widening",),
    "variantType": ("ref-variant-values",),
    "variantType-preview": ("deltars-spark-variant-checkpoint",),
    "variantShredding-preview": ("ref-variant-shredded",),
    "icebergCompatV1": ("dat-iceberg_compat_v1",),
    "icebergCompatV2": ("ref-iceberg-compat-v2",),
    "materializePartitionColumns": ("ref-materialised-partition-columns",),
    "checkpointProtection": ("ref-drop-feature-checkpoint-protection",),
}

Read = Callable[[str], int]
Append = Callable[[str, pa.Table], None]


def expected(case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SHARED / "corpus" / case / "expected.json").read_text())
    return found


def copied(case: str, into: Path) -> str:
    target = into / case
    shutil.copytree(SHARED / "corpus" / case / "table", target)
    return str(target)


def can_read(read: Read, cases: tuple[str, ...], scratch: Path) -> bool:
    """Whether every row comes out of each table."""
    for case in cases:
        try:
            if read(copied(case, Path(tempfile.mkdtemp(dir=scratch)))) != expected(case)["num_rows"]:
                return False
        except Exception as e:  # noqa: BLE001 - a peer's refusal is an answer
            print("   ", case, type(e).__name__, " ".join(str(e).split())[:160])
            return False
    return True


def can_append(append: Append, judge: DeltaSpark, cases: tuple[str, ...], scratch: Path) -> bool:
    """Whether a row of the table can be appended again, so that delta-spark and the verifier find it right."""
    for case in cases:
        table = copied(case, Path(tempfile.mkdtemp(dir=scratch)))
        try:
            append(table, one_row(case))
            if (
                judge.sql(f"select count(*) as n from delta.`{table}`")["n"][0].as_py()
                != expected(case)["num_rows"] + 1
            ):
                return False
        except Exception as e:  # noqa: BLE001 - a peer's refusal is an answer
            print("   ", case, type(e).__name__, " ".join(str(e).split())[:160])
            return False
        tool = [sys.executable, str(SHARED / "tools" / "verify_table.py"), table, "--no-spark"]
        done = subprocess.run(tool, capture_output=True, text=True, timeout=300)
        # Arrow's view types are strings in the file as any; the tool knows them not.
        problems = [line for line in done.stdout.splitlines() if line.startswith("PROBLEM")]
        if [line for line in problems if "_view" not in line]:
            print("   ", case, *problems)
            return False
    return True


def one_row(case: str) -> pa.Table:
    """A row that the table holds already, without the columns that writers fill."""
    said = expected(case)
    rows = pq.read_table(SHARED / "corpus" / case / "expected" / f"v{said['latest_version']}.parquet").slice(0, 1)
    schema = said["schema"] if isinstance(said["schema"], dict) else json.loads(said["schema"])
    made = [f["name"] for f in schema["fields"] if any(key in f["metadata"] for key in MADE)]
    return rows.drop_columns([name for name in made if name in rows.column_names])


def deltalake_read(table: str) -> int:
    import deltalake

    opened = deltalake.DeltaTable(table)
    return sum(b.num_rows for b in deltalake.QueryBuilder().register("t", opened).execute("select * from t"))


def deltalake_append(table: str, rows: pa.Table) -> None:
    import deltalake

    deltalake.write_deltalake(table, rows, mode="append")


def polars_read(table: str) -> int:
    import polars as pl

    return pl.scan_delta(table).collect().height


def polars_append(table: str, rows: pa.Table) -> None:
    import polars as pl

    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    frame.write_delta(table, mode="append")


# DuckDB's extension comes as a Python package: its file is loaded where it lies.
_DUCKDB = """
import glob, os, sys
import duckdb, duckdb_extension_delta
here = os.path.dirname(duckdb_extension_delta.__file__)
connection = duckdb.connect()
connection.execute("set enable_progress_bar = false")
connection.execute(f"load '{glob.glob(here + '/extensions/*/*.duckdb_extension')[0]}'")
print(connection.sql(f"select count(cast(t as varchar)) from delta_scan('{sys.argv[1]}') t").fetchone()[0])
"""


def duckdb_read(python: str) -> Read:
    def read(table: str) -> int:
        done = subprocess.run([python, "-c", _DUCKDB, table], capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        return int(done.stdout)

    return read


def versions() -> dict[str, str]:
    from importlib.metadata import version

    return {"delta-spark": "4.4.0", "deltalake": version("deltalake"), "Polars": version("polars")}


def measure(duckdb: str | None, only: list[str], scratch: Path) -> list[dict[str, Any]]:
    """One entry for each engine that is here."""
    spark = DeltaSpark(scratch)

    # In SQL, because variants don't cross as Arrow; the text of each row needs every column.
    def spark_read(table: str) -> int:
        return int(spark.sql(f"select count(to_json(struct(*))) as n from delta.`{table}`")["n"][0].as_py())

    def spark_append(table: str, rows: pa.Table) -> None:
        columns = ", ".join(f"`{name}`" for name in rows.column_names)
        spark.sql(f"insert into delta.`{table}` ({columns}) select {columns} from delta.`{table}` limit 1")

    peers: list[tuple[str, str, Read, Append | None]] = [
        ("delta-spark", versions()["delta-spark"], spark_read, spark_append),
        ("deltalake", versions()["deltalake"], deltalake_read, deltalake_append),
        ("Polars", versions()["Polars"], polars_read, polars_append),
    ]
    if duckdb:
        ask = [duckdb, "-c", "import duckdb;print(duckdb.__version__)"]
        version = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
        peers.append(("DuckDB", version, duckdb_read(duckdb), None))
    found = []
    for name, version, read, append in [p for p in peers if not only or p[0] in only]:
        print(name, version)
        entry: dict[str, Any] = {
            "name": name,
            "versions": version,
            "reader_version": 3,
            "writer_version": 7 if append else 0,
        }
        entry["reads"] = sorted(f for f, cases in TABLES.items() if can_read(read, cases, scratch))
        readable = [(f, cases) for f, cases in TABLES.items() if f in entry["reads"]]
        entry["writes"] = sorted(f for f, cases in readable if append and can_append(append, spark, cases, scratch))
        found.append({**entry, "source": "measured"})
    spark.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--duckdb", help="an interpreter that has duckdb and duckdb-extension-delta")
    parser.add_argument("--only", action="append", default=[], help="an engine's name; may be given again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        measured = measure(arguments.duckdb, arguments.only, Path(scratch))
    data = json.loads(DATA.read_text())
    names = {entry["name"] for entry in measured}
    kept = [e for e in data["engines"] if e["source"] != "measured" or e["name"] not in names]
    data["engines"] = kept + measured
    DATA.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
