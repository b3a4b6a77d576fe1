"""The verbs of the command line, by the groups of its help: a file each."""
