"""VACUUM table [FULL | LITE] [USING INVENTORY name | (query)] [RETAIN n HOURS] [DRY RUN], in any
order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deltaplane import _native
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.properties import commit_request
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.running import prepared
from deltaplane.queries.syntax import Query, TableName
from deltaplane.statements.common.statement import Session, Statement, listed, runs_tasks

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.table.delta_table import DeltaTable

__all__ = ["STATEMENT"]


@dataclass
class Vacuum:
    """The table, and the options that select the deleted files."""

    table: TableName
    cursor: Grammar
    lite: bool | None = None
    inventory: TableName | Query | None = None
    hours: int | None = None
    dry_run: bool = False

    def run(self, session: Session) -> pa.Table:
        """Runs VACUUM. A dry run returns the paths of files and of empty directories; otherwise the
        result is the table's path, as in delta-spark."""
        table = session.catalog.target(self.table)
        if self.lite and self.inventory is not None:
            raise InvalidArgumentError("an inventory stands in for a listing, which LITE doesn't make: leave one out")
        inventory = None if self.inventory is None else self._rows(session, self.inventory)
        with self.cursor.located(self.table.token):
            paths = self._expired_paths(session, table, inventory)
        root = table.table_uri.rstrip("/")
        return listed("path", [f"{root}/{name}" for name in paths] if self.dry_run else [root])

    def _expired_paths(self, session: Session, table: DeltaTable, inventory: pa.Table | None) -> list[str]:
        """Keys of the files, and of the directories that had none before."""
        from deltaplane.commands.vacuum import Vacuum as What
        from deltaplane.commands.vacuum import vacuum

        what = What(self.hours, full=not self.lite, dry_run=self.dry_run)
        if session.spark is not None and runs_tasks(session.spark):
            from deltaplane.spark.datasource.delta_options import checks_retention, retention_hours
            from deltaplane.spark.dml.optimize import vacuum_by_tasks

            hours = retention_hours(session.spark, self.hours)
            what = replace(what, retention_hours=hours, enforce_retention=checks_retention(session.spark))
            result = vacuum_by_tasks(session.spark, table, what, inventory)
        else:
            snapshot = _native.Snapshot.open(table.location, table.storage_options)
            result = vacuum(snapshot, what, inventory, commit_request(None, None))
            if result.version is not None:
                table.update_incremental()
        return [*result.paths, *result.empty_directories]

    def _rows(self, session: Session, inventory: TableName | Query) -> pa.Table:
        if isinstance(inventory, Query):
            return prepared(inventory, self.cursor, session.catalog).run()
        data = session.catalog.data(inventory)
        return session.catalog.table(inventory).to_pyarrow_table() if data is None else data


def _read(cursor: Grammar) -> Vacuum:
    made = Vacuum(cursor.table(alias=False, version=False), cursor)
    while True:
        if made.lite is None and cursor.peek() in ("full", "lite"):
            made.lite = cursor.take("lite")
            if not made.lite:
                cursor.expect("full")
        elif made.inventory is None and cursor.take("using"):
            cursor.expect("inventory")
            made.inventory = _inventory(cursor)
        elif made.hours is None and cursor.take("retain"):
            made.hours = cursor.whole_number("a number of hours")
            cursor.expect("hours")
        elif not made.dry_run and cursor.take("dry"):
            cursor.expect("run")
            made.dry_run = True
        else:
            return made


def _inventory(cursor: Grammar) -> TableName | Query:
    if not cursor.take("("):
        return cursor.table(alias=False)
    query = cursor.query()
    cursor.expect(")")
    return query


STATEMENT = Statement(("vacuum",), _read)
