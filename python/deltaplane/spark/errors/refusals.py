"""Carries errors through the JVM: an error raised during planning leaves the user's call unchanged.

An error of a stream's source or sink becomes the cause of the query's failure. Errors cross as text
in the JVM's class `deltaplane.Refused`; PySpark's conversion of JVM exceptions, which delta-spark's
package extends too, turns them into Python errors again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import count
from typing import Any

from pyspark.errors import PySparkException
from pyspark.errors.exceptions import captured

from deltaplane import exceptions
from deltaplane.exceptions import DeltaError
from deltaplane.spark.errors.condition_of import condition_of
from deltaplane.spark.errors.error_conditions import spark_condition
from deltaplane.spark.errors.spark_errors import as_sparks

__all__ = ["come_back", "refusal", "sparks_refusal"]

_REFUSED = "deltaplane.Refused"
# This exception stays unchanged, with its cause.
_OF_STREAMS = "org.apache.spark.sql.streaming.StreamingQueryException"
_WORD = re.compile("[A-Z][a-z]+")
# The attributes from which an error is rebuilt.
_ABOUT = ("kind", "table", "version", "path")
# SQL states of errors without a delta-spark condition. Spark's SQL scripts find a handler by
# condition and state, and fail if one is missing; SQLEXCEPTION handles all states except those of
# warnings, of no data (02) and of internal errors (XX).
_STATES = {
    "TableNotFoundError": "42P01",
    "VersionNotFoundError": "22023",
    "TableAlreadyExistsError": "42P07",
    "DeltaProtocolError": "58030",
    "FileMissingError": "58030",
    "CorruptFileError": "58030",
    "UnsupportedFeatureError": "0A000",
    "InvalidArgumentError": "22023",
    "SqlSyntaxError": "42601",
    "SchemaMismatchError": "42804",
    "ConstraintViolationError": "23514",
    "UnsupportedExpressionError": "0A000",
    "CommitFailedError": "40001",
    "StoreUnavailableError": "08000",
    "StoreDeniedError": "42501",
    "InternalError": "XX000",
    "DeltaError": "58000",
}

# Errors of Spark's that cross the JVM, by number. Those that a handler took are never asked for, so
# that only the last ones are held.
_held: dict[int, PySparkException] = {}
_HELD_AT_MOST = 16
_numbers = count()


def refusal(error: DeltaError, doing: str = "") -> str:
    """The text that represents an error in an answer to the JVM; no other answer begins with the
    same prefix. `doing` is the operation that raised it."""
    about = {name: getattr(error, name) for name in _ABOUT}
    # A user's store may raise its own subclass.
    kind = next(base.__name__ for base in type(error).__mro__ if base.__name__ in exceptions.__all__)
    made_of = json.dumps({"class": kind, "text": str(error), "about": about, "doing": doing})
    said = spark_condition(error, doing)
    named = _unnamed(error) if said is None else [said.condition, said.sql_state]
    parameters = [] if said is None else [text for item in said.parameters.items() for text in item]
    return "\0".join(["", *(text.replace("\0", "") for text in (str(error), made_of, *named, *parameters))])


def sparks_refusal(error: PySparkException) -> str:
    """As `refusal`, for an error of Spark's own that a statement of a script ended with: a handler
    finds it by its condition and state, and without a handler it comes out as it was."""
    number = next(_numbers)
    _held[number] = error
    while len(_held) > _HELD_AT_MOST:
        _held.pop(next(iter(_held)))
    condition = condition_of(error) or "DELTAPLANE_SPARK"
    parts = str(error), json.dumps({"held": number}), condition, error.getSqlState() or _STATES["DeltaError"]
    return "\0".join(["", *(text.replace("\0", "") for text in parts)])


def _unnamed(error: DeltaError) -> list[str]:
    """Condition and SQL state from the error's class alone, such as
    `DELTAPLANE_SCHEMA_MISMATCH`."""
    names = [base.__name__ for base in type(error).__mro__]
    kind = next(name for name in names if name in exceptions.__all__)
    words = _WORD.findall(kind.removesuffix("Error").removesuffix("Exception"))
    state = next(_STATES[name] for name in names if name in _STATES)
    return ["_".join(["DELTAPLANE", *words]).upper(), state]


def come_back() -> None:
    """Makes PySpark raise the original errors from now on."""
    theirs: Callable[[Any], Any] = captured.convert_exception
    if getattr(theirs, "_knows_refusals", False):
        return

    def converted(thrown: Any) -> Any:
        refused = _refused(thrown)
        return theirs(thrown) if refused is None else refused

    converted._knows_refusals = True  # type: ignore[attr-defined]
    captured.convert_exception = converted


def _refused(thrown: Any) -> Exception | None:
    """The error that a JVM exception carries, itself or in its causes."""
    while thrown is not None:
        kind = thrown.getClass().getName()
        if kind == _OF_STREAMS:
            return None
        if kind == _REFUSED:
            made_of = json.loads(thrown.error())
            if "held" in made_of:
                held: PySparkException | None = _held.pop(made_of["held"], None)
                return held
            error: DeltaError = getattr(exceptions, made_of["class"])(made_of["text"], **made_of["about"])
            return as_sparks(error, made_of["doing"])
        thrown = thrown.getCause()
    return None
