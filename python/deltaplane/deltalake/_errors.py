"""deltaplane's errors as deltalake raises them: its classes, and the words by which programs know
them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from deltaplane.exceptions import (
    CommitFailedError,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConstraintViolationError,
    DeltaError,
    SchemaMismatchError,
    TableAlreadyExistsError,
)

__all__ = ["deltalake_errors"]


class _Rule(NamedTuple):
    """deltalake's words for errors whose text has a part; `{…}` are the part's groups. They stand
    alone
    where programs compare the whole text, otherwise before deltaplane's own. `instead`: the class
    in
    which deltalake raises them, if it is another one."""

    part: re.Pattern[str]
    words: str
    cls: type[DeltaError] = DeltaError
    instead: type[DeltaError] | None = None
    alone: bool = False


_ARROW = {
    "long": "Int64",
    "integer": "Int32",
    "short": "Int16",
    "byte": "Int8",
    "double": "Float64",
    "float": "Float32",
}
_DELETED = "a concurrent transaction deleted data this operation read"
_INCREASE = "Set allow_protocol_versions_increase or increase version"
_BROKEN = "Invalid data found: {count} rows failed validation check."
_RULES = [
    _Rule(
        re.compile("append-only"),
        "The transaction includes Remove action with data change but Delta table is append-only",
        instead=CommitFailedError,
    ),
    _Rule(re.compile(""), _BROKEN, ConstraintViolationError),
    _Rule(re.compile(r"the data has rows that .*\(rows: (?P<count>\d+)\)"), _BROKEN),
    _Rule(re.compile("the data has rows that"), _BROKEN),
    _Rule(re.compile("a table is here already"), "A table already exists:", TableAlreadyExistsError),
    _Rule(re.compile(""), _DELETED, ConcurrentDeleteReadException),
    _Rule(re.compile(""), _DELETED, ConcurrentDeleteDeleteException),
    _Rule(
        re.compile("DELTA_MULTIPLE_SOURCE_ROW"),
        "Merge failed because of duplicate relevant WHEN MATCHED source rows.",
    ),
    _Rule(
        re.compile(r"CAST_INVALID_INPUT\] '(?P<value>.*)' is no (?P<kind>\w+)"),
        "Cast error: Cannot cast string '{value}' to value of {kind} type",
    ),
    _Rule(
        re.compile(r"a retention of (?P<asked>\d+) hours is below the table's (?P<own>\d+)"),
        "Generic error: Invalid retention period, minimum retention for vacuum is configured to be greater than {own} "
        "hours, got {asked} hours",
        alone=True,
    ),
    _Rule(re.compile(r"names the column `(?P<name>[^`]+)`, which the table doesn't have"), "No field named {name}."),
    _Rule(
        re.compile(r"needs the protocol \(1, 7\), .*allow_protocol_versions_increase"),
        f"Generic DeltaTable error: Table feature enables writer feature, but min_writer is not v7. {_INCREASE} "
        "explicitly through set_tbl_properties",
    ),
    _Rule(
        re.compile(r"needs the protocol \(3, 7\), .*allow_protocol_versions_increase"),
        "Generic DeltaTable error: Table feature enables reader and writer feature, but reader is not v3, and writer "
        f"not v7. {_INCREASE}s explicitly through set_tbl_properties",
    ),
    _Rule(
        re.compile("has the metadata `delta.generationExpression`, but the column is added"),
        "Schema evolved fields cannot have generated expressions. Recreate the table to achieve this.",
        instead=SchemaMismatchError,
    ),
]


@contextmanager
def deltalake_errors() -> Iterator[None]:
    """Raises deltaplane's errors with deltalake's words before their own."""
    try:
        yield
    except DeltaError as e:
        text = str(e)
        for rule in _RULES:
            match = rule.part.search(text)
            if match is None or not isinstance(e, rule.cls):
                continue
            groups = {name: _ARROW.get(value, value) for name, value in match.groupdict().items()}
            if e.violating_rows is not None:
                groups["count"] = str(e.violating_rows)
            words = rule.words.replace("{count} ", "") if "count" not in groups else rule.words
            words = words.format(**groups)
            if words in text:
                continue
            said = words if rule.alone else f"{words} {text}"
            if rule.instead is not None and not isinstance(e, rule.instead):
                raise rule.instead(said) from e
            e.args = (said,)
            if rule.alone:
                raise type(e)(said) from e
            raise
        raise
