"""dbt on DuckDB: tables as sources of its plugin delta."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import yaml
from cases import case, same
from dbt.cli.main import dbtRunner


def model(new: Path, table: dict[str, Any], query: str = "select * from {0}") -> list[dict[str, Any]]:
    """The rows of a model over one table, whose meta is given."""
    project = {"name": "p", "version": "1.0", "profile": "p", "flags": {"send_anonymous_usage_stats": False}}
    database = str(new / "p.duckdb")
    output = {"type": "duckdb", "path": database, "threads": 1, "plugins": [{"module": "delta"}]}
    source = {"name": "s", "meta": {"plugin": "delta"}, "tables": [{"name": "t", "meta": table}]}
    (new / "models").mkdir()
    for name, content in {
        "dbt_project.yml": project,
        "profiles.yml": {"p": {"target": "d", "outputs": {"d": output}}},
        "models/sources.yml": {"version": 2, "sources": [source]},
    }.items():
        (new / name).write_text(yaml.safe_dump(content))
    header = "{{ config(materialized='table') }} "
    (new / "models" / "m.sql").write_text(header + query.format("{{ source('s', 't') }}"))
    done = dbtRunner().invoke(["--quiet", "run", "--project-dir", str(new), "--profiles-dir", str(new)])
    if not done.success:
        raise RuntimeError(done.exception or [result.message for result in done.result])
    with duckdb.connect(database) as connection:
        return connection.execute("select * from m").to_arrow_table().to_pylist()


@case("odd partition values")
def partitions(tables: dict[str, Any], new: Path) -> None:
    meta = {"delta_table_path": tables["partitions"]["path"]}
    same(model(new, meta), tables["partitions"]["rows"])


@case("deletion vectors")
def vectors(tables: dict[str, Any], new: Path) -> None:
    same(model(new, {"delta_table_path": tables["vectors"]["path"]}), tables["vectors"]["rows"])


@case("column mapping")
def mapped(tables: dict[str, Any], new: Path) -> None:
    same(model(new, {"delta_table_path": tables["mapped"]["path"]}), tables["mapped"]["rows"])


@case("time travel by version")
def versions(tables: dict[str, Any], new: Path) -> None:
    # The plugin takes the version 0 for no version.
    meta = {"delta_table_path": tables["history"]["path"], "as_of_version": 1}
    same(model(new, meta), tables["history"]["versions"][1])


@case("time travel by timestamp")
def times(tables: dict[str, Any], new: Path) -> None:
    meta = {"delta_table_path": tables["history"]["path"], "as_of_datetime": tables["history"]["times"][0]}
    same(model(new, meta), tables["history"]["versions"][0])


@case("added columns")
def evolved(tables: dict[str, Any], new: Path) -> None:
    same(model(new, {"delta_table_path": tables["evolved"]["path"]}), tables["evolved"]["rows"])


@case("S3")
def s3(tables: dict[str, Any], new: Path) -> None:
    store = tables["s3"]
    meta = {"delta_table_path": store["partitions"]["path"], "storage_options": store["options"]}
    same(model(new, meta), store["partitions"]["rows"])
