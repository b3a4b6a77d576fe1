"""Verbs that keep a table fast and small."""
