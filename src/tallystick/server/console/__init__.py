"""The console: pages for people over one store, rendered on the server, with small modules where something moves."""
