"""The record of docs/which-spark.md is one of these features, and the page is made of it."""

from __future__ import annotations

import json
import subprocess
import sys

from deltaplane.spark.jvm.spark_versions import SUPPORTED
from spark_versions.features import FEATURES, WORKS
from spark_versions.record import RECORD, ROOT, SPARKS


def test_the_record_is_of_the_features() -> None:
    for spark in json.loads(RECORD.read_text(encoding="utf-8"))["sparks"]:
        version = tuple(map(int, spark["spark"].split(".")[:2]))
        assert spark["features"] == {
            feature.name: WORKS
            if version >= tuple(map(int, feature.since.split(".")))
            else f"from Spark {feature.since}"
            for feature in FEATURES
        }


def test_every_supported_spark_is_recorded_by_default() -> None:
    assert SPARKS == SUPPORTED


def test_the_page_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "docs" / "generate_sparks.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
