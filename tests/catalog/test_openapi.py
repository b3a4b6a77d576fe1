"""Requests that schemathesis generates from the server's own description, to a real server: no
answer breaks the description, none is a failure of the server, and none takes long.

DELTAPLANE_FUZZ_SECONDS sets the time (default 45).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from catalog.conftest import SCHEMA, Lake, rows, serving
from deltaplane import Catalog
from ecosystem import environments

SECONDS = int(os.environ.get("DELTAPLANE_FUZZ_SECONDS", "45"))
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance"
)
# A request to a small catalog takes milliseconds; a busy machine is slower.
REQUEST_SECONDS = 10


def known(document: dict[str, Any], lake: Lake) -> dict[str, Any]:
    """The description with the names that exist among the values of parameters, so that half of the
    requests reach something."""
    info = lake.catalog.info(f"{SCHEMA}.t")
    names = {
        "catalog": ["main"],
        "schema": ["sales"],
        "table": ["t", "u"],
        "catalog_name": ["main"],
        "schema_name": ["sales"],
        "table_id": [info["id"]],
        "location": [info["location"]],
    }
    for path, operations in document["paths"].items():
        full = {"/catalogs/": "main", "/schemas/": SCHEMA, "/tables/": f"{SCHEMA}.t"}
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                values = names.get(parameter["name"])
                if parameter["name"] == "name":
                    values = [value for part, value in full.items() if path.endswith(f"{part}{{name}}")]
                if values:
                    parameter["schema"] = {"anyOf": [{"enum": values}, parameter["schema"]]}
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        for name, values in names.items():
            if name in schema.get("properties", {}) and "$ref" not in schema["properties"][name]:
                schema["properties"][name] = {"anyOf": [{"enum": values}, schema["properties"][name]]}
    uuid = {"anyOf": [{"enum": [info["id"]]}, {"type": "string"}]}
    schemas["Requirement"]["oneOf"][0]["properties"]["uuid"] = uuid
    return document


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 240)
def test_generated_requests(database: str, tmp_path: Path) -> None:
    owner = Catalog(database)
    owner.grant("fuzz", "MANAGE")
    token = owner.create_token("fuzz")
    lake = Lake(owner, database)
    for name in ("t", "u"):
        lake.write(name, rows(1))
    description = tmp_path / "openapi.json"
    with serving(database, tmp_path / "log") as (url, process):
        with urllib.request.urlopen(f"{url}/openapi.json") as answer:
            description.write_text(json.dumps(known(json.load(answer), lake)))
        command = [str(environments.python("catalog-clients").parent / "st"), "run", str(description), "--url", url]
        command += ["-H", f"Authorization: Bearer {token}", "--checks", CHECKS]
        command += ["--request-timeout", str(REQUEST_SECONDS), "--max-time", str(SECONDS)]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS + 200,
            check=False,
        )
        assert process.poll() is None
        assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
        with urllib.request.urlopen(f"{url}/health") as answer:
            assert answer.read() == b"ok\n"
        with urllib.request.urlopen(f"{url}/metrics") as answer:
            counted = re.findall(r'requests_total{(.+),status="(\d+)"} (\d+)', answer.read().decode())
        # The requests reached something: most operations, and not only with refusals.
        assert len({operation for operation, *_ in counted}) > 20, counted
        assert len({operation for operation, status, _ in counted if status.startswith("2")}) > 8, counted
        assert sum(int(number) for *_, number in counted) > 500, counted
        (tmp_path / "counted.json").write_text(json.dumps(counted))
    # A catalog whose tables were fuzzed can be opened, and used.
    owner.create_schema("main.after")
    assert owner.create_table("main.after.t", rows().schema).version() == 0
