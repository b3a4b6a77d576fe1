"""A real HDFS on loopback: NameNode and DataNode of Hadoop's mini cluster, from one jar and
pyspark's jars."""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.request
from pathlib import Path

# The version of pyspark 4.2's client jars.
HADOOP = "3.5.0"
JAR = f"hadoop-client-minicluster-{HADOOP}.jar"
SHA512 = (
    "0f97b282f6af3f8cb2bed25645a091c0c4ee3e8892ca30701f131c8251f1fe12"
    "9e6df67c86007de464724c73154ad08d70b6aa9c58e4e813b7ff1bc3502d8586"
)
URL = f"https://repo1.maven.org/maven2/org/apache/hadoop/hadoop-client-minicluster/{HADOOP}/{JAR}"
FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "hadoop"
LAUNCHER = Path(__file__).with_name("HdfsServer.java")
FETCH_SECONDS = 300
CHUNK_BYTES = 1 << 20
# Set by HdfsServer.java, so that a listing with several pages is short.
LISTED_AT_ONCE = 100


def jar() -> Path:
    """The mini cluster's jar; raises FileNotFoundError with the command to run if it is missing."""
    path = FOLDER / JAR
    if not path.is_file():
        raise FileNotFoundError(f"no {JAR} under {FOLDER}: run `make servers`")
    return path


def fetch() -> None:
    """Downloads the jar; it gets its name when it is complete and its hash is right."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=FOLDER, suffix=".part") as arriving:
        digest = hashlib.sha512()
        with urllib.request.urlopen(URL, timeout=FETCH_SECONDS) as response:
            while chunk := response.read(CHUNK_BYTES):
                digest.update(chunk)
                arriving.write(chunk)
        arriving.flush()
        if digest.hexdigest() != SHA512:
            raise SystemExit(f"{URL} has the checksum {digest.hexdigest()}, not {SHA512}")
        os.link(arriving.name, FOLDER / JAR)


def command(folder: Path, *, name_nodes: int = 1) -> list[str]:
    """The command for a new file system that stores its files in a folder, and prints the ports of
    its NameNodes."""
    import pyspark

    shipped = Path(pyspark.__file__).parent / "jars"
    wanted = (f"hadoop-client-api-{HADOOP}", f"hadoop-client-runtime-{HADOOP}", "slf4j-api-*", "jcl-over-slf4j-*")
    jars = [jar(), *(jar_file for name in wanted for jar_file in shipped.glob(f"{name}.jar"))]
    return [
        "java",
        "-Xmx512m",
        "-cp",
        os.pathsep.join(map(str, jars)),
        str(LAUNCHER),
        str(folder),
        *["two"][: name_nodes - 1],
    ]


if __name__ == "__main__":
    if not (FOLDER / JAR).is_file():
        fetch()
