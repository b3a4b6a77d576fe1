"""The jars by which Spark reads and writes S3: hadoop-aws of PySpark's Hadoop, and the parts of the
AWS library that it uses, 13 MB in place of the 686 MB of `bundle`.

Fetches them once; what they need beyond these (Netty, Apache's HTTP client, SLF4J) pyspark ships.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path

PINNED = Path(__file__).parents[1] / "pinned" / "hadoop-aws.sha256"
CACHE = Path(__file__).resolve().parents[3] / ".cache" / "hadoop-aws"
CENTRAL = "https://repo1.maven.org/maven2"
SECONDS = 120


def pinned() -> dict[str, tuple[str, str]]:
    """Each jar's file name → its address and SHA-256."""
    jars = {}
    for line in PINNED.read_text().splitlines():
        digest, coordinates = line.split()
        group, artifact, version = coordinates.split(":")
        name = f"{artifact}-{version}.jar"
        jars[name] = f"{CENTRAL}/{group.replace('.', '/')}/{artifact}/{version}/{name}", digest
    return jars


def hadoop_aws_jars() -> list[Path]:
    """The jars for `spark.driver.extraClassPath`; raises FileNotFoundError with the command to run
    if they are missing."""
    jars = [CACHE / name for name in pinned()]
    missing = [jar.name for jar in jars if not jar.is_file()]
    if missing:
        raise FileNotFoundError(f"no {', '.join(missing)} under {CACHE}: run `make hadoop-aws`")
    return jars


def address(endpoint: str) -> dict[str, str]:
    """An endpoint as Hadoop's settings: without a scheme, as Hadoop's page writes it."""
    return {
        "spark.hadoop.fs.s3a.endpoint": endpoint.removeprefix("http://"),
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
    }


def hadoops(options: Mapping[str, str]) -> dict[str, str]:
    """A store's options as Hadoop's settings."""
    return {
        **address(options["AWS_ENDPOINT_URL"]),
        "spark.hadoop.fs.s3a.access.key": options["AWS_ACCESS_KEY_ID"],
        "spark.hadoop.fs.s3a.secret.key": options["AWS_SECRET_ACCESS_KEY"],
    }


def fetch() -> None:
    """Downloads missing jars; each gets its name once its checksum is right."""
    CACHE.mkdir(parents=True, exist_ok=True)
    for name, (address, digest) in pinned().items():
        if (CACHE / name).is_file():
            continue
        with tempfile.NamedTemporaryFile(dir=CACHE, delete=False) as arriving:
            with urllib.request.urlopen(address, timeout=SECONDS) as answer:
                shutil.copyfileobj(answer, arriving)
        content = Path(arriving.name)
        if hashlib.sha256(content.read_bytes()).hexdigest() != digest:
            content.unlink()
            raise SystemExit(f"{address} isn't the pinned file: its checksum differs")
        content.rename(CACHE / name)


if __name__ == "__main__":
    fetch()
