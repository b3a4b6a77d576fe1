"""Writing a frame."""
