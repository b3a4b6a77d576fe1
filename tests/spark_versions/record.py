"""Tries the features on each Spark, has each one and delta-spark read what each one wrote, and
writes docs/sparks.json: `python -m spark_versions.record [VERSION…]` (`make record-sparks`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "docs" / "sparks.json"
# The development environment's Spark; the others come before it on the path.
OWN = "4.2"
SPARKS = ("3.5", "4.0", "4.1", OWN, "4.3")
SECONDS = 900


def _on(version: str, *arguments: str) -> Any:
    """The JSON that a module prints on a version of Spark."""
    places = (
        [str(ROOT / "tests")] if version == OWN else [str(ROOT / ".cache" / "sparks" / version), str(ROOT / "tests")]
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*places, os.environ.get("PYTHONPATH", "")])}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-m", *arguments], env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    if done.returncode != 0:
        raise SystemExit(f"Spark {version}, {arguments[0]}:\n{done.stderr[-6000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def record(scratch: Path, sparks: Sequence[str]) -> dict[str, Any]:
    """The record: each Spark's features, and who read what."""
    tried = {version: _on(version, "spark_versions.features", str(scratch / version)) for version in sparks}
    tables = [str(scratch / version / f"written by {version}") for version in sparks]
    expected: Any = None
    readers = []
    for engine, version in (*(("deltaplane", version) for version in sparks), ("delta-spark", "3.5")):
        rows = _on(version, "spark_versions.tables", engine, str(scratch / version), *tables)
        expected = expected or rows[Path(tables[0]).name]
        assert len(expected) == 10, expected
        different = [name for name, own in rows.items() if own != expected]
        assert not different, f"{engine} on Spark {version} reads other rows: {different}"
        readers.append(engine if engine == "delta-spark" else version)
    return {"sparks": [tried[version] for version in sparks], "tables_read_by": readers}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        RECORD.write_text(
            json.dumps(record(Path(folder), sys.argv[1:] or SPARKS), indent=1, ensure_ascii=False) + "\n",
            encoding="utf-8",
        )
