"""Commands that change rows of a table, one file each: arguments in, one commit out.

`condition` says which rows, `assignments` what becomes of them, `rewriting` runs the steps that all
commands share. Must not know `deltaplane.table`, which calls them.
"""
