"""The extensions that `enable` installs in a session: names, statements and views of Delta
tables."""
