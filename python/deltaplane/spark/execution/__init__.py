"""The parts that run on executors: file writers, casts, row rules and shuffles."""
