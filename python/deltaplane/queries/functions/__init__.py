"""Functions of many rows: aggregates, windows, and generators of rows."""
