"""Object stores' servers on this machine behind the delaying proxy, and tables in them.

The servers are those of the tests (`make servers`): versitygw for S3, Azurite for Azure. One of
each is started in a process, at its first use.
"""

from __future__ import annotations

import atexit
import functools
import sys
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support.delaying_proxy import DelayingProxy

TESTS = Path(__file__).resolve().parents[2] / "tests"
BUCKET = "bench"
UPLOADS_AT_ONCE = 8


@dataclass(frozen=True)
class RemoteStore:
    """A server with an empty bucket. `options` lead through the proxy, `direct` around it."""

    proxy: DelayingProxy
    root: str
    options: Mapping[str, str]
    direct: Mapping[str, str]

    def upload(self, folder: Path) -> str:
        """Copies a local table to a new place; returns its location. Older log files first, so that
        their times are in order."""
        from deltaplane import _native

        location = f"{self.root}/{folder.name}-{uuid.uuid4().hex[:12]}"
        store = _native.RawStore.open(location, self.direct)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        logs = [path for path in files if "_delta_log" in path.parts]

        def put(path: Path) -> None:
            store.put(path.relative_to(folder).as_posix(), path.read_bytes())

        with ThreadPoolExecutor(UPLOADS_AT_ONCE) as pool:
            list(pool.map(put, sorted(set(files) - set(logs))))
            list(pool.map(put, logs))
        return location


@functools.cache
def remote_store(kind: str) -> RemoteStore:
    """The process's store of this kind: S3 or Azure.

    Raises:
        FileNotFoundError: the server isn't installed.
    """
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    from stores.servers import azurite, versitygw

    stack = ExitStack()
    atexit.register(stack.close)
    scratch = Path(stack.enter_context(TemporaryDirectory(prefix="object-store-")))
    server: Any = stack.enter_context({"S3": versitygw, "Azure": azurite}[kind](scratch))
    server.make_bucket(BUCKET)
    proxy = DelayingProxy(server.endpoint)
    endpoint = {"S3": "AWS_ENDPOINT_URL", "Azure": "AZURE_STORAGE_ENDPOINT"}[kind]
    through = server.options[endpoint].replace(_authority(server.endpoint), _authority(proxy.endpoint))
    return RemoteStore(proxy, server.bucket(BUCKET), {**server.options, endpoint: through}, server.options)


def _authority(url: str) -> str:
    return url.split("://", 1)[1].split("/", 1)[0]
