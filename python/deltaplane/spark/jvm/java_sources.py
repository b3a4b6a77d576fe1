"""Small classes as Java source text, compiled in the running JVM by the compiler that Spark ships.

They extend Spark classes, which Python objects can't do since py4j supports only interfaces, or
replace many calls from Python by one. They don't access tables. `deltaplane.spark.jvm.internals`
compiles them.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources

from deltaplane.spark.jvm.spark_versions import for_version, generation

__all__ = ["COMPILER", "FRAMES", "OF_VERSION", "RULE", "sources"]

COMPILER = "org.codehaus.janino.SimpleCompiler"

RULE = "deltaplane.PrepareScans"
FRAMES = "deltaplane.Frames"
# Classes that exist once for each generation of Spark, with the same methods.
OF_VERSION = ("deltaplane.Scala", "deltaplane.Columns", "deltaplane.AnalyzerRules")
# Each class may use those before it.
_CLASSES = (
    *OF_VERSION,
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
    RULE,
    "deltaplane.Catalogs",
    FRAMES,
)


def sources(version: str) -> Iterator[tuple[str, str]]:
    """The classes' names and texts for a version of Spark, in the order in which they are
    compiled."""
    folder = resources.files(__package__) / "java"
    for name in _CLASSES:
        place = folder / generation(version) if name in OF_VERSION else folder
        yield name, for_version((place / f"{name.rpartition('.')[2]}.java").read_text("utf-8"), version)
