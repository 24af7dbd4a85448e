"""An archive of a log: buckets of Parquet files, and the manifest that lists them."""
