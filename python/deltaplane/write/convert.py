"""`convert_to_deltalake`: turns a directory of Parquet files into a table without moving, writing
or deleting data files."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import unquote

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError, SchemaMismatchError, TableAlreadyExistsError
from deltaplane.io.storage_options import StorageOptions, location_text, storage_options_text
from deltaplane.io.tracing import traced
from deltaplane.properties import CommitOperation, CommitProperties, PostCommitHookProperties
from deltaplane.schema import Schema
from deltaplane.write.intent import WriteIntent

if TYPE_CHECKING:
    from deltaplane.io import records
    from deltaplane.io.storage_options import TableUri

__all__ = [
    "AdoptedFile",
    "CatalogTable",
    "Conversion",
    "ConvertProgress",
    "Files",
    "FilesHere",
    "FoundFiles",
    "WouldConvert",
    "convert_to_deltalake",
    "described",
    "partition_values_of",
]

# Number of footers read between two progress reports.
_TOGETHER = 1_000
# A file's path below the table, and its partition values as the log writes them.
AdoptedFile = tuple[str, Mapping[str, str | None]]
_NULL = "__HIVE_DEFAULT_PARTITION__"
# Types whose partition texts are checked; text is always valid for other types.
_CHECKED = {"byte", "short", "integer", "long", "float", "double", "boolean", "date", "timestamp", "timestamp_ntz"}


@checked()
@traced("CONVERT")
def convert_to_deltalake(
    uri: TableUri,
    mode: Literal["error", "ignore"] = "error",
    partition_by: Any = None,
    partition_strategy: Literal["hive", "directory"] | None = None,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | bool | int | None] | None = None,
    storage_options: StorageOptions | None = None,
    *,
    collect_stats: bool = True,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
    dry_run: bool = False,
    progress: Callable[[ConvertProgress], object] | None = None,
) -> WouldConvert | None:
    """Creates a table over the Parquet files in a directory, by one commit that adds all files.

    The table's columns are the union of the columns in all footers (or of Spark's schema in them);
    a column must have one type in all files. Statistics are computed from the files' values,
    several files at a time.

    Args:
        uri: the directory. Names that begin with `_` or `.` are ignored, every other file must be
            Parquet.
        mode: the handling of an existing table: `error` fails, `ignore` keeps it.
        partition_by: the partition columns with their types: a `Schema`, or anything with
            `__arrow_c_schema__`.
        partition_strategy: how directories encode partition values: `hive`
            (`day=2024-01-31/part-0.parquet`) or `directory` (`2024-01-31/part-0.parquet`, in the
            order of the columns).
        name, description, configuration: metadata and properties of the table.
        storage_options: access to the store.
        collect_stats: False writes no statistics: faster now, but no query can skip a file.
        commit_properties, post_commithook_properties: see these classes.
        dry_run: whether to only read the directory and the files' footers and make all checks.
        progress: called in this thread while statistics are computed; an exception that it raises
            ends the command, and no table is created.

    Returns:
        In a dry run the planned table, or None if `mode` keeps an existing one; otherwise None.

    Cost: memory for one text per file and for the commit.

    Raises:
        InvalidArgumentError: no files, directories that don't match the partition columns, a value
            that isn't of its column's type, or properties that need other column names than the
            files have.
        SchemaMismatchError: a column with two types, or a type that Delta tables can't have.
        CorruptFileError: a file isn't Parquet; the message names it.
        TableAlreadyExistsError: a table exists, or another writer created one meanwhile.

    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from deltaplane import DeltaTable
    >>> pq.write_to_dataset(pa.table({"day": [1, 2], "x": [5, 6]}), "days", partition_cols=["day"])
    >>> how = {"partition_by": pa.schema({"day": pa.int32()}), "partition_strategy": "hive"}
    >>> convert_to_deltalake("days", dry_run=True, **how).files
    2
    >>> convert_to_deltalake("days", **how)
    >>> DeltaTable("days").to_pyarrow_table(filters="day = 2").to_pylist()
    [{'x': 6, 'day': 2}]
    """
    made = Conversion(
        location_text(uri), storage_options_text(storage_options), mode, partition_by, partition_strategy, collect_stats
    )
    commit = {"commit_properties": commit_properties, "post_commithook_properties": post_commithook_properties}
    said = {"name": name, "description": description, "configuration": configuration, **commit}
    return made.run(FilesHere(made, progress), dry_run=dry_run, **said)


@dataclass(frozen=True)
class WouldConvert:
    """The result of a dry run: the number of files, and the table's columns and partition
    columns."""

    files: int
    schema: Schema
    partition_columns: tuple[str, ...]


@dataclass(frozen=True)
class ConvertProgress:
    """The number of files with computed statistics, and the total."""

    files_done: int
    files: int


@dataclass(frozen=True)
class CatalogTable:
    """A catalog's description of a table of Parquet files.

    `fields` are the columns in the form of a Delta schema. `partitions` has the values of each
    partition's directory, by its path below the location: files in other directories don't belong
    to the table. None means that the catalog lists no partitions, so that directory names provide
    the values.
    """

    name: str
    fields: Sequence[dict[str, Any]]
    partition_columns: Sequence[str] = ()
    partitions: Mapping[str, Mapping[str, str | None]] | None = None


@dataclass(frozen=True)
class FoundFiles:
    """The Parquet files to convert: their keys, the partition values of each directory, and the
    columns."""

    files: list[str]
    directories: Mapping[str, Mapping[str, str | None]]
    schema: Schema
    partition_columns: list[str]


@dataclass(frozen=True)
class Conversion:
    """The arguments of `convert_to_deltalake`, and the catalog's description of the files."""

    location: str
    options: dict[str, str] | None
    mode: str = "error"
    partition_by: Any = None
    partition_strategy: str | None = None
    collect_stats: bool = True
    catalog_table: CatalogTable | None = None

    def run(self, reader: Files, *, dry_run: bool = False, **said: Any) -> WouldConvert | None:
        """Commits the files that `reader` finds; `said` is added to the commit and the metadata."""
        if self.mode not in ("error", "ignore"):
            raise InvalidArgumentError(f"mode is error or ignore, not {self.mode!r}")
        if (self.partition_by is None) != (self.partition_strategy is None):
            raise InvalidArgumentError(
                "partition_by says the columns and partition_strategy where their values are: give both"
            )
        if self.partition_strategy not in (None, "hive", "directory"):
            raise InvalidArgumentError(f"partition_strategy is hive or directory, not {self.partition_strategy!r}")
        mapping = (said.get("configuration") or {}).get("delta.columnMapping.mode")
        if mapping not in (None, "none"):
            raise InvalidArgumentError(
                f"delta.columnMapping.mode = {mapping} gives columns other names in files, and these have their own already: "
                "convert without it, then set it by an ALTER"
            )
        if _native.is_table(self.location, self.options):
            if self.mode == "ignore":
                return None
            raise TableAlreadyExistsError("a table is here already: there is nothing to convert", table=self.location)
        files = self.find(reader)
        parameters = {
            "numFiles": len(files.files),
            "partitionedBy": json.dumps(files.partition_columns),
            "collectStats": self.collect_stats,
            "sourceFormat": "parquet",
        }
        if self.catalog_table is not None:
            parameters["catalogTable"] = self.catalog_table.name
        job = self._job((self.location, self.options), files, CommitOperation.conversion(parameters), said)
        if dry_run:
            return WouldConvert(len(files.files), files.schema, tuple(files.partition_columns))
        adds = reader.adopt(job.spec, described(files.files, files.directories), len(files.files))
        # A failed job is never aborted here, because aborting would delete its files, which are the
        # user's.
        try:
            job.commit(adds)
        except TableAlreadyExistsError:
            if self.mode == "error":
                raise
        return None

    def find(self, reader: Files) -> FoundFiles:
        """Finds the existing files by `reader`.

        Raises:
            InvalidArgumentError, SchemaMismatchError, CorruptFileError: as `convert_to_deltalake`.
        """
        if self.catalog_table is not None:
            return self._find_in_catalog(reader, self.catalog_table)
        partitions = [] if self.partition_by is None else _partition_fields(self.partition_by)
        names = [field["name"] for field in partitions]
        files = _native.visible_files(self.location, self.options, names)
        if not files:
            raise InvalidArgumentError(
                "no Parquet files are in the directory: there is nothing to convert", table=self.location
            )
        directories = _values(files, partitions, hive=self.partition_strategy == "hive")
        _check_values(directories.values(), partitions)
        lowered = {name.lower() for name in names}
        fields = [f for f in reader.schema(files).to_value()["fields"] if f["name"].lower() not in lowered]
        return FoundFiles(files, directories, _schema(fields + partitions), names)

    def _find_in_catalog(self, reader: Files, table: CatalogTable) -> FoundFiles:
        names = list(table.partition_columns)
        partitions = [field for name in names for field in table.fields if field["name"] == name]
        files = _native.visible_files(self.location, self.options, names)
        if table.partitions is None:
            directories: Mapping[str, Mapping[str, str | None]] = _values(files, partitions, hive=True)
        else:
            directories = table.partitions
            if files and not directories:
                raise InvalidArgumentError(
                    f"the catalog knows no partition of {table.name.replace('`', '')}, and files are there: MSCK REPAIR TABLE has it "
                    "find them",
                    table=self.location,
                )
            files = [path for path in files if path.rpartition("/")[0] in directories]
        _check_values(directories.values(), partitions)
        if files:
            _check_columns(table, reader.schema(files).to_value()["fields"])
        return FoundFiles(files, directories, _schema(table.fields), names)

    def log_in_memory(self, reader: Files) -> str:
        """Writes a log in this process's memory that describes the files by paths below `location`,
        as the source of a clone; returns its location, which the caller deletes."""
        files, location = self.find(reader), f"memory://parquet-{uuid.uuid4().hex}/log"
        job = self._job((location, None), files, CommitOperation.conversion({}), {})
        job.commit(reader.adopt(job.spec, described(files.files, files.directories), len(files.files)))
        return location

    def _job(
        self,
        place: tuple[str, dict[str, str] | None],
        files: FoundFiles,
        operation: CommitOperation,
        said: Mapping[str, Any],
    ) -> _native.WriteJob:
        schema = _native.TableSchema(files.schema.to_json())
        intent = WriteIntent(
            mode="error",
            partition_by=files.partition_columns,
            schema=schema,
            operation=operation,
            applies_row_rules=False,
            **said,
        )
        return _native.WriteJob.begin(*place, schema, intent.request(*place))


class Files(Protocol):
    """The interface for reading the files' footers."""

    def schema(self, files: list[str]) -> _native.TableSchema:
        """The union of the columns of all files, as `_native.parquet_schema`."""

    def adopt(self, spec: records.WriteSpec, files: Iterator[AdoptedFile], count: int) -> _native.AddedFiles:
        """Adopts `count` files, as `_native.adopt_files`."""


@dataclass(frozen=True)
class FilesHere:
    """Reads footers in this process."""

    conversion: Conversion
    progress: Callable[[ConvertProgress], object] | None = None

    def schema(self, files: list[str]) -> _native.TableSchema:
        """Reads several files at a time."""
        return _native.parquet_schema(self.conversion.location, self.conversion.options, files)

    def adopt(self, spec: records.WriteSpec, files: Iterator[AdoptedFile], count: int) -> _native.AddedFiles:
        """Reads several files at a time."""
        parts: list[_native.AddedFiles] = []
        while some := list(islice(files, _TOGETHER)):
            part = _native.adopt_files(
                self.conversion.location, self.conversion.options, spec, some, self.conversion.collect_stats
            )
            parts.append(part)
            if self.progress is not None:
                self.progress(ConvertProgress(sum(map(len, parts)), count))
        return _native.AddedFiles.joined(parts)


def _schema(fields: Sequence[dict[str, Any]]) -> Schema:
    return Schema.from_json(json.dumps({"type": "struct", "fields": list(fields)}))


def _check_columns(table: CatalogTable, fields: list[dict[str, Any]]) -> None:
    """Refuses files whose columns differ from the catalog's: their values would be read wrongly, or
    not at all."""
    by_name = {field["name"]: field for field in fields}
    lowered = {field["name"].lower(): field["name"] for field in fields}
    for field in table.fields:
        name = field["name"]
        if name in table.partition_columns:
            continue
        if name not in by_name:
            if name.lower() in lowered:
                raise SchemaMismatchError(
                    f"the catalog calls a column of {table.name} `{name}` and the files `{lowered[name.lower()]}`: a Delta "
                    "table finds columns by their exact names; create the table with the files' names first"
                )
            continue
        if _plain_type(field["type"]) != _plain_type(by_name[name]["type"]):
            raise SchemaMismatchError(
                f"column `{name}` of {table.name} is {json.dumps(field['type'])} in the catalog and "
                f"{json.dumps(by_name[name]['type'])} in the files: create the table with the files' types first"
            )


def _plain_type(data_type: Any) -> Any:
    """A type without comments and NOT NULL."""
    if isinstance(data_type, list):
        return [_plain_type(item) for item in data_type]
    if not isinstance(data_type, dict):
        return data_type
    left_out = ("metadata", "nullable", "containsNull", "valueContainsNull")
    return {key: _plain_type(value) for key, value in data_type.items() if key not in left_out}


def _partition_fields(columns: Any) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]]
    if hasattr(columns, "to_json") and not hasattr(columns, "__arrow_c_schema__"):
        fields = _native.TableSchema(str(columns.to_json())).to_value()["fields"]
        return fields
    if not hasattr(columns, "__arrow_c_schema__"):
        raise InvalidArgumentError(
            f"partition_by is a schema of the partition columns, not {type(columns).__name__}: give their types"
        )
    fields = _native.TableSchema.of_arrow(columns).to_value()["fields"]
    return fields


def _values(files: list[str], partitions: list[dict[str, Any]], *, hive: bool) -> dict[str, dict[str, str | None]]:
    """The partition values of each directory with files."""
    values: dict[str, dict[str, str | None]] = {}
    for path in files:
        directory = path.rpartition("/")[0]
        if directory not in values:
            values[directory] = partition_values_of(path, partitions, hive=hive)
    return values


def partition_values_of(path: str, partitions: list[dict[str, Any]], *, hive: bool) -> dict[str, str | None]:
    """The partition values in a file's path: a text per partition column, None for null."""
    directories = path.split("/")[:-1]
    if len(directories) != len(partitions):
        partitioning = (
            f"partitioned by {', '.join(f['name'] for f in partitions)}" if partitions else "without partitions"
        )
        raise InvalidArgumentError(
            f"the file `{path}` lies {len(directories)} directories deep, which a table {partitioning} doesn't have: say by "
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
    return values


def described(files: list[str], directories: Mapping[str, Mapping[str, str | None]]) -> Iterator[AdoptedFile]:
    """Each file with its partition values, in the form of `_native.adopt_files`."""
    for path in files:
        yield path, directories[path.rpartition("/")[0]]


def _check_values(directories: Collection[Mapping[str, str | None]], partitions: list[dict[str, Any]]) -> None:
    """Refuses a value that doesn't fit its column's type."""
    import pyarrow as pa

    for field in partitions:
        if field["type"] not in _CHECKED and not str(field["type"]).startswith("decimal"):
            continue
        texts = {text for values in directories if (text := values[field["name"]]) is not None}
        one_column = json.dumps({"type": "struct", "fields": [{**field, "nullable": True}]})
        arrow_type = pa.schema(_native.TableSchema(one_column)).field(0).type
        for text in sorted(texts):
            try:
                pa.array([text]).cast(arrow_type)
            except pa.ArrowException:
                raise InvalidArgumentError(
                    f"`{text}` in a directory's name is no value of the column {field['name']} {field['type']}: give it "
                    "another type"
                ) from None
