"""MERGE: clauses, columns, plan, execution and metrics."""
