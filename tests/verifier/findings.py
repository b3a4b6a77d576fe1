"""The list of problems that the checks append to, and their shared types."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

# An action of the log, or another object of its JSON.
Json = dict[str, Any]
# A file of a table: its path and the id of its deletion vector.
FileKey = tuple[str, str | None]


@dataclass
class Findings:
    """The problems, each with its location."""

    problems: list[str] = field(default_factory=list)

    def add(self, where: str, what: str) -> None:
        self.problems.append(f"{where}: {what}")

    def unless(self, holds: object, where: str, what: str) -> None:
        """Adds a problem if a rule is violated."""
        if not holds:
            self.add(where, what)


def parsed(text: Any) -> Any:
    """The value of JSON text; other values unchanged."""
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text


def vector_id(action: Json) -> str | None:
    """The id of a file's deletion vector, by which one path may denote two files of the log."""
    vector = action.get("deletionVector")
    if not vector:
        return None
    offset = "" if vector.get("offset") is None else f"@{vector['offset']}"
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"


def key_of(action: Json) -> FileKey:
    return action["path"], vector_id(action)
