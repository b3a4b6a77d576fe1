"""A Hive metastore from the jars that PySpark ships, over a Derby database in memory, and a TCP
forwarder that can cut the way to it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from stores.servers import told_its_port


@contextmanager
def hive_metastore(scratch: Path) -> Iterator[str]:
    """The `thrift://` address of a metastore whose warehouse is a directory of `scratch`."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    jars = Path(spec.origin).parent / "jars"
    settings = {
        "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(scratch / "warehouse"),
        "hive.async.log.enabled": "false",
        # PySpark ships no pool for the connections by which a dropped database's locks are removed.
        "datanucleus.connectionPoolingType": "none",
    }

    def command(port: int) -> list[str]:
        service = "org.apache.hadoop.hive.metastore.HiveMetaStore"
        log = f"-Dderby.stream.error.file={scratch / 'derby.log'}"
        java = ["java", "-Xmx512m", "-cp", f"{jars}/*", "-Dhive.async.log.enabled=false", log, service, "-p", str(port)]
        return [*java, *(part for key, value in settings.items() for part in ("--hiveconf", f"{key}={value}"))]

    with told_its_port(command, scratch / "metastore.log") as address:
        yield address.replace("http://", "thrift://")


class Forwarder:
    """Passes bytes between its own port and another one, until it is cut."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.uri = f"thrift://127.0.0.1:{self._listening.getsockname()[1]}"
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """From now on connections are refused."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.create_connection(self._target)
            threading.Thread(target=_both_ways, args=(client, server), daemon=True).start()


def _both_ways(client: socket.socket, server: socket.socket) -> None:
    with client, server:
        answers = threading.Thread(target=_pass_on, args=(server, client), daemon=True)
        answers.start()
        _pass_on(client, server)
        answers.join()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
