"""An independent verifier of the Delta protocol: describes the problems of a table on the local
disk as text.

Uses no deltaplane code: pyarrow reads the Parquet files.
"""

from __future__ import annotations

from pathlib import Path

from verifier.findings import Findings
from verifier.log import check_log

__all__ = ["problems"]


def problems(table: str | Path) -> list[str]:
    """Every violation of the protocol in the log, the checkpoints and the data files of a table;
    empty for a sound table."""
    findings = Findings()
    try:
        check_log(findings, Path(table).resolve())
    except Exception as e:  # noqa: BLE001 - a log may be malformed in ways that no check expects
        findings.add("log", f"too malformed to be checked further: {type(e).__name__} {e}")
    return findings.problems
