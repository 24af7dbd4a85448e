"""`make bench-spark`: the speed of the pipeline, next to the same job in one process."""
