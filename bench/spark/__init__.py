"""`make bench-spark`: what the pipeline does a second, beside the same job in one process."""
