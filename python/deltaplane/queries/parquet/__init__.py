"""Lets DuckDB read the Parquet files of local tables itself."""
