"""Arrow streams, storage options, credentials, the cache, and stores of applications."""
