"""Verbs that commit other rows, columns or properties."""
