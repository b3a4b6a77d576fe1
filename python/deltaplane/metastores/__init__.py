"""Metastores: catalogs of the kind of Hive's, whose entries are names for tables' locations."""
