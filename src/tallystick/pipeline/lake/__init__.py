"""A log as a table of Delta Lake or Apache Iceberg, written by their own libraries for Python (the extra `lake`).

No Java and no Spark session are needed. The log and its archive stay the truth: a table is a copy that can be checked
(`check.verify`) and made again.
"""
