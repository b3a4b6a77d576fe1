"""What `enable` puts into a session: names, statements and views of Delta tables."""
