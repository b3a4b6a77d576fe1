"""The client of `spark_worker.py`: starts it, sends requests, stops it.

Independent of deltaplane and of the comparisons. Tests use it through the fixture `delta_spark`.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from interop.jars import delta_jars

# A session starts in 10 to 40 s on a busy machine; the longest command of the tests takes a
# fraction of this limit.
ANSWER_SECONDS = 300
STOP_SECONDS = 20


class DeltaSparkError(Exception):
    """An error of delta-spark, with its text."""


class DeltaSpark:
    """delta-spark in a separate process. `settings` are added to the session's."""

    def __init__(self, scratch: Path, settings: Mapping[str, str] | None = None) -> None:
        self._scratch = scratch
        self._log = scratch / "log"
        self._files = 0
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        command = [sys.executable, str(Path(__file__).with_name("spark_worker.py"))]
        command += [",".join(map(str, delta_jars())), str(scratch), json.dumps(dict(settings or {}))]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=scratch,
                env=environment,
                start_new_session=True,
            )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            self._answer()
        except DeltaSparkError:
            self.stop()
            raise

    def read(self, table: str, version: int | None = None) -> pa.Table:
        """All rows of a version."""
        return self._rows("read", table=table, version=version)

    def counts(self, table: str, conditions: Sequence[str]) -> list[int]:
        """The number of rows that match each condition, evaluated on every row of the table."""
        return self._ask("counts", table=table, conditions=list(conditions))

    def counts_skipping(self, table: str, conditions: Sequence[str]) -> list[int]:
        """The same numbers, with a query for each condition, which skips files by their
        statistics."""
        return self._ask("counts_skipping", table=table, conditions=list(conditions))

    def files_read(self, table: str, condition: str) -> int:
        """The number of files that a query opens."""
        return self._ask("files_read", table=table, condition=condition)

    def sql(self, text: str) -> pa.Table:
        """The result of a statement."""
        return self._rows("sql", text=text)

    def execute(self, text: str) -> None:
        """Runs a statement and ignores its result."""
        self._ask("execute", text=text)

    def changes(self, table: str, options: Mapping[str, str]) -> int:
        """The number of rows in the change feed."""
        return self._ask("changes", table=table, options=dict(options))

    def stream(self, table: str, options: Mapping[str, str], checkpoint: str) -> int:
        """The number of rows that one run of a streaming query reads from its checkpoint on."""
        return self._ask("stream", table=table, options=dict(options), checkpoint=checkpoint)

    @contextmanager
    def settings(self, settings: Mapping[str, str]) -> Iterator[None]:
        """A block with these session settings."""
        try:
            for key, value in settings.items():
                self.execute(f"SET {key} = {value}")
            yield
        finally:
            for key in settings:
                self.execute(f"RESET {key}")

    def write(
        self,
        table: str,
        rows: pa.Table,
        mode: str = "append",
        partition_by: Sequence[str] = (),
        **options: str,
    ) -> None:
        """Writes rows in one commit; `options` are the DataFrame writer's."""
        source = self._file()
        with pa.OSFile(str(source), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        self._ask("write", source=str(source), table=table, mode=mode, partition_by=list(partition_by), options=options)
        source.unlink()

    def checkpoint(self, table: str) -> None:
        """Writes a checkpoint of the newest version."""
        self._ask("checkpoint", table=table)

    def snapshot(self, table: str) -> Mapping[str, Any]:
        """`version`, `num_files` and `protocol` (reader, writer) of the newest version."""
        return self._ask("snapshot", table=table)

    def checksum(self, table: str) -> Mapping[str, bool]:
        """Whether the newest version has a checksum (`there`), and whether it equals delta-spark's
        state (`sound`)."""
        return self._ask("checksum", table=table)

    def transaction_version(self, table: str, app_id: str) -> int | None:
        """The last version that an application committed."""
        return self._ask("transaction_version", table=table, app_id=app_id)

    def stop(self) -> None:
        """Ends the worker and its JVM."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            # The worker has its own process group: the signal reaches it and its JVM, no other
            # process.
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(timeout=STOP_SECONDS)

    def _rows(self, command: str, **arguments: Any) -> pa.Table:
        out = self._file()
        self._ask(command, out=str(out), **arguments)
        with pa.memory_map(str(out)) as file:
            rows = pa.ipc.open_file(file).read_all()
        out.unlink()
        return rows

    def _file(self) -> Path:
        self._files += 1
        return self._scratch / f"{self._files}.arrow"

    def _ask(self, command: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        print(json.dumps({"command": command, **arguments}), file=self._process.stdin, flush=True)
        return self._answer()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _answer(self) -> Any:
        try:
            line = self._answers.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            raise DeltaSparkError(f"no answer in {ANSWER_SECONDS} s; its log:\n{self._tail()}") from None
        if not line:
            raise DeltaSparkError(f"the worker ended; its log:\n{self._tail()}")
        answer = json.loads(line)
        if "error" in answer:
            raise DeltaSparkError(f"{answer['error']}\n{answer['trace']}")
        return answer["result"]

    def _tail(self) -> str:
        return self._log.read_text()[-4000:]
