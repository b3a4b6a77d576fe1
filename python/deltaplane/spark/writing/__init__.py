"""Writes a frame to a table."""
