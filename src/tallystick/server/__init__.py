"""The service: the HTTP API, the console and what an operator needs around them, over one open store."""
