"""Queries in Spark SQL over Delta tables and Arrow data, run by DuckDB with Spark's meaning.

`grammar` parses the text, `planning` binds it to tables as nodes of `plan`, `running` passes DuckDB
a text that consists of admitted expressions only. It uses no general translator of SQL, whose
results would silently differ from Spark's.
"""
