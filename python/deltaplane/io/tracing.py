"""The hooks of traces: public functions that are operations, their phases and their streams call an
observer, if one is set.

Knows no tracing library: `deltaplane.telemetry` sets the observer. Without one a hook reads one
variable.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar, cast

__all__ = ["Observer", "observe", "observer", "operation_of", "phase_of", "place", "stream_of", "traced"]

F = TypeVar("F", bound=Callable[..., Any])


class Observer(Protocol):
    """Called around the operations of this process. Its methods return context managers and must
    not raise."""

    def operation(self, name: str, table: str | None) -> AbstractContextManager[object]:
        """Around an operation; within one of the same name and table it is a part of that."""

    def phase(self, operation: str, table: str, name: str) -> AbstractContextManager[object]:
        """Around a phase of an operation."""

    def place(self) -> Callable[[], AbstractContextManager[object]]:
        """The operation or phase that runs now: what it returns makes later work a part of it."""

    def stream(self, name: str, table: str) -> AbstractContextManager[AbstractContextManager[object]]:
        """Around the life of a stream of rows; what it returns is entered while the stream is
        made."""


_observer: Observer | None = None


def observer() -> Observer | None:
    """The observer of this process, None if there is none."""
    return _observer


def observe(new: Observer | None) -> None:
    """Sets the observer of this process; None ends its calls.

    >>> observe(None)
    """
    global _observer
    _observer = new


def traced(name: str, argument: int | None = 0) -> Callable[[F], F]:
    """Declares a public function or method as an operation.

    Args:
        name: the operation as SQL writes it, such as `MERGE`.
        argument: the position of the argument that is the table: a location, or an object with a
            `location`, such as `DeltaTable` or `TableMerger`. None for an operation without one.

    >>> @traced("DELETE")
    ... def delete(table): return "deleted"
    >>> delete("memory://doc-traced/t")
    'deleted'
    """

    def decorate(function: F) -> F:
        parameter = None if argument is None else function.__code__.co_varnames[argument]

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if _observer is None:
                return function(*args, **kwargs)
            table = None
            if argument is not None:
                table = _location(args[argument] if len(args) > argument else kwargs.get(str(parameter)))
            with _observer.operation(name, table):
                return function(*args, **kwargs)

        return cast("F", call)

    return decorate


def operation_of(name: str, table: str | None) -> AbstractContextManager[object]:
    """Around an operation on a table, as `traced`; without a table it is a part of another one.

    >>> with operation_of("SCAN", "memory://doc-operation/t"):
    ...     pass
    """
    return nullcontext() if _observer is None or table is None else _observer.operation(name, table)


def place() -> Callable[[], AbstractContextManager[object]]:
    """The operation or phase that runs now: what it returns makes later work, also of other
    threads, a part of it.

    >>> with place()():
    ...     pass
    """
    return nullcontext if _observer is None else _observer.place()


def phase_of(operation: str, table: str, name: str) -> AbstractContextManager[object]:
    """Around a phase of an operation.

    >>> with phase_of("DELETE", "memory://doc-phases/t", "find"):
    ...     pass
    """
    return nullcontext() if _observer is None else _observer.phase(operation, table, name)


def stream_of(
    name: str, table: str | None, made_at: Callable[[], AbstractContextManager[object]]
) -> AbstractContextManager[AbstractContextManager[object]]:
    """Around the life of a stream of rows; what it returns is entered while the stream is made. A
    stream without a table is a part of the operation at its `place`, `made_at`.

    >>> with stream_of("SCAN", "memory://doc-stream/t", place()) as made, made:
    ...     pass
    """
    if _observer is None or table is None:
        return nullcontext(made_at())
    return _observer.stream(name, table)


def _location(first: object) -> str | None:
    """The location of the table that an argument is or belongs to."""
    if isinstance(first, str):
        return first
    if hasattr(first, "__fspath__"):
        return str(first)
    table = getattr(first, "location", None)
    if table is None:
        table = getattr(getattr(first, "_table", None), "location", None)
    return table if isinstance(table, str) else None
