"""Spans, histograms and gauges of OpenTelemetry, by the SDK's exporters in memory."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import deltaplane
from deltaplane import DeltaTable, _native, write_deltalake
from deltaplane.exceptions import ConstraintViolationError, InvalidArgumentError
from deltaplane.io import tracing
from deltaplane.telemetry import _Telemetry, enable_by_environment
from stores.forwarding import Answer, Request, forwarding

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from tests.conftest import S3Server

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk: make venv")


@dataclass
class Telemetry:
    """What a test's providers received."""

    spans: Any
    metrics: Any
    tracer: Any
    meter_provider: Any

    def finished(self) -> list[ReadableSpan]:
        """All spans, the earliest first."""
        deltaplane.disable_opentelemetry()
        return self.collect()

    def collect(self) -> list[ReadableSpan]:
        """The spans so far."""
        observer = tracing.observer()
        if isinstance(observer, _Telemetry):
            observer.collect()
        spans: list[ReadableSpan] = sorted(self.spans.get_finished_spans(), key=lambda span: span.start_time or 0)
        return spans

    def points(self) -> dict[str, list[Any]]:
        """The points of each metric."""
        data = self.metrics.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, metrics = InMemorySpanExporter(), InMemoryMetricReader()
    provider, meters = TracerProvider(), MeterProvider([metrics])
    provider.add_span_processor(SimpleSpanProcessor(spans))
    deltaplane.enable_opentelemetry(provider, meters)
    yield Telemetry(spans, metrics, provider.get_tracer("test"), meters)
    deltaplane.disable_opentelemetry()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def children(spans: list[ReadableSpan], parent: ReadableSpan) -> list[ReadableSpan]:
    return [s for s in spans if s.parent is not None and s.parent.span_id == parent.context.span_id]


def below(spans: list[ReadableSpan], parent: ReadableSpan) -> list[ReadableSpan]:
    """The span's descendants."""
    return [inner for child in children(spans, parent) for inner in (child, *below(spans, child))]


def named(spans: list[ReadableSpan], name: str) -> ReadableSpan:
    (span,) = [s for s in spans if s.name == name]
    return span


def test_a_write_is_a_span_of_the_callers_with_its_commit(telemetry: Telemetry, tmp_table: Callable[[], str]) -> None:
    table, before = tmp_table(), time.time_ns()
    with telemetry.tracer.start_as_current_span("job") as job:
        write_deltalake(table, pa.table({"x": [1]}))
    after, spans = time.time_ns(), telemetry.finished()
    write = named(spans, f"WRITE {Path(table).name}")
    assert write.parent is not None
    assert write.parent.span_id == job.get_span_context().span_id
    assert attributes(write) == {
        "db.system.name": "deltaplane",
        "db.operation.name": "WRITE",
        "db.collection.name": table,
    }
    (commit,) = [s for s in below(spans, write) if s.name == "commit"]
    assert (attributes(commit)["deltaplane.commit.version"], attributes(commit)["deltaplane.commit.attempts"]) == (0, 1)
    assert commit.start_time is not None
    assert commit.end_time is not None
    assert before <= commit.start_time <= commit.end_time <= after


def test_phases_are_spans_and_parts_of_an_operation_are_no_operations(
    telemetry: Telemetry, tmp_table: Callable[[], str]
) -> None:
    path = tmp_table()
    write_deltalake(path, pa.table({"k": [1, 2, 3]}))
    table = DeltaTable(path)
    telemetry.spans.clear()
    table.delete("k = 2")
    spans = telemetry.finished()
    delete = named(spans, f"DELETE {Path(path).name}")
    phases = [s for s in children(spans, delete) if "deltaplane.phase" in attributes(s)]
    assert [s.name for s in phases] == ["find", "copy", "files", "commit"]
    assert [s.name for s in children(spans, phases[-1])] == ["commit"]
    assert [s.name for s in spans].count(delete.name) == 1


def test_merges_and_scans_name_their_table(telemetry: Telemetry, tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    write_deltalake(path, pa.table({"k": [1]}))
    table, name = DeltaTable(path), Path(path).name
    merge = table.merge(pa.table({"k": [1, 2]}), "t.k = s.k", "s", "t")
    merge.when_not_matched_insert_all().execute()
    assert table.scan().to_arrow().num_rows == table.to_polars().height == 2
    assert sum(batch.num_rows for batch in table.to_reader()) == 2
    names = [span.name for span in telemetry.finished()]
    assert names.count(f"SCAN {name}") == 3
    assert {f"OPEN {name}", f"MERGE {name}", "join"} <= set(names)


class Unwell:
    """Answers the first requests of one method with 503."""

    def __init__(self, method: str, failures: int) -> None:
        self.method, self.left = method, failures

    def __call__(self, request: Request, ask: Callable[[], Answer]) -> Answer:
        if request.command == self.method and self.left:
            self.left -= 1
            return Answer(503, [], b"<Error><Code>SlowDown</Code></Error>")
        return ask()


@contextmanager
def bucket(server: S3Server, serve: Callable[[Request, Callable[[], Answer]], Answer]) -> Iterator[dict[str, str]]:
    """Options of a new bucket behind a proxy, and its name as `bucket`."""
    name = f"traced-{time.time_ns()}"
    server.client().create_bucket(Bucket=name)
    with forwarding(server.endpoint, serve) as endpoint:
        options = {**server.options, "AWS_ENDPOINT_URL": endpoint, "init_backoff": "10ms"}
        yield {"bucket": name, **options}


def test_requests_and_their_repetitions_are_spans_below_what_made_them(
    telemetry: Telemetry, moto_server: S3Server
) -> None:
    with bucket(moto_server, Unwell("PUT", 2)) as options:
        location = f"s3://{options.pop('bucket')}/t"
        rows = pa.table({"day": ["secret-value"], "x": [1]})
        write_deltalake(location, rows, storage_options=options, partition_by="day")
        _native.finish_background(10.0)
    spans = telemetry.finished()
    write = named(spans, "WRITE t")
    requests = [s for s in below(spans, write) if "http.request.method" in attributes(s)]
    assert requests == [s for s in spans if "http.request.method" in attributes(s)]
    failed = [s for s in requests if attributes(s).get("error.type") == "503"]
    assert len(failed) == 2
    assert not any(s.status.is_ok for s in failed)
    repeated = [
        attributes(s)["http.request.resend_count"] for s in requests if "http.request.resend_count" in attributes(s)
    ]
    assert sorted(repeated) in ([1, 2], [1, 1])
    assert all(s.kind.name == "CLIENT" for s in requests)
    # The commit's own request is a part of the commit.
    commit = named(spans, "commit")
    paths = [attributes(s)["url.full"] for s in children(spans, commit)]
    assert any(path.endswith("/_delta_log/00000000000000000000.json") for path in paths)
    data = [attributes(s) for s in requests if attributes(s)["url.full"].endswith(".parquet")]
    assert data
    assert all("day%3DREDACTED/" in said["url.full"] or "day=REDACTED/" in said["url.full"] for said in data)


def merged(table: DeltaTable) -> object:
    merge = table.merge(pa.table({"k": [1, 2000], "n": [5, 6]}), "t.k = s.k", "s", "t")
    return merge.when_matched_update_all().when_not_matched_insert_all().execute()


OPERATIONS: dict[str, Callable[[DeltaTable], object]] = {
    "OPEN": lambda table: DeltaTable(table.location, storage_options=table.storage_options),
    "DELETE": lambda table: table.delete("k % 7 = 3"),
    "UPDATE": lambda table: table.update({"n": "n + 1"}, predicate="k % 5 = 0"),
    "MERGE": merged,
    "OPTIMIZE": lambda table: table.optimize.compact(),
    "ALTER": lambda table: table.alter.set_table_properties({"delta.enableDeletionVectors": "true"}),
    "CHECKPOINT": lambda table: table.create_checkpoint(),
    "VACUUM": lambda table: table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False),
    "REPORT": lambda table: table.report(),
    "HISTORY": lambda table: table.history(),
    "PLAN": lambda table: table.files(),
    "SCAN": pa.table,
}


def test_every_request_is_a_span_of_the_operation_that_made_it(telemetry: Telemetry, moto_server: S3Server) -> None:
    seen: list[str] = []

    def serve(request: Request, ask: Callable[[], Answer]) -> Answer:
        seen.append(request.command)
        return ask()

    with bucket(moto_server, serve) as options:
        location = f"s3://{options.pop('bucket')}/t"
        for commit in range(2):
            rows = pa.table({"k": range(commit * 50, commit * 50 + 50), "n": range(50)})
            write_deltalake(location, rows, mode="append", storage_options=options)
        table = DeltaTable(location, storage_options=options)
        for name, run in OPERATIONS.items():
            _native.finish_background(10.0)
            telemetry.collect()
            seen.clear()
            telemetry.spans.clear()
            run(table)
            _native.finish_background(10.0)
            spans = telemetry.collect()
            (root,) = [s for s in spans if s.parent is None]
            requests = [s for s in below(spans, root) if s.kind.name == "CLIENT"]
            assert root.name == f"{name} t"
            assert sorted(seen) == sorted(s.name for s in requests), name
            assert seen or name == "PLAN", name


def test_no_span_has_credentials_queries_or_values(telemetry: Telemetry, moto_server: S3Server) -> None:
    with bucket(moto_server, Unwell("GET", 1)) as options:
        location = f"s3://{options.pop('bucket')}/t"
        options["AWS_SECRET_ACCESS_KEY"] = "secret-value"
        options["AWS_ACCESS_KEY_ID"] = "secret-value"
        write_deltalake(
            location, pa.table({"x": ["secret-value"], "n": [1]}), storage_options=options, partition_by="x"
        )
        table = DeltaTable(location, storage_options=options)
        assert table.to_pyarrow_table(filters="x = 'secret-value'").num_rows == 1
        table.alter.add_constraint({"c": "x = 'secret-value'"})
        with pytest.raises(ConstraintViolationError):
            write_deltalake(table, pa.table({"x": ["other-secret-value"], "n": [2]}), mode="append")
        deltaplane.sql(f"SELECT * FROM delta.`{location}` WHERE x = 'secret-value'", storage_options=options)
    spans = telemetry.finished()
    text = "\n".join(span.to_json() for span in spans)
    assert "secret-value" not in text
    assert "?" not in text
    refused = [s for s in spans if s.name == "WRITE t" and not s.status.is_ok]
    assert [attributes(s)["error.type"] for s in refused if "error.type" in attributes(s)] == ["ConstraintViolation"]
    assert not any(span.events for span in refused)


def test_requests_of_streams_and_of_threads_belong_to_their_own_operation(
    telemetry: Telemetry, moto_server: S3Server
) -> None:
    with bucket(moto_server, lambda _, ask: ask()) as options:
        name = options.pop("bucket")
        places = [f"s3://{name}/t{number}" for number in range(4)]
        for place in places:
            write_deltalake(place, pa.table({"x": [1, 2]}), storage_options=options)
        tables = [DeltaTable(place, storage_options=options) for place in places]
        telemetry.spans.clear()

        def read(table: DeltaTable) -> None:
            for _ in range(3):
                assert table.to_pyarrow_table().num_rows == 2

        threads = [threading.Thread(target=read, args=(table,)) for table in tables[:3]]
        reader = tables[3].to_reader()
        for thread in threads:
            thread.start()
        assert sum(batch.num_rows for batch in reader) == 2
        for thread in threads:
            thread.join()
    spans = telemetry.finished()
    scans = [s for s in spans if s.name.startswith("SCAN ")]
    assert len(scans) == 10
    for scan in scans:
        table = scan.name.removeprefix("SCAN ")
        urls = [attributes(s)["url.full"] for s in below(spans, scan) if "url.full" in attributes(s)]
        assert any(url.endswith(".parquet") for url in urls), scan.name
        assert all(f"/{table}/" in url or url.endswith(f"/{name}") for url in urls), urls


def test_a_lost_race_is_an_event_of_the_commit(telemetry: Telemetry, moto_server: S3Server) -> None:
    other: list[Callable[[], object]] = []

    def serve(request: Request, ask: Callable[[], Answer]) -> Answer:
        if request.command == "PUT" and request.path.endswith("00000000000000000001.json") and other:
            other.pop()()
        return ask()

    with bucket(moto_server, serve) as options:
        location = f"s3://{options.pop('bucket')}/t"
        write_deltalake(location, pa.table({"x": [1]}), storage_options=options)
        script = f"""
import pyarrow as pa, deltaplane
deltaplane.write_deltalake({location!r}, pa.table({{"x": [2]}}), mode="append", storage_options={options!r})
"""
        other.append(lambda: subprocess.run([sys.executable, "-c", script], check=True, timeout=60))
        telemetry.spans.clear()
        assert write_deltalake(location, pa.table({"x": [3]}), storage_options=options, mode="append").version == 2
    commit = named(telemetry.finished(), "commit")
    assert (attributes(commit)["deltaplane.commit.attempts"], attributes(commit)["deltaplane.commit.version"]) == (2, 2)
    assert [event.name for event in commit.events] == ["deltaplane.commit.lost_race"]
    assert commit.start_time is not None
    assert commit.end_time is not None
    assert commit.start_time <= commit.events[0].timestamp <= commit.end_time


def test_durations_are_histograms(telemetry: Telemetry, tmp_table: Callable[[], str], moto_server: S3Server) -> None:
    with bucket(moto_server, lambda _, ask: ask()) as options:
        write_deltalake(f"s3://{options.pop('bucket')}/t", pa.table({"x": [1]}), storage_options=options)
    with pytest.raises(deltaplane.DeltaError):
        DeltaTable(tmp_table())
    points = telemetry.points()
    by_operation = {dict(p.attributes)["db.operation.name"]: p for p in points["db.client.operation.duration"]}
    assert by_operation["WRITE"].count == 1
    assert dict(by_operation["OPEN"].attributes)["error.type"] == "TableNotFound"
    requests = points["http.client.request.duration"]
    assert {"PUT"} <= {dict(p.attributes)["http.request.method"] for p in requests}
    assert all(0 < p.sum < 60 and "url.full" not in p.attributes for p in requests)


def test_gauges_of_tables_are_those_of_prometheus(telemetry: Telemetry, tmp_table: Callable[[], str]) -> None:
    table, missing = tmp_table(), tmp_table()
    write_deltalake(table, pa.table({"x": [1, 2]}))
    deltaplane.observe_tables([DeltaTable(table), missing], meter_provider=telemetry.meter_provider, max_age=0)
    write_deltalake(table, pa.table({"x": [3]}), mode="append")
    shown = subprocess.run(
        [sys.executable, "-c", "from deltaplane.cli import main; main()", "metrics", table, missing],
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    points = telemetry.points()
    gauges = {
        (name.removeprefix("deltaplane.table."), dict(p.attributes)["table"]): p.value
        for name, series in points.items()
        if name.startswith("deltaplane.table.")
        for p in series
    }
    printed = {}
    for line in shown.splitlines():
        if not line.startswith("#"):
            series, value = line.rsplit(" ", 1)
            name, label = series.split('{table="')
            printed[name.removeprefix("deltaplane_table_"), label.removesuffix('"}')] = float(value)
    assert gauges.keys() == printed.keys()
    assert gauges["version", table] == 1
    assert gauges["up", missing] == 0
    assert all(value == printed[key] for key, value in gauges.items() if "age" not in key[0])


def test_figures_are_used_again_until_they_are_old(telemetry: Telemetry, tmp_table: Callable[[], str]) -> None:
    table = tmp_table()
    write_deltalake(table, pa.table({"x": [1]}))
    deltaplane.observe_tables([table], meter_provider=telemetry.meter_provider)
    for version in range(2):
        assert telemetry.points()["deltaplane.table.version"][0].value == 0, version
        write_deltalake(table, pa.table({"x": [1]}), mode="append")
    with pytest.raises(InvalidArgumentError, match="max_age"):
        deltaplane.observe_tables([table], max_age=-1)


# --- off ---


def test_nothing_is_imported_called_or_noted_when_it_is_off(moto_server: S3Server) -> None:
    with bucket(moto_server, lambda _, ask: ask()) as options:
        location = f"s3://{options.pop('bucket')}/t"
        # Counts calls of the tracing module's context managers, and what the core notes.
        script = f"""
import sys
import pyarrow as pa, deltaplane
from deltaplane import _native
calls = []
def count(frame, event, argument):
    if event == "call" and ("opentelemetry" in frame.f_code.co_filename or "telemetry" in frame.f_code.co_filename):
        calls.append(frame.f_code)
sys.setprofile(count)
deltaplane.write_deltalake({location!r}, pa.table({{"x": [1]}}), storage_options={options!r})
table = deltaplane.DeltaTable({location!r}, storage_options={options!r})
table.delete("x = 2"), table.to_pyarrow_table()
sys.setprofile(None)
_native.finish_background(10.0)
loaded = [name for name in sys.modules if "telemetry" in name]
print(loaded, calls, _native.take_traced_work())
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[] [] []", "")


@pytest.mark.parametrize(("value", "on"), [("true", True), ("1", True), ("false", False), ("0", False), ("", False)])
def test_the_environment_switches_it_on(value: str, on: bool) -> None:
    script = "import sys, deltaplane; print('opentelemetry.trace' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        env={**__import__("os").environ, "DELTAPLANE_OPENTELEMETRY": value},
    )
    assert (done.stdout.strip(), done.stderr) == (str(on), "")


def test_another_value_of_the_variable_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgumentError, match="DELTAPLANE_OPENTELEMETRY is true or false, not perhaps"):
        enable_by_environment("perhaps")


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ImportError, match=r"pip install 'deltaplane\[otel\]'"):
        deltaplane.enable_opentelemetry()
    assert tracing.observer() is None
