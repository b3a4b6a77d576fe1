"""The catalogs whose names a session's statements may use, the schema that `USE` chose in them, and
the session's open transaction over their tables.

The session's settings have identifiers and names only; catalogs, with their tokens, stay in this
process.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from deltaplane.catalogs import Catalog
from deltaplane.exceptions import InvalidArgumentError, UnsupportedFeatureError
from deltaplane.io.session_options import CATALOG_SCHEME, transaction_of_thread
from deltaplane.spark.jvm.internals import UNITY_CATALOG, Jvm, NativeScanUnavailable, is_connect, session_settings
from deltaplane.spark.jvm.thread_values import thread_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "CURRENT",
    "HELD",
    "NAMES",
    "TRANSACTION",
    "catalog_of",
    "catalogs_of",
    "check_in_transaction",
    "configured_catalogs",
    "current_schema",
    "full_name",
    "held_catalogs",
    "hold_catalogs",
    "is_name",
    "open_transaction",
    "own_name",
    "refuse_format",
    "release_catalogs",
    "set_current",
]

# The setting by which copies of a session find the catalogs that its Python side holds.
HELD = "spark.deltaplane.catalogsId"
# The names of these catalogs, and the catalog and schema of shorter names; the analyser's rule
# (`java/Relations`) reads both.
NAMES, CURRENT = "spark.deltaplane.catalogs", "spark.deltaplane.currentSchema"
# The id of the open transaction: a setting of the session, and a text of the thread in a block.
TRANSACTION = "spark.deltaplane.transactionId"

# The beginning of Spark's settings of catalogs.
_SETTING = "spark.sql.catalog."
_DEFAULT_CATALOG = "spark.sql.defaultCatalog"
_PART = r"(?:\w+|`(?:[^`]|``)+`)"
_NAME = re.compile(rf"\s*{_PART}(?:\s*\.\s*{_PART}){{0,2}}\s*")
_CATALOG_NAME = re.compile(r"\w+", re.ASCII)
# Names that mean something else before the dot of a table's name.
_TAKEN = ("spark_catalog", "global_temp", "system", "session", "delta", "deltaplane", "parquet", "orc", "csv", "json")
# What a mapping may say of a catalog.
_ARGUMENTS = {"uri", "token", "storage_options", "storage_root"}
# Schemes of catalogs whose tables' names have two parts.
_TWO_LEVELS = ("thrift", "glue")

_held: dict[str, dict[str, Catalog]] = {}


def hold_catalogs(spark: SparkSession, catalogs: Mapping[str, object]) -> None:
    """Sets the catalogs of a session by their names; they replace earlier ones. Each is a
    `Catalog`, a URI, or a mapping with the arguments `uri` and `token`.

    Raises:
        InvalidArgumentError: a name that isn't one word or has another meaning; not a catalog.
        UnsupportedFeatureError: a catalog whose tables' names don't have three parts.
    """
    made = {name: _catalog(name, value) for name, value in catalogs.items()}
    release_catalogs(spark)
    if not made:
        return
    number = str(uuid.uuid4())
    _held[number] = made
    spark.conf.set(HELD, number)
    spark.conf.set(NAMES, ",".join(made))
    default = spark.conf.get(_DEFAULT_CATALOG, None)
    if default in made:
        # Spark would look for the catalog's class at each name.
        spark.conf.unset(_DEFAULT_CATALOG)
        spark.conf.set(CURRENT, f"{default}.default")


def release_catalogs(spark: SparkSession) -> None:
    """Forgets the catalogs of a session."""
    number = spark.conf.get(HELD, None)
    if number is not None:
        _held.pop(number, None)
        for setting in (HELD, NAMES, CURRENT):
            spark.conf.unset(setting)


def configured_catalogs(spark: SparkSession) -> dict[str, dict[str, str]]:
    """The catalogs that Spark's own settings describe as Unity Catalog's documentation says, by
    name: the class `io.unitycatalog.spark.UCSingleCatalog`, or none, with `uri` and maybe `token`.
    """
    prefix = re.escape(_SETTING)
    uri_of = re.compile(rf"{prefix}(\w+)\.uri", re.ASCII)
    settings = session_settings(spark)
    described = {}
    for key, uri in settings.items():
        match = uri_of.fullmatch(key)
        if match is None or settings.get(_SETTING + match[1], UNITY_CATALOG) != UNITY_CATALOG:
            # Other classes, such as Iceberg's, have a `uri` too.
            continue
        token = settings.get(f"{_SETTING}{match[1]}.token", "")
        described[match[1]] = {"uri": uri, **({"token": token} if token else {})}
    return described


def held_catalogs(number: str | None) -> Mapping[str, Catalog]:
    """The catalogs behind the value of a session's setting."""
    return _held.get(number or "", {})


def catalogs_of(spark: Any) -> Mapping[str, Catalog]:
    """The catalogs of a session by their names."""
    return held_catalogs(spark.conf.get(HELD, None)) if _held else {}


def current_schema(spark: Any) -> tuple[str, str] | None:
    """The catalog and the schema in which shorter names are looked up; None for Spark's own."""
    catalog, _, schema = (spark.conf.get(CURRENT, None) or "").partition(".")
    return (catalog, schema) if schema else None


def set_current(spark: Any, catalog: str | None, schema: str = "default") -> None:
    """Chooses where shorter names are looked up; None means Spark's own catalog."""
    if catalog is None:
        spark.conf.unset(CURRENT)
    else:
        spark.conf.set(CURRENT, f"{catalog}.{schema}")


def full_name(spark: Any, name: str | Sequence[str]) -> str | None:
    """A table's name in one of the session's catalogs, with all of its three parts; None for
    Spark's own names.

    Raises:
        InvalidArgumentError: a part of such a name contains a period.
    """
    catalogs = catalogs_of(spark)
    if not catalogs:
        return None
    parts = list(name) if not isinstance(name, str) else _parts(name)
    if len(parts) == 3:
        own = _own_name(catalogs, parts[0])
        return None if own is None else _joined([own, *parts[1:]])
    current = current_schema(spark)
    if current is None or not 1 <= len(parts) <= 2 or (len(parts) == 2 and parts[0].lower() in _TAKEN):
        return None
    if len(parts) == 1 and _is_temp_view(spark, parts):
        return None
    return _joined([*current[: 3 - len(parts)], *parts])


def own_name(spark: Any, name: str) -> str | None:
    """The name of one of the session's catalogs, as it was given; None for another name."""
    return _own_name(catalogs_of(spark), name)


def is_name(location: str) -> bool:
    """Whether a location is a table's name in a catalog."""
    return location.startswith(CATALOG_SCHEME)


def open_transaction(spark: Any) -> str | None:
    """The id of the transaction whose part commands of this session and thread are."""
    if not _held:
        return None
    return transaction_of_thread() or thread_value(spark, TRANSACTION) or spark.conf.get(TRANSACTION, None)


def refuse_format(name: str, format: str | None, *, said_by: str, advice: str) -> NoReturn:
    """Refuses a table of another format than Delta in a catalog.

    Args:
        name: the table's full name.
        format: the other format.
        said_by: what names the format, such as `the writer`.
        advice: what the caller can do.

    Raises:
        UnsupportedFeatureError: always.
    """
    raise UnsupportedFeatureError(
        f"{name}: the tables of this catalog are Delta tables, and {said_by} says {format}: {advice}"
    )


def check_in_transaction(spark: Any, location: str) -> None:
    """Refuses to change a table by its location while a transaction over tables of a catalog is
    open: the change would be committed by itself.

    Raises:
        UnsupportedFeatureError: such a location.
    """
    if not is_name(location) and not is_connect(spark) and open_transaction(spark) is not None:
        raise UnsupportedFeatureError(
            "the open transaction has tables of a catalog only, and this table is named by its location: COMMIT or ROLLBACK "
            "first, or change a table of the catalog",
            table=location,
        )


def catalog_of(spark: Any, name: str) -> Catalog:
    """The session's catalog that a full name begins with."""
    return catalogs_of(spark)[name.partition(".")[0]]


def _own_name(catalogs: Mapping[str, Catalog], name: str) -> str | None:
    return next((own for own in catalogs if own.lower() == name.lower()), None)


def _joined(parts: Sequence[str]) -> str:
    if dotted := [part for part in parts if "." in part]:
        raise InvalidArgumentError(f"`{dotted[0]}` is no part of a catalog's name of a table: it contains a period")
    return ".".join(parts)


def _parts(name: str) -> list[str]:
    if _NAME.fullmatch(name) is None:
        return []
    return [
        part[1:-1].replace("``", "`") if part.startswith("`") else part for part in re.findall(_PART, name, re.UNICODE)
    ]


def _is_temp_view(spark: Any, parts: Sequence[str]) -> bool:
    try:
        return Jvm.of(spark).is_temp_view(spark, parts)
    except NativeScanUnavailable:
        return False


def _catalog(name: str, value: object) -> Catalog:
    if _CATALOG_NAME.fullmatch(name) is None or name.lower() in _TAKEN:
        raise InvalidArgumentError(
            f"{name!r} can't be the name of a catalog in a session: take letters, digits and _, and none of Spark's own names"
        )
    if isinstance(value, Mapping):
        if "uri" not in value or (unknown := sorted(map(str, value.keys() - _ARGUMENTS))):
            listed = ", ".join(unknown) if "uri" in value else "no uri"
            raise InvalidArgumentError(f"the catalog {name} is described by uri and token, here by {listed}")
        value = Catalog(**value)
    catalog = value if isinstance(value, Catalog) else Catalog(value) if isinstance(value, str) else None
    if catalog is None:
        raise InvalidArgumentError(
            f"the catalog {name} is a Catalog, a URI or a mapping with uri and token, not {type(value).__name__}"
        )
    if catalog.storage_options["catalog"].partition("://")[0].lower() in _TWO_LEVELS:
        raise UnsupportedFeatureError(
            f"the catalog {name} ({catalog!r}) has names of two parts, which a session takes from Spark's own catalog: "
            "let Spark use that metastore, or name a table's location as delta.`its location`"
        )
    return catalog
