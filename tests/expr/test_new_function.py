"""An embedded function is one entry in a module of the functions' folder: binding, conditions and
the page then include it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr import functions
from deltaplane.expr.registry import ENTRIES
from deltaplane.names import modules_in
from expr.listing import page

FAMILY = '''
"""Functions that double."""

from deltaplane.expr.registry import Form, forms
from deltaplane.expr.types import LONG

forms("doubling", "doubled", Form([LONG], LONG, "({0} + {0})", throws=True))
'''


@pytest.fixture
def new_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The file `doubling.py` beside the files of the other families."""
    (tmp_path / "doubling.py").write_text(FAMILY)
    before = dict(ENTRIES)
    modules_in(functions.__name__, [*functions.__path__])
    monkeypatch.setattr(functions, "__path__", [*functions.__path__, str(tmp_path)])
    modules_in(functions.__name__, functions.__path__)
    yield
    sys.modules.pop(f"{functions.__name__}.doubling", None)
    ENTRIES.clear()
    ENTRIES.update(before)


@pytest.mark.usefixtures("new_function")
def test_a_new_family_is_one_file(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"x": [1, 2, 3]}))
    rows = pa.table(DeltaTable(table).scan(["x"], "doubled(x) > 3"))
    assert rows.column("x").to_pylist() == [2, 3]
    DeltaTable(table).alter.add_constraint({"small": "doubled(x) < 10"})
    with pytest.raises(InvalidArgumentError, match="doubled"):
        DeltaTable(table).scan(["x"], "doubled('a', 2) > 3")
    assert "- **doubling**: `doubled`\n" in page()


def test_without_its_file_there_is_no_such_function(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"x": [1]}))
    with pytest.raises(UnsupportedExpressionError, match="doubled"):
        DeltaTable(tmp_path).scan(["x"], "doubled(x) > 3")
    assert "doubled" not in page()
