"""`deltaplane.transaction`: several tables of a catalog change together, or none does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from deltaplane.catalogs import Catalog
    from deltaplane.queries.results.query_result import QueryResult
    from deltaplane.table.delta_table import DeltaTable
    from deltaplane.write.api import WriteResult
    from deltaplane.write.intent import WriteOptions

__all__ = ["TableTransaction", "transaction"]


@checked()
def transaction(
    catalog: Catalog,
    tables: Sequence[str] = (),
    *,
    isolation: Literal["serializable", "snapshot"] = "serializable",
) -> TableTransaction:
    """Begins a transaction over tables of a catalog: all of its changes are committed together, at
    the end of the `with` block, or none of them.

    All commands on the transaction's tables see the tables at one instant, that of the first use,
    and the transaction's own changes. Nobody else sees these before the commit. Several commands on
    one table become one version of it.

    Args:
        catalog: a catalog of deltaplane's own, in a database or through its server.
        tables: full names of tables that are read at the same instant as the first one that is
            used. A table that isn't named here joins at its first use, which fails if another
            writer has changed a table of the transaction since.
        isolation: `serializable`: the commit fails if rows that the transaction read have changed,
            also in tables that it doesn't change. `snapshot`: only if its own changes conflict, by
            the isolation level of each table.

    Raises, at the first use, InvalidArgumentError: a name that isn't a table's;
    UnsupportedFeatureError: the catalog has no transactions, or doesn't decide the commits of a
    table; TableNotFoundError.

    >>> import tempfile, pyarrow as pa
    >>> from deltaplane import Catalog, transaction
    >>> catalog = Catalog(f"sqlite:///{tempfile.mkdtemp()}/lake.db")
    >>> catalog.create_catalog("main")
    >>> catalog.create_schema("main.bank")
    >>> for name in ("main.bank.accounts", "main.bank.moves"):
    ...     _ = catalog.create_table(name, pa.schema({"id": pa.int64(), "amount": pa.int64()}))
    >>> with transaction(catalog) as tx:
    ...     _ = tx.write("main.bank.moves", pa.table({"id": [1], "amount": [-5]}))
    ...     _ = tx.sql("INSERT INTO main.bank.accounts SELECT * FROM main.bank.moves")
    >>> catalog.table("main.bank.accounts").to_pyarrow_table().to_pylist(), tx.versions
    ([{'id': 1, 'amount': -5}], {'main.bank.accounts': 1, 'main.bank.moves': 1})
    """
    return TableTransaction(catalog, tables, isolation)


@checked()
class TableTransaction:
    """A transaction over tables of a catalog, as `transaction` begins it.

    Attributes: `catalog`, the catalog whose tables are those of the transaction; `versions`, the
    new version of each table that was changed, by full name, or None before the commit.
    """

    def __init__(self, catalog: Catalog, tables: Sequence[str], isolation: str) -> None:
        self.versions: dict[str, int] | None = None
        self._names = catalog._unity("transactions over several tables").names
        self._id = self._names.begin(list(tables), isolation == "serializable")
        self.catalog = catalog._with_options({"catalog_transaction": self._id})
        self._is_open = True

    def __repr__(self) -> str:
        return f"<TableTransaction of {self._names.describe()}>"

    @property
    def id(self) -> str:
        """The id that this process gives the transaction, for the storage option
        `catalog_transaction`."""
        return self._id

    def table(self, name: str) -> DeltaTable:
        """The table as the transaction sees it. Its commands become part of the transaction;
        `version()` counts the transaction's own changes, too.

        Raises:
            ConcurrentWriteException: the table joins, and another writer changed a table of the
                transaction since it began.
            TableNotFoundError, UnsupportedFeatureError: there is no such table; the catalog doesn't
                decide its commits.
            InvalidArgumentError: the transaction has ended.
        """
        return self.catalog.table(name)

    def write(self, name: str, data: Any, /, **options: Unpack[WriteOptions]) -> WriteResult:
        """Writes rows to a table, which exists; the arguments are those of `write_deltalake`, and
        `mode` is `append` by default.

        Raises:
            DeltaError: as from `write_deltalake` and `table`.
        """
        from deltaplane.write.api import write_deltalake

        options.setdefault("mode", "append")
        # By its location: a write needn't open the table.
        options["storage_options"] = {**self.catalog.storage_options, **(options.get("storage_options") or {})}
        result: WriteResult = write_deltalake(self.catalog.location(name), data, **options)
        return result

    def sql(self, text: str, *, args: Mapping[str, Any] | Sequence[Any] | None = None) -> QueryResult:
        """Runs a statement over the transaction's tables, as `deltaplane.sql` does. A table that is
        named by its location is refused.

        Raises:
            DeltaError: as from `deltaplane.sql` and `table`.
        """
        from deltaplane.statements import sql

        return sql(text, args=args, catalog=self.catalog)

    def commit(self) -> dict[str, int]:
        """Commits all changes, and returns the new version of each changed table by full name. The
        `with` block does it by itself.

        Raises:
            DeltaConcurrentModificationException: another writer's change conflicts; nothing is
                committed, and the transaction's files are deleted.
            StoreUnavailableError: the catalog can't be reached, and the outcome is unknown.
            InvalidArgumentError: the transaction has ended.
        """
        self._end()
        self.versions = dict(self._names.commit(self._id))
        return self.versions

    def rollback(self) -> int:
        """Ends the transaction without a commit, and deletes the files that it wrote. Returns their
        number.

        Raises:
            InvalidArgumentError: the transaction has ended.
        """
        self._end()
        return self._names.rollback(self._id)

    def _end(self) -> None:
        if not self._is_open:
            raise InvalidArgumentError("the transaction has ended: begin another one")
        self._is_open = False

    def __enter__(self) -> TableTransaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_open:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def __del__(self) -> None:
        if getattr(self, "_is_open", False):
            self.rollback()
