"""The programs whose feature support is measured: their ways to read a table, and to append to one.

Contains no cases and no judgement; a refusal is the program's own exception.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

from interop.delta_spark import DeltaSpark

Read = Callable[[str], pa.Table]
Append = Callable[[str, pa.Table], None]


@dataclass(frozen=True)
class Peer:
    """One program: its ways to read, of which the best one counts, and its way to append."""

    name: str
    version: str
    reads: Mapping[str, Read]
    append: Append | None = None
    # Whether it returns variants as JSON text instead of two binary parts.
    variants_as_json: bool = field(default=False)


def peers(spark: DeltaSpark, duckdb: str | None, kernel: str | None) -> list[Peer]:
    """All installed programs; `duckdb` is a Python interpreter with DuckDB and its Delta extension,
    `kernel` one with delta-kernel-rust-sharing-wrapper, which reads by delta-kernel-rs."""
    members = [
        Peer("delta-spark", "4.4.0", {"Spark SQL": spark_read(spark)}, spark_append(spark), variants_as_json=True),
        Peer(
            "deltalake",
            version("deltalake"),
            {"QueryBuilder": deltalake_query, "to_pyarrow_table": deltalake_pyarrow},
            deltalake_append,
        ),
        Peer("Polars", version("polars"), {"scan_delta": polars_read}, polars_append),
    ]
    if duckdb:
        own = _printed(duckdb, "import duckdb;print(duckdb.__version__)")
        reads = {"delta_scan": read_by(duckdb, _DUCKDB)}
        members.append(Peer("DuckDB", own, reads, duckdb_append(duckdb), variants_as_json=True))
    if kernel:
        reads = {"ScanBuilder": read_by(kernel, _KERNEL)}
        members.append(Peer("delta-kernel-rs", _printed(kernel, _KERNEL_VERSION), reads))
    return members


def _printed(python: str, code: str) -> str:
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def spark_read(spark: DeltaSpark) -> Read:
    def read(table: str) -> pa.Table:
        columns = spark.sql(f"describe table delta.`{table}`").to_pylist()
        kinds = {c["col_name"]: c["data_type"] for c in columns[: _of_partitions(columns)]}
        # Variants, alone or nested, can't be transferred as Arrow.
        shown = (f"to_json(`{n}`) as `{n}`" if "variant" in kind else f"`{n}`" for n, kind in kinds.items())
        return spark.sql(f"select {', '.join(shown)} from delta.`{table}`")

    return read


def _of_partitions(described: list[dict[str, str]]) -> int:
    """The index at which the columns end and the comments begin."""
    return next(
        (i for i, c in enumerate(described) if c["col_name"].startswith("#") or not c["col_name"]), len(described)
    )


def spark_append(spark: DeltaSpark) -> Append:
    def append(table: str, rows: pa.Table) -> None:
        # From the table itself, since variants can't be transferred as Arrow.
        columns = ", ".join(f"`{name}`" for name in rows.column_names)
        spark.execute(f"insert into delta.`{table}` ({columns}) select {columns} from delta.`{table}` limit 1")

    return append


def deltalake_query(table: str) -> pa.Table:
    import deltalake

    opened = deltalake.DeltaTable(table)
    rows = pa.table(deltalake.QueryBuilder().register("t", opened).execute("select * from t").read_all())
    return rows.select([f.name for f in opened.schema().fields])


def deltalake_pyarrow(table: str) -> pa.Table:
    import deltalake

    return pa.table(deltalake.DeltaTable(table).to_pyarrow_table())


def deltalake_append(table: str, rows: pa.Table) -> None:
    import deltalake

    deltalake.write_deltalake(table, rows, mode="append")


def polars_read(table: str) -> pa.Table:
    import polars as pl

    return pl.scan_delta(table).collect().to_arrow()


def polars_append(table: str, rows: pa.Table) -> None:
    import polars as pl

    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    frame.write_delta(table, mode="append")


# DuckDB's extension is a Python package, whose file is loaded in place.
_CONNECTED = """
import glob, os, sys
import duckdb, duckdb_extension_delta, pyarrow as pa
here = os.path.dirname(duckdb_extension_delta.__file__)
connection = duckdb.connect()
connection.execute("set enable_progress_bar = false; set timezone = 'UTC'")
connection.execute(f"load '{glob.glob(here + '/extensions/*/*.duckdb_extension')[0]}'")
"""
_DUCKDB = (
    _CONNECTED
    + """
scan = connection.sql(f"select * from delta_scan('{sys.argv[1]}')")
variants = [name for name, kind in zip(scan.columns, scan.types) if 'VARIANT' in str(kind)]
if variants:
    texts = ", ".join(f'to_json("{name}")::varchar as "{name}"' for name in variants)
    scan = connection.sql(f"select * replace ({texts}) from delta_scan('{sys.argv[1]}')")
rows = scan.fetch_arrow_table()
with pa.OSFile(sys.argv[2], "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
    writer.write_table(rows)
"""
)
_DUCKDB_APPEND = (
    _CONNECTED
    + """
rows = pa.ipc.open_file(sys.argv[2]).read_all()
connection.execute(f"attach '{sys.argv[1]}' as t (type delta)")
connection.execute("insert into t by name select * from rows")
"""
)

# The wrapper's own version isn't the kernel's, whose sources the binary names.
_KERNEL_VERSION = """
import glob, os, re
import delta_kernel_rust_sharing_wrapper as kernel
(library,) = glob.glob(os.path.dirname(kernel.__file__) + "/*.so")
(version,) = {match.decode() for match in re.findall(rb"delta_kernel-([0-9.]+[0-9])", open(library, "rb").read())}
print(version)
"""
_KERNEL = """
import sys
import delta_kernel_rust_sharing_wrapper as kernel, pyarrow as pa
place = f"file://{sys.argv[1]}/"
interface = kernel.PythonInterface(place)
rows = kernel.ScanBuilder(kernel.Table(place).snapshot(interface)).build().execute(interface).read_all()
with pa.OSFile(sys.argv[2], "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
    writer.write_table(rows)
"""


def read_by(python: str, code: str) -> Read:
    """Reading by a script for this interpreter: a table's path, and the file for its rows."""

    def read(table: str) -> pa.Table:
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch) / "rows"
            done = subprocess.run([python, "-c", code, table, str(out)], capture_output=True, text=True, timeout=120)
            if done.returncode:
                raise RuntimeError(done.stderr.strip().splitlines()[-1])
            return pa.ipc.open_file(out.read_bytes()).read_all()

    return read


def duckdb_append(python: str) -> Append:
    def append(table: str, rows: pa.Table) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            rows_file = Path(scratch) / "rows"
            with pa.OSFile(str(rows_file), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
                writer.write_table(rows)
            ask = [python, "-c", _DUCKDB_APPEND, table, str(rows_file)]
            done = subprocess.run(ask, capture_output=True, text=True, timeout=120)
            if done.returncode:
                raise RuntimeError(done.stderr.strip().splitlines()[-1])

    return append
