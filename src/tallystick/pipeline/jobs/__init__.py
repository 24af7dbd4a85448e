"""The jobs over a log, one per file: what `tally pipeline` runs."""
