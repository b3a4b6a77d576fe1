"""The settings of one commit and of one writer, with deltalake's names.

Holds plain values and converts them to a write request; does no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError, UnsupportedFeatureError
from deltaplane.names import renamed_name

if TYPE_CHECKING:
    from deltaplane.io import records

__all__ = [
    "CommitOperation",
    "CommitProperties",
    "PostCommitHookProperties",
    "PropertiesWithDefaults",
    "Transaction",
    "WriterProperties",
    "commit_request",
    "file_request",
    "property_texts",
]

# Fields that the commit sets itself: other values would falsify the history.
_RESERVED = frozenset({"timestamp", "operation", "operationParameters", "engineInfo", "operationMetrics", "version"})
_LEVELS = {"ZSTD": (1, 22), "GZIP": (0, 9)}
_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "LZ4_RAW", "ZSTD", "GZIP", "LZ4"})


@checked()
@dataclass(frozen=True)
class Transaction:
    """An application's own version, committed together with the data so that no version is written
    twice.

    `last_updated` exists for compatibility with deltalake and must be None: the commit sets it.

    >>> Transaction("daily-feed", 20240131)
    Transaction(app_id='daily-feed', version=20240131, last_updated=None)
    """

    app_id: str
    version: int
    last_updated: int | None = None

    def __post_init__(self) -> None:
        if self.last_updated is not None:
            raise InvalidArgumentError("last_updated is the time of the commit, which sets it: leave it out")


@checked()
@dataclass(frozen=True)
class CommitProperties:
    """The settings of a commit, besides its data.

    `custom_metadata` is added to the commit's history entry (`userMetadata` must be text;
    operation, timestamp and engine can't be set). `max_commit_retries` limits the retries after a
    lost race. With `app_transactions` a write is skipped if one of the versions isn't greater than
    its application's last committed one.

    >>> once = CommitProperties(app_transactions=[Transaction("daily-feed", 7)])
    >>> once.to_request()["txn"]
    [{'app_id': 'daily-feed', 'version': 7}]
    """

    # Whether commands follow delta-rs where its rules differ from delta-spark's.
    as_delta_rs: ClassVar[bool] = False

    custom_metadata: Mapping[str, Any] | None = None
    max_commit_retries: int | None = None
    app_transactions: Sequence[Transaction] | None = None

    def to_request(self) -> dict[str, Any]:
        """These settings as a part of a write request.

        Raises:
            InvalidArgumentError: a reserved key, a value that isn't JSON, a negative count.
        """
        extra = dict(self.custom_metadata or {})
        reserved = sorted(_RESERVED & extra.keys())
        if reserved:
            raise InvalidArgumentError(f"custom_metadata can't set {', '.join(reserved)}: the commit does")
        user_metadata = extra.pop("userMetadata", None)
        if not (user_metadata is None or isinstance(user_metadata, str)):
            raise InvalidArgumentError(f"userMetadata is text, not {type(user_metadata).__name__}")
        try:
            json.dumps(extra, allow_nan=False)
        except (TypeError, ValueError) as e:
            raise InvalidArgumentError(f"custom_metadata can't be written as JSON: {e}") from None
        if self.max_commit_retries is not None and self.max_commit_retries < 0:
            raise InvalidArgumentError(f"max_commit_retries can't be {self.max_commit_retries}")
        return {
            "user_metadata": user_metadata,
            "commit_info": extra,
            "txn": [{"app_id": t.app_id, "version": t.version} for t in self.app_transactions or ()],
            "max_commit_retries": self.max_commit_retries,
        }


@checked()
@dataclass(frozen=True)
class PostCommitHookProperties:
    """Settings for the work after a commit. `create_checkpoint=False` skips a checkpoint that is
    due.

    `cleanup_expired_logs`: True deletes log files past their retention, False doesn't; None deletes
    them after a checkpoint unless `delta.enableExpiredLogCleanup` is false.
    """

    create_checkpoint: bool = True
    cleanup_expired_logs: bool | None = None

    def to_request(self) -> dict[str, Any]:
        """These settings as a part of a write request."""
        return {"checkpoint": self.create_checkpoint, "cleanup": self.cleanup_expired_logs}


@dataclass(frozen=True)
class CommitOperation:
    """The larger operation of which a write is a part; the history records it instead of WRITE.

    >>> CommitOperation.definition("CREATE TABLE", fills=True).request
    {'definition': {'statement': 'CREATE TABLE', 'fills': True, 'replaces': False}}
    """

    request: Mapping[str, Any]

    @classmethod
    def write(cls, parameters: Mapping[str, str | bool]) -> CommitOperation:
        """Rows written to a table, which is recorded as WRITE with further parameters: options that
        the write has without following them, such as `replaceWhere` of an append.

        >>> CommitOperation.write({"canOverwriteSchema": True}).request
        {'write': {'parameters': {'canOverwriteSchema': True}}}
        """
        return cls({"write": {"parameters": dict(parameters)}})

    @classmethod
    def definition(
        cls,
        statement: str,
        *,
        fills: bool,
        replaces: bool = False,
        managed: bool = False,
        saves_as_table: bool = False,
    ) -> CommitOperation:
        """`CREATE TABLE`, `REPLACE TABLE` or `CREATE OR REPLACE TABLE`; `fills` adds `AS SELECT`.
        `replaces` removes every part of the old definition that isn't named: properties, comment,
        partitions, clustering. `managed`: a catalog chose the table's location. `saves_as_table`:
        the statement is Spark's `saveAsTable` over a table.
        """
        says = {"statement": statement, "fills": fills, "replaces": replaces}
        says |= {name: True for name, so in (("managed", managed), ("saves_as_table", saves_as_table)) if so}
        return cls({"definition": says})

    @classmethod
    def streaming_update(cls, query_id: str, epoch_id: int, output_mode: str) -> CommitOperation:
        """A batch of a stream: the query's id, the batch's number, and the query's output mode."""
        says = {"query_id": query_id, "epoch_id": epoch_id, "output_mode": output_mode.capitalize()}
        return cls({"streaming_update": says})

    @classmethod
    def conversion(cls, parameters: Mapping[str, Any]) -> CommitOperation:
        """CONVERT TO DELTA: existing files become a table, with the command's arguments."""
        return cls({"conversion": {"parameters": dict(parameters)}})


@checked()
@dataclass(frozen=True)
class BloomFilterProperties:
    """Whether a column's files get a Parquet Bloom filter, by which readers skip row groups that
    lack a value: for `ColumnProperties`, with deltalake's names.

    `fpp` is the probability that a filter takes an absent value for one of its own (default 0.01),
    `ndv` the most distinct values of a row group (default: its rows). The smaller the first and the
    larger the second, the larger the filter; it is shrunk to the values that it gets.
    """

    set_bloom_filter_enabled: bool | None
    fpp: float | None = None
    ndv: int | None = None


@checked()
@dataclass(frozen=True)
class ColumnProperties:
    """Settings of one column, for `WriterProperties`: its Bloom filter, and its encoding, which
    replaces the dictionary: PLAIN, RLE, DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY,
    DELTA_BYTE_ARRAY or BYTE_STREAM_SPLIT, as far as its type can have it. The other settings have
    deltalake's names, and are refused when set."""

    dictionary_enabled: bool | None = None
    statistics_enabled: str | None = None
    bloom_filter_properties: BloomFilterProperties | None = None
    encoding: str | None = None


@checked()
@dataclass(frozen=True)
class WriterProperties:
    """Settings of Parquet files. Supported are `max_row_group_size` (rows), `compression`,
    `compression_level`, Bloom filters: of columns by their dotted names (`column_properties`),
    and of all columns that can have one (`default_column_properties`), and encodings of columns.
    They take precedence over the table property `deltaplane.parquet.bloomFilterColumns`.

    The other settings have deltalake's names so that calls can be ported, and are refused when set:
    this version chooses pages, dictionaries and statistics itself.

    >>> WriterProperties(compression="ZSTD", compression_level=3).to_request()
    {'row_group_rows': None, 'compression': 'zstd(3)', 'bloom_filters': [], 'encodings': {}}
    >>> keyed = ColumnProperties(bloom_filter_properties=BloomFilterProperties(True, fpp=0.001))
    >>> WriterProperties(column_properties={"id": keyed}).to_request()["bloom_filters"]
    [BloomFilterChoice(column='id', enabled=True, fpp=0.001, ndv=None)]
    """

    data_page_size_limit: int | None = None
    dictionary_page_size_limit: int | None = None
    data_page_row_count_limit: int | None = None
    write_batch_size: int | None = None
    max_row_group_size: int | None = None
    compression: str | None = None
    compression_level: int | None = None
    statistics_truncate_length: int | None = None
    default_column_properties: ColumnProperties | None = None
    column_properties: Mapping[str, ColumnProperties] | None = None

    def to_request(self) -> dict[str, Any]:
        """These settings as a part of a write request.

        Raises:
            InvalidArgumentError: a size below 1, an unknown codec or level.
            UnsupportedFeatureError: a setting that this version doesn't support.
        """
        of_columns = {"default_column_properties", "column_properties"}
        honoured = {"max_row_group_size", "compression", "compression_level"} | of_columns
        unsupported = sorted(n for n, v in vars(self).items() if n not in honoured and v is not None)
        if unsupported:
            raise UnsupportedFeatureError(
                f"this version's writer chooses {', '.join(unsupported)} itself: leave it out"
            )
        if self.max_row_group_size is not None and self.max_row_group_size < 1:
            raise InvalidArgumentError(f"max_row_group_size is a number of rows, not {self.max_row_group_size}")
        return {
            "row_group_rows": self.max_row_group_size,
            "compression": self._codec(),
            "bloom_filters": self._bloom_filters(),
            "encodings": {
                name: chosen.encoding
                for name, chosen in (self.column_properties or {}).items()
                if chosen.encoding is not None
            },
        }

    def _bloom_filters(self) -> list[records.BloomFilterChoice]:
        by_column = [(None, self.default_column_properties), *(self.column_properties or {}).items()]
        choices = [_bloom_filter(column, chosen) for column, chosen in by_column if chosen is not None]
        return [choice for choice in choices if choice is not None]

    def _codec(self) -> str | None:
        if self.compression is None:
            if self.compression_level is not None:
                raise InvalidArgumentError("compression_level needs compression, such as ZSTD")
            return None
        codec = self.compression.upper()
        if codec not in _CODECS:
            others = ", ".join(sorted(_CODECS))
            if codec == "BROTLI":
                raise InvalidArgumentError(f"Spark can't read data files of the codec BROTLI: use one of {others}")
            raise InvalidArgumentError(f"no codec {self.compression!r}: use one of {others}")
        if self.compression_level is None:
            return codec.lower()
        if codec not in _LEVELS:
            raise InvalidArgumentError(f"{codec} has no compression levels: leave compression_level out")
        low, high = _LEVELS[codec]
        if not low <= self.compression_level <= high:
            raise InvalidArgumentError(f"levels of {codec} go from {low} to {high}: {self.compression_level} isn't one")
        return f"{codec.lower()}({self.compression_level})"


def _bloom_filter(column: str | None, chosen: ColumnProperties) -> records.BloomFilterChoice | None:
    """The Bloom filter that the properties of a column choose, or of all columns."""
    honoured = {"bloom_filter_properties"} if column is None else {"bloom_filter_properties", "encoding"}
    unsupported = sorted(n for n, v in vars(chosen).items() if n not in honoured and v is not None)
    if unsupported:
        where = "default_column_properties" if column is None else f"column_properties of `{column}`"
        raise UnsupportedFeatureError(
            f"this version's writer chooses {', '.join(unsupported)} itself: leave it out of {where}"
        )
    asked = chosen.bloom_filter_properties
    if asked is None or asked.set_bloom_filter_enabled is None:
        return None
    from deltaplane.io.records import BloomFilterChoice

    if asked.fpp is not None and not 0 < asked.fpp < 1:
        raise InvalidArgumentError(f"fpp is a probability between 0 and 1, not {asked.fpp}")
    if asked.ndv is not None and asked.ndv < 1:
        raise InvalidArgumentError(f"ndv is a number of distinct values, not {asked.ndv}")
    return BloomFilterChoice(column=column, enabled=asked.set_bloom_filter_enabled, fpp=asked.fpp, ndv=asked.ndv)


def file_request(writer: WriterProperties | None, target_file_size: int | None = None) -> records.FileRequest:
    """The settings of data files, as a part of a write request.

    Raises:
        InvalidArgumentError, UnsupportedFeatureError: as `WriterProperties.to_request`, or a size
            below 1.
    """
    if target_file_size is not None and target_file_size < 1:
        raise InvalidArgumentError(f"target_file_size is a number of bytes, not {target_file_size}")
    from deltaplane.io.records import FileRequest

    return FileRequest(target_file_size=target_file_size, **(writer or WriterProperties()).to_request())


def commit_request(commit: CommitProperties | None, hook: PostCommitHookProperties | None) -> records.CommitRequest:
    """The settings of a commit, as a part of a write request; a commit without `userMetadata` of
    its own has that of the Spark session which makes it.

    Raises:
        InvalidArgumentError: as `CommitProperties.to_request`.
    """
    from deltaplane.io import session_options
    from deltaplane.io.records import CommitRequest

    settings, after = (commit or CommitProperties()).to_request(), (hook or PostCommitHookProperties()).to_request()
    if settings["user_metadata"] is None:
        settings["user_metadata"] = session_options.user_metadata()
    return CommitRequest(**settings, **after)


class PropertiesWithDefaults(dict[str, str]):
    """The properties of a new table and, under names that the table doesn't set, those that a
    session sets for each new table.

    >>> both = PropertiesWithDefaults({"delta.appendOnly": "true"}, {"owner": "me"})
    >>> both, both.session_defaults
    ({'delta.appendOnly': 'true', 'owner': 'me'}, ['delta.appendOnly'])
    """

    def __init__(self, defaults: Mapping[str, str], own: Mapping[str, str]) -> None:
        names = {name.lower() for name in own}
        self.session_defaults = [name for name in defaults if name.lower() not in names]
        super().__init__({**{name: defaults[name] for name in self.session_defaults}, **own})

    def __reduce__(self) -> tuple[type, tuple[dict[str, str], dict[str, str]]]:
        own = {name: value for name, value in self.items() if name not in self.session_defaults}
        return type(self), ({name: self[name] for name in self.session_defaults}, own)


def property_texts(configuration: Mapping[str, Any] | None) -> dict[str, str]:
    """Table properties in the log's form, which is text: a bool or an int becomes its text, None
    omits the property.

    Raises:
        InvalidArgumentError: a name that isn't text, or a value of another type.

    >>> property_texts({"delta.appendOnly": True, "delta.checkpointInterval": 5, "owner": None})
    {'delta.appendOnly': 'true', 'delta.checkpointInterval': '5'}
    """
    if configuration is not None and not isinstance(configuration, Mapping):
        raise InvalidArgumentError(
            f"configuration is a mapping of property names to values, not {type(configuration).__name__}"
        )
    return {_property_name(k): _property_text(k, v) for k, v in (configuration or {}).items() if v is not None}


def _property_name(name: Any) -> str:
    if isinstance(name, str):
        return name
    raise InvalidArgumentError(f"configuration has the property name {name!r}: names of properties are text")


def _property_text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise InvalidArgumentError(
        f"the property `{name}` in configuration has a value of the type {type(value).__name__}: give its text, a bool, "
        "an int or None"
    )


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return globals()[renamed_name(__name__, name)]
