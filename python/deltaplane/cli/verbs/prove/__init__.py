"""Verbs that check what tables, engines and programs promise."""
