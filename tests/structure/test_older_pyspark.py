"""Names of PySpark 4 that PySpark 3.5 lacks, which the package uses in the modules for it only."""

from __future__ import annotations

import ast

import pytest

from structure import repo

# Attribute → the one module that asks PySpark for it.
PLACES = {
    "toArrow": "python/deltaplane/spark/jvm/older_pyspark.py",
    "getCondition": "python/deltaplane/spark/errors/condition_of.py",
    "toDDL": "python/deltaplane/spark/jvm/names.py",
    "getAll": "python/deltaplane/spark/jvm/internals.py",
}


def users(name: str, texts: dict[str, str]) -> list[str]:
    """The files that read an attribute of this name."""
    return [
        path
        for path, text in texts.items()
        if any(isinstance(node, ast.Attribute) and node.attr == name for node in ast.walk(ast.parse(text)))
    ]


@pytest.mark.parametrize("name", PLACES)
def test_what_pyspark_3_5_lacks_is_asked_for_in_one_place(name: str) -> None:
    assert {*users(name, repo.sources("python/deltaplane/spark/", ".py"))} <= {PLACES[name]}


def test_uses_are_seen() -> None:
    assert users("toArrow", {"a.py": "frame.toArrow()", "b.py": "'toArrow'"}) == ["a.py"]
