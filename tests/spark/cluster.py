"""Owns a standalone Spark cluster on loopback: a master and workers, each a process group that can be killed by its pid.

Knows nothing of deltaplane but that tasks need its package. Used by `test_cluster.py`.
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
_QUICK = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


def _spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def environment() -> dict[str, str]:
    """What all processes of the cluster and its driver share."""
    package = str(Path(__file__).resolve().parents[2] / "python")
    return {
        **os.environ,
        "SPARK_HOME": str(_spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # A worker would look for it in a checkout of Spark.
        "SPARK_SCALA_VERSION": "2.13",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")]),
    }


@dataclass
class Process:
    """One JVM with all that it starts."""

    popen: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def said(self, pattern: str) -> str:
        """What its log holds by a pattern, once it does."""
        deadline = time.monotonic() + SECONDS
        while (found := re.search(pattern, self.log.read_text())) is None:
            assert self.popen.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)
        return found[1]


def _start(log: Path, main: str, *arguments: str) -> Process:
    command = ["java", *_QUICK, "-cp", f"{_spark_home()}/jars/*", f"org.apache.spark.deploy.{main}", *arguments]
    with log.open("wb") as out:
        popen = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=environment(), cwd=log.parent, start_new_session=True
        )
    return Process(popen, log)


@dataclass
class Cluster:
    """Where the master listens, and the workers, of one core each."""

    url: str
    workers: list[Process]


@contextmanager
def cluster(scratch: Path, workers: int) -> Iterator[Cluster]:
    """A cluster for a block."""
    listen = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    started = [_start(scratch / "master.log", "master.Master", *listen)]
    try:
        url = started[0].said(r"Starting Spark master at (\S+)")
        # Port 0 stands in that line; the one that the system chose follows.
        port = started[0].said(r"Successfully started service 'sparkMaster' on port (\d+)")
        url = re.sub(r":\d+$", f":{port}", url)
        for n in range(workers):
            place = ["--cores", "1", "--memory", "1g", "--work-dir", str(scratch / f"work-{n}")]
            started.append(_start(scratch / f"worker-{n}.log", "worker.Worker", *listen, *place, url))
        for worker in started[1:]:
            worker.said(r"(Successfully registered) with master")
        yield Cluster(url, started[1:])
    finally:
        for process in started:
            process.kill()
