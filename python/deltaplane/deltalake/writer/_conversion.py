"""The types in which deltalake writes data: signed numbers, microseconds, UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arro3.core import Schema as ArrowSchema


def _convert_arro3_schema_to_delta(schema: ArrowSchema, existing_schema: ArrowSchema | None = None) -> ArrowSchema:
    """The schema of arro3 in the types of tables; a column without values has the type of the
    existing table's column."""
    import arro3.core
    import pyarrow as pa

    from deltaplane.deltalake._arrow import delta_schema

    existing = None if existing_schema is None else pa.schema(existing_schema)
    return arro3.core.Schema.from_arrow(delta_schema(pa.schema(schema), existing))
