"""Arrow streams, storage options, credentials, the cache, and user-defined stores."""
