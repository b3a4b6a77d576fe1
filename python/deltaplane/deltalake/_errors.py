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
)

__all__ = ["deltalake_errors"]


class _Rule(NamedTuple):
    """The words that deltalake has for errors of a class whose text has a part, and the class in which
    it raises them if it is another one."""

    cls: type[DeltaError]
    part: re.Pattern[str]
    words: str
    instead: type[DeltaError] | None = None


_DELETED = "a concurrent transaction deleted data this operation read"
_RULES = [
    _Rule(
        DeltaError,
        re.compile("append-only"),
        "The transaction includes Remove action with data change but Delta table is append-only",
        CommitFailedError,
    ),
    _Rule(ConstraintViolationError, re.compile(""), "Invalid data found: 1 rows failed validation check."),
    _Rule(ConcurrentDeleteReadException, re.compile(""), _DELETED),
    _Rule(ConcurrentDeleteDeleteException, re.compile(""), _DELETED),
]


@contextmanager
def deltalake_errors() -> Iterator[None]:
    """Raises deltaplane's errors with deltalake's words before their own."""
    try:
        yield
    except DeltaError as e:
        text = str(e)
        for rule in _RULES:
            if not isinstance(e, rule.cls) or not rule.part.search(text) or rule.words in text:
                continue
            if rule.instead is not None and not isinstance(e, rule.instead):
                raise rule.instead(f"{rule.words}: {text}") from e
            e.args = (f"{rule.words} {text}",)
            raise
        raise
