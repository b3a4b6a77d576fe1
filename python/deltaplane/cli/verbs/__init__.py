"""A file for each verb of the command line: its function has the file's name, or it is a group of
verbs called `app`."""
