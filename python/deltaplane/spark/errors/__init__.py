"""Errors under the conditions that users of Spark know."""
