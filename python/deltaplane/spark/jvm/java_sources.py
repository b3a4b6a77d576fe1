"""Small classes in Java's text, which the compiler that Spark ships makes of it in the running JVM.

They are what Python can't be for Spark, whose objects there implement interfaces only, and what
would take many calls from Python. They know no table. Compiled by `deltaplane.spark.jvm.internals`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources

__all__ = ["COMPILER", "FRAMES", "RULE", "sources"]

COMPILER = "org.codehaus.janino.SimpleCompiler"

RULE = "deltaplane.PrepareScans"
FRAMES = "deltaplane.Frames"
# Each may name those before it.
_CLASSES = (
    "deltaplane.ScanFormat",
    "deltaplane.Found",
    "deltaplane.Kept",
    "deltaplane.Refused",
    "deltaplane.DeltaplaneFileIndex",
    "deltaplane.Followed",
    "deltaplane.HiddenMetadata",
    "deltaplane.Batches",
    "deltaplane.Relations",
    "deltaplane.Statements",
    "deltaplane.Views",
    "deltaplane.Catalogs",
    RULE,
    FRAMES,
)


def sources() -> Iterator[tuple[str, str]]:
    """The classes' names and texts, in the order in which they are compiled."""
    folder = resources.files(__package__) / "java"
    for name in _CLASSES:
        yield name, (folder / f"{name.rpartition('.')[2]}.java").read_text("utf-8")
