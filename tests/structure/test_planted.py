"""Checks the planted faults: each one changes existing text, and names an existing test."""

from __future__ import annotations

import pytest

from planted.plant import PYTHON, Fault, faults
from structure import repo

FAULTS = faults()


@pytest.mark.parametrize("fault", FAULTS, ids=[f.name for f in FAULTS])
def test_fault_changes_text_that_exists_and_names_a_test_that_exists(fault: Fault) -> None:
    source = (repo.ROOT / fault.file).read_text()
    assert fault.planted(source) != source
    test = fault.test.rsplit("::", 1)[-1]
    word = "def" if fault.package == PYTHON else "fn"
    assert f"{word} {test}(" in (repo.ROOT / fault.test_file).read_text()


def test_names_of_faults_are_their_own() -> None:
    names = [f.name for f in FAULTS]
    assert len(set(names)) == len(names) > 20
