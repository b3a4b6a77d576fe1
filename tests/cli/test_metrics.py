"""`deltaplane metrics`: Prometheus' text format."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import yaml

from deltaplane import DeltaTable, write_deltalake
from deltaplane.cli import verbs as verbs_of
from deltaplane.cli.app import run
from deltaplane.report.metrics import METRICS

# https://prometheus.io/docs/instrumenting/exposition_formats/
LINE = re.compile(r'^(# (HELP|TYPE) \w+ .+|deltaplane_table_\w+\{table="(?:[^"\\\n]|\\.)*"\} -?[\d.e+]+)$')


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for name in ('a"b', "c"):
        for n in range(3):
            write_deltalake(str(tmp_path / name), pa.table({"x": [n, n]}), mode="append")
    DeltaTable(str(tmp_path / "c")).delete("x = 1")
    return tmp_path


def test_every_line_is_of_the_format(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metrics", f"{lake}/*"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not LINE.match(line)] == []
    samples = [line for line in lines if not line.startswith("#")]
    assert f'deltaplane_table_version{{table="{lake}/c"}} 3' in samples
    assert f'deltaplane_table_rows{{table="{lake}/a\\"b"}} 6' in samples
    names = [line.split("{")[0] for line in samples]
    assert names == sorted(names, key=names.index)
    assert {line.split()[2] for line in lines if line.startswith("# TYPE")} == set(names)


def test_values_are_the_tables(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metrics", str(lake / "c"), "--json"]) == 0
    (values,) = json.loads(capsys.readouterr().out).values()
    table = DeltaTable(str(lake / "c"))
    assert (values["up"], values["version"], values["files"]) == (1, 3, len(table.files()))
    assert (values["removed_files"], values["vacuum_files"], values["log_commits"]) == (1, 0, 4)
    assert 0 <= values["last_commit_age_seconds"] < 600
    assert values["log_bytes"] > 1000


def test_a_table_that_cannot_be_read_is_down(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lake / "c" / "_delta_log" / f"{3:020}.json").write_text("{")
    assert run(["metrics", f"{lake}/*"]) == 7
    shown = capsys.readouterr().out
    assert f'deltaplane_table_up{{table="{lake}/c"}} 0' in shown
    assert f'deltaplane_table_version{{table="{lake}/a\\"b"}} 2' in shown


RULES = yaml.safe_load((Path(__file__).parents[2] / "docs" / "alerts.yml").read_text(encoding="utf-8"))["groups"][0][
    "rules"
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alert_rules_name_metrics_and_verbs_that_exist(rule: dict[str, Any]) -> None:
    used = set(re.findall(r"deltaplane_table_(\w+)", rule["expr"]))
    assert used
    assert used <= {metric.name for metric in METRICS}
    assert set(rule["labels"]) == {"severity"}
    assert set(rule["annotations"]) == {"summary", "action"}
    verbs = {path.stem.replace("_", "-") for path in Path(verbs_of.__file__).parent.glob("*/*.py")}
    assert set(re.findall(r"deltaplane ([a-z-]+)", rule["annotations"]["action"])) <= verbs


def test_no_alert_fires_for_a_sound_table(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The thresholds are checked by putting the figures of a small, fresh table into the rules."""
    assert run(["metrics", str(lake / "c"), "--json"]) == 0
    (values,) = json.loads(capsys.readouterr().out).values()
    for rule in RULES:
        condition = re.sub(r"deltaplane_table_(\w+)", lambda name: repr(float(values[name[1]])), rule["expr"])
        fires = duckdb.sql(f"SELECT {condition.replace('==', '=')}").fetchall()[0][0]
        assert not fires or rule["alert"] == "DeltaTableDeletedRows", rule
