"""DELETE, UPDATE, MERGE and OPTIMIZE as Spark jobs."""
