"""The text of EXPLAIN: for each table the files that the query reads, which conditions select them,
and who reads them.

Runs nothing; the plan of DuckDB comes from the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltaplane.queries.metadata_aggregates import FileFacts
from deltaplane.queries.plan import Source
from deltaplane.queries.scopes import condition_texts
from deltaplane.queries.sources import DeltaSource, SourceRows

__all__ = ["explained_tables"]

# Files whose footers are read for the number of row groups.
_MOST_FILES = 200


def explained_tables(
    sources: Sequence[Source], opened: Mapping[str, SourceRows], facts: Sequence[FileFacts], scanned: set[str]
) -> str:
    """A paragraph for each table of a query. `facts` are relations of the log's facts that replace
    a table, `scanned` the relations whose files DuckDB reads itself.

    A table that the query reads twice has two paragraphs.
    """
    answered = {rows for fact in facts for rows in opened if opened[rows] is fact.rows}
    return "\n\n".join(
        _table(source, opened[source.name], source.name in answered, source.name in scanned) for source in sources
    )


def _table(source: Source, rows: SourceRows, from_log: bool, scanned: bool) -> str:
    if not isinstance(rows, DeltaSource):
        return f"{source.name}: data of the caller\n{_line('columns', _columns(source))}"
    table = rows.table
    lines = [f"{source.name}: {table.table_uri} at version {table.version()}"]
    if from_log:
        return "\n".join([*lines, _line("read", "no file: the log's statistics have the answer")])
    used, unused = rows.deciding(condition_texts(source))
    lines.append(_line("columns", _columns(source)))
    lines += [_line("conditions on files", condition) for condition in used]
    lines += [_line("conditions on rows alone", condition) for condition in unused]
    plan = table.explain(" AND ".join(f"({c})" for c in used) or None)
    lines += [f"  {line}" for line in str(plan).splitlines()]
    if plan.selected:
        all_groups, selected = rows.row_groups(used, _MOST_FILES)
        among = f" in {_MOST_FILES} of the files" if plan.selected > _MOST_FILES else ""
        lines.append(
            _line("row groups", f"{selected} of {all_groups}{among} may match by the statistics in their footers")
        )
    how = "DuckDB reads the files, and skips row groups by their statistics"
    if not scanned:
        how = "deltaplane reads the files, and skips row groups and pages by the conditions on files"
    return "\n".join([*lines, _line("read", how)])


def _columns(source: Source) -> str:
    return ", ".join(name for id, name in source.fields.items() if id in source.needed) or "none"


def _line(what: str, text: str) -> str:
    return f"  {what:<38}{text}"
