"""What DuckDB's extension `unity_catalog` does with deltaplane's server, in an environment of its
own: `python duckdb_tables.py REQUEST`, a JSON object; prints a JSON object of outcomes.

It knows nothing of deltaplane. The extensions are Python packages, whose files are loaded in place.
"""

from __future__ import annotations

import glob
import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import duckdb


def connected(url: str, token: str) -> duckdb.DuckDBPyConnection:
    """A connection that has the catalog `main` attached."""
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name in ("httpfs", "delta", "unity_catalog"):
        folder = os.path.dirname(str(importlib.import_module(f"duckdb_extension_{name}").__file__))
        connection.execute(f"LOAD '{glob.glob(f'{folder}/extensions/*/*.duckdb_extension')[0]}'")
    connection.execute(f"CREATE SECRET (TYPE unity_catalog, TOKEN '{token}', ENDPOINT '{url}', AWS_REGION 'us-east-1')")
    connection.execute("ATTACH 'main' AS lake (TYPE unity_catalog, DEFAULT_SCHEMA 'sales')")
    return connection


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or its error."""
    try:
        return call()
    except duckdb.Error as e:
        return f"{type(e).__name__}: {' '.join(str(e).split())}"


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Every outcome by its name."""
    connection = connected(request["url"], request["token"])

    def rows(text: str) -> Any:
        return outcome(lambda: connection.execute(text).fetchall())

    made = {
        "version": duckdb.__version__,
        "tables": rows("SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'lake' ORDER BY 2"),
    }
    for name in request["tables"]:
        made[name] = {
            "columns": rows(
                "SELECT column_name, data_type FROM duckdb_columns()"
                f" WHERE database_name = 'lake' AND table_name = '{name}' ORDER BY column_index"
            ),
            "read": rows(f"SELECT * FROM lake.sales.{name} ORDER BY 1"),
            "append": rows(f"INSERT INTO lake.sales.{name} VALUES (100, 'by DuckDB')"),
        }
    made["absent"] = rows("SELECT * FROM lake.sales.absent")
    return made


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
