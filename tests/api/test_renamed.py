"""Old public names work for one minor version, warn, and name the new one."""

from __future__ import annotations

import importlib
import itertools
import warnings
from typing import Any

import pyarrow as pa
import pytest

import deltaplane.spark
from deltaplane import DeltaTable, properties, write_deltalake
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.names import RENAMED_ARGUMENTS
from deltaplane.properties import CommitOperation

ROWS = pa.table({"x": [1, 2]})
_NUMBERS = itertools.count()


def new_location() -> str:
    return f"memory://renamed/{next(_NUMBERS)}"


def test_old_argument_does_what_the_new_one_does_and_warns() -> None:
    operation = CommitOperation.definition("CREATE TABLE", fills=True)
    entries = []
    for name in ("told_as", "operation"):
        location = new_location()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            write_deltalake(location, ROWS, **{name: operation})
        expected = ["told_as is now called operation"] if name == "told_as" else []
        assert [str(w.message).split(";")[0] for w in seen if w.category is DeprecationWarning] == expected
        # The warning points at the caller's line.
        assert all(w.filename == __file__ for w in seen if w.category is DeprecationWarning)
        entries.append(DeltaTable(location).history()[0]["operation"])
    assert entries == ["CREATE TABLE AS SELECT"] * 2


def test_both_names_of_an_argument_are_refused() -> None:
    operation: Any = CommitOperation.definition("CREATE TABLE", fills=True)
    arguments: Any = {"told_as": operation, "operation": operation}
    with pytest.raises(InvalidArgumentError, match="told_as is the old name of operation: give only operation"):
        write_deltalake(new_location(), ROWS, **arguments)


@pytest.mark.parametrize(
    "function", [write_deltalake, DeltaTable.create, deltaplane.spark.write], ids=lambda f: f.__qualname__
)
def test_each_function_that_had_an_old_argument_has_the_new_one(function: Any) -> None:
    parameters = importlib.import_module("inspect").signature(function).parameters
    assert set(RENAMED_ARGUMENTS.values()) <= set(parameters)
    assert not set(RENAMED_ARGUMENTS) & set(parameters)


def test_old_class_name_is_the_new_class_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match="ToldAs is now called .*CommitOperation"):
        assert properties.ToldAs is CommitOperation
    with pytest.raises(AttributeError, match="no attribute 'NoSuchName'"):
        _ = properties.NoSuchName


def test_old_figures_of_an_explanation_warn() -> None:
    location = new_location()
    write_deltalake(location, ROWS)
    why = DeltaTable(location).explain("x > 1")
    for old, new in (
        ("kept", "selected"),
        ("kept_bytes", "selected_bytes"),
        ("kept_without_statistics", "selected_without_statistics"),
    ):
        with pytest.warns(DeprecationWarning, match=rf"PlanExplanation\.{old} is now called PlanExplanation\.{new};"):
            assert getattr(why, old) == getattr(why, new)
    assert why.selected == 1
