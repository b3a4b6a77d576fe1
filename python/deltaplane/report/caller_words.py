"""Arguments that messages name, in the words of each caller: Python's arguments, the flags of the
command line, or the clauses of SQL.

Messages are written in Python's words; this module has the others.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

__all__ = ["WORDS", "Door", "in_words_of"]


class Door(Enum):
    """How a caller gives arguments."""

    CLI = "cli"
    SQL = "sql"


class _Words(NamedTuple):
    cli: str
    sql: str


# A caller's own words for an argument of Python; where a door has none, the way that it has.
WORDS: dict[str, _Words] = {
    "turn the check off (enforce_retention_duration=False)": _Words(
        "turn the check off (--no-retention-check)", "DeltaTable.vacuum can do it without this check"
    ),
    "enforce_retention_duration=False": _Words(
        "--no-retention-check", "vacuum(enforce_retention_duration=False) in Python"
    ),
    "ignore_missing_files=True": _Words("--ignore-missing-files", "restore(ignore_missing_files=True) in Python"),
    "ignore_unfinished_vacuum=True": _Words(
        "restore(ignore_unfinished_vacuum=True) in Python", "restore(ignore_unfinished_vacuum=True) in Python"
    ),
    "replace=True": _Words("--replace", "CREATE OR REPLACE TABLE"),
    "allow_protocol_versions_increase=True": _Words(
        "alter.add_feature(…) in Python", "ALTER TABLE … SET TBLPROPERTIES ('delta.feature.NAME' = 'supported')"
    ),
    "first=True or after='another column'": _Words("FIRST or AFTER another column", "FIRST or AFTER another column"),
    "if_exists=True": _Words("UNSET TBLPROPERTIES IF EXISTS", "IF EXISTS"),
    "truncate_history=True": _Words("DROP FEATURE … TRUNCATE HISTORY", "TRUNCATE HISTORY"),
    "truncate_history": _Words("TRUNCATE HISTORY", "TRUNCATE HISTORY"),
    "merge_schema=True": _Words("MERGE WITH SCHEMA EVOLUTION", "MERGE WITH SCHEMA EVOLUTION"),
    'mode="overwrite" and schema_mode="overwrite"': _Words("CREATE OR REPLACE TABLE", "CREATE OR REPLACE TABLE"),
    'schema_mode="overwrite"': _Words("CREATE OR REPLACE TABLE", "CREATE OR REPLACE TABLE"),
    'schema_mode="merge"': _Words("ALTER TABLE … ADD COLUMNS", "ALTER TABLE … ADD COLUMNS"),
}
_KNOWN = re.compile("|".join(rf"\b{re.escape(name)}" for name in sorted(WORDS, key=len, reverse=True)))


def in_words_of(door: Door, message: str) -> str:
    """A message with the arguments that it names in a caller's words.

    >>> in_words_of(Door.CLI, "leave them out (ignore_missing_files=True)")
    'leave them out (--ignore-missing-files)'
    """
    return _KNOWN.sub(lambda match: getattr(WORDS[match[0]], door.value), message)
