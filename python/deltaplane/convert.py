"""`convert_to_deltalake`: a directory of Parquet files becomes a table in place. No file is moved, written or deleted.

Called by users and by the statement CONVERT.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import unquote

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError, TableAlreadyExistsError
from deltaplane.options import StorageOptions, location_text, storage_options_text
from deltaplane.properties import CommitProperties, PostCommitHookProperties, ToldAs
from deltaplane.schema import Schema
from deltaplane.write import write_request

if TYPE_CHECKING:
    from deltaplane.options import TableUri

__all__ = [
    "Conversion",
    "ConvertProgress",
    "Files",
    "FilesHere",
    "WouldConvert",
    "convert_to_deltalake",
    "described",
    "partition_values_of",
]

# Files whose footers are read between two looks at the progress.
_TOGETHER = 1_000
_NULL = "__HIVE_DEFAULT_PARTITION__"
# Values of types that aren't in this list can't be told wrong from their text.
_CHECKED = {"byte", "short", "integer", "long", "float", "double", "boolean", "date", "timestamp", "timestamp_ntz"}


@checked()
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
        dry_run: only look at the directory, its files' footers and all that would refuse the table.
        progress: called in this thread while files' statistics are taken; what it raises ends the command, and no table is
            there.

    Returns:
        For a dry run what the table would be, None where `mode` leaves one that is there; else None.

    Cost: a text for each file in memory, those of the commit.

    Raises:
        InvalidArgumentError: no files, directories that don't fit the partition columns, a value that isn't of its
            column's type, or properties that need other names of columns than the files have.
        SchemaMismatchError: a column with two types, or a type that no table has.
        CorruptFileError: a file that isn't Parquet; named.
        TableAlreadyExistsError: a table is there, or another writer made one meanwhile.

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
    """What a dry run found: the number of files, and the table's columns and partition columns."""

    files: int
    schema: Schema
    partition_columns: tuple[str, ...]


@dataclass(frozen=True)
class ConvertProgress:
    """Of how many files the statistics are known, and of how many they will be."""

    files_done: int
    files: int


@dataclass(frozen=True)
class Conversion:
    """What is to be converted; the arguments of `convert_to_deltalake`."""

    location: str
    options: dict[str, str] | None
    mode: str = "error"
    partition_by: Any = None
    partition_strategy: str | None = None
    collect_stats: bool = True

    def run(self, reader: Files, *, dry_run: bool = False, **said: Any) -> WouldConvert | None:
        """Commits the files that are there, as `reader` finds them; `said` is what the commit and the metadata say."""
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
        partitions = [] if self.partition_by is None else json.loads(_schema_json(self.partition_by))["fields"]
        files = _native.visible_files(self.location, self.options, [field["name"] for field in partitions])
        if not files:
            raise InvalidArgumentError(
                "no Parquet files are in the directory: there is nothing to convert", table=self.location
            )
        directories = _values(files, partitions, hive=self.partition_strategy == "hive")
        _check_values(directories.values(), partitions)
        names = {field["name"].lower() for field in partitions}
        found = json.loads(reader.schema(files))["fields"]
        fields = [field for field in found if field["name"].lower() not in names]
        schema = Schema.from_json(json.dumps({"type": "struct", "fields": fields + partitions}))
        parameters = {
            "numFiles": len(files),
            "partitionedBy": json.dumps([field["name"] for field in partitions]),
            "collectStats": self.collect_stats,
            "sourceFormat": "parquet",
        }
        request = write_request(
            mode="error",
            partition_by=[field["name"] for field in partitions],
            schema_json=schema.to_json(),
            told_as=ToldAs.conversion(parameters),
            **said,
        )
        job = _native.WriteJob.begin(self.location, self.options, schema, request)
        if dry_run:
            return WouldConvert(len(files), schema, tuple(field["name"] for field in partitions))
        adds = reader.adopt(job.spec, described(files, directories), len(files))
        # A job that fails is never aborted here: that would delete its files, which are the user's.
        try:
            job.commit(adds)
        except TableAlreadyExistsError:
            if self.mode == "error":
                raise
        return None


class Files(Protocol):
    """Who reads the files' footers."""

    def schema(self, files: list[str]) -> str:
        """The columns of all files together, as `_native.parquet_schema`."""

    def adopt(self, spec: str, files: Iterator[str], count: int) -> list[str]:
        """The add actions of so many files, as `_native.adopt_files`."""


@dataclass(frozen=True)
class FilesHere:
    """This process."""

    of: Conversion
    progress: Callable[[ConvertProgress], object] | None = None

    def schema(self, files: list[str]) -> str:
        """Several files at a time."""
        return _native.parquet_schema(self.of.location, self.of.options, files)

    def adopt(self, spec: str, files: Iterator[str], count: int) -> list[str]:
        """Several files at a time."""
        adds: list[str] = []
        while some := list(islice(files, _TOGETHER)):
            adds += _native.adopt_files(self.of.location, self.of.options, spec, some, self.of.collect_stats)
            if self.progress is not None:
                self.progress(ConvertProgress(len(adds), count))
        return adds


def _schema_json(columns: Any) -> str:
    if hasattr(columns, "to_json") and not hasattr(columns, "__arrow_c_schema__"):
        return str(columns.to_json())
    if not hasattr(columns, "__arrow_c_schema__"):
        raise InvalidArgumentError(
            f"partition_by is a schema of the partition columns, not {type(columns).__name__}: give their types"
        )
    return _native.schema_from_arrow(columns)


def _values(files: list[str], partitions: list[dict[str, Any]], *, hive: bool) -> dict[str, dict[str, str | None]]:
    """The partition values that each directory with files tells."""
    found: dict[str, dict[str, str | None]] = {}
    for path in files:
        directory = path.rpartition("/")[0]
        if directory not in found:
            found[directory] = partition_values_of(path, partitions, hive=hive)
    return found


def partition_values_of(path: str, partitions: list[dict[str, Any]], *, hive: bool) -> dict[str, str | None]:
    """What a file's directories tell of its rows: a text for each partition column, null as None."""
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
    return values


def described(files: list[str], directories: Mapping[str, Mapping[str, str | None]]) -> Iterator[str]:
    """Each file with its partition values, as `_native.adopt_files` takes it."""
    texts = {directory: json.dumps(values) for directory, values in directories.items()}
    for path in files:
        yield f'{{"path": {json.dumps(path)}, "partitionValues": {texts[path.rpartition("/")[0]]}}}'


def _check_values(directories: Collection[Mapping[str, str | None]], partitions: list[dict[str, Any]]) -> None:
    """Refuses a value that isn't of its column's type."""
    import pyarrow as pa

    for field in partitions:
        if field["type"] not in _CHECKED and not str(field["type"]).startswith("decimal"):
            continue
        texts = {text for values in directories if (text := values[field["name"]]) is not None}
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
