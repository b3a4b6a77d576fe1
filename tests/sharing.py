"""Says which tests one worker of pytest-xdist runs, in turn: those that share a JVM, else those of
one file.

A JVM takes ten seconds to start and minutes to get quick, so that each kind is started by one
worker alone. Told by where a test stands, since the process that hands the tests out knows their
names and no more; the workers check that it is right.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdist.scheduler import LoadScopeScheduling

# By what a test's name begins with; the longest decides. A session of Spark, and one in a process
# of its own.
_PLACES = {
    "tests/": "",
    "tests/interop/": "delta_spark",
    "tests/benches/test_measures.py": "spark",
    "tests/crash/test_stream_steps.py": "spark",
    "tests/expr/": "spark",
    "tests/spark/": "spark",
    "tests/spark/sessions/test_cluster.py": "",
    "tests/spark/sessions/test_connect.py": "",
    "tests/sql/": "spark",
    "tests/stores/test_hdfs.py": "spark",
    "tests/test_doctests.py": "spark",
}
# Fixtures that start a JVM, and where else tests may ask for them.
_JVMS = {"delta_spark": {"delta_spark"}, "spark": {"spark", "delta_spark"}}
# Long files that need no shared JVM begin before the short ones, so that none is left alone at the
# end.
_LONG = ("tests/stores/", "tests/crash/", "tests/robustness/", "tests/spark/", "tests/browser/", "tests/structure/")


class ByJvm(LoadScopeScheduling):
    """Hands out all tests of a JVM at once, and the others file by file."""

    def _split_scope(self, nodeid: str) -> str:
        return _jvm(nodeid) or nodeid.split("::")[0]


def ordered(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The longest work first: what one worker has to do alone bounds the whole run.

    Raises:
        pytest.UsageError: where a test needs a JVM that its worker wouldn't have.
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
