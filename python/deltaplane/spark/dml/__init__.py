"""DELETE, UPDATE, MERGE and OPTIMIZE as jobs."""
