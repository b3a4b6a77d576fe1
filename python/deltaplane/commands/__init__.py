"""Commands that change rows of a table, one file each; each makes one commit.

`condition` selects rows, `assignments` computes new values, and `rewriting` runs the steps that all
commands share. Must not import `deltaplane.table`, which calls it.
"""
