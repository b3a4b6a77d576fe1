"""OpenTelemetry: spans of operations, phases, commits and requests, their durations as histograms,
and the figures of tables as gauges.

Needs the package opentelemetry-api (the extra `otel`), and loads it when it is switched on; an SDK
and its exporters are the program's choice.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.exceptions import DeltaError, InvalidArgumentError
from deltaplane.io import tracing
from deltaplane.io.telemetry_attributes import commit_attributes, request_attributes, table_name

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, Meter, MeterProvider
    from opentelemetry.trace import Span, Tracer, TracerProvider

    from deltaplane.io.storage_options import StorageOptions, TableUri
    from deltaplane.table.delta_table import DeltaTable

__all__ = ["disable_opentelemetry", "enable_by_environment", "enable_opentelemetry", "observe_tables"]

_SYSTEM = "deltaplane"
# Maximum number of operations whose late requests, such as those of streams, find their span.
_MOST_CONTEXTS = 4096
# Maximum number of requests that wait for the end of the commit that they are a part of.
_MOST_PENDING = 16_384
# Bounds of histograms in seconds: the semantic conventions' for databases and for HTTP.
_OPERATION_BOUNDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)
_REQUEST_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


class _Work(NamedTuple):
    """Work that the core noted: nanoseconds since the epoch, and fields."""

    operation: int
    id: int
    kind: str
    began_ns: int
    ended_ns: int
    fields: Sequence[tuple[str, str]]


@checked()
def enable_opentelemetry(
    tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> None:
    """Switches on traces and histograms of this process's operations; a second call replaces the
    providers.

    Args:
        tracer_provider, meter_provider: where spans and durations go; None means the program's
            global providers, also ones that are set later.

    Raises:
        ImportError: opentelemetry-api isn't installed (`pip install 'deltaplane[otel]'`).
        InvalidTypeError: not a provider.

    >>> enable_opentelemetry()
    >>> disable_opentelemetry()
    """
    api = _api()
    tracer = api.trace.get_tracer("deltaplane", _native.__version__, tracer_provider)
    meter = api.metrics.get_meter("deltaplane", _native.__version__, meter_provider)
    disable_opentelemetry()
    tracing.observe(_Telemetry(tracer, meter))
    # Late requests become spans before the SDK's own function ends the export.
    atexit.unregister(disable_opentelemetry)
    atexit.register(disable_opentelemetry)


def disable_opentelemetry() -> None:
    """Switches them off; ended requests become spans first. Does nothing if they are off."""
    observer = tracing.observer()
    tracing.observe(None)
    if isinstance(observer, _Telemetry):
        observer.collect()


def enable_by_environment(value: str) -> None:
    """Switches them on if `value`, that of DELTAPLANE_OPENTELEMETRY, is `true` or `1`.

    Raises:
        InvalidArgumentError: it is neither of these, nor `false`, `0` or empty.
        ImportError: opentelemetry-api isn't installed.

    >>> enable_by_environment("false")
    """
    text = value.strip().lower()
    if text not in ("true", "1", "false", "0", ""):
        raise InvalidArgumentError(f"DELTAPLANE_OPENTELEMETRY is true or false, not {value}")
    if text in ("true", "1"):
        enable_opentelemetry()


@checked()
def observe_tables(
    tables: Iterable[TableUri | DeltaTable],
    *,
    storage_options: StorageOptions | None = None,
    meter_provider: MeterProvider | None = None,
    max_age: float = 60.0,
) -> None:
    """Gives the figures of tables to OpenTelemetry: gauges with the attribute `table`, those that
    `deltaplane metrics` prints for Prometheus, measured when the SDK's reader collects.

    Args:
        tables: locations, or open tables, whose newest version is measured.
        storage_options: access to the stores of locations.
        meter_provider: where gauges go; None means the program's global provider.
        max_age: seconds for which figures are used again. Measuring a table reads its log, as
            `DeltaTable.report` does.

    A table that can't be read has the gauge `deltaplane.table.up` with 0, and no other.

    Raises:
        ImportError: opentelemetry-api isn't installed (`pip install 'deltaplane[otel]'`).
        InvalidArgumentError: `max_age` is negative.

    >>> observe_tables(["memory://doc-observe/t"])
    """
    from deltaplane.report.metrics import METRICS

    if max_age < 0:
        raise InvalidArgumentError(f"max_age is a number of seconds, not {max_age}")
    api = _api()
    meter = api.metrics.get_meter("deltaplane", _native.__version__, meter_provider)
    figures = _Figures([_opened(table, storage_options) for table in tables], max_age)

    def observed(name: str, _: object) -> Iterator[Any]:
        for table, values in figures.measured().items():
            if name in values:
                yield api.metrics.Observation(values[name], {"table": table})

    for metric in METRICS:
        callback = functools.partial(observed, metric.name)
        name = f"deltaplane.table.{metric.name}"
        meter.create_observable_gauge(name, [callback], unit=metric.unit, description=metric.meaning)


class _Figures:
    """The figures of tables, measured again when they are older than `max_age` seconds."""

    def __init__(self, tables: Sequence[tuple[str, Callable[[], DeltaTable]]], max_age: float) -> None:
        self._tables, self._max_age = tables, max_age
        self._lock = threading.Lock()
        self._values: dict[str, dict[str, float]] = {}
        self._measured_at: float | None = None

    def measured(self) -> Mapping[str, Mapping[str, float]]:
        from deltaplane.report.metrics import DOWN, measure

        with self._lock:
            if self._measured_at is None or time.monotonic() - self._measured_at > self._max_age:
                self._values = {}
                for name, opened in self._tables:
                    try:
                        self._values[name] = measure(opened().report().facts)
                    except DeltaError:
                        self._values[name] = dict(DOWN)
                self._measured_at = time.monotonic()
            return self._values


def _opened(
    table: TableUri | DeltaTable, storage_options: StorageOptions | None
) -> tuple[str, Callable[[], DeltaTable]]:
    """A table's name in metrics, and a function that opens its newest version."""
    from deltaplane.table.delta_table import DeltaTable

    options: StorageOptions | None
    if isinstance(table, DeltaTable):
        location, options = table.location, table.storage_options
    else:
        location, options = os.fspath(table), storage_options
    return table_name(location), lambda: DeltaTable(location, storage_options=options)


class _Api(NamedTuple):
    trace: Any
    metrics: Any


def _api() -> _Api:
    try:
        from opentelemetry import metrics, trace
    except ImportError as e:
        raise ImportError("OpenTelemetry needs the package opentelemetry-api: pip install 'deltaplane[otel]'") from e
    return _Api(trace, metrics)


class _Telemetry:
    """The observer that makes spans. The core notes its work by numbers of operations; a number
    belongs to the span of an operation or a phase."""

    def __init__(self, tracer: Tracer, meter: Meter) -> None:
        from opentelemetry import trace

        self._trace, self._tracer = trace, tracer
        self._numbers = itertools.count(1)
        self._contexts: OrderedDict[int, Context] = OrderedDict()
        # Failed attempts of each repeated request, by operation and identity.
        self._failures: OrderedDict[tuple[int, str], int] = OrderedDict()
        self._pending: list[_Work] = []
        self._lock = threading.Lock()
        # The innermost operation: its name and its table.
        self._inner: ContextVar[tuple[str, str | None] | None] = ContextVar("deltaplane_operation", default=None)
        self._operations = _histogram(meter, "db.client.operation.duration", _OPERATION_BOUNDS)
        self._requests = _histogram(meter, "http.client.request.duration", _REQUEST_BOUNDS)

    @contextmanager
    def operation(self, name: str, table: str | None) -> Iterator[None]:
        """A span of the operation, which is the current one within it."""
        if self._inner.get() == (name, table):
            yield
            return
        reset = self._inner.set((name, table))
        attributes = _operation_attributes(name, table)
        try:
            with self._timed(attributes), self._span(_span_name(name, table), attributes):
                yield
        finally:
            self._inner.reset(reset)
            self.collect()

    @contextmanager
    def phase(self, operation: str, table: str, name: str) -> Iterator[None]:
        """A span of the phase."""
        attributes = {**_operation_attributes(operation, table), "deltaplane.phase": name}
        with self._span(name, attributes):
            yield

    @contextmanager
    def stream(self, name: str, table: str) -> Iterator[AbstractContextManager[object]]:
        """A span from the making of a stream to its end. It isn't the current span: the consumer's
        work between batches isn't a part of it."""
        attributes = _operation_attributes(name, table)
        span = self._tracer.start_span(_span_name(name, table), attributes=attributes)
        number = self._number_of(span)
        try:
            with self._timed(attributes), self._errors_of(span):
                yield _entered(number)
        finally:
            span.end()
            self.collect()

    def place(self) -> Callable[[], AbstractContextManager[object]]:
        """What makes later work a part of the operation or phase that runs now."""
        number = _native.enter_operation(0)
        _native.enter_operation(number)
        return functools.partial(_entered, number) if number else nullcontext

    def collect(self) -> None:
        """Makes spans of the core's work that has ended."""
        with self._lock:
            works = [*self._pending, *(_Work(*work) for work in _native.take_traced_work())]
            # Parts of a commit end before it, and need its span.
            works.sort(key=lambda work: work.kind != "commit")
            self._pending = [work for work in works if not self._made(work)][-_MOST_PENDING:]

    @contextmanager
    def _span(self, name: str, attributes: Mapping[str, Any]) -> Iterator[None]:
        with self._tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            with _entered(self._number_of(span)), self._errors_of(span):
                yield

    @contextmanager
    def _errors_of(self, span: Span) -> Iterator[None]:
        """Notes an error's kind. Its message isn't noted: it may show rows."""
        try:
            yield
        except Exception as e:
            kind = _error_type(e)
            span.set_attribute("error.type", kind)
            span.set_status(self._trace.StatusCode.ERROR, kind)
            raise

    @contextmanager
    def _timed(self, attributes: Mapping[str, Any]) -> Iterator[None]:
        began, failed = time.perf_counter(), {}
        try:
            yield
        except Exception as e:
            failed = {"error.type": _error_type(e)}
            raise
        finally:
            self._operations.record(time.perf_counter() - began, {**attributes, **failed})

    def _number_of(self, span: Span) -> int:
        """A new number of the core's for the work of a span."""
        with self._lock:
            number = next(self._numbers)
            self._note_context(number, self._trace.set_span_in_context(span))
            return number

    def _note_context(self, number: int, context: Context) -> None:
        self._contexts[number] = context
        while len(self._contexts) > _MOST_CONTEXTS:
            self._contexts.popitem(last=False)

    def _made(self, work: _Work) -> bool:
        """Makes the span of a work; False if the commit that it is a part of hasn't ended."""
        context = self._contexts.get(work.operation)
        if context is None:
            # The core numbers its own works beyond those of operations.
            return work.operation <= 2**32
        if work.kind == "commit":
            self._make_commit(work, context)
        else:
            self._make_request(work, context)
        return True

    def _make_commit(self, work: _Work, context: Context) -> None:
        fields = dict(work.fields)
        lost_ns = [int(value) for name, value in work.fields if name == "lost"]
        attributes = {"db.system.name": _SYSTEM, **commit_attributes(fields, len(lost_ns))}
        span = self._tracer.start_span("commit", context, attributes=attributes, start_time=work.began_ns)
        for moment_ns in lost_ns:
            span.add_event("deltaplane.commit.lost_race", timestamp=moment_ns)
        if "error" in fields:
            span.set_status(self._trace.StatusCode.ERROR, fields["error"])
        self._note_context(work.id, self._trace.set_span_in_context(span))
        span.end(work.ended_ns)

    def _make_request(self, work: _Work, context: Context) -> None:
        fields = dict(work.fields)
        attributes, failed = request_attributes(fields)
        key = (work.operation, fields["identity"])
        resends = self._failures.pop(key, 0)
        if resends:
            attributes["http.request.resend_count"] = resends
        if failed is not None:
            self._failures[key] = resends + 1
            while len(self._failures) > _MOST_CONTEXTS:
                self._failures.popitem(last=False)
        span = self._tracer.start_span(
            fields["method"],
            context,
            kind=self._trace.SpanKind.CLIENT,
            attributes=attributes,
            start_time=work.began_ns,
        )
        if failed is not None:
            span.set_status(self._trace.StatusCode.ERROR, failed)
        span.end(work.ended_ns)
        names = ("http.request.method", "http.response.status_code", "server.address", "server.port", "error.type")
        said = {name: attributes[name] for name in names if name in attributes}
        self._requests.record((work.ended_ns - work.began_ns) / 1e9, said)


@contextmanager
def _entered(number: int) -> Iterator[None]:
    """The core notes what this thread waits for under a number."""
    before = _native.enter_operation(number)
    try:
        yield
    finally:
        _native.enter_operation(before)


def _histogram(meter: Meter, name: str, bounds: Sequence[float]) -> Histogram:
    """A histogram of durations, named and bounded as the semantic conventions say."""
    return meter.create_histogram(name, unit="s", explicit_bucket_boundaries_advisory=bounds)


def _operation_attributes(name: str, table: str | None) -> dict[str, Any]:
    attributes = {"db.system.name": _SYSTEM, "db.operation.name": name}
    return attributes if table is None else {**attributes, "db.collection.name": table_name(table)}


def _span_name(name: str, table: str | None) -> str:
    """The operation and the last part of the table's location.

    >>> _span_name("MERGE", "s3://bucket/lake/orders/"), _span_name("SQL", None)
    ('MERGE orders', 'SQL')
    """
    return name if table is None else f"{name} {table_name(table).rstrip('/').rpartition('/')[2]}"


def _error_type(error: Exception) -> str:
    return error.kind if isinstance(error, DeltaError) else type(error).__name__
