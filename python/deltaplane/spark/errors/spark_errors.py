"""Errors that delta-spark's users can catch: each is also an instance of a PySpark exception, with
delta-spark's condition."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pyspark.errors import AnalysisException, PySparkException

from deltaplane.exceptions import (
    DeltaError,
    InvalidArgumentError,
    SchemaMismatchError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedExpressionError,
    VersionNotFoundError,
)
from deltaplane.io.session_options import in_session
from deltaplane.spark.errors.condition_of import condition_of
from deltaplane.spark.errors.error_conditions import spark_condition

__all__ = ["as_sparks", "with_condition", "with_spark_errors"]

T = TypeVar("T")

# Phrases that scripts look for in the texts of these conditions.
_PHRASES = {
    "DELTA_MISSING_DELTA_TABLE": ("tableName", "{} is not a Delta table"),
    "DELTA_TABLE_NOT_FOUND": ("tableName", "Delta table {} doesn't exist"),
    "PATH_NOT_FOUND": ("path", "Path does not exist: {}"),
}

# Conditions that Spark detects before rows are read.
_FOUND_EARLY = (
    InvalidArgumentError,
    SchemaMismatchError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedExpressionError,
    VersionNotFoundError,
)


class _Told(PySparkException):
    """Spark's side of such an error: its text and condition."""

    def __init__(
        self, error: DeltaError, condition: str | None, sql_state: str | None, parameters: dict[str, str] | None
    ) -> None:
        self.desc = _text(error, condition, parameters or {})
        # PySpark 3.5 takes either a text or a condition.
        super().__init__(message=self.desc)
        self._condition, self._parameters = condition, parameters
        self._sql_state = sql_state

    def __str__(self) -> str:
        return self.desc

    def getMessage(self) -> str:
        return self.desc

    def getCondition(self) -> str | None:
        return self._condition

    def getErrorClass(self) -> str | None:
        # The older name, of which PySpark 4 warns.
        return super().getErrorClass() if hasattr(PySparkException, "getMessage") else self._condition

    def getMessageParameters(self) -> dict[str, str] | None:
        return self._parameters

    def getSqlState(self) -> str | None:
        return self._sql_state


def _text(error: DeltaError, condition: str | None, parameters: Mapping[str, str]) -> str:
    """The error's text behind its condition, as in Spark's own errors."""
    text = str(error)
    if condition is None or condition in text:
        return text
    parameter, phrase = _PHRASES.get(condition, ("", ""))
    if parameter in parameters:
        text = f"{phrase.format(parameters[parameter])}: {text}"
    return f"[{condition}] {text}"


@functools.cache
def _both(kind: type[DeltaError], sparks: tuple[type[PySparkException], ...]) -> type[DeltaError]:
    def adopt(self: Any, error: DeltaError, *about: Any) -> None:
        _Told.__init__(self, error, *about)
        self.__dict__.update(error.__dict__)
        self.args = error.args

    methods = {"__init__": adopt, "__str__": _Told.__str__, "__module__": kind.__module__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind, _Told, *sparks), methods)


def as_sparks(error: DeltaError, doing: str = "") -> DeltaError:
    """The error as an instance of a PySpark exception, too; `doing` is the statement or the
    `Class.method` that raised it.

    A condition that is detected before rows are read becomes an `AnalysisException`, in addition to
    delta-spark's class if that is another one.

    >>> missing = as_sparks(TableNotFoundError("no Delta table is here: create one", table="/lake/t"))
    >>> missing.getCondition(), missing.getSqlState(), missing.getMessageParameters()
    ('DELTA_MISSING_DELTA_TABLE', '42P01', {'tableName': '/lake/t'})
    """
    if isinstance(error, _Told):
        return error
    said = spark_condition(error, doing)
    spark = PySparkException if said is None else said.spark
    early = isinstance(error, _FOUND_EARLY) and not issubclass(spark, AnalysisException)
    kind: Any = type(error)
    make: Any = _both(kind, (AnalysisException, spark) if early else (spark,))
    about = (None, None, None) if said is None else (said.condition, said.sql_state, said.parameters)
    made: DeltaError = make(error, *about)
    return made.with_traceback(error.__traceback__)


def with_condition(error: DeltaError, doing: str) -> DeltaError:
    """The error with its condition in its text, for callers that retain only the text."""
    known: Any = as_sparks(error, doing)
    condition = condition_of(known)
    if condition is None or condition in str(error):
        return error
    made: DeltaError = known
    return made


def with_spark_errors(cls: type[T]) -> type[T]:
    """Decorates a class so that its public methods raise such errors."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_"):
            continue
        if isinstance(member, classmethod):
            setattr(cls, name, classmethod(_with_delta_errors(member.__func__)))
        elif inspect.isfunction(member):
            setattr(cls, name, _with_delta_errors(member))
    return cls


def _session(owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The session of a call: its argument of a class method, else the object's or its table's."""
    if isinstance(owner, type):
        return kwargs.get("sparkSession", args[0] if args else None)
    frame, table = getattr(owner, "_frame", None), getattr(owner, "_table", None)
    own = getattr(owner, "_spark", None) or getattr(frame, "sparkSession", None)
    return own or getattr(table, "_spark", None)


def _with_delta_errors(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            with in_session(_session(self, args, kwargs)):
                return method(self, *args, **kwargs)
        except DeltaError as e:
            owner = self if isinstance(self, type) else type(self)
            made = as_sparks(e, f"{owner.__name__}.{method.__name__}")
            if made is e:
                raise
            raise made from e.__cause__

    return run
