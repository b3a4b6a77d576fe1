"""Groups the tests that one worker of pytest-xdist runs in order: those that share a JVM, otherwise
those of one file.

A JVM takes ten seconds to start and minutes to become fast, so each kind is started by one worker
only. The test's path determines the kind, since the scheduling process knows only names; the
workers verify it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdist.scheduler import LoadScopeScheduling

# The kind by the beginning of a test's path; the longest match applies. Kinds are a Spark session,
# and one in a separate process.
_PLACES = {
    "tests/": "",
    "tests/interop/": "delta_spark",
    # A metastore and a session with it, in processes of their own, which one worker starts.
    "tests/catalog/hive/": "delta_spark",
    "tests/catalog/spark/": "spark",
    "tests/benches/test_measures.py": "spark",
    "tests/crash/test_stream_steps.py": "spark",
    # These need Spark alone. The worker that has delta-spark's process has time left for a second
    # session, so the longest group gets shorter.
    "tests/expr/": "delta_spark",
    "tests/spark/": "spark",
    "tests/spark/sessions/test_cluster.py": "",
    "tests/spark/sessions/test_connect.py": "",
    "tests/sql/": "delta_spark",
    "tests/stores/test_hdfs.py": "spark",
    "tests/test_doctests.py": "spark",
}
# Fixtures that start a JVM, and the kinds of tests that may request them.
_JVMS = {"delta_spark": {"delta_spark"}, "spark": {"spark", "delta_spark"}}
# Long files without a shared JVM start before the short ones, so that no long one runs alone at the
# end.
_LONG = ("tests/stores/", "tests/crash/", "tests/robustness/", "tests/spark/", "tests/browser/", "tests/structure/")


class ByJvm(LoadScopeScheduling):
    """Schedules all tests of a JVM together, and the others file by file."""

    def _split_scope(self, nodeid: str) -> str:
        return _jvm(nodeid) or nodeid.split("::")[0]


def ordered(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The longest groups first: the largest group of one worker bounds the whole run.

    Raises:
        pytest.UsageError: a test needs a JVM that its worker doesn't have.
    """
    for item in items:
        for fixture, fit in _JVMS.items():
            if fixture in getattr(item, "fixturenames", ()) and _jvm(item.nodeid) not in fit:
                raise pytest.UsageError(f"{item.nodeid} needs `{fixture}`: tests/sharing.py must say so")
    return sorted(items, key=_turn)


def _turn(item: pytest.Item) -> int:
    if jvm := _jvm(item.nodeid):
        return list(_JVMS).index(jvm)
    return 2 if item.nodeid.startswith(_LONG) else 3


def _jvm(nodeid: str) -> str:
    return _PLACES[max((place for place in _PLACES if nodeid.startswith(place)), key=len)]
