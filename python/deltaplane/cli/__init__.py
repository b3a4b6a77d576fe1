"""The command `deltaplane`: inspects and maintains tables from a shell, and runs the demo.

`main` is the entry point. The extra `deltaplane[cli]` installs typer and rich; without them `main`
prints a one-line message.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Runs the command line on this process's arguments and ends the process."""
    try:
        from deltaplane.cli.app import run
    except ModuleNotFoundError as e:
        if e.name not in ("typer", "rich"):
            raise
        print(f"deltaplane: the command line needs {e.name}: pip install 'deltaplane[cli]'", file=sys.stderr)
        sys.exit(1)
    sys.exit(run(sys.argv[1:]))
