"""Foreign clients of deltaplane's server: DuckDB's extension `unity_catalog`, Unity Catalog's
Python client, its Java client, and Delta's kernel on the JVM, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from catalog.conftest import SCHEMA, Lake, ids, rows, serving
from deltaplane import Catalog, DeltaTable, write_deltalake
from ecosystem import environments
from interop.jars import delta_jars
from pinned_jars import PinnedJars

HERE = Path(__file__).parent / "foreign"
KERNEL = ("delta-storage", "delta-kernel-api", "delta-kernel-defaults", "delta-kernel-unitycatalog")


def run(script: str, request: dict[str, Any]) -> dict[str, Any]:
    """The outcomes of a script, in the clients' environment."""
    command = [str(environments.python("catalog-clients")), str(HERE / f"{script}.py"), json.dumps(request)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    made: dict[str, Any] = json.loads(done.stdout)
    return made


@pytest.mark.slow
def test_duckdb(database: str, tmp_path: Path) -> None:
    owner = Catalog(database)
    owner.grant("duckdb", "WRITE", SCHEMA)
    token = owner.create_token("duckdb")
    lake = Lake(owner, database)
    write_deltalake(tmp_path / "external", rows(4, 5))
    owner.register(f"{SCHEMA}.external", tmp_path / "external")
    with serving(database, tmp_path / "log") as (url, _):
        # Clients that don't know inline commits see those that the catalog knows as published:
        # without anybody's next commit, since a commit without a delay waits for its report.
        options = {"catalog_publication_report": "0"}
        writer = Lake(Catalog(url, token, storage_options=options), database)
        writer.write("managed", rows(1, 2))
        assert writer.write("managed", rows(3)) == 1
        made = run("duckdb_tables", {"url": url, "token": token, "tables": ["external", "managed"]})
    absent = made.pop("absent")
    assert "does not exist" in absent, absent
    columns = [["id", "BIGINT"], ["text", "VARCHAR"]]
    assert made == {
        "version": "1.5.5",
        "tables": [["sales", "external"], ["sales", "managed"]],
        "external": {"columns": columns, "read": [[4, "text 4"], [5, "text 5"]], "append": [[1]]},
        "managed": {"columns": columns, "read": [[n, f"text {n}"] for n in (1, 2, 3)], "append": [[1]]},
    }
    assert ids(lake.open("managed")) == [1, 2, 3, 100]
    assert ids(DeltaTable(tmp_path / "external")) == [4, 5, 100]
    assert lake.write("managed", rows(4)) == 3
    assert ids(lake.open("managed")) == [1, 2, 3, 4, 100]
    assert lake.open("managed").check() == []


@pytest.mark.slow
def test_unity_catalogs_client(database: str, tmp_path: Path) -> None:
    owner = Catalog(database)
    owner.grant("unity", "MANAGE")
    token = owner.create_token("unity")
    lake = Lake(owner, database)
    lake.write("t", rows(1, 2))
    files = []
    for number in (10, 11, 12):
        files.append(str(tmp_path / f"{number}.parquet"))
        pq.write_table(rows(number), files[-1])
    with serving(database, tmp_path / "log") as (url, _):
        request = {
            "url": url,
            "token": token,
            "table": f"{SCHEMA}.t",
            "external": f"file://{tmp_path}/external",
            "files": files,
            "creates": True,
            "appends": 3,
        }
        made = run("unity_client", request)
        assert made == {
            "catalogs": ["main"],
            "schemas": [SCHEMA],
            "tables": ["t"],
            "table": ["MANAGED", "DELTA", [["id", "bigint"], ["text", "string"]]],
            "credentials": False,
            "absent": "404 TABLE_NOT_FOUND",
            "schema": "foreign.one",
            "external": "EXTERNAL",
            "versions": [1, 2, 3],
        }
        # By our client, through the server and without it; then ours appends, and theirs again.
        for catalog in (Catalog(url, token), owner):
            seen = Lake(catalog, database)
            assert ids(seen.open("t")) == [1, 2, 10, 11, 12]
        assert Lake(Catalog(url, token), database).write("t", rows(20)) == 4
        assert run("unity_client", {**request, "creates": False, "appends": 1})["versions"] == [5]
    assert ids(lake.open("t")) == [1, 2, 10, 10, 11, 12, 20]
    assert lake.open("t").check() == []


def java(request: dict[str, Any]) -> dict[str, Any]:
    """The outcomes of UnityKernel.java, on the jars of Unity's client, of Delta's kernel and of
    pyspark."""
    import pyspark

    jars = [*PinnedJars(HERE / "unity-client.sha256").paths(), *delta_jars(artifacts=KERNEL)]
    path = os.pathsep.join(map(str, [*jars, Path(pyspark.__file__).parent / "jars" / "*"]))
    command = ["java", "-cp", path, str(HERE / "UnityKernel.java"), json.dumps(request)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("outcomes "))
    made: dict[str, Any] = json.loads(line.removeprefix("outcomes "))
    return made


@pytest.mark.slow
def test_the_java_client_and_deltas_kernel(database: str, tmp_path: Path) -> None:
    owner = Catalog(database)
    owner.grant("java", "WRITE", SCHEMA)
    token = owner.create_token("java")
    lake = Lake(owner, database)
    request = {
        "token": token,
        "catalog": "main",
        "schema": "sales",
        "table": "t",
        "ids": [100, 101],
        "older_ids": [200, 201],
    }
    with serving(database, tmp_path / "log") as (url, _):
        # Commits of ours that others see, as in the test of DuckDB.
        options = {"catalog_publication_report": "0"}
        writer = Lake(Catalog(url, token, storage_options=options), database)
        writer.write("t", rows(1, 2))
        writer.write("t", rows(3))
        made = java({"url": url, **request})
        assert (made["names"], made["absent"]) == ([["main"], [SCHEMA], ["t"]], "404 NoSuchTableException")
        assert made["loaded"] == {
            "protocols": "1.0",
            "type": "MANAGED",
            "columns": ["id", "text"],
            "version": 1,
            "commits": [],
            "credentials": 0,
        }
        own = [[number, f"text {number}"] for number in (1, 2, 3)]
        theirs = [[number, "by the kernel"] for number in (100, 101, 200, 201, 2100)]
        # A stale append is rebased on published commits only.
        assert made["kernel"] == {
            "version": 1,
            "rows": own,
            "at 1": own,
            "commits": [0, 1, 2],
            "appended": [2, 3],
            "rows after": own + theirs[:2],
            "stale": "IllegalArgumentException",
            "stale after publication": 4,
        }
        assert made["older"] == {
            "version": 4,
            "rows": [*own, *theirs[:2], theirs[4]],
            "at 1": own,
            "commits": [0, 4, 5],
            "appended": [5, 6],
            "rows after": own + theirs,
            "stale": "IllegalArgumentException",
            "stale after publication": 7,
        }
        assert writer.write("t", rows(4)) == 8
    assert ids(lake.open("t")) == [1, 2, 3, 4, 100, 101, 200, 201, 2100, 2200]
    assert lake.open("t").check() == []
