"""The Hive metastore as a catalog of Delta tables, with the entries that Spark writes."""

from __future__ import annotations

import getpass
import re
import time
from collections.abc import Mapping

from deltaplane.exceptions import (
    InvalidArgumentError,
    StoreUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from deltaplane.metastores import entry as entries
from deltaplane.metastores.entry import TableFacts
from deltaplane.metastores.hive_wire import (
    BOOL,
    I32,
    LIST,
    MAP,
    STRING,
    STRUCT,
    Endpoints,
    Struct,
    call,
    map_in,
    strings,
    struct_in,
    structs_in,
    text,
    text_in,
    texts_in,
)
from deltaplane.metastores.metastore import Entry, Metastore
from deltaplane.metastores.options import seconds_of
from deltaplane.metastores.table_names import join_name

__all__ = ["HiveMetastore"]

# Field numbers of the metastore's structs.
TABLE_NAME, DATABASE, OWNER, CREATED, STORAGE, PARTITION_KEYS, PARAMETERS, TABLE_TYPE = 1, 2, 3, 4, 7, 8, 9, 12
COLUMNS, LOCATION, INPUT, OUTPUT, COMPRESSED, BUCKETS, SERDE, BUCKET_COLUMNS, SORT_COLUMNS, STORAGE_PARAMETERS = range(
    1, 11
)
SERDE_NAME, SERDE_LIBRARY, SERDE_PARAMETERS = 1, 2, 3
# The metastore removes this parameter. Without it, it lists the files of the location.
_WITHOUT_STATISTICS = {"DO_NOT_UPDATE_STATS": "true"}
# Tables of one request for their entries.
_PAGE = 200


class HiveMetastore(Metastore):
    """A Hive metastore (2.3 and later) by its Thrift service.

    Args:
        uri: `thrift://host:port`, several joined by commas, tried in order.
        options: `catalog_timeout`, the time limit of connecting and of each answer, such as `10s`
            (default 30 s). Others are ignored: the service is asked without authentication.

    Raises:
        InvalidArgumentError: another form of address or time.
        ImportError: the extra `deltaplane[hive]` isn't installed.
    """

    def __init__(self, uri: str, options: Mapping[str, str] | None = None) -> None:
        try:
            import thrift.Thrift  # noqa: F401  # reports a missing extra before the first call
        except ModuleNotFoundError:
            raise ImportError(
                "the Hive metastore needs the package thrift: pip install 'deltaplane[hive]'", name="thrift"
            ) from None
        self._endpoints = Endpoints(uri, seconds_of(options, 30.0))
        self.uri = self._endpoints.uri

    def schemas(self) -> list[str]:
        """The names of the databases, sorted."""
        return sorted(texts_in(call(self._endpoints, "get_all_databases", {}, "the list of schemas")))

    def tables(self, schema: str) -> list[str]:
        """The names of a database's Delta tables, sorted.

        Raises:
            TableNotFoundError: there is no such database.
        """
        self._schema_location(schema)
        arguments: Struct = {1: text(schema)}
        names = sorted(texts_in(call(self._endpoints, "get_all_tables", arguments, f"the schema {schema}")))
        tables: list[str | None] = []
        for start in range(0, len(names), _PAGE):
            request: Struct = {1: text(schema), 2: strings(names[start : start + _PAGE])}
            method = "get_table_objects_by_name_req"
            result = call(self._endpoints, method, {1: (STRUCT, request)}, f"the schema {schema}")
            delta = [table for table in structs_in(result, 1) if entries.is_delta(map_in(table, PARAMETERS))]
            tables += [text_in(table, TABLE_NAME) for table in delta]
        return sorted(name for name in tables if name is not None)

    def create_schema(self, schema: str, location: str | None = None, comment: str | None = None) -> None:
        """Creates a database; without a location in the metastore's warehouse.

        Raises:
            TableAlreadyExistsError: the database exists.
            InvalidArgumentError: a name that Hive can't have.
        """
        database: Struct = {1: text(schema), 2: text(comment or ""), 4: (MAP, (STRING, STRING, {}))}
        if location is not None:
            database[3] = text(entries.stored_location(location))
        call(self._endpoints, "create_database", {1: (STRUCT, database)}, f"the schema {schema}")

    def drop_schema(self, schema: str, force: bool = False) -> None:
        """Drops a database, with `force` also all tables and views in it. Files stay.

        Raises:
            TableNotFoundError: there is no such database.
            InvalidArgumentError: the database isn't empty.
        """
        # The metastore answers with a NullPointerException for a missing one.
        self._schema_location(schema)
        arguments: Struct = {1: text(schema), 2: (BOOL, False), 3: (BOOL, force)}
        call(self._endpoints, "drop_database", arguments, f"the schema {schema}")

    def _schema_location(self, schema: str) -> str | None:
        database = call(self._endpoints, "get_database", {1: text(schema)}, f"the schema {schema}")
        return text_in(database, 3)

    def default_location(self, name: str) -> str:
        """Where a new table of this name is without a location of its own: below its database's.

        Raises:
            TableNotFoundError: there is no such database.
            InvalidArgumentError: a name that Hive can't have: only ASCII letters, digits and `_`
                are allowed.
        """
        for part in self._split(name):
            if re.fullmatch(r"[A-Za-z0-9_]+", part) is None:
                raise InvalidArgumentError(
                    f"names in a Hive metastore have ASCII letters, digits and underscores only, unlike {part!r}",
                    table=name,
                )
        return super().default_location(name)

    def _entry(self, schema: str, table: str) -> Entry | None:
        about = f"the table {join_name(schema, table)}"
        try:
            request: Struct = {1: text(schema), 2: text(table)}
            try:
                native = struct_in(call(self._endpoints, "get_table_req", {1: (STRUCT, request)}, about), 1)
            except UnsupportedFeatureError:
                native = call(self._endpoints, "get_table", request, about)
        except TableNotFoundError:
            return None
        storage = struct_in(native, STORAGE)
        path = map_in(struct_in(storage, SERDE), SERDE_PARAMETERS).get("path")
        return Entry(map_in(native, PARAMETERS), path, text_in(storage, LOCATION), text_in(native, TABLE_TYPE), native)

    def _add(self, schema: str, table: str, location: str, facts: TableFacts) -> None:
        schema_location = self._schema_location(schema) or ""
        native = _new(schema, table, location, facts)
        try:
            self._create(schema, table, native)
        except StoreUnavailableError:
            if not schema_location or location.startswith("file:"):
                raise
            # The metastore makes the entry's directory, and may have no access to the table's
            # store. Spark's readers take the location from the SerDe's parameter.
            placeholder = f"{schema_location.rstrip('/')}/{table.lower()}{entries.PLACEHOLDER_SUFFIX}"
            storage = {**struct_in(native, STORAGE), LOCATION: text(placeholder)}
            self._create(schema, table, {**native, STORAGE: (STRUCT, storage)})

    def _create(self, schema: str, table: str, native: Struct) -> None:
        call(self._endpoints, "create_table", {1: (STRUCT, native)}, f"the table {join_name(schema, table)}")

    def _update(self, schema: str, table: str, entry: Entry, parameters: Mapping[str, str], facts: TableFacts) -> None:
        self._alter(schema, table, {**entry.native, PARAMETERS: _texts({**parameters, **_WITHOUT_STATISTICS})})

    def _remove(self, schema: str, table: str) -> None:
        about = f"the table {join_name(schema, table)}"
        call(self._endpoints, "drop_table", {1: text(schema), 2: text(table), 3: (BOOL, False)}, about)

    def _rename(self, old: tuple[str, str], new: tuple[str, str], entry: Entry) -> None:
        if entry.table_type != "EXTERNAL_TABLE":
            raise InvalidArgumentError(
                f"{join_name(*old)} is a managed table of {self.uri}, whose directory the metastore would move while it is "
                "used: rename it by Spark's ALTER TABLE … RENAME TO while nobody writes it",
                table=join_name(*old),
            )
        self._schema_location(new[0])
        if self._entry(*new) is not None:
            raise TableAlreadyExistsError(f"the table {join_name(*new)} exists already in the metastore {self.uri}")
        self._alter(*old, {**entry.native, DATABASE: text(new[0].lower()), TABLE_NAME: text(new[1].lower())})

    def _alter(self, schema: str, table: str, native: Struct) -> None:
        arguments: Struct = {1: text(schema), 2: text(table), 3: (STRUCT, native)}
        call(self._endpoints, "alter_table", arguments, f"the table {join_name(schema, table)}")


def _new(schema: str, table: str, location: str, facts: TableFacts) -> Struct:
    """An external table as Spark writes one: a placeholder column, since Hive can't read the files
    and would refuse changes of real columns' types."""
    name, kind, comment = entries.PLACEHOLDER_COLUMN
    column: Struct = {1: text(name), 2: text(kind), 3: text(comment)}
    serde: Struct = {
        SERDE_LIBRARY: text(entries.SERDE),
        SERDE_PARAMETERS: _texts({"serialization.format": "1", "path": location}),
    }
    storage: Struct = {
        COLUMNS: (LIST, (STRUCT, [column])),
        LOCATION: text(location),
        INPUT: text(entries.INPUT_FORMAT),
        OUTPUT: text(entries.OUTPUT_FORMAT),
        COMPRESSED: (BOOL, False),
        BUCKETS: (I32, -1),
        SERDE: (STRUCT, serde),
        BUCKET_COLUMNS: strings([]),
        SORT_COLUMNS: (LIST, (STRUCT, [])),
        STORAGE_PARAMETERS: _texts({}),
    }
    of_metastore = {"EXTERNAL": "TRUE", "spark.sql.partitionProvider": "catalog", **_WITHOUT_STATISTICS}
    return {
        TABLE_NAME: text(table),
        DATABASE: text(schema),
        OWNER: text(_user()),
        CREATED: (I32, int(time.time())),
        STORAGE: (STRUCT, storage),
        PARTITION_KEYS: (LIST, (STRUCT, [])),
        PARAMETERS: _texts({**entries.parameters(facts), **of_metastore}),
        TABLE_TYPE: text("EXTERNAL_TABLE"),
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user may have no name.
        return "deltaplane"


def _texts(items: Mapping[str, str]) -> tuple[int, object]:
    return MAP, (STRING, STRING, dict(items))
