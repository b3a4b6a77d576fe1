"""The Python data source `deltaplane`, its streams, and options that readers take."""
