"""Arrow streams, storage options, credentials, caches and stores of an application's own."""
