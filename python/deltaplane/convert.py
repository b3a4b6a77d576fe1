"""`convert_to_deltalake`: a directory of Parquet files becomes a table in place. No file is moved, written or deleted.

Called by users and by the statement CONVERT.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from deltaplane import _native
from deltaplane.exceptions import InvalidArgumentError, TableAlreadyExistsError
from deltaplane.options import StorageOptions, location_text, storage_options_text
from deltaplane.properties import CommitProperties, PostCommitHookProperties
from deltaplane.schema import Schema
from deltaplane.write import write_request

if TYPE_CHECKING:
    from deltaplane.options import TableUri

__all__ = ["convert_to_deltalake"]

_NULL = "__HIVE_DEFAULT_PARTITION__"
# Values of types that aren't in this list can't be told wrong from their text.
_CHECKED = {"byte", "short", "integer", "long", "float", "double", "boolean", "date", "timestamp", "timestamp_ntz"}


def convert_to_deltalake(
    uri: TableUri,
    mode: Literal["error", "ignore"] = "error",
    partition_by: Any = None,
    partition_strategy: Literal["hive", "directory"] | None = None,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    storage_options: StorageOptions | None = None,
    *,
    collect_stats: bool = True,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
) -> None:
    """Makes a table of the Parquet files in a directory, by one commit that names them all.

    The table's columns are those of all files together, as their footers (or Spark's own note there) tell them; a column
    has one type in all files that have it. Statistics are taken from the files' values, several files at a time.

    Args:
        uri: the directory. Names that begin with `_` or `.` are passed over, every other file must be Parquet.
        mode: what to do where a table is already: `error` fails, `ignore` leaves it.
        partition_by: the partition columns with their types: a `Schema`, or anything with `__arrow_c_schema__`.
        partition_strategy: how directories tell their values: `hive` (`day=2024-01-31/part-0.parquet`) or `directory`
            (`2024-01-31/part-0.parquet`, in the order of the columns).
        name, description, configuration: metadata and properties of the table.
        storage_options: how to reach the store.
        collect_stats: off, files have no statistics: quicker now, and no query skips a file.
        commit_properties, post_commithook_properties: see these classes.

    Raises:
        InvalidArgumentError: no files, directories that don't fit the partition columns, a value that isn't of its
            column's type, or properties that need other names of columns than the files have.
        SchemaMismatchError: a column with two types, or a type that no table has.
        CorruptFileError: a file that isn't Parquet; named.
        TableAlreadyExistsError: a table is there, or another writer made one meanwhile.

    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from deltaplane import DeltaTable
    >>> pq.write_to_dataset(pa.table({"day": [1, 2], "x": [5, 6]}), "days", partition_cols=["day"])
    >>> convert_to_deltalake("days", partition_by=pa.schema({"day": pa.int32()}), partition_strategy="hive")
    >>> DeltaTable("days").to_pyarrow_table(filters="day = 2").to_pylist()
    [{'x': 6, 'day': 2}]
    """
    location, options = location_text(uri), storage_options_text(storage_options)
    if mode not in ("error", "ignore"):
        raise InvalidArgumentError(f"mode is error or ignore, not {mode!r}")
    if (partition_by is None) != (partition_strategy is None):
        raise InvalidArgumentError(
            "partition_by says the columns and partition_strategy where their values are: give both"
        )
    if partition_strategy not in (None, "hive", "directory"):
        raise InvalidArgumentError(f"partition_strategy is hive or directory, not {partition_strategy!r}")
    mapping = (configuration or {}).get("delta.columnMapping.mode")
    if mapping not in (None, "none"):
        raise InvalidArgumentError(
            f"delta.columnMapping.mode = {mapping} gives columns other names in files, and these have their own already: "
            "convert without it, then set it by an ALTER"
        )
    if _native.is_table(location, options):
        if mode == "ignore":
            return
        raise TableAlreadyExistsError("a table is here already: there is nothing to convert", table=location)
    partitions = [] if partition_by is None else json.loads(_schema_json(partition_by))["fields"]
    files = _native.visible_files(location, options, [field["name"] for field in partitions])
    if not files:
        raise InvalidArgumentError("no Parquet files are in the directory: there is nothing to convert", table=location)
    adopted = _with_values(files, partitions, hive=partition_strategy == "hive")
    _check_values(adopted, partitions)
    names = {field["name"].lower() for field in partitions}
    found = json.loads(_native.parquet_schema(location, options, files))["fields"]
    fields = [field for field in found if field["name"].lower() not in names]
    schema = Schema.from_json(json.dumps({"type": "struct", "fields": fields + partitions}))
    request = json.loads(
        write_request(
            mode="error",
            partition_by=[field["name"] for field in partitions],
            name=name,
            description=description,
            configuration=configuration,
            schema_json=schema.to_json(),
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
        )
    )
    request["operation"] = "CONVERT"
    request["operation_parameters"] = {
        "numFiles": str(len(files)),
        "partitionedBy": json.dumps([field["name"] for field in partitions]),
        "collectStats": json.dumps(collect_stats),
        "sourceFormat": "parquet",
    }
    job = _native.WriteJob.begin(location, options, schema, json.dumps(request))
    adds = _native.adopt_files(location, options, job.spec, [json.dumps(f) for f in adopted], collect_stats)
    # A job that fails is never aborted here: that would delete its files, which are the user's.
    try:
        job.commit(adds)
    except TableAlreadyExistsError:
        if mode == "error":
            raise


def _schema_json(columns: Any) -> str:
    if hasattr(columns, "to_json") and not hasattr(columns, "__arrow_c_schema__"):
        return str(columns.to_json())
    if not hasattr(columns, "__arrow_c_schema__"):
        raise InvalidArgumentError(
            f"partition_by is a schema of the partition columns, not {type(columns).__name__}: give their types"
        )
    return _native.schema_from_arrow(columns)


def _with_values(files: list[str], partitions: list[dict[str, Any]], *, hive: bool) -> list[dict[str, Any]]:
    """Each file with the partition values that its directories tell."""
    adopted = []
    for path in files:
        directories = path.split("/")[:-1]
        if len(directories) != len(partitions):
            told = f"partitioned by {', '.join(f['name'] for f in partitions)}" if partitions else "without partitions"
            raise InvalidArgumentError(
                f"the file `{path}` lies {len(directories)} directories deep, which a table {told} doesn't have: say by "
                "which columns it is partitioned (partition_by)"
            )
        values = {}
        for field, directory in zip(partitions, directories, strict=True):
            column, equals, text = directory.partition("=") if hive else (field["name"], "=", directory)
            if not equals or unquote(column) != field["name"]:
                raise InvalidArgumentError(
                    f"the directory `{directory}` of the file `{path}` tells no value of the column {field['name']}"
                )
            value = unquote(text)
            values[field["name"]] = None if value in ("", _NULL) else value
        adopted.append({"path": path, "partitionValues": values})
    return adopted


def _check_values(adopted: list[dict[str, Any]], partitions: list[dict[str, Any]]) -> None:
    """Refuses a value that isn't of its column's type."""
    import pyarrow as pa

    for field in partitions:
        if field["type"] not in _CHECKED and not str(field["type"]).startswith("decimal"):
            continue
        texts = {one["partitionValues"][field["name"]] for one in adopted} - {None}
        one_column = json.dumps({"type": "struct", "fields": [{**field, "nullable": True}]})
        of = pa.schema(_native.schema_to_arrow(one_column)).field(0).type
        for text in sorted(texts):
            try:
                pa.array([text]).cast(of)
            except pa.ArrowException:
                raise InvalidArgumentError(
                    f"`{text}` in a directory's name is no value of the column {field['name']} {field['type']}: give it "
                    "another type"
                ) from None
