"""One file for each verb of the command line: defines a function with the file's name, or a group
of verbs called `app`."""
