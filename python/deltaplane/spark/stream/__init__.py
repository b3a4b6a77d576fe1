"""Streams that read from and write to tables."""
