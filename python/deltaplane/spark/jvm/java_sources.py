"""Small classes as Java source text, compiled in the running JVM by the compiler that Spark ships.

They extend Spark classes, which Python objects can't do since py4j supports only interfaces, or
replace many calls from Python by one. They don't access tables. `deltaplane.spark.jvm.internals`
compiles them.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources

__all__ = ["COMPILER", "FRAMES", "RULE", "sources"]

COMPILER = "org.codehaus.janino.SimpleCompiler"

RULE = "deltaplane.PrepareScans"
FRAMES = "deltaplane.Frames"
# Each class may use those before it.
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
