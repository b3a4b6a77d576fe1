"""The test-only delta-spark jars: their names, a single download, and their location.

Uses Ivy from pyspark, so that only Java 17 and the locked Python packages are needed; independent
of tables.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

DELTA_VERSION = "4.4.0"
SPARK_SCALA = "4.2_2.13"
# All jars that delta-spark loads beyond pyspark's class path.
ARTIFACTS = (
    f"delta-spark_{SPARK_SCALA}",
    "delta-storage",
    "delta-kernel-api",
    "delta-kernel-defaults",
    "delta-kernel-unitycatalog",
)
# The delta-spark of Spark 3.5, which reads what Sparks write (tests/spark_versions).
FOR_SPARK_3 = ("3.3.2", ("delta-spark_2.12", "delta-storage"))
CACHE = Path(__file__).resolve().parents[2] / ".cache"
# Ivy has no timeout of its own.
FETCH_SECONDS = 600

IVY_XML = """<ivy-module version="2.0">
  <info organisation="deltaplane" module="interop"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""


def delta_jars(version: str = DELTA_VERSION, artifacts: Sequence[str] = ARTIFACTS) -> list[Path]:
    """The jars for `spark.jars`; raises FileNotFoundError with the command to run if they are
    missing."""
    jars = [CACHE / "jars" / f"{artifact}-{version}.jar" for artifact in artifacts]
    missing = [jar.name for jar in jars if not jar.is_file()]
    if missing:
        raise FileNotFoundError(f"no {', '.join(missing)} under {CACHE / 'jars'}: run `make jars`")
    return jars


def fetch(version: str = DELTA_VERSION, artifacts: Sequence[str] = ARTIFACTS) -> None:
    """Downloads missing jars; they get their final names only when all have arrived."""
    java = shutil.which("java")
    if java is None:
        raise SystemExit(
            "no `java` on PATH: the Spark tests need Java 17 (Debian: apt-get install openjdk-17-jre-headless)"
        )
    import pyspark

    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    with tempfile.TemporaryDirectory(dir=_made(CACHE)) as work:
        module = Path(work) / "ivy.xml"
        module.write_text(
            IVY_XML.format(dependencies="".join(_dependency(artifact, version) for artifact in artifacts))
        )
        arriving = Path(work) / "jars"
        command = [java, "-cp", str(ivy), "org.apache.ivy.Main", "-warn", "-ivy", str(module), "-confs", "default"]
        command += ["-cache", f"{work}/ivy", "-retrieve", f"{arriving}/[artifact]-[revision].[ext]"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_SECONDS)
        arrived = {jar.name for jar in arriving.glob("*.jar")}
        wanted = {f"{artifact}-{version}.jar" for artifact in artifacts}
        if done.returncode != 0 or arrived != wanted:
            raise SystemExit(f"Ivy did not fetch {sorted(wanted - arrived)}:\n{(done.stdout + done.stderr)[-4000:]}")
        for jar in sorted(arriving.glob("*.jar")):
            shutil.move(jar, _made(CACHE / "jars") / jar.name)


def _dependency(artifact: str, version: str) -> str:
    conf = "default->master"
    return f'<dependency org="io.delta" name="{artifact}" rev="{version}" conf="{conf}" transitive="false"/>'


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    try:
        delta_jars()
    except FileNotFoundError:
        fetch()
    print(",".join(map(str, delta_jars())), file=sys.stdout)
