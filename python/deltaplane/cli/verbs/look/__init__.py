"""Verbs that show a table and change nothing."""
