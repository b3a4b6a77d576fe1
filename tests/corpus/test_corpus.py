"""Tables that others wrote, read by deltaplane, against what the reference engine read.

`not_yet.txt` lists the cases whose features this version lacks: each must be refused by the
feature's name, and a case that passes must leave the list, which therefore only shrinks.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from corpus.runner import run_case

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("DELTAPLANE_SHARED", ROOT.parent / "shared")) / "corpus"
NOT_YET = Path(__file__).with_name("not_yet.txt")

if not CORPUS.is_dir():
    pytest.skip("the corpus of tables isn't beside the checkout", allow_module_level=True)


def not_yet() -> dict[str, list[str]]:
    """Case → the features of which each refusal must name one."""
    lines = (line.split("#")[0].split() for line in NOT_YET.read_text().splitlines())
    return {words[0]: words[1:] for words in lines if words}


def cases() -> list[str]:
    names = sorted(p.parent.name for p in CORPUS.glob("*/expected.json"))
    assert len(names) > 200, f"the corpus at {CORPUS} is incomplete"
    return names


@pytest.fixture(scope="module")
def results() -> dict[str, list[tuple[str, str]]]:
    """Case → its failed checks."""

    def run(case: str) -> tuple[str, list[tuple[str, str]]]:
        return case, [(check, text) for check, text in run_case(CORPUS / case) if text]

    with ThreadPoolExecutor(2) as pool:
        return dict(pool.map(run, cases()))


@pytest.mark.parametrize("case", cases())
def test_case(case: str, results: dict[str, list[tuple[str, str]]]) -> None:
    failed = results[case]
    features = not_yet().get(case)
    if features is None:
        assert not failed, failed
    else:
        assert failed, f"{case} passes: take it off {NOT_YET.name}"
        misread = [text for _, text in failed if not any(f"table feature {name}" in text for name in features)]
        assert not misread, f"not refused by name {features}: {misread}"


def test_the_list_names_existing_cases() -> None:
    assert set(not_yet()) <= set(cases())
