"""Spark itself: start a session, run tasks, report progress, and carry errors and user code between processes."""
