"""A plugin of pytest for `run.py`: delta-rs's `conftest.py` imports clients of servers that this
environment lacks, and that no test without a server uses."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType

for name in ("azure", "azure.core", "azure.core.exceptions", "azure.storage", "azure.storage.blob"):
    if name.partition(".")[0] not in sys.modules and find_spec("azure") is not None:
        break
    module = ModuleType(name)
    module.__path__ = []
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
