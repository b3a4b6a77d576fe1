"""Compares the outcomes of two engines, step by step, and gives each step a class.

An outcome is reduced to facts first, full ones or digests of them, so that one engine's facts can
be kept in a small file (`record`). Uses no engine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from interop.differential.scenarios import short_digest

# A step has the first that applies. A consequence is another result after a step of its scenario
# that only one engine accepted.
CLASSES = (
    "no condition",
    "other condition",
    "refused here",
    "refused there",
    "other rows",
    "other schema",
    "other history",
    "consequence",
    "same",
)
# The facts of an accepted step by the class of their difference.
_FACTS = (
    ("rows", "other rows"),
    ("columns", "other schema"),
    ("tables", "other schema"),
    ("history", "other history"),
)
_DATA_FILE = re.compile(r"(?:spark-<uuid>/)?((?:\w+=[^/\"]*/)*)part-\d+-<uuid>[\w.-]*\.parquet")
Facts = Mapping[str, Any]
# Ends of names of columns about a table's files.
_LAYOUT = ("_size", "_num_of_files")


@dataclass(frozen=True)
class Verdict:
    """The class of a step, and what differs. `step` is -1 for the tables' rows at the end."""

    scenario: str
    step: int
    kind: str
    ours: Any = None
    theirs: Any = None


def facts(outcome: Mapping[str, Any]) -> tuple[list[Facts], dict[str, Facts]]:
    """What is compared of a scenario's steps, and of its tables' rows after them."""
    tables: dict[str, dict[str, Any]] = {}
    steps, before = [], ""
    for step in outcome["steps"]:
        for commit in step["commits"]:
            _apply(commit, tables.setdefault(commit["table"], {}))
        steps.append(_result(step))
        # Tables as they are then, if they changed: one engine may commit what changes nothing.
        now = json.dumps(tables, sort_keys=True)
        if "refused" not in steps[-1] and now != before:
            steps[-1]["tables"] = json.loads(now)
        before = now
    return steps, {name: _result(rows) for name, rows in outcome["rows"].items()}


def _result(outcome: Mapping[str, Any]) -> dict[str, Any]:
    if "error" in outcome:
        return {"refused": outcome["error"]}
    # Statements for which delta-spark returns no columns return what `deltaplane.sql` does.
    rows = outcome.get("result") if outcome.get("columns") else None
    sizes = [i for i, column in enumerate(outcome.get("columns") or ()) if column.split(" ")[0].endswith(_LAYOUT)]
    if rows and sizes:
        # Bytes of files, which each writer encodes differently, and their number.
        rows = [json.dumps([v for i, v in enumerate(json.loads(row)) if i not in sizes]) for row in rows]
    # Names of data files, and the directories of Spark's own writer.
    rows = rows and sorted(_DATA_FILE.sub(r"\1part.parquet", row) for row in rows)
    history = [
        {**_part(commit, "table", "operation", "userMetadata", "transactions"), "parameters": _parameters(commit)}
        for commit in outcome.get("commits", [])
    ]
    values = {"rows": rows, "columns": outcome.get("columns"), "history": history}
    return {name: value for name, value in values.items() if value}


def _apply(commit: Mapping[str, Any], table: dict[str, Any]) -> None:
    """Changes a table's columns, properties, protocol and domains as a commit does."""
    if "schema" in commit:
        table |= {key: commit.get(key) for key in ("schema", "partitions", "properties", "description")}
    if "protocol" in commit:
        table["protocol"] = commit["protocol"]
    for domain, removed in commit.get("domains", []):
        others = [name for name in table.get("domains", []) if name != domain]
        table["domains"] = sorted(others if removed else [*others, domain])


def digested(step: Facts) -> Facts:
    """The same facts with a digest for each value but the conditions of a refusal."""
    return step if "refused" in step else {name: short_digest(value) for name, value in step.items()}


def compared(
    name: str,
    ours: tuple[list[Facts], Mapping[str, Facts]],
    theirs: tuple[list[Facts], Mapping[str, Facts]],
) -> Iterator[Verdict]:
    """Compares the steps of a scenario, and the rows of its tables after them."""
    alone = False
    for number, (here, there) in enumerate(zip(ours[0], theirs[0], strict=True)):
        kind, mine, other = _step(here, there)
        yield Verdict(name, number, "consequence" if alone and kind != "same" else kind, mine, other)
        alone = alone or kind.startswith("refused")
    for table, there in theirs[1].items():
        kind, mine, other = _step(ours[1][table], there)
        # A table that neither can read is compared as refused.
        if not alone and not kind.endswith(("same", "condition")):
            yield Verdict(name, -1, kind, {table: mine}, {table: other})


def _step(here: Facts, there: Facts) -> tuple[str, Any, Any]:
    if "refused" in here and "refused" in there:
        ours, theirs = here["refused"], there["refused"]
        # Spark wraps the error of a task in errors of its own, each with a condition.
        if not theirs or (ours and ours[0] in theirs):
            return "same", None, None
        return ("other condition" if ours else "no condition"), ours, theirs
    if "refused" in here or "refused" in there:
        return "refused here" if "refused" in here else "refused there", here.get("refused"), there.get("refused")
    for fact, kind in _FACTS:
        if fact in ("rows", "columns") and "columns" not in there:
            continue
        if here.get(fact) != there.get(fact):
            return kind, {fact: here.get(fact)}, {fact: there.get(fact)}
    return "same", None, None


def _part(commit: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: commit[key] for key in keys if commit.get(key) is not None}


def _parameters(commit: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _without_texts(name, value) for name, value in (commit.get("parameters") or {}).items()}


def _without_texts(name: str, value: Any) -> Any:
    """A parameter of the history without the text of its conditions, but with the fact that there
    is one: delta-spark writes Spark's plan (`(id#7 = 1)`), deltaplane the statement's text."""
    if name == "predicate":
        return "a condition" if value not in ("", [], "[]", None) else value
    if isinstance(value, list):
        return [_without_texts(name, item) for item in value]
    if isinstance(value, dict) and "actionType" in value:
        return {key: _without_texts(key, item) for key, item in value.items()}
    return value
