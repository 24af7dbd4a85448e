"""A log as a table of Delta Lake or Apache Iceberg, written by their own Python libraries (the extra `lake`).

No Java and no Spark session are needed. The log and its archive stay the source of truth: a table is a copy that can
be checked (`check.verify`) and made again.
"""
