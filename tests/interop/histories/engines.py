"""The operations of a history, as each engine does them. Contains no recording and no judgement."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import deltalake
import pyarrow as pa

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import NOT_COMMITTED
from interop.delta_spark import DeltaSpark
from stores.numbers import ids, rows


class Engine(Protocol):
    """One engine and one table. A version is None where the engine doesn't tell it."""

    @property
    def name(self) -> str: ...

    @property
    def without_effect(self) -> tuple[type[Exception], ...]:
        """Errors of writes that say that nothing was committed; after others the outcome is
        unknown."""

    def append(self, key: int) -> int | None:
        """Adds a row; returns its version."""

    def delete(self, key: int) -> bool:
        """Deletes a row if it is there; returns whether it was."""

    def read(self) -> tuple[list[int], int | None]:
        """All rows and their version."""


@dataclass(frozen=True)
class Ours:
    """deltaplane."""

    table: str
    options: dict[str, str] = field(default_factory=dict)
    name: str = "deltaplane"
    without_effect: tuple[type[Exception], ...] = NOT_COMMITTED

    def append(self, key: int) -> int | None:
        return write_deltalake(self.table, rows(key), mode="append", storage_options=self.options).version

    def delete(self, key: int) -> bool:
        opened = DeltaTable(self.table, storage_options=self.options)
        return bool(opened.delete(f"id = {key}")["num_deleted_rows"])

    def read(self) -> tuple[list[int], int | None]:
        opened = DeltaTable(self.table, storage_options=self.options)
        return ids(opened), opened.version()


@dataclass(frozen=True)
class DeltaRs:
    """deltalake."""

    table: str
    options: dict[str, str] = field(default_factory=dict)
    name: str = "deltalake"
    without_effect: tuple[type[Exception], ...] = ()

    def append(self, key: int) -> None:
        deltalake.write_deltalake(self.table, rows(key), mode="append", storage_options=self.options)

    def delete(self, key: int) -> bool:
        opened = deltalake.DeltaTable(self.table, storage_options=self.options)
        return bool(opened.delete(f"id = {key}")["num_deleted_rows"])

    def read(self) -> tuple[list[int], int | None]:
        opened = deltalake.DeltaTable(self.table, storage_options=self.options)
        query = deltalake.QueryBuilder().register("t", opened).execute("select id from t")
        return sorted(pa.table(query.read_all())["id"].to_pylist()), opened.version()


@dataclass(frozen=True)
class Spark:
    """delta-spark, which does one operation at a time."""

    table: str
    spark: DeltaSpark
    name: str = "delta-spark"
    without_effect: tuple[type[Exception], ...] = ()

    def append(self, key: int) -> None:
        self.spark.write(self.table, rows(key))

    def delete(self, key: int) -> bool:
        done = self.spark.sql(f"DELETE FROM delta.`{self.table}` WHERE id = {key}")
        return bool(done["num_affected_rows"].to_pylist()[0])

    def read(self) -> tuple[list[int], int | None]:
        return sorted(self.spark.read(self.table)["id"].to_pylist()), None
