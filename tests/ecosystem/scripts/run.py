"""`python run.py SCRIPT TABLES OUT`: runs the cases of a script; what it runs on is decided by the
interpreter's `sitecustomize`."""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from pathlib import Path

import cases
import deltalake


def main() -> None:
    script, tables, out = sys.argv[1:]
    importlib.import_module(script)
    with tempfile.TemporaryDirectory() as scratch:
        outcomes = cases.run(json.loads(Path(tables).read_text()), Path(scratch))
    limits = {name: named.limit for name, named in cases.CASES.items() if named.limit}
    result = {"on": deltalake.DeltaTable.__module__.partition(".")[0], "outcomes": outcomes, "limits": limits}
    Path(out).write_text(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
