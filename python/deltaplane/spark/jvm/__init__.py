"""The session's JVM: calls of its classes, names, types and positions in statements."""
