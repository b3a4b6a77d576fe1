"""Delta tables on PySpark without a jar: a native scan with Catalyst's filters pushed down, writes
on executors, and one commit on the driver.

`read`, `write` and the live view work on classic sessions; the data source `deltaplane` also works
on Spark Connect. Only this subpackage imports PySpark.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from deltaplane.io.session_options import Source, use
from deltaplane.names import late_names

if importlib.util.find_spec("pyspark") is None:
    raise ImportError("deltaplane.spark needs PySpark: pip install 'deltaplane[spark]'")

if TYPE_CHECKING:
    from deltaplane.spark.datasource.session import register, session
    from deltaplane.spark.delta_api.tables import (
        DeltaMergeBuilder,
        DeltaOptimizeBuilder,
        DeltaTable,
        DeltaTableBuilder,
        IdentityGenerator,
    )
    from deltaplane.spark.scan.plan import plan
    from deltaplane.spark.scan.read import create_or_replace_temp_view, read, read_changes
    from deltaplane.spark.session_hooks.catalog_transactions import atomic_batch, transaction
    from deltaplane.spark.session_hooks.enable import configure_spark_with_delta_pip, disable, enable
    from deltaplane.spark.session_hooks.run_statement import sql
    from deltaplane.spark.stream.read import read_stream
    from deltaplane.spark.stream.write import foreach_batch, write_stream
    from deltaplane.spark.writing.frame_writer import write
    from deltaplane.write.api import WriteResult

__all__ = [
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "IdentityGenerator",
    "WriteResult",
    "atomic_batch",
    "configure_spark_with_delta_pip",
    "create_or_replace_temp_view",
    "disable",
    "enable",
    "foreach_batch",
    "plan",
    "read",
    "read_changes",
    "read_stream",
    "register",
    "session",
    "sql",
    "transaction",
    "write",
    "write_stream",
]

# Maps each public name to its module, imported at first use: tasks import this package too, and
# need only a small part of it.
_LATER = {
    "DeltaMergeBuilder": "spark.delta_api.tables",
    "DeltaOptimizeBuilder": "spark.delta_api.tables",
    "DeltaTable": "spark.delta_api.tables",
    "DeltaTableBuilder": "spark.delta_api.tables",
    "IdentityGenerator": "spark.delta_api.tables",
    "WriteResult": "write.api",
    "create_or_replace_temp_view": "spark.scan.read",
    "foreach_batch": "spark.stream.write",
    "plan": "spark.scan.plan",
    "read": "spark.scan.read",
    "read_changes": "spark.scan.read",
    "read_stream": "spark.stream.read",
    "register": "spark.datasource.session",
    "session": "spark.datasource.session",
    "write": "spark.writing.frame_writer",
    "write_stream": "spark.stream.write",
    "atomic_batch": "spark.session_hooks.catalog_transactions",
    "transaction": "spark.session_hooks.catalog_transactions",
    "configure_spark_with_delta_pip": "spark.session_hooks.enable",
    "disable": "spark.session_hooks.enable",
    "enable": "spark.session_hooks.enable",
    "sql": "spark.session_hooks.run_statement",
}


def _settings_of(session: Any) -> Source | None:
    """The options of the call's session, or else of the active one, for every store that this
    process opens."""
    from deltaplane.spark.jvm.store_settings import settings_of

    return settings_of(session)


use(_settings_of)

if not TYPE_CHECKING:
    _late, __dir__ = late_names(globals(), _LATER)

    def __getattr__(name: str) -> Any:
        if name in _LATER:
            from deltaplane.spark.jvm.spark_versions import refuse_older

            refuse_older()
        return _late(name)
