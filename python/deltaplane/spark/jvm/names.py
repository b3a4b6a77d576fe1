"""Names of tables in a session: ``delta.`path` ``, and catalog names with a location."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from deltaplane import _native
from deltaplane.exceptions import (
    InvalidArgumentError,
    SchemaMismatchError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from deltaplane.io.storage_options import storage_options_text
from deltaplane.spark.jvm.catalog_entries import delete_folder, held_entry, held_property, held_table, move_folder
from deltaplane.spark.jvm.internals import Jvm
from deltaplane.spark.jvm.location import absolute_location, hadoop_location
from deltaplane.spark.jvm.schema import shown
from deltaplane.spark.jvm.session_catalogs import catalog_of, full_name, is_name
from deltaplane.spark.jvm.spark_versions import has_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "FORMATS",
    "MANAGED",
    "OWN_FORMAT",
    "catalog_facts",
    "check_free",
    "check_unused",
    "default_location",
    "drop_entry",
    "drop_held",
    "drop_name",
    "hadoop_path",
    "held_location",
    "is_managed",
    "located",
    "location_of",
    "other_holder",
    "path_of",
    "qualified_name",
    "register_name",
    "relocate_name",
    "rename_name",
    "shown_path",
]

_PATH = re.compile(r"\s*(?:delta|deltaplane)\s*\.\s*`((?:[^`]|``)+)`\s*", re.IGNORECASE)
# The catalog property of a table at the database's default location: Spark itself treats every
# table with a location as external.
MANAGED = "deltaplane.managed"
# The format names of Delta tables.
OWN_FORMAT = "deltaplane"
FORMATS = ("delta", OWN_FORMAT)


def path_of(name: str) -> str | None:
    """The path in a name of the form ``delta.`path` ``; None for other names.

    >>> path_of("delta.`/data/t`"), path_of("db.t")
    ('/data/t', None)
    """
    match = _PATH.fullmatch(name)
    return match[1].replace("``", "`") if match else None


def location_of(spark: SparkSession, name: str) -> str:
    """Location of the named table.

    Raises:
        TableNotFoundError: an unknown name, or a table of another format.
    """
    path = path_of(name)
    if path is not None:
        return path
    own = full_name(spark, name)
    if own is not None:
        return catalog_of(spark, own).location(own)
    entry = held_table(spark, name)
    if entry is None and _is_view(spark, name):
        raise TableNotFoundError(f"`{name}` is a view and no Delta table: name the table that it reads")
    if entry is None:
        raise TableNotFoundError(
            f"the session's catalog has no table `{name}`: give a path as delta.`/path`, or create the table with "
            "DeltaTable.create(spark).tableName(…)"
        )
    provider, location = entry
    if provider.lower() not in FORMATS:
        raise TableNotFoundError(f"`{name}` is no Delta table: its format is {provider}")
    return shown_path(location)


def _is_view(spark: SparkSession, name: str) -> bool:
    parts = [part.strip("`") for part in name.split(".")]
    return Jvm.of(spark).is_temp_view(spark, parts) or other_holder(spark, name) == "a view"


def held_location(spark: SparkSession, name: str) -> str | None:
    """Location of the Delta table under this name in the session's catalog; None if there is
    none."""
    own = full_name(spark, name)
    if own is not None:
        catalog = catalog_of(spark, own)
        return catalog.location(own) if catalog.exists(own) else None
    held = held_table(spark, name)
    return shown_path(held[1]) if held is not None and held[0].lower() in FORMATS else None


def located(spark: SparkSession, name: str) -> str | None:
    """Location of a named Delta table, by its path or by the session's catalog; None if it isn't a
    Delta table."""
    return path_of(name) or held_location(spark, name)


def qualified_name(spark: SparkSession, name: str) -> str:
    """Qualifies a name with the session's catalog and database."""
    own = full_name(spark, name)
    if own is not None:
        return own
    parts = [part.strip("`") for part in name.split(".")]
    if len(parts) == 1:
        parts = [spark.catalog.currentDatabase(), *parts]
    return ".".join(parts if len(parts) > 2 else ["spark_catalog", *parts])


def catalog_facts(spark: SparkSession, name: str) -> tuple[dict[str, str | None], bool]:
    """The properties that DESCRIBE shows for a table, in Spark's order, and whether the table is
    managed. As in delta-spark, a path is a name in a database with the format's name.

    >>> from deltaplane.spark.jvm.names import catalog_facts
    >>> list(catalog_facts(spark, "delta.`/data/t`")[0].values())
    ['spark_catalog', 'delta', 'delta', '/data/t', 'MANAGED']
    """
    path = path_of(name)
    if path is not None:
        catalog, database, table, managed = "spark_catalog", "delta", path, False
    else:
        catalog, database, table = qualified_name(spark, name).split(".")[-3:]
        managed = is_managed(spark, name, "")
    kind = "MANAGED" if managed or path is not None else "EXTERNAL"
    names: dict[str, str | None] = {
        "Catalog": catalog,
        "Namespace": database,
        "Database": database,
        "Table": table,
        "Type": kind,
    }
    return names, managed


def other_holder(spark: SparkSession, name: str) -> str | None:
    """Describes the catalog's entry under a name that isn't a Delta table: "a view", or "a table of
    the format …". None if the name is free, a Delta table's or a path."""
    if path_of(name) is not None or full_name(spark, name) is not None:
        return None
    held = held_entry(spark, name)
    if held is None or held[0].lower() in FORMATS:
        return None
    return "a view" if held[0] == "view" else f"a table of the format {held[0]}"


def check_free(spark: SparkSession, name: str, *, replaces: bool = False) -> None:
    """Refuses to create, or with `replaces` to replace, a Delta table under a name that belongs to
    something else: its rows would become unreachable, or mix with files of another format.

    Raises:
        TableAlreadyExistsError: the catalog holds a table of another format, or a view.
    """
    other = other_holder(spark, name)
    if other is None:
        return
    if replaces:
        raise TableAlreadyExistsError(
            f"{name} is no Delta table but {other}, so a Delta table can't replace it: drop that one first, or take another name"
        )
    raise TableAlreadyExistsError(
        f"the session's catalog has {other} called {name} already: take another name, or drop that one first"
    )


def drop_held(spark: SparkSession, name: str, reads: Sequence[str]) -> None:
    """Drops the catalog's entry under a name, so that a table of another format can replace it.
    `reads`: the files from which the new rows are computed.

    Raises:
        InvalidArgumentError: the new rows are read from the table itself.
    """
    held = held_entry(spark, name)
    if held is None:
        return
    kind, location = held
    if location is not None:
        root = shown_path(location).rstrip("/") + "/"
        # Spark gives the files of a frame as URIs.
        if any(shown_path(unquote(file)).startswith(root) for file in reads):
            raise InvalidArgumentError(
                f"the rows are read from the table {name} itself, which has the format {kind} and would be dropped first: write "
                "them under another name, then rename it"
            )
    catalog, *parts = qualified_name(spark, name).split(".")
    qualified = ".".join([catalog, *(f"`{part}`" for part in parts)])
    drop = f"DROP {'VIEW' if kind == 'view' else 'TABLE'} {qualified}"
    if kind.lower() in FORMATS:
        drop_name(spark, qualified, drop)
    else:
        _of_spark(spark, drop)


def default_location(spark: SparkSession, name: str) -> str:
    """Default location of a new table with this name."""
    own = full_name(spark, name)
    if own is not None:
        return catalog_of(spark, own).location(own)
    *database, table = [part.strip("`") for part in name.split(".")]
    shown = f"`{database[-1]}`" if database else spark.catalog.currentDatabase()
    facts = {row[0]: row[1] for row in _of_spark(spark, f"DESCRIBE DATABASE {shown}").collect()}
    return f"{shown_path(facts['Location']).rstrip('/')}/{table.lower()}"


def is_managed(spark: SparkSession, name: str, place: str | None) -> bool:
    """Whether a table created under this name, with an optional location, is managed; an existing
    name keeps its kind."""
    if path_of(name) is not None:
        return False
    own = full_name(spark, name)
    if own is not None:
        catalog = catalog_of(spark, own)
        return str(catalog.info(own)["table_type"]).upper() == "MANAGED" if catalog.exists(own) else place is None
    return place is None if held_table(spark, name) is None else held_property(spark, name, MANAGED) == "true"


def check_unused(
    location: str, options: Mapping[str, str] | None = None, *, even_tables: bool = False, declares: bool = True
) -> None:
    """Refuses to create a table in a directory with foreign files, or with `even_tables` also in
    one with a table. `declares`: whether the table's columns are known.

    Raises:
        TableAlreadyExistsError: the location contains files.
    """
    options_text = storage_options_text(options)
    if is_name(location):
        # The catalog chooses the place of a new table.
        return
    if _native.is_table(location, options_text):
        if even_tables:
            raise TableAlreadyExistsError(
                "the location isn't empty: a Delta table is here; say CREATE OR REPLACE, INSERT into it, or give another location",
                table=location,
            )
        return
    level = _native.RawStore.open(location, options_text).list_level("")
    names = () if level is None else (*level[0], *(entry[0] for entry in level[1]))
    if any(not name.startswith(("_", ".")) for name in names):
        without = "" if declares else ", and the statement declares no columns"
        raise TableAlreadyExistsError(
            f"the location isn't empty{without}: files are here that are no Delta table's; CONVERT TO DELTA makes a table of Parquet files, or "
            "give another location",
            table=location,
        )


def register_name(
    spark: SparkSession, name: str, location: str, options: Mapping[str, str] | None = None, *, managed: bool = False
) -> None:
    """Registers an existing table's name in Spark's catalog, unless it is registered already. The
    files of a `managed` table, whose location nobody chose, are deleted together with its name
    (`drop_name`).

    Without a catalog plug-in, Spark itself can drop the table by name, but can't read it.
    """
    own = full_name(spark, name)
    if own is not None:
        catalog = catalog_of(spark, own)
        if not is_name(location) and not catalog.exists(own):
            catalog.register(own, location)
        return
    schema = _native.Snapshot.open(location, storage_options_text(options)).schema.to_value()
    properties = {MANAGED: "true"} if managed else {}
    if not has_sources():
        # The statement would fail, since this Spark doesn't know the format.
        text = json.dumps(shown(schema))
        Jvm.of(spark).create_catalog_entry(spark, name, "deltaplane", text, location, properties)
    else:
        columns = StructType.fromJson(shown(schema)).toDDL()
        # With explicit columns, the catalog doesn't ask the data source for them.
        declared = f" ({columns})" if columns else ""
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        marked = f" TBLPROPERTIES ({listed})" if listed else ""
        _of_spark(
            spark,
            f"CREATE TABLE IF NOT EXISTS {name}{declared} USING deltaplane LOCATION '{_escaped(location)}'{marked}",
        )
    # Another session may have taken the name meanwhile.
    check_free(spark, name)


def drop_name(spark: SparkSession, name: str, statement: str) -> DataFrame:
    """Drops a Delta table's name by Spark's own statement, and deletes the files of a managed
    table. The files of a table in one of the session's other catalogs stay."""
    own = full_name(spark, name)
    if own is not None:
        catalog_of(spark, own).drop(own)
        return spark.createDataFrame([], StructType([]))
    held = held_table(spark, name)
    managed = held_property(spark, name, MANAGED) == "true"
    done = _of_spark(spark, statement)
    if managed and held is not None:
        delete_folder(spark, held[1])
    return done


def drop_entry(spark: SparkSession, name: str) -> None:
    """Drops a name by Spark's own statement; files stay if Spark considers the table external."""
    _of_spark(spark, f"DROP TABLE IF EXISTS {name}")


def rename_name(spark: SparkSession, name: str, to: str, statement: str) -> DataFrame:
    """Renames a Delta table in the catalog by Spark's own statement. The files of a managed table
    move to the default location of the new name, since another table could otherwise not reuse the
    old name; if they can't be moved, they stay where they are.
    """
    own = full_name(spark, name)
    if own is not None:
        return _renamed_in_catalog(spark, own, to)
    held = held_table(spark, name)
    managed = held_property(spark, name, MANAGED) == "true"
    if has_sources():
        done = _of_spark(spark, statement)
    else:
        Jvm.of(spark).rename_catalog_entry(spark, name, to)
        done = spark.createDataFrame([], StructType([]))
    if managed and held is not None:
        new = to if "." in to else ".".join([*name.split(".")[:-1], to])
        place = default_location(spark, new)
        if move_folder(spark, held[1], place):
            _move_entry(spark, new, place)
    return done


def _move_entry(spark: SparkSession, name: str, location: str) -> DataFrame:
    """Changes the location, in Hadoop's notation, of an entry in the session's own catalog."""
    if has_sources():
        return _of_spark(spark, f"ALTER TABLE {name} SET LOCATION '{_escaped(location)}'")
    Jvm.of(spark).move_catalog_entry(spark, name, location)
    return spark.createDataFrame([], StructType([]))


def _renamed_in_catalog(spark: SparkSession, name: str, to: str) -> DataFrame:
    """Renames a table of one of the session's catalogs within its schema.

    Raises:
        InvalidArgumentError: the new name is in another schema.
    """
    *schema, new = [part.strip("`") for part in to.split(".")]
    own_schema = name.split(".")[:2]
    if schema and schema not in (own_schema, own_schema[1:]):
        raise InvalidArgumentError(
            f"{name} can't become {to.replace('`', '')}: a table is renamed within its schema; leave the schema out"
        )
    catalog_of(spark, name).rename(name, new)
    return spark.createDataFrame([], StructType([]))


def relocate_name(spark: SparkSession, name: str, to: str) -> DataFrame:
    """Changes the location of a Delta table's catalog entry. The files at both locations stay, even
    if the name is dropped later.

    Raises:
        TableNotFoundError: the new location contains no Delta table.
        SchemaMismatchError: the table at the new location has other columns, or other partitions.
        UnsupportedFeatureError: a name of one of the session's other catalogs.
    """
    if (own := full_name(spark, name)) is not None:
        raise UnsupportedFeatureError(f"the catalog decides where {own} is: drop the name, and create it with LOCATION")
    place, old, shown_name = absolute_location(to), location_of(spark, name), name.replace("`", "")
    if not _native.is_table(place, None):
        raise TableNotFoundError(
            f"`{shown_name}` can't mean {to}: no Delta table is there; create it first", table=place
        )
    then, now = (_native.Snapshot.open(location, None) for location in (old, place))
    same = _columns(then.schema.to_value()) == _columns(now.schema.to_value())
    if not same or then.info.partition_columns != now.info.partition_columns:
        what = "partitions" if same else "columns"
        raise SchemaMismatchError(
            f"`{shown_name}` can't mean {to}: the table there has other {what} than the one at {old}; drop the name, and create it with "
            "LOCATION",
            table=place,
        )
    _of_spark(spark, f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ('{MANAGED}')")
    return _move_entry(spark, name, place)


def _columns(schema: Any) -> list[tuple[str, str]]:
    return [(field["name"].lower(), json.dumps(shown(field["type"]))) for field in schema["fields"]]


def shown_path(text: str) -> str:
    """A location in Hadoop's notation, in which nothing is percent-encoded; local ones as paths.

    >>> shown_path("file:/lake/a%20b"), shown_path("s3a://lake/a%20b")
    ('/lake/a%20b', 's3a://lake/a%20b')
    """
    return hadoop_location(text)


def hadoop_path(uri: str) -> str:
    """A table's URI in Hadoop's notation.

    >>> hadoop_path("file:///lake/a%20t"), hadoop_path("/lake/t"), hadoop_path("s3://lake/a%20t")
    ('file:/lake/a t', 'file:/lake/t', 's3://lake/a%20t')
    """
    path = unquote(uri.removeprefix("file://")) if uri.startswith("file:///") else uri
    return f"file:{path}" if path.startswith("/") else path


def _escaped(location: str) -> str:
    return location.replace("\\", "\\\\").replace("'", "\\'")


def _of_spark(spark: SparkSession, text: str) -> DataFrame:
    """Runs a text by Spark's own `sql`, even if `enable` has replaced the session's."""
    return DataFrame(spark._jsparkSession.sql(text), spark)
