"""The options of every JVM that the tests start: these mostly load classes, so optimizations for
long runs are disabled.

Independent of Spark. `conftest` sets them once; every `java` launcher reads them.
"""

from __future__ import annotations

import os
from pathlib import Path

# The output of class_archive.py.
ARCHIVE = Path(__file__).resolve().parents[1] / ".cache" / "jvm" / "spark.jsa"
QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    # With only the first compiler level, Java reserves 48 MB for code; Spark needs more, and code
    # was evicted and compiled again.
    " -XX:ReservedCodeCacheSize=240m"
    # Memory for the classes and for a query's garbage, so that fewer collections run.
    " -XX:MetaspaceSize=256m -XX:NewRatio=1 -XX:InitialRAMPercentage=6"
)


def start_quickly(more: str = "") -> None:
    """Sets the options for this process and all its children; a command line's own options take
    precedence."""
    # A JVM of another version ignores the archive silently.
    archive = f' "-XX:SharedArchiveFile={ARCHIVE}" -Xlog:disable' if ARCHIVE.exists() else ""
    if QUICK not in os.environ.get("JDK_JAVA_OPTIONS", ""):
        os.environ["JDK_JAVA_OPTIONS"] = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {QUICK}{archive} {more}".strip()
