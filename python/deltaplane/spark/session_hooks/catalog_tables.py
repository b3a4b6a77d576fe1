"""Tables and temporary views that statements create by name. A table's rows are in a Delta table at
a location, and Spark's own catalog stores its name; a view is made from a frame.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from deltaplane.exceptions import (
    InvalidArgumentError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from deltaplane.queries.expressions import BEGINNINGS
from deltaplane.queries.grammar import Grammar
from deltaplane.spark.jvm.location import absolute_location
from deltaplane.spark.jvm.names import (
    FORMATS,
    check_free,
    check_unused,
    default_location,
    held_location,
    is_managed,
    other_holder,
    register_name,
)
from deltaplane.spark.jvm.session_catalogs import full_name, refuse_format
from deltaplane.statements.clone import Clone
from deltaplane.statements.common.statement import Command
from deltaplane.statements.create import Create
from deltaplane.statements.like import CreateLike
from deltaplane.table.delta_table import DeltaTable
from deltaplane.table.match_existing import check_same, check_same_properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CreatedTable", "CreatedView", "dropped_table", "is_path", "name_at", "renamed_table"]

_BEGINNINGS = (
    ["create", "or", "replace", "table"],
    ["create", "external", "table"],
    ["create", "table"],
    ["replace", "table"],
)
_IF_NOT_EXISTS = ["if", "not", "exists"]


@dataclass(frozen=True)
class CreatedTable:
    """A new table's name in the form for Spark's catalog, its default or existing location, and
    whether a table of another format has the name, which IF NOT EXISTS leaves unchanged."""

    name: str
    location: str
    is_others: bool = False

    @classmethod
    def of(cls, spark: SparkSession, cursor: Grammar) -> CreatedTable | None:
        """Parses CREATE or REPLACE TABLE … USING delta (or deltaplane), … CLONE, and … LIKE a Delta
        table, with a name; None for other statements.

        Raises:
            UnsupportedFeatureError: the name belongs to another catalog than Spark's own.
            InvalidArgumentError: the name has characters that Spark's catalog doesn't take.
            TableAlreadyExistsError: the name belongs to a view, or to a table of another format.
        """
        words = [token.text.lower() for token in cursor.tokens]
        begins = next((len(b) for b in _BEGINNINGS if words[: len(b)] == b), None)
        if begins is None:
            return None
        if_absent = words[begins : begins + len(_IF_NOT_EXISTS)] == _IF_NOT_EXISTS
        index = begins + (len(_IF_NOT_EXISTS) if if_absent else 0)
        parts = name_at(cursor, index)
        behind = words[index + 2 * len(parts) - 1 :]
        ours = any(a == "using" and b in FORMATS for a, b in pairwise(behind))
        clones = behind[1:2] == ["clone"]
        own = full_name(spark, [part.strip("`") for part in parts]) if parts and not is_path(parts) else None
        if own is not None:
            _check_format(own, behind)
            ours = True
        if (
            not parts
            or is_path(parts)
            or not (ours or clones or _is_like_ours(spark, cursor, index + 2 * len(parts) - 1))
        ):
            return None
        name = ".".join(parts)
        if own is not None:
            return cls(name, held_location(spark, name) or default_location(spark, name))
        if len(parts) > 3 or (len(parts) == 3 and parts[0].strip("`").lower() != "spark_catalog"):
            raise UnsupportedFeatureError(
                f"{name}: without a plug-in in the JVM only Spark's own catalog, and those that enable(spark, catalogs={{…}}) names, "
                f"hold names of Delta tables: call it spark_catalog.{'.'.join(parts[-2:])}, or use delta.`its location`"
            )
        in_database = len(parts) == 1 or spark.catalog.databaseExists(parts[-2].strip("`"))
        if in_database and not re.fullmatch(r"\w+", parts[-1].strip("`"), re.ASCII):
            raise InvalidArgumentError(
                f"{'.'.join(part.strip('`') for part in parts)} is no name of a table in Spark's catalog: use letters, "
                "digits and _ alone"
            )
        if other_holder(spark, name) is not None:
            if if_absent:
                return cls(name, "", is_others=True)
            check_free(spark, name, replaces="replace" in words[:begins])
        return cls(name, held_location(spark, name) or default_location(spark, name))

    @property
    def key(self) -> str:
        """The name as the statement's catalog uses it."""
        return self.name.replace("`", "")

    def hold(self, spark: SparkSession, command: Command) -> None:
        """Registers the name in Spark's catalog after the statement has run."""
        stated = _stated_location(command)
        register_name(spark, self.name, absolute_location(stated or self.location), managed=stated is None)

    def checked(self, spark: SparkSession, command: Command) -> Command:
        """The statement to run, with knowledge of whether the table is managed: a statement with a
        location that defines nothing else takes over the existing table.

        Raises:
            InvalidArgumentError: the statement's location differs from that of the registered name.
            TableAlreadyExistsError: the table at a new name's location has another definition, or
                the location contains other files.
            TableNotFoundError: it replaces a table that doesn't exist.
        """
        stated = _stated_location(command)
        held = held_location(spark, self.name)
        if stated is not None and held is not None and absolute_location(stated) != absolute_location(held):
            raise InvalidArgumentError(
                f"the table {self.name} is at {held}, and the statement says {stated}: leave LOCATION out, or drop the name first"
            )
        if isinstance(command, CreateLike):
            if stated is not None:
                check_unused(absolute_location(stated))
            return replace(command, managed=is_managed(spark, self.name, stated))
        if not isinstance(command, Create):
            return command
        if command.must_exist and held is None:
            raise TableNotFoundError(
                f"REPLACE TABLE needs a table, and the catalog has none called {self.name}: use CREATE OR REPLACE TABLE"
            )
        command = replace(command, managed=is_managed(spark, self.name, stated))
        return command if stated is None or held is not None else self._for_location(stated, command)

    def _for_location(self, stated: str, command: Create) -> Create:
        """A statement with a new name and a location: takes over an existing table, or refills it
        by a query if it may replace the table."""
        if command.rows is not None:
            if command.mode != "overwrite":
                check_unused(absolute_location(stated), even_tables=True)
            return command
        if not DeltaTable.is_deltatable(stated):
            check_unused(absolute_location(stated), declares=bool(command.columns))
            return command
        if not command.columns and command.mode == "overwrite":
            # Refused when it runs.
            return command
        if command.columns:
            columns = [column.field for column in command.columns]
            check_same(
                DeltaTable(stated), columns, command.partition_by or [], command.cluster_by or [], command.properties
            )
        else:
            check_same_properties(DeltaTable(stated), command.properties)
        return Create(command.table, command.cursor, "error", location=stated)


def dropped_table(spark: SparkSession, cursor: Grammar) -> str | None:
    """The name of the catalog's Delta table in a DROP TABLE; None for other statements."""
    cursor.at = 0
    if not cursor.take("drop", "table"):
        return None
    cursor.take("if", "exists")
    parts = name_at(cursor, cursor.at)
    name = ".".join(parts)
    return name if parts and not is_path(parts) and held_location(spark, name) is not None else None


def renamed_table(cursor: Grammar) -> tuple[str, str] | None:
    """The old and new name in ALTER TABLE … RENAME TO; None for other statements, and for a
    path."""
    cursor.at = 0
    if not cursor.take("alter", "table"):
        return None
    old = name_at(cursor, cursor.at)
    cursor.at += 2 * len(old) - 1
    if not old or is_path(old) or not cursor.take("rename", "to"):
        return None
    return ".".join(old), ".".join(name_at(cursor, cursor.at))


@dataclass(frozen=True)
class CreatedView:
    """A temporary view that CREATE … VIEW, or CACHE TABLE, makes of a query on Delta tables; the
    query begins at a token."""

    name: str
    columns: tuple[str, ...]
    query: int
    replaces: bool
    is_global: bool

    @classmethod
    def of(cls, cursor: Grammar) -> CreatedView | None:
        """Parses a statement that creates a temporary view; None for other statements.

        Raises:
            UnsupportedFeatureError: a permanent view.
            SqlSyntaxError: clauses other than column names before the query.
        """
        cursor.at = 0
        if cursor.take("cache"):
            return cls._cached(cursor)
        if not cursor.take("create"):
            return None
        replaces = cursor.take("or", "replace")
        is_global = cursor.take("global")
        if not (cursor.take("temp") or cursor.take("temporary")):
            if cursor.take("view"):
                raise UnsupportedFeatureError(
                    "a view that the catalog keeps can't name a Delta table, which Spark itself couldn't read: make a TEMP VIEW"
                )
            return None
        cursor.expect("view")
        name = cursor.name("a view's name")
        columns = tuple(cursor.listed(lambda: cursor.name("a column's name"))) if cursor.peek() == "(" else ()
        cursor.expect("as")
        return cls(name, columns, cursor.at, replaces, is_global)

    @classmethod
    def _cached(cls, cursor: Grammar) -> CreatedView | None:
        """The view of CACHE TABLE with a query; None without a query."""
        cursor.take("lazy")
        cursor.expect("table")
        name = cursor.name("a view's name")
        if cursor.take("options"):
            while not cursor.take(")"):
                cursor.at += 1
        begins = cursor.take("as") or cursor.peek() in BEGINNINGS
        return cls(name, (), cursor.at, False, False) if begins else None

    def make(self, frame: DataFrame) -> None:
        """Creates the view of the query's rows."""
        named = frame.toDF(*self.columns) if self.columns else frame
        if self.is_global:
            make = named.createOrReplaceGlobalTempView if self.replaces else named.createGlobalTempView
        else:
            make = named.createOrReplaceTempView if self.replaces else named.createTempView
        make(self.name)


def _check_format(name: str, behind: list[str]) -> None:
    """Refuses a table of another format in a catalog.

    Raises:
        UnsupportedFeatureError: the words behind the name say another format.
    """
    other = next((b.strip("`") for a, b in pairwise(behind) if a == "using" and b.strip("`") not in FORMATS), None)
    if other is not None:
        advice = "leave USING out, or create the table in spark_catalog"
        refuse_format(name, other, said_by="the statement", advice=advice)


def _is_like_ours(spark: SparkSession, cursor: Grammar, index: int) -> bool:
    """Whether LIKE and a Delta table follow at a token. As in delta-spark, the new table then is a
    Delta table, whatever format the statement names."""
    tokens = cursor.tokens[index:]
    if not tokens or tokens[0].text.lower() != "like":
        return False
    parts = name_at(cursor, index + 1)
    return bool(parts) and (is_path(parts) or held_location(spark, ".".join(parts)) is not None)


def _stated_location(command: Command) -> str | None:
    """The location in a statement."""
    if isinstance(command, (Create, CreateLike)):
        return command.location
    return command.place if isinstance(command, Clone) else None


def name_at(cursor: Grammar, index: int) -> list[str]:
    """The parts of a name, with their quotes; empty if no name follows."""
    tokens, parts = cursor.tokens, list[str]()
    while index < len(tokens) and tokens[index].kind in ("name", "quoted"):
        parts.append(tokens[index].text)
        if index + 1 == len(tokens) or tokens[index + 1].text != ".":
            break
        index += 2
    return parts


def is_path(parts: list[str]) -> bool:
    """Whether a name is a path."""
    return len(parts) == 2 and parts[0].strip("`").lower() in FORMATS and parts[1].startswith("`")
