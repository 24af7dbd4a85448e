"""The service over HTTP, measured from a client in another process on the same machine."""
