"""Queries in Spark SQL over Delta tables and Arrow data, run by DuckDB with Spark's meaning.

`grammar` parses the text, `planning` binds it to tables as nodes of `plan`, and `running` passes
DuckDB a text of admitted expressions only. The package uses no general SQL translator, because its
results would silently differ from Spark's.
"""
