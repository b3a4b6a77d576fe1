"""The names that users of delta-spark know."""
