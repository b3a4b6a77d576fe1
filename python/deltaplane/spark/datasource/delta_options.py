"""Translates delta-spark's reader options, writer options and session settings to deltaplane's
arguments."""

from __future__ import annotations

import difflib
import functools
import logging
import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from deltaplane import _native
from deltaplane.exceptions import DeltaError, InvalidArgumentError
from deltaplane.properties import CommitOperation, CommitProperties, PropertiesWithDefaults, Transaction
from deltaplane.spark.datasource.file_options import is_own
from deltaplane.spark.datasource.stream_options import flag
from deltaplane.spark.jvm.internals import is_on, session_settings
from deltaplane.spark.jvm.location import absolute_location, split_options
from deltaplane.spark.jvm.names import FORMATS, OWN_FORMAT
from deltaplane.spark.jvm.session_catalogs import is_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Options",
    "change_properties",
    "checks_replaced_rows",
    "checks_retention",
    "column_names",
    "commit_properties",
    "default_properties",
    "dynamic_partitions",
    "for_store",
    "merges_schema",
    "number",
    "replaces_by_data",
    "retention_hours",
    "schema_mode",
    "tells_of_vacuum",
    "transaction",
    "user_metadata",
    "versioned_path",
    "write_operation",
]

_log = logging.getLogger(__name__)

_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_TXN_APP, _TXN_VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
_TXN_RESET = f"{_TXN_VERSION}.autoReset.enabled"
_AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"
_DEFAULTS = "spark.databricks.delta.properties.defaults."
# Options that scripts set for any format, and that have no effect for Delta tables because the log
# determines their values.
_MEANINGLESS = frozenset("header inferschema mergeschema sep delimiter multiline quote escape encoding charset".split())
# What the format `deltaplane` calls options of `delta`.
_OTHER_NAMES = {"version": "versionAsOf", "timestamp": "timestampAsOf"}
# Prefixes of settings of Spark's file systems, and of table properties.
_OF_OTHERS = ("fs.", "delta.")
# The setting by which a call's path takes precedence over the option `path`, as in Spark 2.
_LEGACY_PATHS = "spark.sql.legacy.pathOptionBehavior.enabled"
# Minimum similarity at which an unknown name is taken for a misspelling of a known one.
_NEARLY = 0.85
# URL schemes of stores on which delta-spark's VACUUM commits its start and end by default.
_TELLING = frozenset("wasbs wasbss abfs abfss adl gs file hdfs".split())
# Matches a version or a timestamp at the end of a path.
_AT = re.compile(r"(?P<path>.+)@(?:[vV](?P<version>\d+)|(?P<moment>\d{17}))", re.DOTALL)


class Options:
    """The user's format and options; also passed on to Spark's own reader or writer, in case the
    format isn't deltaplane's."""

    _format: str | None
    _options: dict[str, str]
    # The session; all of PySpark's readers and writers have this attribute.
    _spark: Any
    # The options split last, and their part for the store.
    _for_store: tuple[dict[str, str], dict[str, str] | None] | None = None

    def format(self, source: str) -> Any:
        self._format = source.lower()
        return super().format(source)  # type: ignore[misc]

    def option(self, key: str, value: Any) -> Any:
        if value is not None:
            self._options[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return super().option(key, value)  # type: ignore[misc]

    def options(self, **options: Any) -> Any:
        for key, value in options.items():
            self.option(key, value)
        return self

    def _take(self, options: Mapping[str, Any], **enabled: Any) -> None:
        """Applies the options of a final call (`load`, `save`), each as the method of its name
        would; None counts as absent."""
        for method, value in enabled.items():
            if value is not None:
                getattr(self, method)(value)
        self.options(**options)
        if self._format == OWN_FORMAT:
            self._take_own_names()

    def _take_own_names(self) -> None:
        """Applies options that the format `deltaplane` has without `enable`, too, and `delta` under
        another name or as a method."""
        options = {key.lower(): value for key, value in self._options.items()}
        for name, other in _OTHER_NAMES.items():
            if name in options:
                self._options = {key: value for key, value in self._options.items() if key.lower() != name}
                if other.lower() not in options:
                    self._options[other] = options[name]
        if "partitionby" in options and hasattr(self, "partitionBy"):
            self._options = {key: value for key, value in self._options.items() if key.lower() != "partitionby"}
            self.partitionBy(*(column.strip() for column in options["partitionby"].split(",")))

    def _is_ours(self) -> bool:
        return self._format in FORMATS

    def _split(self, own: frozenset[str]) -> tuple[dict[str, str], dict[str, str] | None]:
        """Splits off deltaplane's options, in lower case, from those for the store; logs unknown
        options once."""
        mine = {key.lower(): value for key, value in self._options.items() if is_own(key, own)}
        others = {key: value for key, value in self._options.items() if not is_own(key, own)}
        if self._for_store is None or self._for_store[0] != others:
            self._for_store = others, for_store(others, own)
        return mine, self._for_store[1]

    def _path(self, path: Any, own: Mapping[str, str]) -> str:
        if path is not None and "path" in own and not is_on(self._spark, _LEGACY_PATHS):
            raise InvalidArgumentError(f"the option path says {own['path']}, and the call {path}: give the path once")
        chosen = path if path is not None else own.get("path")
        if isinstance(chosen, (list, tuple)) and len(chosen) == 1:
            (chosen,) = chosen
        if chosen is None or isinstance(chosen, (list, tuple)):
            raise InvalidArgumentError('the format "delta" needs one path, or the name of a table')
        return str(chosen)


def for_store(options: Mapping[str, str], own: Iterable[str]) -> dict[str, str] | None:
    """The options for the store, among those outside of `own`; unknown options are logged and
    ignored, as in delta-spark."""
    if left_out := [key for key in options if key.lower() in _MEANINGLESS]:
        _log.info("of a Delta table these options mean nothing: %s", ", ".join(left_out))
    selected = {key: value for key, value in options.items() if key not in left_out}
    unknown = [key for key in selected if not (key.lower().startswith(_OF_OTHERS) or _is_for_store(key.lower()))]
    if unknown:
        descriptions = ", ".join(key + _meant(key.lower(), own) for key in unknown)
        _log.warning("of a Delta table these options are unknown, and ignored: %s", descriptions)
    return {key: value for key, value in selected.items() if key not in unknown} or None


@functools.cache
def _is_for_store(key: str) -> bool:
    """Whether an option is a storage option or resembles one; the store then reports a misspelling
    itself."""
    if "unknown storage option" not in _refusal("memory://options/t", key):
        return True
    for location in ("s3://options/t", "az://options/t", "gs://options/t"):
        suggestion = re.search(r"did you mean (\w+)\?", _refusal(location, key))
        if suggestion is not None and difflib.SequenceMatcher(None, key, suggestion[1]).ratio() >= _NEARLY:
            return True
    return False


def _refusal(location: str, key: str) -> str:
    """The store's error message for an option, without a connection."""
    try:
        _native.is_table(location, {key: "1"})
    except DeltaError as e:
        return str(e)
    return ""


def _meant(key: str, own: Iterable[str]) -> str:
    near = difflib.get_close_matches(key, own, 1, _NEARLY)
    return f" (did you mean {near[0]}?)" if near else ""


def column_names(arguments: tuple[Any, ...]) -> list[str]:
    """Column names that a method accepts as several arguments or as one list."""
    return [*arguments[0]] if len(arguments) == 1 and isinstance(arguments[0], (list, tuple)) else list(arguments)


def user_metadata(spark: SparkSession, own: Mapping[str, str] | None = None) -> str | None:
    """The text for a commit's history: the write's own option, otherwise the session's setting."""
    metadata: str | None = (own or {}).get("usermetadata", spark.conf.get(_USER_METADATA, None))
    return metadata


def commit_properties(spark: SparkSession) -> CommitProperties | None:
    """The session's settings for each commit."""
    return _properties(user_metadata(spark), None)


def change_properties(spark: SparkSession, *, dry_run: bool = False) -> CommitProperties | None:
    """The session's settings for a commit that changes rows, including the application version that
    prevents a repetition.

    Raises:
        InvalidArgumentError: as in `transaction`.
    """
    return _properties(user_metadata(spark), transaction(spark, dry_run=dry_run))


def _properties(text: str | None, txn: tuple[str, int] | None) -> CommitProperties | None:
    if text is None and txn is None:
        return None
    return CommitProperties(
        custom_metadata=None if text is None else {"userMetadata": text},
        app_transactions=None if txn is None else [Transaction(*txn)],
    )


def checks_replaced_rows(spark: SparkSession) -> bool:
    """Whether the rows of an overwrite with `replaceWhere` must satisfy its condition."""
    return _is_set(spark, "spark.databricks.delta.replaceWhere.constraintCheck.enabled")


def replaces_by_data(spark: SparkSession) -> bool:
    """Whether the condition of `replaceWhere` may use other columns than those of partitions."""
    return _is_set(spark, "spark.databricks.delta.replaceWhere.dataColumns.enabled")


def _is_set(spark: SparkSession, key: str) -> bool:
    return str(spark.conf.get(key, "true")).lower() == "true"


def dynamic_partitions(spark: SparkSession, own: Mapping[str, str] | None = None) -> bool:
    """Whether an overwrite replaces only partitions with new rows: the write's option, otherwise
    the session's setting."""
    setting = spark.conf.get("spark.sql.sources.partitionOverwriteMode", "static") or "static"
    return (own or {}).get("partitionoverwritemode", setting).lower() == "dynamic"


def write_operation(spark: SparkSession, own: Mapping[str, str] | None = None) -> CommitOperation | None:
    """What the history records of a write besides its mode: as in delta-spark also options and
    settings that the write doesn't follow, such as `replaceWhere` of an append; None without any.
    """
    own = own or {}
    options: dict[str, str | bool] = {
        "isDynamicPartitionOverwrite": dynamic_partitions(spark, own),
        "canOverwriteSchema": flag(own, "overwriteschema"),
        "canMergeSchema": merges_schema(spark, own),
    }
    parameters = {name: value for name, value in options.items() if value}
    if "replacewhere" in own:
        parameters["predicate"] = own["replacewhere"]
    return CommitOperation.write(parameters) if parameters else None


def checks_retention(spark: SparkSession) -> bool:
    """Whether VACUUM refuses retentions shorter than the table's."""
    return bool(spark.conf.get("spark.databricks.delta.retentionDurationCheck.enabled", "true") == "true")


def retention_hours(spark: SparkSession, hours: float | None) -> float | None:
    """The retention of a VACUUM by SQL or `DeltaTable.vacuum`, None for the table's own. As in
    delta-spark 4.4 any retention but zero is ignored with a warning, unless
    `spark.databricks.delta.vacuum.retentionWindowIgnore.enabled` is false.

    >>> retention_hours(spark, None), retention_hours(spark, 0.0)
    (None, 0.0)
    """
    if hours is None or not math.isfinite(hours) or math.floor(hours + 0.5) == 0:
        return hours
    if spark.conf.get("spark.databricks.delta.vacuum.retentionWindowIgnore.enabled", "true").lower() != "true":
        return hours
    _log.warning(
        "VACUUM ignores the retention of %g hours, as delta-spark does with any but 0: the table's property "
        "delta.deletedFileRetentionDuration decides. Set that property, or set the session's "
        "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled to false",
        hours,
    )
    return None


def tells_of_vacuum(spark: SparkSession, location: str) -> Literal["always", "deleting", "never"]:
    """When a VACUUM commits its start and end: `always` or `never` if the session sets it;
    otherwise always on the stores where delta-spark does. On other stores, such as S3, where
    delta-spark commits neither for fear of concurrent writers, a VACUUM that deletes files commits
    both, because RESTORE depends on it.

    >>> tells_of_vacuum(spark, "/lake/t"), tells_of_vacuum(spark, "s3://lake/t")
    ('always', 'deleting')
    """
    setting = spark.conf.get("spark.databricks.delta.vacuum.logging.enabled", None)
    if setting is not None:
        return "always" if setting.lower() == "true" else "never"
    scheme = location.partition(":")[0].lower() if re.match(r"\w+:/", location) else "file"
    return "always" if scheme in _TELLING else "deleting"


def merges_schema(spark: SparkSession, own: Mapping[str, str] | None = None) -> bool:
    """Whether a write adds new columns to the table: the write's option, otherwise the session's
    setting.

    Raises:
        InvalidArgumentError: the value is neither true nor false.
    """
    return flag(own or {}, "mergeschema", spark.conf.get(_AUTO_MERGE, None) or "false")


def default_properties(spark: SparkSession, own: Mapping[str, str] | None = None) -> PropertiesWithDefaults:
    """The properties of a new table: its own, and the session's for new tables. As in delta-spark,
    names in the session that Delta doesn't know are ignored, here with a warning."""
    settings = session_settings(spark)
    defaults = {f"delta.{key[len(_DEFAULTS) :]}": value for key, value in settings.items() if key.startswith(_DEFAULTS)}
    known = _known_properties() if defaults else frozenset()
    if unknown := [key for key in defaults if key.lower() not in known and not key.startswith("delta.feature.")]:
        _log.warning("settings name properties that Delta doesn't know, and are ignored: %s", ", ".join(unknown))
    return PropertiesWithDefaults({key: value for key, value in defaults.items() if key not in unknown}, own or {})


@functools.cache
def _known_properties() -> frozenset[str]:
    """The lower-case names of all table properties, and of the versions of a protocol."""
    versions = ("delta.minreaderversion", "delta.minwriterversion")
    return frozenset((*versions, *(known.key.lower() for known in _native.known_properties())))


def schema_mode(spark: SparkSession, own: Mapping[str, str], mode: str) -> Any:
    """The `schema_mode` of a write, from options with lower-case names.

    Raises:
        InvalidArgumentError: an option's value is neither true nor false.
    """
    merges = merges_schema(spark, own)
    # A write that replaces only some rows keeps the columns, as in delta-spark.
    if flag(own, "overwriteschema") and mode == "overwrite" and "replacewhere" not in own:
        return "overwrite"
    return "merge" if merges else None


def transaction(
    spark: SparkSession, own: Mapping[str, str] | None = None, *, dry_run: bool = False
) -> tuple[str, int] | None:
    """The application id and version that prevent a repeated change: the write's own options,
    otherwise the session's settings.

    Raises:
        InvalidArgumentError: only one of both is set, or the version isn't a number.
    """
    own = own or {}
    if ("txnappid" in own) != ("txnversion" in own):
        raise InvalidArgumentError("txnAppId and txnVersion go together")
    if "txnappid" in own:
        return own["txnappid"], number(own, "txnVersion")
    app, version = spark.conf.get(_TXN_APP, None), spark.conf.get(_TXN_VERSION, None)
    if (app is None) != (version is None):
        raise InvalidArgumentError(f"the settings {_TXN_APP} and {_TXN_VERSION} go together: set both, or unset both")
    if app is None or version is None:
        return None
    transaction_id = app, number({_TXN_VERSION.lower(): version}, _TXN_VERSION)
    if not dry_run and spark.conf.get(_TXN_RESET, "false") == "true":
        # The setting applies to one change, so that the next change isn't skipped as a repetition.
        spark.conf.unset(_TXN_VERSION)
    return transaction_id


def number(own: Mapping[str, str], name: str) -> int:
    """An option's value as a number.

    Raises:
        InvalidArgumentError: the value isn't a number.
    """
    text = own[name.lower()]
    if not (text.isascii() and text.isdecimal()):
        raise InvalidArgumentError(f"the option {name} is a number from 0 on, not {text!r}")
    return int(text)


def versioned_path(path: str, options: Mapping[str, str] | None = None) -> tuple[str, int | None, str | None]:
    """Splits a path from the version or timestamp at its end, unless a table exists at the whole
    path. `options` are the store's.

    >>> versioned_path("/data/t@v3"), versioned_path("/data/t@20240131120000000"), versioned_path("/data/t")
    (('/data/t', 3, None), ('/data/t', None, '2024-01-31 12:00:00.000'), ('/data/t', None, None))
    """
    match = _AT.fullmatch(path)
    if match is None or is_name(path) or _native.is_table(absolute_location(path), split_options(options)[0]):
        return path, None, None
    if match["version"] is not None:
        return match["path"], int(match["version"]), None
    digits = match["moment"]
    day, time = (
        f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}",
        f"{digits[8:10]}:{digits[10:12]}:{digits[12:14]}.{digits[14:]}",
    )
    return match["path"], None, f"{day} {time}"
