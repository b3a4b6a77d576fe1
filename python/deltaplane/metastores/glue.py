"""AWS Glue's data catalog as a catalog of Delta tables, with the entries that Athena, Trino and
Spark read.

Asks by botocore, which signs requests, repeats throttled ones, knows the partitions' endpoints and
finds a role's credentials: boto3's other parts aren't needed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from deltaplane.exceptions import (
    ConcurrentWriteException,
    DeltaError,
    InvalidArgumentError,
    StoreDeniedError,
    StoreUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from deltaplane.io.credentials import fetch
from deltaplane.metastores import entry as entries
from deltaplane.metastores.entry import TableFacts, hive_columns
from deltaplane.metastores.metastore import Entry, Metastore
from deltaplane.metastores.options import GLUE_ENDPOINT, option, seconds_of
from deltaplane.metastores.table_names import join_name

__all__ = ["GlueCatalog"]

# What `update_table` takes of what `get_table` gives.
_INPUT = (
    *("Name", "Description", "Owner", "LastAccessTime", "LastAnalyzedTime", "Retention", "StorageDescriptor"),
    *("PartitionKeys", "ViewOriginalText", "ViewExpandedText", "TableType", "Parameters", "TargetTable"),
)
# Glue's exceptions by what the caller does next.
_CODES: Mapping[str, type[DeltaError]] = {
    "EntityNotFoundException": TableNotFoundError,
    "AlreadyExistsException": TableAlreadyExistsError,
    "ConcurrentModificationException": ConcurrentWriteException,
    "VersionMismatchException": ConcurrentWriteException,
    "InvalidInputException": InvalidArgumentError,
    "ValidationException": InvalidArgumentError,
    "ResourceNumberLimitExceededException": InvalidArgumentError,
    "AccessDeniedException": StoreDeniedError,
    "UnrecognizedClientException": StoreDeniedError,
    "InvalidSignatureException": StoreDeniedError,
    "IncompleteSignature": StoreDeniedError,
    "MissingAuthenticationToken": StoreDeniedError,
    "InvalidClientTokenId": StoreDeniedError,
    "SignatureDoesNotMatch": StoreDeniedError,
    "ExpiredTokenException": StoreDeniedError,
}
_ATTEMPTS = 5


class GlueCatalog(Metastore):
    """AWS Glue's data catalog of one account and region.

    Args:
        uri: `glue://` or `glue://region`.
        options: `aws_region`, `aws_access_key_id`, `aws_secret_access_key`, `aws_session_token`,
            `credential_provider` as for tables on S3; without keys those of AWS's default chain.
            `aws_endpoint_url_glue` is another address of the service. `catalog_timeout` is the time
            limit of an attempt (default 30 s).

    Raises:
        InvalidArgumentError: another form of address, or no region.
        ImportError: the extra `deltaplane[glue]` isn't installed.
    """

    def __init__(self, uri: str = "glue://", options: Mapping[str, str] | None = None) -> None:
        form = re.fullmatch(r"glue://([a-z0-9-]*)/?", uri)
        if form is None:
            raise InvalidArgumentError("a Glue catalog's address is glue:// or glue://region, such as glue://eu-west-1")
        try:
            import botocore.config
            import botocore.exceptions
            import botocore.session
        except ModuleNotFoundError:
            raise ImportError(
                "Glue needs the package botocore: pip install 'deltaplane[glue]'", name="botocore"
            ) from None
        seconds = seconds_of(options, 30.0)
        # The session has the variables and shared files of AWS.
        session = botocore.session.get_session()
        said = option(options, "aws_region", "region", "aws_default_region", "default_region")
        # botocore reads AWS_DEFAULT_REGION only.
        region = form[1] or said or os.environ.get("AWS_REGION")
        keys = _keys(options)
        settings = botocore.config.Config(
            connect_timeout=seconds, read_timeout=seconds, retries={"mode": "standard", "total_max_attempts": 3}
        )
        endpoint = option(options, GLUE_ENDPOINT)
        try:
            self._client = session.create_client("glue", region, endpoint_url=endpoint, config=settings, **keys)
        except botocore.exceptions.NoRegionError:
            raise InvalidArgumentError(
                "Glue needs a region: write glue://region, or set the option aws_region or the variable AWS_REGION"
            ) from None
        except (botocore.exceptions.BotoCoreError, ValueError) as e:
            raise InvalidArgumentError(f"Glue's client can't be made from the options ({type(e).__name__})") from None
        self.uri = f"glue://{self._client.meta.region_name}"

    def schemas(self) -> list[str]:
        """The names of the databases, sorted."""
        return sorted(
            database["Name"] for database in self._pages("get_databases", "DatabaseList", "the list of schemas")
        )

    def tables(self, schema: str) -> list[str]:
        """The names of a database's Delta tables, sorted.

        Raises:
            TableNotFoundError: there is no such database.
        """
        listed = self._pages("get_tables", "TableList", f"the schema {schema}", DatabaseName=schema)
        return sorted(table["Name"] for table in listed if entries.is_delta(table.get("Parameters", {})))

    def create_schema(self, schema: str, location: str | None = None, comment: str | None = None) -> None:
        """Creates a database; without a location its tables need their own.

        Raises:
            TableAlreadyExistsError: the database exists.
        """
        where = {} if location is None else {"LocationUri": entries.stored_location(location)}
        said = {"Description": comment} if comment else {}
        self._ask("create_database", f"the schema {schema}", DatabaseInput={"Name": schema, **where, **said})

    def drop_schema(self, schema: str, force: bool = False) -> None:
        """Drops a database, with `force` also all tables in it. Files stay.

        Raises:
            TableNotFoundError: there is no such database.
            InvalidArgumentError: the database isn't empty.
        """
        listed = self._pages("get_tables", "TableList", f"the schema {schema}", DatabaseName=schema)
        # Glue itself deletes the tables too.
        if not force and next(listed, None) is not None:
            raise InvalidArgumentError(f"the schema {schema} of {self.uri} isn't empty")
        self._ask("delete_database", f"the schema {schema}", Name=schema)

    def _schema_location(self, schema: str) -> str | None:
        database = self._ask("get_database", f"the schema {schema}", Name=schema)["Database"]
        location: str | None = database.get("LocationUri")
        return location

    def _entry(self, schema: str, table: str) -> Entry | None:
        try:
            about = f"the table {join_name(schema, table)}"
            native = self._ask("get_table", about, DatabaseName=schema, Name=table)["Table"]
        except TableNotFoundError:
            return None
        storage = native.get("StorageDescriptor", {})
        path = storage.get("SerdeInfo", {}).get("Parameters", {}).get("path")
        return Entry(native.get("Parameters", {}), path, storage.get("Location"), native.get("TableType"), native)

    def _add(self, schema: str, table: str, location: str, facts: TableFacts) -> None:
        columns, partitions = hive_columns(facts.schema, facts.partition_columns)
        storage = {
            "Columns": columns,
            "Location": location,
            "InputFormat": entries.INPUT_FORMAT,
            "OutputFormat": entries.OUTPUT_FORMAT,
            "Compressed": False,
            "NumberOfBuckets": -1,
            "SerdeInfo": {
                "SerializationLibrary": entries.SERDE,
                "Parameters": {"serialization.format": "1", "path": location},
            },
        }
        # Athena and Glue's crawlers write `table_type`, Spark and Trino read the provider.
        of_glue = {"EXTERNAL": "TRUE", "table_type": "delta", "spark.sql.partitionProvider": "catalog"}
        table_input = {
            "Name": table,
            "TableType": "EXTERNAL_TABLE",
            "StorageDescriptor": storage,
            "PartitionKeys": partitions,
            "Parameters": {**entries.parameters(facts), **of_glue},
        }
        self._create(schema, table, table_input)

    def _create(self, schema: str, table: str, table_input: Mapping[str, Any]) -> None:
        about = f"the table {join_name(schema, table)}"
        try:
            self._ask("create_table", about, DatabaseName=schema, TableInput=table_input)
        except TableNotFoundError:
            raise TableNotFoundError(f"the schema {schema} doesn't exist in {self.uri}", table=schema) from None

    def _update(self, schema: str, table: str, entry: Entry, parameters: Mapping[str, str], facts: TableFacts) -> None:
        about = f"the table {join_name(schema, table)}"
        for attempt in range(_ATTEMPTS):
            table_input = {key: entry.native[key] for key in _INPUT if key in entry.native}
            columns, partitions = hive_columns(facts.schema, facts.partition_columns)
            table_input["StorageDescriptor"] = {**table_input.get("StorageDescriptor", {}), "Columns": columns}
            table_input |= {"PartitionKeys": partitions, "Parameters": dict(parameters)}
            version = {"VersionId": entry.native["VersionId"]} if "VersionId" in entry.native else {}
            try:
                self._ask(
                    "update_table", about, DatabaseName=schema, TableInput=table_input, SkipArchive=True, **version
                )
                return
            except ConcurrentWriteException:
                if attempt + 1 == _ATTEMPTS:
                    raise
            entry = self._delta_entry(schema, table)
            written = entries.version_in(entry.parameters)
            if written is not None and facts.version is not None and written >= facts.version:
                return
            parameters = entries.updated(entry.parameters, facts)

    def _same_columns(self, entry: Entry, facts: TableFacts) -> bool:
        storage = entry.native.get("StorageDescriptor", {})
        stored = storage.get("Columns", []), entry.native.get("PartitionKeys", [])
        return _comparable(*stored) == _comparable(*hive_columns(facts.schema, facts.partition_columns))

    def _remove(self, schema: str, table: str) -> None:
        self._ask("delete_table", f"the table {join_name(schema, table)}", DatabaseName=schema, Name=table)

    def _rename(self, old: tuple[str, str], new: tuple[str, str], entry: Entry) -> None:
        # Glue has no call that renames a table: the new entry is made first, so that the table
        # always has a name.
        table_input = {key: entry.native[key] for key in _INPUT if key in entry.native}
        self._create(*new, {**table_input, "Name": new[1]})
        try:
            self._remove(*old)
        except TableNotFoundError:
            pass
        except DeltaError:
            self._remove(*new)
            raise

    def _pages(self, operation: str, member: str, about: str, **arguments: Any) -> Iterator[Any]:
        following: dict[str, str] = {}
        while True:
            page = self._ask(operation, about, **arguments, **following)
            yield from page.get(member, ())
            if not page.get("NextToken"):
                return
            following = {"NextToken": page["NextToken"]}

    def _ask(self, operation: str, about: str, **arguments: Any) -> Any:
        with _translated(self.uri, about):
            return getattr(self._client, operation)(**arguments)


def _comparable(*parts: list[dict[str, str]]) -> list[list[tuple[str, str, str]]]:
    """Columns and partition columns without the difference of case, which Glue may fold."""
    return [[(c["Name"].lower(), c.get("Type", "").lower(), c.get("Comment", "")) for c in part] for part in parts]


def _keys(options: Mapping[str, str] | None) -> dict[str, str]:
    """The keys of the options as botocore's arguments; without any botocore finds its own."""
    key = option(options, "aws_access_key_id", "access_key_id")
    secret = option(options, "aws_secret_access_key", "secret_access_key")
    token = option(options, "aws_session_token", "aws_token", "session_token", "token")
    provider = option(options, "credential_provider")
    if key is None and provider is not None and provider != "aws":
        fields, _ = fetch(provider)
        answer = {name.lower().removeprefix("aws_"): value for name, value in fields}
        key, secret = answer.get("access_key_id"), answer.get("secret_access_key")
        token = answer.get("session_token") or answer.get("token")
    if (key is None) != (secret is None):
        raise InvalidArgumentError("aws_access_key_id and aws_secret_access_key belong together: give both, or none")
    if key is None or secret is None:
        return {}
    keys = {"aws_access_key_id": key, "aws_secret_access_key": secret}
    return keys if token is None else {**keys, "aws_session_token": token}


@contextmanager
def _translated(uri: str, about: str) -> Iterator[None]:
    """Raises botocore's errors as ours. Texts that may repeat a credential aren't shown."""
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, ParamValidationError

    try:
        yield
    except ClientError as e:
        error = e.response.get("Error", {})
        code = str(error.get("Code", ""))[:80]
        kind = _CODES.get(code, StoreUnavailableError)
        if e.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in (401, 403) and kind is StoreUnavailableError:
            kind = StoreDeniedError
        if kind is StoreDeniedError:
            problem = f"{uri} refused access to {about} ({code})"
        elif kind is TableNotFoundError:
            problem = f"{about} doesn't exist in {uri}"
        elif kind is TableAlreadyExistsError:
            problem = f"{about} exists already in {uri}"
        elif kind is ConcurrentWriteException:
            problem = f"another program changed {about} in {uri} meanwhile: try again"
        elif kind is InvalidArgumentError:
            problem = f"{uri} refuses {about} ({code}): {' '.join(str(error.get('Message', '')).split())[:300]}"
        else:
            problem = f"{uri} failed for {about} ({code})"
        raise kind(problem) from None
    except NoCredentialsError:
        raise StoreDeniedError(
            f"no credentials for {uri}: give aws_access_key_id and aws_secret_access_key, or AWS's own variables or profile"
        ) from None
    except ParamValidationError:
        raise InvalidArgumentError(f"{about} has a name or facts that Glue can't have") from None
    except BotoCoreError as e:
        raise StoreUnavailableError(f"{uri} gave no answer for {about} ({type(e).__name__})") from None
