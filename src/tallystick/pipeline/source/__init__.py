"""A live log as a table of Spark: its columns, its partitions, and the readers behind `spark.read` and `readStream`."""
