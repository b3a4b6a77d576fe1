"""Engines that run what commands plan. They know relations and rows, and nothing of Delta."""
