"""`Catalog`: the tables of a catalog by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError, TableNotFoundError, UnsupportedFeatureError
from deltaplane.io.storage_options import StorageOptions, location_text, storage_options_text
from deltaplane.table.delta_table import DeltaTable

if TYPE_CHECKING:
    from datetime import datetime

    from deltaplane._native import CatalogServer
    from deltaplane.catalogs.backend import Backend
    from deltaplane.catalogs.unity import Unity
    from deltaplane.io.storage_options import TableUri, VersionLike

__all__ = ["Catalog"]

_UNITY = ("https", "http", "sqlite", "postgresql", "postgres")
# The module and the class of each other kind, by scheme. Their constructors take the URI and the
# storage options.
_OTHERS = {"thrift": ("hive", "Hive"), "glue": ("glue", "Glue")}


@checked()
class Catalog:
    """The tables of a catalog by their names.

    Args:
        uri: `https://host` or `http://host:port` of a server with Unity Catalog's open APIs, or
            deltaplane's own catalog in a database, which needs no server: `sqlite:///lake.db` or
            `postgresql://user:password@host/database`.
        token: the server's token, or a function without arguments that returns it, called again
            when the server refuses the last one. None means the option `catalog_token_file`, or the
            variables UNITY_CATALOG_TOKEN and DATABRICKS_TOKEN, which are sent to the server of
            UNITY_CATALOG_URI and DATABRICKS_HOST only.
        storage_options: access to the stores of the tables, where the catalog hands out no
            credentials.
        storage_root: where a catalog in a database puts the files of managed tables, unless their
            catalog or schema says it. SQLite's default is the folder beside the database whose name
            has `.tables` behind it.

    A catalog pickles as its arguments, credentials included: treat the pickle as a secret. The
    catalog is asked at the first call.

    >>> import tempfile, pyarrow as pa
    >>> from deltaplane import write_deltalake
    >>> catalog = Catalog(f"sqlite:///{tempfile.mkdtemp()}/lake.db")
    >>> catalog.create_catalog("main")
    >>> catalog.create_schema("main.sales")
    >>> table = catalog.create_table("main.sales.orders", pa.schema({"id": pa.int64()}))
    >>> done = write_deltalake(table, pa.table({"id": [1, 2]}), mode="append")
    >>> catalog.tables("main.sales"), catalog.table("main.sales.orders").to_pyarrow_table().num_rows
    (['main.sales.orders'], 2)
    """

    def __init__(
        self,
        uri: str,
        token: str | Callable[[], str] | None = None,
        *,
        storage_options: StorageOptions | None = None,
        storage_root: TableUri | None = None,
    ) -> None:
        values: dict[str, Any] = dict(storage_options or {})
        if token is not None:
            values["catalog_token"] = token
        if storage_root is not None:
            values["catalog_storage_root"] = location_text(storage_root)
        self._uri = uri
        self._options = storage_options_text(values) or {}
        self._backend = self._connect()

    def _connect(self) -> Backend:
        scheme, separator, _ = self._uri.partition("://")
        if separator and scheme.lower() in _UNITY:
            from deltaplane.catalogs.unity import Unity

            self._options = {**self._options, "catalog": self._uri}
            return Unity(self._options)
        if separator and scheme.lower() in _OTHERS:
            import importlib

            module, name = _OTHERS[scheme.lower()]
            try:
                kind = getattr(importlib.import_module(f"deltaplane.catalogs.{module}"), name)
            except ModuleNotFoundError:
                raise UnsupportedFeatureError(f"this version has no catalogs of the scheme {scheme}") from None
            self._options = {**self._options, "catalog": self._uri}
            made: Backend = kind(self._uri, self._options)
            return made
        # The URI may hold a password.
        raise InvalidArgumentError(
            "a catalog is https://host, http://host:port, sqlite:///path, postgresql://host/database, "
            "thrift://host:port of a Hive metastore, or glue://region"
        )

    def __repr__(self) -> str:
        return f"<Catalog: {self._backend.describe()}>"

    def __getstate__(self) -> dict[str, Any]:
        return {"uri": self._uri, "options": self._options}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._uri, self._options = state["uri"], dict(state["options"])
        self._backend = self._connect()

    def _with_options(self, options: Mapping[str, str]) -> Catalog:
        """The same catalog, whose tables' locations have further storage options."""
        made = Catalog.__new__(Catalog)
        made._uri, made._options, made._backend = self._uri, {**self._options, **options}, self._backend
        return made

    def _unity(self, what: str) -> Unity:
        from deltaplane.catalogs.unity import Unity

        if not isinstance(self._backend, Unity):
            raise UnsupportedFeatureError(f"{self._backend.describe()} has no {what}")
        return self._backend

    # --- which tables -------------------------------------------------------------------------------------------------

    def catalogs(self) -> list[str]:
        """The names of the catalogs: the first part of tables' names."""
        return self._unity("catalogs within it").catalogs()

    def schemas(self, catalog: str | None = None) -> list[str]:
        """The full names of the schemas of a catalog, or of all."""
        return self._backend.schemas(catalog)

    def tables(self, schema: str) -> list[str]:
        """The full names of the tables of a schema, of any format.

        Raises:
            TableNotFoundError: there is no such schema.
        """
        return self._backend.tables(schema)

    def info(self, name: str) -> dict[str, Any]:
        """What the catalog says of a table: `full_name`, `table_type`, `format`, `location` and
        more.

        Raises:
            TableNotFoundError: there is no such table.
        """
        return self._backend.info(name)

    def exists(self, name: str) -> bool:
        """Whether there is a table, a schema or a catalog of this name."""
        return self._backend.exists(name)

    # --- one table ----------------------------------------------------------------------------------------------------

    def location(self, name: str) -> str:
        """The location by which `DeltaTable`, `write_deltalake` and all commands find a table,
        together with `storage_options`; the table may be created by it."""
        return self._backend.location(name)

    @property
    def storage_options(self) -> dict[str, str]:
        """The storage options of the tables' locations, credentials included."""
        return dict(self._options)

    def table(self, name: str, version: VersionLike | None = None) -> DeltaTable:
        """Opens a table by its name.

        Raises:
            TableNotFoundError: there is no such table.
            StoreDeniedError: the token is wrong, or lacks the right.
            DeltaError: as from `DeltaTable`.
        """
        return DeltaTable(self.location(name), version, self._options)

    def create_table(
        self,
        name: str,
        schema: Any,
        *,
        location: TableUri | None = None,
        mode: Literal["error", "ignore"] = "error",
        partition_by: list[str] | str | None = None,
        cluster_by: list[str] | str | None = None,
        description: str | None = None,
        configuration: Mapping[str, str | bool | int | None] | None = None,
    ) -> DeltaTable:
        """Creates a table without rows: a managed one, whose location and commits are the
        catalog's, or with `location` an external one there. `ignore` opens a table that exists. The
        other arguments are those of `DeltaTable.create`.

        Raises:
            TableAlreadyExistsError: the name is taken, or there is a table at the location.
            TableNotFoundError: the schema doesn't exist.
        """
        if mode == "ignore" and self.exists(name):
            return self.table(name)
        managed = location is None
        table = DeltaTable.create(
            self.location(name) if location is None else location,
            schema,
            "error",
            partition_by,
            description=description,
            configuration=configuration,
            storage_options=self._options,
            cluster_by=cluster_by,
        )
        if managed:
            return table
        self._backend.register(name, table)
        return self.table(name)

    def register(self, name: str, location: TableUri) -> DeltaTable:
        """Gives the table at a location a name, as an external table: files and log stay where they
        are, and the store decides commits.

        Raises:
            TableAlreadyExistsError: the name is taken.
            TableNotFoundError: there is no table at the location.
            UnsupportedFeatureError: a catalog manages that table.
        """
        self._backend.register(name, DeltaTable(location, storage_options=self._options))
        return self.table(name)

    def refresh(self, name: str) -> bool:
        """Updates the columns and properties that a metastore's entry has of a table from the
        table's newest version. Commits through names do so by themselves.

        Returns:
            Whether the entry was changed.

        Raises:
            TableNotFoundError: the name is unknown, or its location has no table.
            UnsupportedFeatureError: a catalog whose entries always follow the commits.
        """
        from deltaplane.metastores.front import Front

        if not isinstance(self._backend, Front):
            raise UnsupportedFeatureError(f"{self._backend.describe()} has no entries that must be refreshed")
        return self._backend.refresh(name)

    def rename(self, name: str, new_name: str) -> None:
        """Renames a table within its schema; the new name has one part.

        Raises:
            TableNotFoundError, TableAlreadyExistsError: the name is unknown; the new one is taken.
        """
        self._backend.rename(name, new_name)

    def drop(self, name: str, *, force: bool = False, missing_ok: bool = False) -> None:
        """Drops a table, a schema or a catalog. The files of external tables stay; those of managed
        tables stay too, until the catalog's owner deletes them. `force` also drops what a schema or
        a catalog has in it.

        Raises:
            TableNotFoundError: the name is unknown, unless `missing_ok`.
            InvalidArgumentError: the schema or the catalog isn't empty.
        """
        try:
            self._backend.drop(name, force)
        except TableNotFoundError:
            if not missing_ok:
                raise

    def create_catalog(self, name: str, comment: str | None = None, storage_root: TableUri | None = None) -> None:
        """Creates a catalog; its managed tables are below `storage_root`.

        Raises:
            TableAlreadyExistsError: the name is taken.
        """
        root = None if storage_root is None else location_text(storage_root)
        self._unity("catalogs within it").create_catalog(name, comment, root)

    def create_schema(self, name: str, comment: str | None = None, storage_root: TableUri | None = None) -> None:
        """Creates a schema by its full name; its managed tables are below `storage_root`.

        Raises:
            TableAlreadyExistsError: the name is taken.
            TableNotFoundError: its catalog doesn't exist.
        """
        self._backend.create_schema(name, comment, None if storage_root is None else location_text(storage_root))

    # --- volumes ------------------------------------------------------------------------------------------------------

    def volumes(self, schema: str) -> list[str]:
        """The full names of the volumes of a schema: folders of files that are no tables.

        Raises:
            TableNotFoundError: there is no such schema.
        """
        return self._unity("volumes").volumes(schema)

    def volume(self, name: str) -> dict[str, Any]:
        """What the catalog says of a volume: `full_name`, `location`, `table_type` (`MANAGED` or
        `EXTERNAL`) and more. With `storage_options`, paths in it are locations:
        `dbfs:/Volumes/catalog/schema/volume/path`.

        Raises:
            TableNotFoundError: there is no such volume.
        """
        return self._unity("volumes").volume(name)

    def create_volume(self, name: str, *, location: TableUri | None = None, comment: str | None = None) -> None:
        """Creates a volume: a managed one, whose location the catalog chooses, or with `location`
        an external one there.

        Raises:
            TableAlreadyExistsError: the name is taken.
            TableNotFoundError: the schema doesn't exist.
            InvalidArgumentError: the location overlaps with that of a table or another volume.
        """
        place = None if location is None else location_text(location)
        self._unity("volumes").create_volume(name, place, comment)

    def drop_volume(self, name: str) -> None:
        """Drops a volume's name; its files stay.

        Raises:
            TableNotFoundError: there is no such volume.
        """
        self._unity("volumes").drop_volume(name)

    # --- a catalog in a database --------------------------------------------------------------------------------------

    def create_token(self, principal: str, expires: datetime | None = None) -> str:
        """A new token of a principal for servers of a catalog in a database, which stores its
        digest only. A principal may do what `grant` says: nothing at first.

        Raises:
            InvalidArgumentError: the catalog is a server, or the time has no zone.
        """
        if expires is not None and expires.tzinfo is None:
            raise InvalidArgumentError("the token's end has no time zone; give one, such as by tzinfo=timezone.utc")
        names = self._unity("tokens of its own").names
        return names.create_token(principal, None if expires is None else int(expires.timestamp() * 1000))

    def revoke_tokens(self, principal: str) -> int:
        """Revokes all tokens of a principal, and returns how many there were. A running server
        accepts them for five seconds at most.

        Raises:
            InvalidArgumentError: the catalog is a server.
        """
        return self._unity("tokens of its own").names.revoke_tokens(principal)

    def grant(self, principal: str, access: str | None, name: str | None = None) -> None:
        """Sets what the holders of a principal's tokens may do in a catalog or a schema, or without
        a name everywhere: `READ` loads tables, `WRITE` also creates tables and commits, `MANAGE`
        also creates and drops schemas; None takes it away.

        Raises:
            InvalidArgumentError: the catalog is a server, the access is another word, or the name
                is a table's.
        """
        self._unity("rights of its own").names.grant(principal, name, access)

    def serve(self, address: str = "127.0.0.1:8080", *, tokens: bool = True) -> CatalogServer:
        """Serves a catalog in a database from this process, by Unity Catalog's open APIs, until the
        returned object's `stop()`; its `address` is `host:port`, with a free port for port 0.
        `tokens=False` gives everybody all rights, which only a loopback address permits. TLS is
        left to a proxy.

        Raises:
            InvalidArgumentError: the catalog is a server, or the address isn't allowed.
            StoreUnavailableError: the address is taken.
        """
        return self._unity("server of its own").names.serve(address, tokens)
