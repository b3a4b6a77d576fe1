"""The snippets of the page for programs that leave delta-spark, run in one session."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from structure import repo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = "docs/migrating-from-delta-spark.md"


def test_the_snippets_of_the_page_run(enabled: SparkSession, path: str) -> None:
    snippets = re.findall(r"^```python\n(.*?)^```", (repo.ROOT / PAGE).read_text(), re.MULTILINE | re.DOTALL)
    assert len(snippets) >= 5
    # The builder finds the session that exists.
    names: dict[str, Any] = {"builder": type(enabled).builder, "path": path}
    for snippet in snippets:
        # The snippets are this repository's own.
        exec(compile(snippet, PAGE, "exec"), names)  # noqa: S102
    assert all("assert" in snippet for snippet in snippets[1:])
