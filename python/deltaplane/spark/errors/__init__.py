"""Maps errors to the error conditions that users of Spark know."""
