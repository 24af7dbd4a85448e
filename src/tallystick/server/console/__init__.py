"""The console: pages about one store, rendered on the server, one file per noun. Small scripts update what changes."""
