"""Families of scenarios, each in a module; `all_scenarios` lists them in a fixed order."""

from __future__ import annotations

from importlib import import_module

from interop.differential.scenarios import Scenario

FAMILIES = (
    "types",
    "definitions",
    "replacements",
    "properties",
    "columns",
    "constraints",
    "inserts",
    "updates",
    "merges",
    "maintenance",
    "versions",
    "clones",
    "descriptions",
    "conversions",
    "frame_writes",
    "rich_tables",
    "frame_reads",
    "streams",
    "settings",
    "names",
    "sequences",
)


def all_scenarios() -> list[Scenario]:
    """Every scenario. Their names are unique."""
    scenarios = [
        scenario
        for family in FAMILIES
        for scenario in import_module(f"interop.differential.families.{family}").scenarios()
    ]
    names = [scenario.name for scenario in scenarios]
    assert len(names) == len(set(names)), sorted(name for name in set(names) if names.count(name) > 1)
    return scenarios
