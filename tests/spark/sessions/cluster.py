"""A standalone Spark cluster on loopback: a master and workers, each a process group that can be
killed by its pid.

Independent of deltaplane, except that tasks need its package.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SECONDS = 120
_LISTEN = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]


def _spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def environment() -> dict[str, str]:
    """The environment of all processes of the cluster and its driver."""
    package = str(Path(__file__).resolve().parents[3] / "python")
    return {
        **os.environ,
        "SPARK_HOME": str(_spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Otherwise a worker looks for it in a checkout of Spark.
        "SPARK_SCALA_VERSION": "2.13",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")]),
    }


@dataclass
class Process:
    """One JVM with its child processes."""

    popen: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def said(self, pattern: str) -> str:
        """Waits until the log matches a pattern; returns the group."""
        deadline = time.monotonic() + SECONDS
        while (match := re.search(pattern, self.log.read_text())) is None:
            assert self.popen.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)
        return match[1]


def _start(log: Path, main: str, *arguments: str) -> Process:
    command = ["java", "-Xmx256m", "-cp", f"{_spark_home()}/jars/*", f"org.apache.spark.deploy.{main}", *arguments]
    with log.open("wb") as out:
        popen = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=environment(), cwd=log.parent, start_new_session=True
        )
    return Process(popen, log)


@dataclass
class Cluster:
    """The master's address, and the workers, with one core each."""

    url: str
    workers: list[Process]
    _scratch: Path
    _started: int = 0

    def add_worker(self) -> None:
        """Starts another worker."""
        self._started += 1
        place = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._scratch / f"work-{self._started}")]
        worker = _start(self._scratch / f"worker-{self._started}.log", "worker.Worker", *_LISTEN, *place, self.url)
        self.workers.append(worker)

    def lose(self, pid: int) -> None:
        """Kills the worker with this process id, with its executors, and starts another one."""
        (lost,) = (worker for worker in self.workers if worker.popen.pid == pid)
        lost.kill()
        self.workers.remove(lost)
        self.add_worker()


@contextmanager
def cluster(scratch: Path, workers: int) -> Iterator[Cluster]:
    """Runs a cluster during a block."""
    master = _start(scratch / "master.log", "master.Master", *_LISTEN)
    running = Cluster("", [], scratch)
    try:
        url = master.said(r"Starting Spark master at (\S+)")
        # The first line of the log shows port 0; the port that the system chose follows.
        port = master.said(r"Successfully started service 'sparkMaster' on port (\d+)")
        running.url = re.sub(r":\d+$", f":{port}", url)
        for _ in range(workers):
            running.add_worker()
        for worker in running.workers:
            worker.said(r"(Successfully registered) with master")
        yield running
    finally:
        for process in [master, *running.workers]:
            process.kill()
