"""The session's JVM: access to its classes, and names, types and positions in statements."""
