"""The fixture that provides delta-spark for the interop tests, once per run.

Independent of the tests.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.delta_spark import DeltaSpark


@pytest.fixture(scope="session")
def delta_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeltaSpark]:
    """delta-spark in a process of its own, one for the whole run."""
    worker = DeltaSpark(tmp_path_factory.mktemp("delta-spark"))
    yield worker
    worker.stop()
