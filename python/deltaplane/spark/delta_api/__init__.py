"""The API under delta-spark's names."""
