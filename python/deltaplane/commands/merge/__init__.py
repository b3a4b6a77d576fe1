"""MERGE: its clauses, the columns that it writes, its plan, its run and its metrics."""
