"""Catalogs: names for tables instead of locations."""
