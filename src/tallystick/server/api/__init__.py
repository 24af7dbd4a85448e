"""The HTTP API, one file per noun: its routes, the structs of its bodies, and what its handlers do."""
