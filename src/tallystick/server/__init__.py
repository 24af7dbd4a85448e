"""The service: HTTP API and console over one store."""
