"""`make ecosystem`: runs every library's cases on deltaplane and on deltalake, and writes
docs/ecosystem/*.json; names of environments as arguments choose some."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from ecosystem import libraries

RECORDS = libraries.ROOT / "docs" / "ecosystem"


def record(library: libraries.Library, tables_file: Path, scratch: Path) -> dict[str, Any]:
    """What each case did on both."""
    results = {
        on: libraries.run(library, tables_file, scratch / f"{library.script}-{on}.json", on=on)
        for on in (libraries.DELTAPLANE, libraries.DELTALAKE)
    }
    limits = results[libraries.DELTAPLANE]["limits"]
    cases = {}
    for name in results[libraries.DELTAPLANE]["outcomes"]:
        outcomes = {on: result["outcomes"][name].replace(str(scratch), "…") for on, result in results.items()}
        cases[name] = outcomes | ({"limit": limits[name]} if name in limits else {})
    return {"library": library.name, "versions": library.versions(), "cases": cases}


def main() -> None:
    """Writes the records."""
    with tempfile.TemporaryDirectory(prefix="eco-") as folder:
        scratch = Path(folder)
        with libraries.prepared(scratch) as tables_file:
            for library in libraries.LIBRARIES:
                if sys.argv[1:] and library.environment not in sys.argv[1:]:
                    continue
                result = record(library, tables_file, scratch)
                text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
                (RECORDS / f"{library.environment}.json").write_text(text)
                for name, case in result["cases"].items():
                    print(f"{library.name}: {name}: {case['deltaplane']} (deltalake: {case['deltalake']})", flush=True)


if __name__ == "__main__":
    main()
