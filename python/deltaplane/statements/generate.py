"""GENERATE symlink_format_manifest FOR TABLE table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.statements.common.statement import Session, Statement, one_row

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENT"]


@dataclass(frozen=True)
class Generate:
    """The table."""

    table: TableName

    def run(self, session: Session) -> pa.Table:
        """Writes the manifests of the newest version."""
        table = session.catalog.target(self.table)
        table.generate()
        return one_row(operation="GENERATE", version=table.version())


def _read(cursor: Grammar) -> Generate:
    cursor.expect("symlink_format_manifest", "for", "table")
    return Generate(cursor.table(alias=False, version=False))


STATEMENT = Statement(("generate",), _read)
