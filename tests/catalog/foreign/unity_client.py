"""What Unity Catalog's own Python client does with deltaplane's server, in the client's own
environment: `python unity_client.py REQUEST`, a JSON object; prints a JSON object of outcomes.

It knows nothing of deltaplane, and of Delta only what a commit of one file is.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from unitycatalog.client import (
    ApiClient,
    CatalogsApi,
    ColumnInfo,
    Configuration,
    CreateCatalog,
    CreateSchema,
    CreateTable,
    DeltaCommit,
    DeltaCommitInfo,
    DeltaCommitsApi,
    GenerateTemporaryTableCredential,
    SchemasApi,
    TablesApi,
    TemporaryCredentialsApi,
)
from unitycatalog.client.exceptions import ApiException


async def main(request: dict[str, Any]) -> dict[str, Any]:
    """Every outcome by its name."""
    configuration = Configuration(host=f"{request['url']}/api/2.1/unity-catalog", access_token=request["token"])
    async with ApiClient(configuration) as client:
        # The client sends its configuration's token to no endpoint.
        client.set_default_header("Authorization", f"Bearer {request['token']}")
        made = await lists(client, request)
        if request["creates"]:
            made |= await creates(client, request)
        made["versions"] = [await appends(client, request, number) for number in range(request["appends"])]
        return made


async def lists(client: ApiClient, request: dict[str, Any]) -> dict[str, Any]:
    """Names, the table's columns, and credentials of a local folder, of which there are none."""
    tables = TablesApi(client)
    catalogs = await CatalogsApi(client).list_catalogs()
    schemas = await SchemasApi(client).list_schemas(catalog_name="main")
    listed = await tables.list_tables(catalog_name="main", schema_name="sales")
    table = await tables.get_table(request["table"])
    credentials = await TemporaryCredentialsApi(client).generate_temporary_table_credentials(
        GenerateTemporaryTableCredential(table_id=table.table_id, operation="READ_WRITE")
    )
    try:
        await tables.get_table("main.sales.absent")
        absent = "is there"
    except ApiException as e:
        absent = f"{e.status} {json.loads(e.body)['error_code']}"
    return {
        "catalogs": [catalog.name for catalog in catalogs.catalogs],
        "schemas": [schema.full_name for schema in schemas.schemas],
        "tables": [each.name for each in listed.tables],
        "table": [table.table_type, table.data_source_format, [[c.name, c.type_text] for c in table.columns]],
        "credentials": credentials.aws_temp_credentials is not None,
        "absent": absent,
    }


async def creates(client: ApiClient, request: dict[str, Any]) -> dict[str, Any]:
    """A catalog, a schema and an external table, which are dropped again, but for the table."""
    catalogs, schemas, tables = CatalogsApi(client), SchemasApi(client), TablesApi(client)
    await catalogs.create_catalog(CreateCatalog(name="foreign", comment="made by Unity's client"))
    await schemas.create_schema(CreateSchema(name="one", catalog_name="foreign"))
    made = await schemas.get_schema("foreign.one")
    await schemas.delete_schema("foreign.one")
    await catalogs.delete_catalog("foreign")
    column = ColumnInfo(
        name="id",
        type_text="bigint",
        type_name="LONG",
        type_json='{"name":"id","type":"long","nullable":true,"metadata":{}}',
        position=0,
    )
    external = await tables.create_table(
        CreateTable(
            name="external",
            catalog_name="main",
            schema_name="sales",
            table_type="EXTERNAL",
            data_source_format="DELTA",
            columns=[column],
            storage_location=request["external"],
        )
    )
    return {"schema": made.full_name, "external": external.table_type}


async def appends(client: ApiClient, request: dict[str, Any], number: int) -> int:
    """Appends a Parquet file to a managed table, as writers do that know the older endpoint: a
    staged commit is proposed, and then published."""
    table = await TablesApi(client).get_table(request["table"])
    commits = DeltaCommitsApi(client)
    folder = Path(table.storage_location.removeprefix("file://"))
    log = folder / "_delta_log"
    # The client can't ask for the commits, because it sends no body with a GET.
    newest = max([*log.glob("*.json"), *log.glob("_staged_commits/*.json")], key=lambda file: file.name)
    version = int(newest.name.partition(".")[0]) + 1
    last = json.loads(newest.read_text().splitlines()[0])["commitInfo"]
    now = max(int(time.time() * 1000), last["inCommitTimestamp"] + 1)
    data = Path(request["files"][number])
    name = f"{uuid.uuid4()}.parquet"
    shutil.copy(data, folder / name)
    info = {
        "inCommitTimestamp": now,
        "timestamp": now,
        "operation": "WRITE",
        "operationParameters": {},
        "txnId": str(uuid.uuid4()),
    }
    add = {
        "path": name,
        "partitionValues": {},
        "size": data.stat().st_size,
        "modificationTime": now,
        "dataChange": True,
        "stats": json.dumps({"numRecords": 1}),
    }
    text = "\n".join(json.dumps(action) for action in ({"commitInfo": info}, {"add": add})) + "\n"
    staged = log / "_staged_commits" / f"{version:020}.{uuid.uuid4()}.json"
    staged.parent.mkdir(exist_ok=True)
    staged.write_text(text)
    proposed = DeltaCommitInfo(
        version=version,
        timestamp=now,
        file_name=staged.name,
        file_size=len(text.encode()),
        file_modification_timestamp=now,
    )
    await commits.commit(DeltaCommit(table_id=table.table_id, table_uri=table.storage_location, commit_info=proposed))
    # The first commit stays unpublished: others read it from the catalog's answer.
    if number > 0:
        for each in log.glob("_staged_commits/*.json"):
            published = log / f"{each.name.partition('.')[0]}.json"
            if not published.exists():
                shutil.copy(each, published)
        report = DeltaCommit(
            table_id=table.table_id, table_uri=table.storage_location, latest_backfilled_version=version
        )
        await commits.commit(report)
    return int(version)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
