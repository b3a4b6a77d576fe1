"""Errors as delta-spark's users catch them: what is an `AnalysisException` there is one here, too, beside its own class.

Called by the names that scripts share with delta-spark.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.errors import AnalysisException

from deltaplane.exceptions import (
    DeltaError,
    InvalidArgumentError,
    SchemaMismatchError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedExpressionError,
    VersionNotFoundError,
)

__all__ = ["as_analysis", "told_as_spark"]

T = TypeVar("T")

# What is found wrong before rows are read.
_FOUND_EARLY = (
    InvalidArgumentError,
    SchemaMismatchError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedExpressionError,
    VersionNotFoundError,
)


class _Analysis(AnalysisException):
    """Spark's side of such an error: its text, and no condition of Spark's."""

    def __init__(self, error: DeltaError) -> None:
        super().__init__(message=str(error))
        self.desc = str(error)

    def __str__(self) -> str:
        return self.desc

    def getMessage(self) -> str:
        return self.desc


@functools.cache
def _both(kind: type[DeltaError]) -> type[DeltaError]:
    def adopt(self: Any, error: DeltaError) -> None:
        _Analysis.__init__(self, error)
        self.__dict__.update(error.__dict__)
        self.args = error.args

    methods = {"__init__": adopt, "__str__": _Analysis.__str__, "__module__": kind.__module__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind, _Analysis), methods)


def as_analysis(error: DeltaError) -> DeltaError:
    """The error, also as `AnalysisException` where delta-spark's would be one.

    >>> as_analysis(TableNotFoundError("no Delta table is here"))
    TableNotFoundError('no Delta table is here')
    """
    if not isinstance(error, _FOUND_EARLY) or isinstance(error, AnalysisException):
        return error
    kind: Any = type(error)
    make: Any = _both(kind)
    made: DeltaError = make(error)
    return made.with_traceback(error.__traceback__)


def told_as_spark(cls: type[T]) -> type[T]:
    """A class whose public methods raise errors so."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_"):
            continue
        if isinstance(member, classmethod):
            setattr(cls, name, classmethod(_told(member.__func__)))
        elif inspect.isfunction(member):
            setattr(cls, name, _told(member))
    return cls


def _told(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except DeltaError as e:
            told = as_analysis(e)
            if told is e:
                raise
            raise told from e.__cause__

    return run
