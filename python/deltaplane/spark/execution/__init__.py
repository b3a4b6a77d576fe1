"""What runs on executors: files that tasks write, casts, rules of rows and shuffles."""
