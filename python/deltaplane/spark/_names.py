"""Names of tables in a session: ``delta.`path` ``, and those that its catalog has a location for.

Called by `deltaplane.spark.tables` and its builder.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from deltaplane import _native
from deltaplane.exceptions import InvalidArgumentError, TableNotFoundError
from deltaplane.spark import _internals
from deltaplane.spark._schema import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["default_location", "location_of", "path_of", "register_name"]

_PATH = re.compile(r"\s*(?:delta|deltaplane)\s*\.\s*`((?:[^`]|``)+)`\s*", re.IGNORECASE)
_FORMATS = ("delta", "deltaplane")


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
    found = _internals.named_table(spark, name)
    if found is None:
        raise TableNotFoundError(
            f"the session's catalog has no table `{name}`: give a path as delta.`/path`, or create the table with "
            "DeltaTable.create(spark).tableName(…)"
        )
    provider, location = found
    if provider.lower() not in _FORMATS:
        raise TableNotFoundError(f"`{name}` is no Delta table: its format is {provider}")
    return location


def default_location(spark: SparkSession, name: str) -> str:
    """Where the catalog would put a table of this name."""
    *database, table = name.replace("`", "").split(".")
    if len(database) > 1 or not table:
        raise InvalidArgumentError(
            f"`{name}` isn't a name of the session's own catalog: give at most a database and a table, or a location"
        )
    warehouse = str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")
    folders = [f"{database[0]}.db"] if database and database[0].lower() != "default" else []
    return os.path.join(warehouse, *folders, table.lower())


def register_name(spark: SparkSession, name: str, location: str) -> None:
    """Lets the session's catalog know a table, unless it does already: `forName` finds it by this.

    Spark itself can't read it by its name without a catalog plug-in, nor drop it.
    """
    if _internals.named_table(spark, name) is not None:
        return
    columns = StructType.fromJson(shown(json.loads(_native.Snapshot.open(location, None).schema_json()))).toDDL()
    quoted_location = location.replace("\\", "\\\\").replace("'", "\\'")
    spark.sql(f"CREATE TABLE {name} ({columns}) USING deltaplane OPTIONS (path '{quoted_location}')")
