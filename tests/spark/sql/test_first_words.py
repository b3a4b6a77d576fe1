"""The first words of a statement are found behind any number of comments."""

from __future__ import annotations

import pytest

from deltaplane.spark.session_hooks.first_words import starting_with

BEGINS = starting_with(r"begin\s+atomic|commit")
# With each of these comments the time of a pattern that tries several ends for each one doubles:
# such a test wouldn't end.
MANY = "/* a * b ** */ -- c\n" * 200


@pytest.mark.parametrize("before", ["", "  \n", "-- begin atomic\n", "/**/", "/* commit **/", MANY])
def test_comments_are_passed_over(before: str) -> None:
    assert BEGINS.match(f"{before}Begin  ATOMIC x") is not None
    assert BEGINS.match(f"{before}SELECT 'commit'") is None
    assert BEGINS.match(f"{before}committed") is None


def test_only_what_is_named_may_be_before_the_words() -> None:
    assert BEGINS.match("(commit") is None
    assert starting_with("commit", r"\s|\(").match("( /* a */ (commit") is not None
    assert BEGINS.match("/* commit") is None
