"""Names of tables in a session: ``delta.`path` ``, and those that its catalog holds with a
location."""

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
)
from deltaplane.io.storage_options import storage_options_text
from deltaplane.spark.jvm.internals import Jvm, delete_folder, held_entry, held_property, held_table, move_folder
from deltaplane.spark.jvm.location import absolute_location
from deltaplane.spark.jvm.schema import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "FORMATS",
    "MANAGED",
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
# Says of a name in the catalog that its table is where Spark puts tables of the database: Spark
# itself takes every table at a location for somebody else's.
MANAGED = "deltaplane.managed"
# What Delta tables are called as a format.
FORMATS = ("delta", "deltaplane")


def path_of(name: str) -> str | None:
    """The path in a name that is one.

    >>> path_of("delta.`/data/t`"), path_of("db.t")
    ('/data/t', None)
    """
    found = _PATH.fullmatch(name)
    return found[1].replace("``", "`") if found else None


def location_of(spark: SparkSession, name: str) -> str:
    """Where the table of a name is.

    Raises:
        TableNotFoundError: no such name, or one of another format.
    """
    path = path_of(name)
    if path is not None:
        return path
    found = held_table(spark, name)
    if found is None and _is_view(spark, name):
        raise TableNotFoundError(f"`{name}` is a view and no Delta table: name the table that it reads")
    if found is None:
        raise TableNotFoundError(
            f"the session's catalog has no table `{name}`: give a path as delta.`/path`, or create the table with "
            "DeltaTable.create(spark).tableName(…)"
        )
    provider, location = found
    if provider.lower() not in FORMATS:
        raise TableNotFoundError(f"`{name}` is no Delta table: its format is {provider}")
    return shown_path(location)


def _is_view(spark: SparkSession, name: str) -> bool:
    parts = [part.strip("`") for part in name.split(".")]
    return Jvm.of(spark).is_temp_view(spark, parts) or other_holder(spark, name) == "a view"


def held_location(spark: SparkSession, name: str) -> str | None:
    """Where the Delta table is that the session's catalog holds under this name; None where it
    holds none."""
    held = held_table(spark, name)
    return shown_path(held[1]) if held is not None and held[0].lower() in FORMATS else None


def located(spark: SparkSession, name: str) -> str | None:
    """Where the Delta table of a name is, by its path or as the session's catalog holds it; None
    where it is none."""
    return path_of(name) or held_location(spark, name)


def qualified_name(spark: SparkSession, name: str) -> str:
    """A name of the session's catalog with all of its parts."""
    parts = [part.strip("`") for part in name.split(".")]
    if len(parts) == 1:
        parts = [spark.catalog.currentDatabase(), *parts]
    return ".".join(parts if len(parts) > 2 else ["spark_catalog", *parts])


def catalog_facts(spark: SparkSession, name: str) -> tuple[dict[str, str | None], bool]:
    """What Spark's catalog is told to say of a table of ours, in the order in which Spark shows it,
    and whether it is where Spark puts tables. As in delta-spark a path is a name whose database is
    the format.

    >>> from deltaplane.spark.jvm.names import catalog_facts
    >>> list(catalog_facts(spark, "delta.`/data/t`")[0].values())
    ['spark_catalog', 'delta', 'delta', '/data/t', 'MANAGED']
    """
    path = path_of(name)
    if path is not None:
        database, table, managed = "delta", path, False
    else:
        _, database, table = qualified_name(spark, name).split(".")[-3:]
        managed = is_managed(spark, name, "")
    kind = "MANAGED" if managed or path is not None else "EXTERNAL"
    names: dict[str, str | None] = {
        "Catalog": "spark_catalog",
        "Namespace": database,
        "Database": database,
        "Table": table,
        "Type": kind,
    }
    return names, managed


def other_holder(spark: SparkSession, name: str) -> str | None:
    """What the session's catalog holds under a name that isn't a Delta table: "a view", or "a table
    of the format …". None where the name is free, a Delta table's or a path."""
    if path_of(name) is not None:
        return None
    held = held_entry(spark, name)
    if held is None or held[0].lower() in FORMATS:
        return None
    return "a view" if held[0] == "view" else f"a table of the format {held[0]}"


def check_free(spark: SparkSession, name: str, *, replaces: bool = False) -> None:
    """Refuses to make, or with `replaces` to put in the place of a table, a Delta table whose name
    something else has: its rows would go where nobody looks for them, or among files of another
    format.

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
    """Drops what the catalog holds under a name, for a table of another format that takes its
    place. `reads`: the files that the new rows are made of.

    Raises:
        InvalidArgumentError: the new rows are read from the table itself.
    """
    held = held_entry(spark, name)
    if held is None:
        return
    kind, location = held
    if location is not None:
        root = shown_path(location).rstrip("/") + "/"
        if any(shown_path(file).startswith(root) for file in reads):
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
    """Where Spark would put a new table of this name."""
    *database, table = [part.strip("`") for part in name.split(".")]
    shown = f"`{database[-1]}`" if database else spark.catalog.currentDatabase()
    told = {row[0]: row[1] for row in _of_spark(spark, f"DESCRIBE DATABASE {shown}").collect()}
    return f"{shown_path(told['Location']).rstrip('/')}/{table.lower()}"


def is_managed(spark: SparkSession, name: str, place: str | None) -> bool:
    """Whether the table that is made under a name, at a place if one is given, is where Spark puts
    tables: a name that is there already keeps what it was."""
    if path_of(name) is not None:
        return False
    return place is None if held_table(spark, name) is None else held_property(spark, name, MANAGED) == "true"


def check_unused(location: str, options: Mapping[str, str] | None = None, *, even_tables: bool = False) -> None:
    """Refuses to make a table among files that are no table's, or with `even_tables` where a table
    is.

    Raises:
        TableAlreadyExistsError: some are at the location.
    """
    told = storage_options_text(options)
    if _native.is_table(location, told):
        if even_tables:
            raise TableAlreadyExistsError(
                "the location isn't empty: a Delta table is here; say CREATE OR REPLACE, INSERT into it, or give another location",
                table=location,
            )
        return
    level = _native.RawStore.open(location, told).list_level("")
    names = () if level is None else (*level[0], *(one[0] for one in level[1]))
    if any(not name.startswith(("_", ".")) for name in names):
        raise TableAlreadyExistsError(
            "the location isn't empty: files are here that are no Delta table's; CONVERT TO DELTA makes a table of Parquet files, or "
            "give another location",
            table=location,
        )


def register_name(
    spark: SparkSession, name: str, location: str, options: Mapping[str, str] | None = None, *, managed: bool = False
) -> None:
    """Has Spark's catalog hold a table's name, unless it does already; the table must be there. The
    files of a `managed` one, whose place nobody chose, go with its name (`drop_name`).

    Without a catalog plug-in Spark itself can drop it by its name, but not read it.
    """
    schema = _native.Snapshot.open(location, storage_options_text(options)).schema.to_value()
    columns = StructType.fromJson(shown(schema)).toDDL()
    # With columns the catalog doesn't ask the data source for them.
    marked = f" TBLPROPERTIES ('{MANAGED}' = 'true')" if managed else ""
    _of_spark(
        spark, f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING deltaplane LOCATION '{_escaped(location)}'{marked}"
    )
    # Whoever took the name meanwhile.
    check_free(spark, name)


def drop_name(spark: SparkSession, name: str, statement: str) -> DataFrame:
    """Drops a Delta table's name by Spark's own statement, and the files of one that is managed."""
    held = held_table(spark, name)
    managed = held_property(spark, name, MANAGED) == "true"
    done = _of_spark(spark, statement)
    if managed and held is not None:
        delete_folder(spark, held[1])
    return done


def drop_entry(spark: SparkSession, name: str) -> None:
    """Drops a name by Spark's own statement alone: files of what Spark takes for an external table
    stay."""
    _of_spark(spark, f"DROP TABLE IF EXISTS {name}")


def rename_name(spark: SparkSession, name: str, to: str, statement: str) -> DataFrame:
    """Renames a Delta table in the catalog by Spark's own statement. The files of one that is
    managed move to where Spark puts a table of the new name, or another one couldn't have the old
    name; where they can't move, the name holds them where they are.
    """
    held = held_table(spark, name)
    managed = held_property(spark, name, MANAGED) == "true"
    done = _of_spark(spark, statement)
    if managed and held is not None:
        new = to if "." in to else ".".join([*name.split(".")[:-1], to])
        place = default_location(spark, new)
        if move_folder(spark, held[1], place):
            _of_spark(spark, f"ALTER TABLE {new} SET LOCATION '{_escaped(place)}'")
    return done


def relocate_name(spark: SparkSession, name: str, to: str) -> DataFrame:
    """Has the catalog hold a Delta table's name at another location. Files of either place are left
    as they are, also when the name is dropped later.

    Raises:
        TableNotFoundError: no Delta table is there.
        SchemaMismatchError: the table there has other columns, or other partitions.
    """
    place, old, shown_name = absolute_location(to), location_of(spark, name), name.replace("`", "")
    if not _native.is_table(place, None):
        raise TableNotFoundError(
            f"`{shown_name}` can't mean {to}: no Delta table is there; create it first", table=place
        )
    then, now = (_native.Snapshot.open(at, None) for at in (old, place))
    same = _columns(then.schema.to_value()) == _columns(now.schema.to_value())
    if not same or then.info.partition_columns != now.info.partition_columns:
        what = "partitions" if same else "columns"
        raise SchemaMismatchError(
            f"`{shown_name}` can't mean {to}: the table there has other {what} than the one at {old}; drop the name, and create it with "
            "LOCATION",
            table=place,
        )
    _of_spark(spark, f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ('{MANAGED}')")
    return _of_spark(spark, f"ALTER TABLE {name} SET LOCATION '{_escaped(place)}'")


def _columns(schema: Any) -> list[tuple[str, str]]:
    return [(field["name"].lower(), json.dumps(shown(field["type"]))) for field in schema["fields"]]


def shown_path(uri: str) -> str:
    """A location as Spark shows it; local ones as paths."""
    return unquote(uri.removeprefix("file:").removeprefix("//")) if uri.startswith("file:/") else uri


def hadoop_path(uri: str) -> str:
    """A location as Hadoop's paths have it.

    >>> hadoop_path("file:///lake/t"), hadoop_path("s3://lake/t")
    ('file:/lake/t', 's3://lake/t')
    """
    path = shown_path(uri)
    return f"file:{path}" if path.startswith("/") else path


def _escaped(location: str) -> str:
    return location.replace("\\", "\\\\").replace("'", "\\'")


def _of_spark(spark: SparkSession, text: str) -> DataFrame:
    """What Spark itself answers, also where `spark.sql` of this session has been taught more."""
    return DataFrame(spark._jsparkSession.sql(text), spark)
