"""The clauses of a MERGE with the user's arguments, and checks of the list that need no table.

Uses no table and no engine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from deltaplane.exceptions import InvalidArgumentError

__all__ = ["Action", "Clause", "Kind", "check", "expression", "said", "several_matches"]

# `source` means all rows of the source, matched or not.
Kind = Literal["matched", "not_matched", "not_matched_by_source", "source"]
Action = Literal["update", "delete", "insert"]


@dataclass(frozen=True)
class Clause:
    """One WHEN: its kind of rows, condition and action.

    `values` are column → expression; None represents `*`, every column of the source except
    `excepted`.
    """

    kind: Kind
    action: Action
    condition: str | None = None
    values: Mapping[str, str] | None = None
    excepted: Sequence[str] = ()

    @property
    def takes_all(self) -> bool:
        """Whether its values are `*`."""
        return self.action != "delete" and self.values is None


def expression(value: object, what: str) -> str:
    """Checks that an argument is Spark SQL text.

    Raises:
        InvalidArgumentError: not a string; the message names the expected content.
    """
    if not isinstance(value, str):
        raise InvalidArgumentError(
            f"{what} is {value!r}, and not Spark SQL as a text: write a number as '5', a text as \"'text'\", a missing value as 'null'"
        )
    return value


def check(clauses: Sequence[Clause]) -> None:
    """Refuses an empty list, and lists with an unreachable clause.

    Raises:
        InvalidArgumentError: the message names the clause.
    """
    if not clauses:
        raise InvalidArgumentError("a merge needs at least one clause: add when_matched_update or another one")
    for kind in ("matched", "not_matched", "not_matched_by_source"):
        of_kind = [c for c in clauses if c.kind == kind]
        for number, clause in enumerate(of_kind[:-1], 1):
            if clause.condition is None:
                raise InvalidArgumentError(
                    f"clause {number} of the {len(of_kind)} for rows {kind.replace('_', ' ')} has no condition, so those "
                    "after it could never apply: give it one, or put it last"
                )


def said(clauses: Sequence[Clause], kind: Kind) -> str:
    """The history's text for the clauses of a kind, as in delta-spark."""
    shown = []
    for clause in clauses:
        if clause.kind == kind:
            condition = {} if clause.condition is None else {"predicate": clause.condition}
            shown.append({**condition, "actionType": clause.action})
    return json.dumps(shown, separators=(",", ":"))


def several_matches(rows: int) -> InvalidArgumentError:
    """The error for rows of the table that several source rows change."""
    return InvalidArgumentError(
        f"DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE: {rows} rows of the table would be changed by "
        "more than one row of the source each: leave one source row per key, or give the clauses conditions "
        "that only one of them meets"
    )
