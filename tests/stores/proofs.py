"""Writes the results of a run to docs/reliability/<name>.json, if the run requests it by
DELTAPLANE_PROOFS=1."""

from __future__ import annotations

import json
import os
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reliability"


def asked() -> bool:
    """Whether to write this run's results."""
    return os.environ.get("DELTAPLANE_PROOFS") == "1"


def tell(name: str, *, title: str, claims: list[str], figures: dict[str, object], how: str) -> None:
    """Writes a proof's claims and figures, if this run's results are to be written."""
    if asked():
        write(name, title=title, claims=claims, figures=figures, how=how)


def write(name: str, **members: object) -> None:
    """Writes the members of a proof to its file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps(members, indent=2, ensure_ascii=False)
    (FOLDER / f"{name}.json").write_text(text + "\n")
