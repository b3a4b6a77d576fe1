"""The Python data source `deltaplane`, its streams, and the options of readers and writers."""
