"""COPY INTO table FROM 'directory' FILEFORMAT = format [FILES | PATTERN] [FORMAT_OPTIONS (…)]
[COPY_OPTIONS (…)]."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.statements.common.columns import properties
from deltaplane.statements.common.statement import Session, Statement, one_row

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENT"]

_FORMATS = ("parquet", "csv", "json")


@dataclass
class Copy:
    """The table, the directory, and the options for reading its files."""

    table: TableName
    source: str
    cursor: Grammar
    format: str = ""
    files: list[str] | None = None
    pattern: str | None = None
    format_options: dict[str, str] = field(default_factory=dict)
    copy_options: dict[str, str] = field(default_factory=dict)

    def run(self, session: Session) -> pa.Table:
        """Loads the new files in one commit."""
        from deltaplane.copying import copy_into

        with self.cursor.located(self.table.token):
            done = copy_into(
                session.catalog.target(self.table),
                self.source,
                self.format,
                pattern=self.pattern,
                files=self.files,
                format_options=self.format_options,
                copy_options=self.copy_options,
            )
        return one_row(**vars(done))


def _read(cursor: Grammar) -> Copy:
    cursor.expect("into")
    made = Copy(cursor.table(alias=False, version=False), "", cursor)
    cursor.expect("from")
    if cursor.peek() == "(":
        cursor.wrong("expected a directory as text: a query over its files isn't in this version")
    made.source = cursor.text("a directory as text")
    cursor.expect("fileformat", "=")
    if cursor.peek() not in _FORMATS:
        cursor.expected("PARQUET, CSV or JSON")
    made.format = cursor.name("a format").lower()
    if cursor.take("files", "="):
        made.files = cursor.listed(lambda: cursor.text("a file's path as text"))
    elif cursor.take("pattern", "="):
        made.pattern = cursor.text("a pattern as text")
    if cursor.take("format_options"):
        made.format_options = properties(cursor)
    if cursor.take("copy_options"):
        made.copy_options = properties(cursor)
    return made


STATEMENT = Statement(("copy",), _read)
