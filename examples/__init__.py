"""Workflows to start from."""
