"""Owns how every JVM that the tests start runs: each mostly loads classes, so what serves longer
runs is off.

Knows nothing of Spark. `conftest` sets it once; the `java` launcher reads it, whoever calls that.
"""

from __future__ import annotations

import os
from pathlib import Path

# What class_archive.py makes.
ARCHIVE = Path(__file__).resolve().parents[1] / ".cache" / "jvm" / "spark.jsa"
QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    # With the first level alone, Java makes room for 48 MB of code; Spark has more, which was
    # thrown out and compiled again.
    " -XX:ReservedCodeCacheSize=240m"
    # Room for the classes and for what a query leaves: fewer collections of garbage.
    " -XX:MetaspaceSize=256m -XX:NewRatio=1 -XX:InitialRAMPercentage=6"
)


def start_quickly(more: str = "") -> None:
    """For this process and all that it starts; what a command line says goes before it."""
    # A JVM that the archive doesn't fit says nothing and does without.
    archive = f' "-XX:SharedArchiveFile={ARCHIVE}" -Xlog:disable' if ARCHIVE.exists() else ""
    if QUICK not in os.environ.get("JDK_JAVA_OPTIONS", ""):
        os.environ["JDK_JAVA_OPTIONS"] = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {QUICK}{archive} {more}".strip()
