"""Runs the scripts of this directory: each library in an interpreter of its own, on deltaplane or
on deltalake."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecosystem import environments, tables
from stores.servers import versitygw

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SCRIPTS = HERE / "scripts"
DELTAPLANE, DELTALAKE = "deltaplane", "deltalake"
# The libraries start threads as if the machine were theirs.
THREADS = {"POLARS_MAX_THREADS": "2", "RAYON_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
QUIET = {
    "DO_NOT_TRACK": "1",
    "DAFT_ANALYTICS_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "120",
    "DAGSTER_DISABLE_TELEMETRY": "1",
}


@dataclass(frozen=True)
class Library:
    """A library: its script, its environment, and the packages whose versions say which one it
    is."""

    name: str
    script: str
    environment: str
    packages: tuple[str, ...]
    # Whether only `make ecosystem` runs it: it starts servers of its own, for which a busy machine
    # is too slow.
    heavy: bool = False

    def versions(self) -> str:
        """The locked versions."""
        versions = [f"{package} {environments.locked(self.environment, package)}" for package in self.packages]
        return ", ".join(versions)


# Environments of other directories: the clients of tests/catalog.
OTHERS = ("catalog-clients",)
LIBRARIES = [
    Library("Polars", "polars_tables", "polars", ("polars",)),
    Library("pandas and DuckDB", "pandas_tables", "pandas", ("pandas", "duckdb")),
    Library("dask-deltatable", "dask_tables", "dask", ("dask-deltatable", "dask")),
    Library("Daft", "daft_tables", "daft", ("daft",)),
    Library("Ray Data", "ray_tables", "ray", ("ray",), heavy=True),
    Library("Ibis", "ibis_tables", "ibis", ("ibis-framework", "duckdb")),
    Library("dlt", "dlt_tables", "dlt", ("dlt",)),
    Library("Dagster", "dagster_tables", "dagster", ("dagster-deltalake-pandas", "dagster-deltalake-polars")),
    Library("dagster-delta", "dagster_delta_tables", "dagster-delta", ("dagster-delta",)),
    Library("Kedro", "kedro_tables", "kedro", ("kedro-datasets", "kedro")),
    Library("dbt", "dbt_tables", "dbt", ("dbt-duckdb", "dbt-core")),
    Library("AWS SDK for pandas", "awswrangler_tables", "awswrangler", ("awswrangler",)),
]


@contextmanager
def prepared(scratch: Path) -> Iterator[Path]:
    """The file with the tables for the scripts, local and on an S3 server that runs meanwhile."""
    with versitygw(scratch) as server:
        root, local = server.new_bucket(), scratch / "tables"
        local.mkdir()
        made = {**tables.make(str(local)), "s3": {"root": root, "options": server.options}}
        made["s3"].update(tables.make(f"{root}/tables", server.options))
        file = scratch / "tables.json"
        file.write_text(json.dumps(made))
        yield file


def run(
    library: Library, tables_file: Path, out: Path, *, on: str = DELTAPLANE, seconds: float = 300
) -> dict[str, Any]:
    """What happened to each case, and which cases the library itself can't do.

    Raises:
        AssertionError: the script didn't come to its end, or ran on something else.
    """
    path = [str(SCRIPTS), *([str(HERE / "start"), str(ROOT / "python")] if on == DELTAPLANE else [])]
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTEST_", "SPARK_"))
    }
    variables |= {"PYTHONPATH": os.pathsep.join(path), **THREADS, **QUIET}
    command = [environments.python(library.environment), SCRIPTS / "run.py", library.script, tables_file, out]
    # A short path: Ray's sockets are below it.
    with tempfile.TemporaryDirectory(prefix="eco-", dir="/tmp") as scratch:
        done = subprocess.run(
            command,
            cwd=scratch,
            env={**variables, "TMPDIR": scratch, "HOME": scratch, "RAY_TMPDIR": scratch},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    assert done.returncode == 0, f"{library.script} on {on} ended with {done.returncode}:\n{done.stderr[-4000:]}"
    result: dict[str, Any] = json.loads(out.read_text())
    assert result["on"] == on
    return result
