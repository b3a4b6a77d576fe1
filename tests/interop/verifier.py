"""Owns the call of the table verifier that lies beside the checkout: an independent reading of the Delta protocol.

Knows nothing of deltaplane. Called by the interop and crash tests on every table that deltaplane wrote.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import os
import warnings
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("DELTAPLANE_SHARED", ROOT.parent / "shared"))


def verify(table: str) -> None:
    """Fails unless the verifier finds no problem.

    Without the tool, a test that got this far is skipped.
    """
    if not (SHARED / "tools" / "verify_table.py").is_file():
        pytest.skip("passed so far, but the verifier isn't beside the checkout: set DELTAPLANE_SHARED")
    said = verdict(table)
    assert "VERDICT: OK" in said, f"{table}\n{said}"


def verdict(table: str) -> str:
    """What the verifier says of a table."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), warnings.catch_warnings():
        # It leaves closing files to the interpreter.
        warnings.simplefilter("ignore", ResourceWarning)
        tool("verify_table").main([table, "--no-spark"])
    return said.getvalue()


@functools.cache
def tool(name: str) -> ModuleType:
    """One of the tools as a module, loaded once: a process for each table would take a second."""
    spec = importlib.util.spec_from_file_location(name, SHARED / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
