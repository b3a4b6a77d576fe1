"""Queries in Spark SQL over Delta tables and Arrow data, run by DuckDB with Spark's meaning.

`grammar` reads the text, `planning` binds it to tables as nodes of `plan`, `running` hands DuckDB a
text that is made of admitted expressions alone. A general translator of SQL is no part of it: its
results would differ from Spark's without a word.
"""
