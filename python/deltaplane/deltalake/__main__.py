"""`python -m deltaplane.deltalake SCRIPT …` and `python -m deltaplane.deltalake -m MODULE …`: runs
a
program in which `import deltalake` imports `deltaplane.deltalake`."""

from __future__ import annotations

import os
import runpy
import sys

from deltaplane.deltalake.installing import install


def main() -> None:
    """Runs the program that the command line names."""
    arguments = sys.argv[1:]
    is_module = arguments[:1] == ["-m"]
    program = arguments[1:] if is_module else arguments
    if not program:
        raise SystemExit("usage: python -m deltaplane.deltalake SCRIPT [ARGUMENT …] | -m MODULE [ARGUMENT …]")
    install()
    sys.argv = program
    if is_module:
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(program[0])))
        runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main()
